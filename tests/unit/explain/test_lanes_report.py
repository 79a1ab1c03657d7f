"""Tables and pictures of lanes: every state has its sign, the JSON leaves nothing out, and the SVG is well formed."""

from __future__ import annotations

import io
import json
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from rich.console import Console
from support.cut_maps import cut_maps
from support.option_sets import OPTION_SETS

from convc.compiler.index.conv import tiled
from convc.compiler.index.maps import Proof
from convc.compiler.options import ScheduleOptions
from convc.compiler.planner.search import plan
from convc.compiler.schedules.all import CHAIN, SLIDE, STATIONARY
from convc.draw.lanes import lanes_picture
from convc.errors import InputError
from convc.explain.lane_tables import lanes_json, print_claims, print_lanes, print_masks, print_rows
from convc.explain.lanes import LaneTable, lane_table, reload_table, why_masked
from convc.explain.tiles import plan_tiles
from convc.host_layout.device_layout import device_layout
from convc.ir.problem import ConvProblem

PROBLEM = ConvProblem(
    batch=7, in_channels=8, out_channels=8, in_extent=(3, 20), kernel=(1, 3), pad_lo=(0, 1), pad_hi=(0, 1)
)
IMAGES = ConvProblem(
    batch=2, in_channels=8, out_channels=8, in_extent=(4, 5), kernel=(3, 3), pad_lo=(1, 1), pad_hi=(1, 1)
)
CLAIMS = (Proof("a lane holds what it needs", "a theorem, for all sizes"), Proof("the halo fits", "HALO <= T: 1 <= 9"))
NAME = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def maps():
    return cut_maps(PROBLEM, merged=False, border="mask")


@pytest.fixture(scope="module")
def table(maps) -> LaneTable:
    return lane_table(maps, CHAIN, 0)


def printed(work, *given) -> list[str]:
    console = Console(file=io.StringIO(), width=160, markup=False, highlight=False, emoji=False)
    work(console, *given)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def row(lines: list[str], number: int) -> list[str]:
    """The cells of a lane."""
    (line,) = (line for line in lines if line.lstrip().startswith(f"{number} ") and "(" in line)
    return [cell for cell in line.strip().split("  ") if cell]


def test_lanes_with_their_signs(table):
    lines = printed(print_lanes, table)
    assert lines[0] == "schedule shift, tile 0, filter row 0: 128 lanes"
    assert [cell.strip() for cell in row(lines, 0)] == ["0", "(0, 0, 0)", "(0, 0, -1) 0", "(0, 0, 0)", "(0, 0, 1)"]
    assert row(lines, 20)[2].strip() == "(0, 0, 19) X"
    assert [cell.strip() for cell in row(lines, 31)[3:]] == ["(1, 0, 11) < row 128", "(1, 0, 12) < row 132"]
    sentence = next(line for line in lines if line.startswith("  s = 1: "))
    assert sentence == (
        "  s = 1: needs (n=0, h=0, w=0..19), (n=1, h=0, w=0..19), (n=2, h=0, w=0..19), (n=3, h=0, w=0..19) and 3 more; "
        "nothing is masked; fetched anew: (1, 0, 11) from row 128, (3, 0, 3) from row 129, (4, 0, 15) from row 130, "
        "(6, 0, 7) from row 131"
    )


def test_lanes_of_a_kind_are_cut_unless_all_are_asked_for(table):
    few, every = printed(print_lanes, table), printed(print_lanes, table, True)
    assert sum(line.strip().startswith("...") for line in few) > 5
    assert not any(line.strip().startswith("...") for line in every)
    numbers = [int(line.split()[0]) for line in every if line.strip()[:1].isdigit()]
    assert numbers == list(range(128))
    kept = {int(line.split()[0]) for line in few if line.strip()[:1].isdigit()}
    special = {lane.lane for lane in table.buffers[0].lanes if any(cell.masked or cell.fresh for cell in lane.cells)}
    assert special <= kept
    assert set(few) - set(every) <= {line for line in few if "..." in line}


