"""Lane tables, made from the nest, against copies that are followed, index maps, and tables worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cut_maps import cut_maps
from support.examples import some
from support.followed_copies import held_rows, shared_rows
from support.masks_of_tiles import tile_mask

from convc.compiler.index.conv import all_maps, tiled
from convc.compiler.index.lane_masks import words
from convc.compiler.index.maps import Counterexample
from convc.compiler.index.reuse import ReuseMaps
from convc.compiler.options import ScheduleOptions
from convc.compiler.planner.search import plan
from convc.compiler.schedules.all import CHAIN, RELOAD, SLIDE, STATIONARY
from convc.compiler.schedules.base import Schedule
from convc.errors import PlanError, ProblemError
from convc.explain import lanes
from convc.explain.lanes import lane_table, reload_table, why_masked
from convc.explain.tiles import plan_tiles
from convc.host_layout.device_layout import device_layout
from convc.ir.problem import ConvProblem

TWENTY = ConvProblem(
    batch=7, in_channels=8, out_channels=8, in_extent=(3, 20), kernel=(1, 3), pad_lo=(0, 1), pad_hi=(0, 1)
)


def cells(maps: ReuseMaps, schedule: Schedule, tile_m: int, r: int):
    """(s, lane, cell) of every lane with an output."""
    for buffer in lane_table(maps, schedule, tile_m, r).buffers:
        for lane in buffer.lanes:
            for s, cell in zip(buffer.taps, lane.cells, strict=True):
                if lane.output is not None:
                    yield s, lane.lane, cell


@settings(max_examples=some(150), deadline=None)
@given(
    batch=st.integers(1, 4),
    extent=st.tuples(st.integers(1, 8), st.integers(1, 14)),
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 6)),
    stride=st.tuples(st.integers(1, 2), st.integers(1, 4)),
    dilation=st.integers(1, 3),
    pads=st.tuples(*[st.integers(0, 6)] * 4),
    merged=st.booleans(),
    border=st.sampled_from(("mask", "zero")),
    lanes=st.sampled_from((16, 64, 128)),
    windowed=st.booleans(),
    schedule=st.sampled_from((SLIDE, CHAIN, STATIONARY)),
    data=st.data(),
)
def test_a_lane_holds_what_it_needs_or_adds_nothing(
    batch, extent, kernel, stride, dilation, pads, merged, border, lanes, windowed, schedule, data
):
    windowed = windowed and lanes > 16 and schedule is CHAIN
    try:
        problem = ConvProblem(
            batch=batch,
            in_channels=8,
            out_channels=8,
            in_extent=extent,
            kernel=kernel,
            stride=stride,
            dilation=(1, dilation),
            pad_lo=pads[:2],
            pad_hi=pads[2:],
        )
        maps = cut_maps(problem, merged=merged, border=border, lanes=lanes, windowed=windowed)
    except (ProblemError, PlanError):
        return
    tile_m = data.draw(st.integers(0, maps.stream.streams * maps.tiles - 1))
    r = data.draw(st.integers(0, kernel[0] - 1))
    table = lane_table(maps, schedule, tile_m, r)
    moves = schedule is CHAIN
    for found, buffer in zip(table.buffers, maps.walk.buffers, strict=True):
        assert found.rows == shared_rows(maps, moves, tile_m, r, buffer)
        held = [[lane.cells[tap].row for lane in found.lanes] for tap in range(len(found.taps))]
        assert held == list(held_rows(maps, moves, buffer))
    assert table.masks == tuple((y, x, words(tile_mask(maps, tile_m, y, x))) for y, x in np.ndindex(*kernel))
    columns = maps.column.evaluate({"tile_m": tile_m, "lane": np.arange(lanes)[:, None], "s": np.arange(kernel[1])})
    held, passed = (np.broadcast_to(columns[name], (lanes, kernel[1])) for name in ("held", "passed"))
    for s, lane, cell in cells(maps, schedule, tile_m, r):
        if cell.masked:
            assert not cell.needed.real
        elif cell.needed.real:
            assert cell.held == cell.needed
        else:
            assert not cell.held.real
        if passed[lane, s] >= 0:
            assert cell.held.w == held[lane, s]


def test_rows_of_twenty_pixels():
    """The tile of 128 lanes that im2col::w::128 fills from rows of 20 pixels, worked out by hand."""
    (buffer,) = lane_table(cut_maps(TWENTY, merged=False, border="mask"), CHAIN, 0).buffers
    held = {
        lane.lane: [((c.held.n, c.held.w), c.masked, c.row if c.fresh else None) for c in lane.cells]
        for lane in buffer.lanes
    }
    assert held[0] == [((0, -1), False, None), ((0, 0), False, None), ((0, 1), False, None)]
    assert held[19] == [((0, 18), False, None), ((0, 19), False, None), ((1, 0), True, None)]
    assert held[20] == [((0, 19), True, None), ((1, 0), False, None), ((1, 1), False, None)]
    assert held[31] == [((1, 10), False, None), ((1, 11), False, 128), ((1, 12), False, 132)]
    assert held[63] == [((3, 2), False, None), ((3, 3), False, 129), ((3, 4), False, 133)]
    assert held[95] == [((4, 14), False, None), ((4, 15), False, 130), ((4, 16), False, 134)]
    assert held[127] == [((6, 6), False, None), ((6, 7), False, 131), ((6, 8), False, 135)]
    refreshed = {lane for lane, found in held.items() if any(row is not None for _, _, row in found)}
    assert refreshed == {31, 63, 95, 127}


def test_the_halo_plan():
    maps = cut_maps(TWENTY, merged=False, border="mask")
    (shift,), (slide,) = (lane_table(maps, schedule, 0).buffers for schedule in (CHAIN, SLIDE))
    assert [row.pixel for row in slide.rows[:128]] == [row.pixel for row in shift.rows[:128]]
    halo = {row.row: (row.halo, row.pixel.n, row.pixel.w) for row in shift.rows[128:]}
    assert halo == {
        128: ((0, 0), 1, 11),
        129: ((1, 0), 3, 3),
        130: ((2, 0), 4, 15),
        131: ((3, 0), 6, 7),
        132: ((0, 1), 1, 12),
        133: ((1, 1), 3, 4),
        134: ((2, 1), 4, 16),
        135: ((3, 1), 6, 8),
    }
    for row in shift.rows[128:]:
        group, h = row.halo
        assert row.row == 128 + 4 * h + group
        assert row.pixel == slide.rows[32 * (group + 1) + h].pixel
    assert [(row.row, row.halo, row.pixel.n, row.pixel.w) for row in slide.rows[128:]] == [
        (128, None, 6, 7),
        (129, None, 6, 8),
    ]


def test_slide_reads_further_on_and_stationary_reads_the_same():
    maps = cut_maps(TWENTY, merged=False, border="mask")
    slide, stationary = (lane_table(maps, schedule, 0) for schedule in (SLIDE, STATIONARY))
    assert slide.buffers == stationary.buffers
    for lane in slide.buffers[0].lanes:
        assert [cell.row for cell in lane.cells] == [lane.lane, lane.lane + 1, lane.lane + 2]
        assert [cell.fresh for cell in lane.cells] == [False, lane.lane == 127, lane.lane == 127]


def test_windows_are_never_refreshed():
    maps = cut_maps(TWENTY, merged=False, border="mask", windowed=True)
    table = lane_table(maps, CHAIN, 0)
    (buffer,) = table.buffers
    assert table.windows == 4
    assert len(buffer.rows) == 128
    assert not any(cell.fresh for lane in buffer.lanes for cell in lane.cells)
    assert [lane.lane for lane in buffer.lanes if lane.output is None] == [30, 31, 62, 63, 94, 95, 126, 127]
    assert [cell.row for cell in buffer.lanes[31].cells] == [31, 31, 31]  # the last row of a window keeps its value
    assert buffer.rows[32].pixel == buffer.rows[30].pixel  # the next window fetches the last two again


def test_masks_by_filter_row_where_images_follow_each_other():
    problem = ConvProblem(
        batch=2, in_channels=8, out_channels=8, in_extent=(4, 5), kernel=(3, 3), pad_lo=(1, 1), pad_hi=(1, 1)
    )
    table = lane_table(cut_maps(problem, merged=True, border="mask"), CHAIN, 0)
    words = {(r, s): word[0] for r, s, word in table.masks}
    assert table.r == 0
    assert words[1, 1] == 0
    assert words[0, 1] == 0b11111 << 20  # the first row of the second image would find the last of the first
    assert words[2, 1] == 0b11111 << 15  # and the last of the first image the first of the second


def test_why_lanes_are_masked():
    cases = why_masked(cut_maps(TWENTY, merged=False, border="mask"))
    assert [dict(case.point)["s"] for case in cases] == [0, 2]
    assert all(isinstance(case, Counterexample) for case in cases)
    assert cases[0].value == (
        "without a mask lane 20 would add pixel (n=0, h=0, w=19) where (n=1, h=0, w=-1) is padding"
    )
    assert cases[1].value == (
        "without a mask lane 19 would add pixel (n=1, h=0, w=0) where (n=0, h=0, w=20) is padding"
    )
    assert why_masked(cut_maps(TWENTY, merged=False, border="zero")) == ()


def test_reload_loads_every_tap_by_itself():
    problem = ConvProblem(
        in_channels=16, out_channels=16, in_extent=(6, 7), kernel=(3, 3), stride=(1, 2), pad_lo=(1, 1), pad_hi=(1, 1)
    )
    maps = tiled(problem, block_m=16, block_n=16, channels_per_step=16, c_pitch=16, k_pitch=16)
    (activation,) = (each for each in all_maps(maps) if each.name == "activation")
    table = reload_table(maps, problem, 1)
    assert table.masks == ()
    assert [buffer.taps for buffer in table.buffers] == [(0,), (1,), (2,)]
    for buffer in table.buffers:
        for lane in buffer.lanes:
            (cell,) = lane.cells
            if lane.output is None:
                assert cell.needed is None
                assert not cell.held.image
                continue
            points = dict(zip("npq", lane.output, strict=True)) | {"r": table.r, "s": buffer.taps[0], "c": 0}
            read = activation.evaluate(points)
            assert cell.held == cell.needed
            assert (cell.held.n, cell.held.h, cell.held.w) == (read["n"], read["h"], read["w"])
            assert cell.held.real == activation.holds(points)


def test_the_filter_row_shown_is_the_first_that_meets_an_image():
    problem = ConvProblem(
        batch=2, in_channels=8, out_channels=8, in_extent=(5, 9), kernel=(3, 3), pad_lo=(1, 1), pad_hi=(1, 1)
    )
    maps = cut_maps(problem, merged=False, border="mask", lanes=16)
    assert lane_table(maps, CHAIN, 0).r == 1  # p = 0: filter row 0 lies above every image
    assert lane_table(maps, CHAIN, 2).r == 0
    assert lane_table(maps, CHAIN, 2, r=2).r == 2


@pytest.mark.parametrize(
    ("schedule", "tile_m", "r", "windowed", "said"),
    [
        (RELOAD, 0, 0, False, "schedule reload does not share activations"),
        (SLIDE, 0, 0, True, "windows of 32 lanes are for rows that move"),
        (CHAIN, 10_000, 0, False, "there are tiles 0..5"),
        (CHAIN, 0, 1, False, "filter rows 0..0"),
    ],
)
def test_what_there_is_not_is_refused(schedule, tile_m, r, windowed, said):
    maps = cut_maps(TWENTY, merged=False, border="mask", windowed=windowed)
    with pytest.raises(ValueError, match=said):
        lane_table(maps, schedule, tile_m, r)


def test_an_image_of_any_size_is_looked_at_tile_by_tile(monkeypatch):
    """3x3 on 40000x40000: 12.5 million tiles, of which a few are followed and none is made an array of all tiles."""
    problem = ConvProblem(
        batch=2, in_channels=16, out_channels=16, in_extent=(40000, 40000), kernel=(3, 3), pad_lo=(1, 1), pad_hi=(1, 1)
    )
    followed: list[int] = []
    column = lanes._column
    monkeypatch.setattr(lanes, "_column", lambda maps, tile, r, s: followed.append(tile) or column(maps, tile, r, s))
    for border in ("mask", "zero"):
        options = ScheduleOptions(schedule="shift", border=border, rows="merged")
        tiles = plan_tiles(plan(device_layout(problem), options=options))
        assert tiles.count > 12_000_000
        assert len(tiles.cases) == (4 if border == "mask" else 2)
        assert len(tiles.lanes(tiles.count - 1).buffers[0].lanes) == len(tiles.lanes(0).buffers[0].lanes)
    assert len(followed) < 100
