"""The slow tests a part at a time (`support.rotation`)."""

from __future__ import annotations

import pytest
from _pytest.outcomes import Skipped
from support.rotation import TOGETHER, Rotation, rotated

NAMES = [f"tests/{file}.py::test_{number}" for file in "abcd" for number in range(3 * TOGETHER)]


def test_every_test_has_its_place_and_pieces_stay_whole():
    order = rotated(NAMES, "one")
    assert sorted(order) == list(range(len(NAMES)))
    pieces = [order[at : at + TOGETHER] for at in range(0, len(order), TOGETHER)]
    assert all(piece == list(range(piece[0], piece[0] + TOGETHER)) for piece in pieces)


def test_another_seed_begins_elsewhere():
    assert rotated(NAMES, "one") == rotated(NAMES, "one")
    first = {rotated(NAMES, str(seed))[0] // TOGETHER for seed in range(100)}
    assert first == set(range(len(NAMES) // TOGETHER))


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