@pytest.mark.parametrize(("count", "whole"), [(16, True), (32, True), (33, False)])
def test_a_small_tile_is_shown_whole(table, count, whole):
    small = replace(table, buffers=tuple(replace(each, lanes=each.lanes[:count]) for each in table.buffers))
    assert any(line.strip().startswith("...") for line in printed(print_lanes, small)) != whole


def test_pixels_are_columns_where_weights_are_rows(maps):
    lines = printed(print_lanes, lane_table(maps, STATIONARY, 0))
    assert lines[0] == "schedule stationary, tile 0, filter row 0: 128 columns"
    assert lines[3].startswith("column  output")


def test_rows_of_shared_memory(table):
    lines = printed(print_rows, table)
    assert lines[0].split("  ")[0] == "filter columns"
    assert lines[1].endswith("padding")
    assert " ".join(lines[2].split()) == "0, 1, 2 1..20 (0, 0, 0) .. (0, 0, 19)"
    halo = [" ".join(line.split()[3:]) for line in lines if "halo" in line]
    assert halo[0] == "128 (1, 0, 11) halo 0 of lanes 0..31"
    assert halo[-1] == "135 (6, 0, 8) halo 1 of lanes 96..127"
    assert len(halo) == 8


def test_rows_beyond_the_last_image_are_one_line():
    maps = tiled(IMAGES, block_m=128, block_n=16, channels_per_step=8, c_pitch=8, k_pitch=8)
    lines = printed(print_rows, reload_table(maps, IMAGES, 0))
    assert [line.split()[1] for line in lines if line.endswith("no image")] == ["40..127"] * 3


def test_masks_as_words(table):
    assert printed(print_masks, table) == [
        "every r, s = 0: 0x00100000 0x10000100 0x00010000 0x01000010",
        "every r, s = 1: 0x00000000 0x00000000 0x00000000 0x00000000",
        "every r, s = 2: 0x00080000 0x08000080 0x00008000 0x00800008",
    ]


def test_masks_that_differ_from_row_to_row():
    lines = printed(print_masks, lane_table(cut_maps(IMAGES, merged=True, border="mask", lanes=64), CHAIN, 0))
    assert len(lines) == 9
    assert lines[4] == "r = 1, s = 1: 0x00000000 0x00000000"
    assert lines[1] == "r = 0, s = 1: 0x01f00000 0x00000000"


def test_reload_masks_nothing():
    maps = tiled(IMAGES, block_m=16, block_n=16, channels_per_step=8, c_pitch=8, k_pitch=8)
    assert printed(print_masks, reload_table(maps, IMAGES, 0)) == [
        "no lane is masked: every filter tap loads its own pixels"
    ]


def test_claims_and_the_reasons_for_masks(maps):
    lines = printed(print_claims, CLAIMS, why_masked(maps))
    assert sum(line.startswith("proved: ") for line in lines) == len(CLAIMS)
    assert sum(line.startswith("REFUTED: ") for line in lines) == 2
    assert not any("REFUTED" in line for line in printed(print_claims, CLAIMS, ()))


def test_the_json_has_every_lane(maps, table):
    data = json.loads(lanes_json(table, CLAIMS, why_masked(maps)))
    assert (data["format"], data["schedule"], data["tile_m"], data["r"]) == ("convc-lanes/1", "shift", 0, 0)
    (buffer,) = data["buffers"]
    assert [lane["lane"] for lane in buffer["lanes"]] == list(range(128))
    assert buffer["lanes"][31]["output"] == [1, 0, 11]
    cell = buffer["lanes"][31]["cells"][1]
    assert cell == {
        "row": 128,
        "masked": False,
        "fresh": True,
        "held": {"n": 1, "h": 0, "w": 11, "image": True, "real": True},
        "needed": {"n": 1, "h": 0, "w": 11, "image": True, "real": True},
    }
    assert len(buffer["rows"]) == 136
    assert data["masks"][0] == [0, 0, [0x00100000, 0x10000100, 0x00010000, 0x01000010]]
    assert len(data["claims"]) == len(CLAIMS)
    assert len(data["why_masked"]) == 2


