"""The slow tests a part at a time (`support.rotation`)."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from _pytest.outcomes import Skipped
from support.rotation import TOGETHER, TURNS, Rotation, rotated

NAMES = [f"tests/{file}.py::test_{number}" for file in "abcd" for number in range(3 * TOGETHER)]


def test_three_seeds_in_a_row_have_each_test_once_and_pieces_stay_whole():
    thirds = [rotated(NAMES, seed) for seed in (7, 8, 9)]
    assert all(thirds)
    assert sorted(number for third in thirds for number in third) == list(range(len(NAMES)))
    for order in thirds:
        pieces = [order[at : at + TOGETHER] for at in range(0, len(order), TOGETHER)]
        assert all(piece == list(range(piece[0], piece[0] + TOGETHER)) for piece in pieces)


def test_the_same_third_has_another_order_the_next_time():
    assert rotated(NAMES, 7) == rotated(NAMES, 7)
    times = [rotated(NAMES, seed) for seed in range(7, 307, TURNS)]
    assert {tuple(sorted(each)) for each in times} == {tuple(sorted(times[0]))}
    assert {each[0] for each in times} == {number for number in times[0] if number % TOGETHER == 0}


def test_tests_of_other_seeds_are_deselected():
    gone: list[SimpleNamespace] = []
    items = [SimpleNamespace(nodeid=name) for name in NAMES]
    config = SimpleNamespace(hook=SimpleNamespace(pytest_deselected=lambda items: gone.extend(items)))
    kept = list(items)
    Rotation(7, None).pytest_collection_modifyitems(config, kept)
    assert [each.nodeid for each in kept] == [NAMES[number] for number in rotated(NAMES, 7)]
    assert [each for each in items if each not in kept] == gone
    Rotation(None, None).pytest_collection_modifyitems(config, items)
    assert [each.nodeid for each in items] == NAMES


def test_nothing_is_begun_when_the_time_is_over():
    for seconds in (None, 3600.0):
        rotation = Rotation(None, seconds)
        rotation.pytest_collection_finish()
        rotation.pytest_runtest_setup()
    over = Rotation(None, -1.0)
    over.pytest_runtest_setup()  # nothing was collected yet
    over.pytest_collection_finish()
    with pytest.raises(Skipped, match="no time is left"):
        over.pytest_runtest_setup()


def test_the_options_reach_it(pytestconfig):
    [plugin] = [plugin for plugin in pytestconfig.pluginmanager.get_plugins() if isinstance(plugin, Rotation)]
    assert (plugin.seed, plugin.seconds) == (pytestconfig.option.rotate, pytestconfig.option.seconds)
