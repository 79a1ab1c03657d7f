"""``convc inspect``: the worked example, and how the loops and lanes of a layer came about."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pytest

from convc.compiler.schedules.all import CHAIN
from convc.explain.example import example_maps, example_tiles
from convc.explain.lanes import LaneTable, lane_table

RELOAD = ("--schedule", "reload")


@pytest.fixture(scope="module")
def table() -> LaneTable:
    return example_tiles().lanes(0)


def pixels(table: LaneTable, s: int, what: str) -> list[tuple[int, int]]:
    """(n, w) of the pixel that each lane holds, or needs, at a filter column."""
    (buffer,) = table.buffers
    found = [getattr(lane.cells[buffer.taps.index(s)], what) for lane in buffer.lanes]
    assert {pixel.h for pixel in found} == {0}
    return [(pixel.n, pixel.w) for pixel in found]


def lanes_where(table: LaneTable, s: int, what: str) -> list[int]:
    (buffer,) = table.buffers
    return [lane.lane for lane in buffer.lanes if getattr(lane.cells[buffer.taps.index(s)], what)]


def test_the_example_is_the_one_of_the_idea(table):
    problem, maps = table.problem, example_maps()
    assert (problem.batch, problem.in_extent, problem.kernel) == (2, (9, 9), (3, 3))
    assert (problem.pad_lo, problem.pad_hi, problem.out_extent) == ((0, 1), (0, 1), (7, 9))
    assert maps.tile.lanes == len(table.buffers[0].lanes) == 16
    assert table.buffers[0].lanes[0].output == (0, 0, 0)


def test_filter_column_0(table):
    assert pixels(table, 0, "needed") == [(0, w) for w in range(-1, 8)] + [(1, w) for w in range(-1, 6)]
    first = table.buffers[0].lanes[0].cells[0]
    assert not first.held.real
    assert not first.masked
    assert lanes_where(table, 0, "masked") == [9]
    assert pixels(table, 0, "held")[9] == (0, 8)
    assert pixels(table, 0, "needed")[9] == (1, -1)


def test_filter_column_1(table):
    assert pixels(table, 1, "needed") == [(0, w) for w in range(9)] + [(1, w) for w in range(7)]
    assert pixels(table, 1, "held") == pixels(table, 1, "needed")
    assert lanes_where(table, 1, "masked") == []


def test_filter_column_2(table):
    assert pixels(table, 2, "needed") == [(0, w) for w in range(1, 10)] + [(1, w) for w in range(1, 8)]
    assert lanes_where(table, 2, "masked") == [8]
    assert pixels(table, 2, "held")[8] == (1, 0)
    assert pixels(table, 2, "needed")[8] == (0, 9)


def test_one_row_is_fetched_anew_for_each_step(table):
    assert [lanes_where(table, s, "fresh") for s in range(3)] == [[], [15], [15]]
    assert [pixels(table, s, "held")[15] for s in (1, 2)] == [(1, 6), (1, 7)]


@pytest.mark.parametrize("r", [0, 1, 2])
def test_every_filter_row_is_alike(table, r):
    found = lane_table(example_maps(), CHAIN, 0, r)
    assert {cell.held.h for lane in found.buffers[0].lanes for cell in lane.cells} == {r}
    assert found.masks == table.masks
    assert {words for row, _, words in table.masks if row == r} == {(1 << 9,), (0,), (1 << 8,)}


def test_the_example_is_printed_and_drawn(convc, golden, tmp_path):
    said = convc.good("inspect", "--example")
    assert convc.good("inspect", "--example", "--svg", tmp_path / "lanes.svg").endswith(
        "lanes.svg: tile 0, filter row 0\n"
    )
    text = "\n".join(line.rstrip() for line in said.splitlines()) + "\n"
    golden("example", {"inspect.txt": text, "lanes.svg": (tmp_path / "lanes.svg").read_text()})


def test_the_parts_of_the_example(convc):
    said = convc.good("inspect", "--example", "--lanes", "1")
    assert "schedule shift, tile 1, filter row 0: 16 lanes" in said
    assert "derivation" not in said
    chain = convc.good("inspect", "--example", "--derivation")
    assert [line for line in chain.splitlines() if line.startswith("-- ")] == [
        "-- Algorithm 1: the definition --",
        "-- Algorithm 2: reload --",
        "-- Algorithm 3: slide --",
        "-- Algorithm 3: stationary --",
        "-- Algorithm 3.b: shift --",
    ]
    assert "== lanes ==" not in chain


def test_the_algorithms_of_a_layer(convc, tiny):
    said = convc.good("inspect", tiny, "--layer", "conv", *RELOAD, "--derivation")
    assert said.startswith("\n== derivation ==\nalgorithms as in Pei Luo, ")
    for title in ("1: the definition", "2: reload", "3: slide", "3: stationary", "3.b: shift"):
        assert f"-- Algorithm {title} --" in said
    assert "BROKEN" not in said
    assert "== plan ==" not in said


def test_the_lanes_of_a_layer(convc, tiny, tmp_path):
    said = convc.good("inspect", tiny, "--layer", "conv", *RELOAD, "--lanes", "1", "--json", tmp_path / "lanes.json")
    for heading in ("lanes", "rows of shared memory", "masks", "claims"):
        assert f"== {heading} ==" in said
    assert "schedule reload, tile 1" in said
    assert said.endswith("lanes.json: tile 1, filter row 0\n")
    data = json.loads((tmp_path / "lanes.json").read_text())
    assert (data["tile_m"], len(data["buffers"]), len(data["buffers"][0]["lanes"])) == (1, 3, 128)
    cut, whole = (
        convc.good("inspect", tiny, "--layer", "conv", *RELOAD, "--lanes", *more) for more in ((), ("--all-lanes",))
    )
    assert len(whole.splitlines()) > len(cut.splitlines()) > 50


def test_a_picture_alone(convc, tiny, tmp_path):
    file = tmp_path / "lanes.svg"
    assert convc.good("inspect", tiny, "--layer", "conv", "--svg", file) == f"wrote {file}: tile 0, filter row 1\n"
    assert ET.fromstring(file.read_text()).tag.endswith("svg")


def test_a_filter_row_is_chosen(convc, tiny):
    call = ("inspect", tiny, "--layer", "conv", *RELOAD, "--lanes", "1", "--filter-row")
    assert "schedule reload, tile 1, filter row 2: 128 lanes" in convc.good(*call, "2")
    assert "there is no filter row 3" in convc.refused(*call, "3")
    assert "filter rows of this layer: 0 to 2" in convc.refused(*call, "3")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (("--lanes",), "Missing argument 'MODEL' (or --example)"),
        ((), "Missing argument 'MODEL' (or --example)"),
        (("--example", "--layer", "conv"), "leave MODEL and the options about it out"),
        (("--example", "--schedule", "slide"), "leave MODEL and the options about it out"),
        (("--example", "--lanes", "14"), "there is no tile 14"),
        (("--example", "--lanes", "x"), "'x' is not a valid integer"),
        (("--example", "--svg", "no/such/folder.svg"), "no/such"),
    ],
)
def test_bad_calls_are_refused(convc, call, said):
    assert said in convc.refused("inspect", *call)


def test_a_tile_that_a_layer_has_not(convc, tiny):
    said = convc.refused("inspect", tiny, "--layer", "conv", *RELOAD, "--lanes", "2")
    assert "there is no tile 2" in said
    assert "tiles of this layer: 0 to 1" in said


@pytest.mark.parametrize(
    ("chosen", "last", "what"),
    [
        (("slide",), "-- Algorithm 3: slide --", "schedule slide, tile 0, filter row 0: 128 lanes"),
        (
            ("shift", "--shift", "ashift"),
            "-- Algorithm 3.b: shift --",
            "schedule shift, tile 0, filter row 0: 128 lanes",
        ),
        (("shift", "--shift", "windows"), "-- Algorithm 3.b: shift --", "filter row 0: 4 windows of 32 lanes"),
        (("stationary",), "-- Algorithm 3: stationary --", "schedule stationary, tile 0, filter row 0: 64 columns"),
    ],
)
def test_a_schedule_that_shares_activations(convc, tiny, chosen, last, what):
    call = ("inspect", tiny, "--layer", "conv", "--schedule", *chosen)
    said = convc.good(*call, "--derivation", "--lanes")
    for words in ("-- Algorithm 1: the definition --", "-- Algorithm 2: reload --", last, what):
        assert words in said
    derived, lanes = said.split("== lanes ==")
    assert "BROKEN" not in derived
    assert "proved: pixel i of the walk from start is place t0 + i of the stream: both count T pixels a row" in lanes
    chain = [line for line in derived.split(last)[1].strip().splitlines() if not line.startswith("   border ")]
    assert chain[0].startswith("taken: ")
    loops = convc.good(*call, "--only", "loops").split("== loop nest ==\n")[1].splitlines()
    assert [line for line in loops if " y[" not in line] == [
        line for line in chain[1 : len(loops) + 1] if " y[" not in line
    ]