@pytest.mark.parametrize("schedule", [CHAIN, SLIDE, STATIONARY], ids=lambda schedule: schedule.name)
def test_the_picture_is_well_formed_and_shows_every_lane(maps, schedule):
    text = lanes_picture(lane_table(maps, schedule, 0)).svg()
    assert text == lanes_picture(lane_table(maps, schedule, 0)).svg()
    root = ET.fromstring(text)
    assert root.tag == f"{NAME}svg"
    assert root.find(f"{NAME}title").text.startswith("7x8x3x20 * 8x1x3, pad 0,1,0,1 -> 3x20: schedule ")
    words = [element.text for element in root.iter(f"{NAME}text")]
    unit = "column" if schedule is STATIONARY else "lane"
    assert f"{unit}: output" in words
    assert sum(word.startswith("X (") for word in words) == 12
    assert words.count("0 (0, 0, -1)") == 1
    assert sum(word.endswith(")") and word.lstrip()[:1].isdigit() and ": (" in word for word in words) >= 128
    crosses = sum(path.get("class") == "mark" for path in root.iter(f"{NAME}path"))
    assert crosses == 13  # and one in the legend
    tips = [tip.text for tip in root.iter(f"{NAME}title")][1:]
    assert len(tips) == sum(len(buffer.taps) * len(buffer.lanes) for buffer in lane_table(maps, schedule, 0).buffers)
    assert sum(": masked, it holds pixel (n=" in tip for tip in tips) == 12
    for sign in ("0: padding, a zero", "X: masked", "row: fetched anew"):
        assert sign in words
    width, height = int(root.get("width")), int(root.get("height"))
    for box in root.iter(f"{NAME}rect"):
        assert float(box.get("x", 0)) + float(box.get("width")) <= width
        assert float(box.get("y", 0)) + float(box.get("height")) <= height


def test_sub_partitions_are_drawn_where_rows_move(maps):
    lines = {
        schedule.name: lanes_picture(lane_table(maps, schedule, 0)).svg().count('class="mark thick"')
        for schedule in (CHAIN, SLIDE)
    }
    assert lines == {"shift": 3, "slide": 0}


def test_one_tint_is_one_pixel(maps):
    """What the next filter column holds stands one lane lower: its tint has moved one lane up."""
    root = ET.fromstring(lanes_picture(lane_table(maps, CHAIN, 1)).svg())
    tints: dict[str, list[str]] = {}
    for box in list(root.iter(f"{NAME}g")):
        rect = box.find(f"{NAME}rect")
        if box.get("data-lane"):
            tints.setdefault(rect.get("x"), []).append(rect.get("class").split()[0])
    first, second, third = tints.values()
    alike = [(a, b) for a, b in zip(first[1:], second, strict=False) if a.startswith("t") and a != b]
    assert len(alike) < len(first) // 8  # at the ends of rows, of groups of lanes, and where there is no output
    assert len(set(first)) >= 8
    assert second[1:9] == third[:8]


def test_a_typical_tile_lies_inside_the_image():
    problem = ConvProblem(
        in_channels=64, out_channels=64, in_extent=(300, 300), kernel=(3, 3), pad_lo=(1, 1), pad_hi=(1, 1)
    )
    for schedule in ("reload", "slide"):
        tiles = plan_tiles(plan(device_layout(problem), options=ScheduleOptions(schedule=schedule)))
        table = tiles.typical()
        assert table.r == 1
        assert all(cell.held.real for buffer in table.buffers for lane in buffer.lanes for cell in lane.cells)


def test_a_tile_that_the_grid_has_besides_is_not_shown():
    """CTAs that multiply as one come in twos: of an odd number of tiles one CTA has none."""
    chosen = OPTION_SETS["windows pairs"]
    made = plan(device_layout(chosen.problem), options=chosen.options)
    assert made.reuse is not None
    assert made.reuse.spare == 1
    tiles = plan_tiles(made)
    assert tiles.count == made.reuse.all_tiles - 1
    assert tiles.typical().tile_m < tiles.count
    with pytest.raises(InputError, match=f"there is no tile {tiles.count}"):
        tiles.lanes(tiles.count)
