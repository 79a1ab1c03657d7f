"""The work of a CTA besides multiplying, where filter columns share activations: masks, a clear accumulator, loads.

Loops: filter rows r, channel blocks, buffers (written out), and innermost the filter columns of a buffer. Activations
and filter have rings of their own, since one tile of the first meets several of the second, or one for both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from convc.compiler.plan.coordinates import Coordinate
from convc.compiler.plan.names import ACC, A, B, NewNumber, Number
from convc.compiler.plan.records import Plan
from convc.compiler.schedules.cores.all import core_of
from convc.compiler.schedules.multicast import Part, part_of, parts_loaded
from convc.compiler.schedules.sharing.buffers import SharedTile, shared_tiles
from convc.compiler.schedules.sharing.indexing import row_coordinates, shared
from convc.compiler.schedules.sharing.storage import EMPTY_B, FULL_B
from convc.compiler.schedules.skeleton import (
    MAP_A,
    MAP_B,
    about,
    block_channels,
    channels_of,
    compute,
    number,
)
from convc.compiler.tile.program import Role
from convc.compiler.tile.steps.base import Advance, Compute, ExpectBytes, Loop, RingWait, Step
from convc.compiler.tile.steps.lanes import ClearAcc, MaskWord
from convc.compiler.tile.steps.operands import TensorCopy, TmaLoad, TmaWideLoad
from convc.ir.expr import Const, IntExpr, Var, substitute


def masks(plan: Plan) -> tuple[Role, ...]:
    """The role that fills the table of lane masks: filter columns first, then filter rows."""
    coordinates = row_coordinates(plan)
    rows, columns = plan.pipeline.taps
    steps: list[Step] = []
    first = 0
    for rank in range(plan.tiling.ctas):  # the first CTA of a pair multiplies for both, and knows where both are
        tile = Var("tile_m") + rank
        for mask, name, count in ((coordinates.column_mask, "s", columns), (coordinates.line_mask, "r", rows)):
            if mask is not None:
                end = f"_{rank}" if rank else ""
                var = number(name + end)
                moved = replace(
                    mask, name=Number(mask.name + end), value=substitute(mask.value, {"tile_m": tile, name: Var(var)})
                )
                steps.append(_mask_loop(moved, var, Var(var) if name == "s" else None, count, first))
                first += count
    if not steps:
        return ()
    lane = Compute(
        id="masks.lane", note="thread i works out the masks of lane i", dst=number("lane"), expr=Var("thread")
    )
    return (
        Role(
            name="masks",
            first_warp=0,
            last_warp=3,
            elected=False,
            note="work out which lanes a filter tap must not write",
            steps=(lane, *steps),
        ),
    )


def _mask_loop(mask: Coordinate, var: NewNumber, column: IntExpr | None, count: int, first: int) -> Loop:
    """A mask for every filter column, or row, in the table from entry `first` on."""
    body = (
        compute(mask, "masks"),
        MaskWord(id=f"masks.{var}_word", note="32 lanes a word", value=mask.name, entry=var, first=first),
    )
    return Loop(id=f"masks.{var}", note=f"one mask for every {var}", var=var, count=count, body=about(column, *body))


def clear(plan: Plan) -> tuple[Role, ...]:
    """Roles that set the accumulator to zero, where the first tap does not write every lane."""
    if not shared(plan).clear:
        return ()
    zero = ClearAcc(
        id="clear.zero", note="the first tap leaves masked lanes as they are", acc=ACC, columns=plan.tiling.block_n
    )
    return (
        Role(name="clear", first_warp=0, last_warp=3, elected=False, note="clear the accumulator", steps=(zero,)),
        Role(
            name="ready",
            first_warp=0,
            last_warp=plan.launch.warps - 1,
            elected=False,
            note="nobody multiplies before it is clear",
            steps=(core_of(plan.arch).meet(plan, "ready.sync", "the accumulator is zero"),),
        ),
    )


def load(plan: Plan) -> tuple[Step, ...]:
    """Copy an activation tile for every buffer, and a filter tile for each of its filter columns."""
    coordinates = row_coordinates(plan)
    windowed = shared(plan).windowed
    starts: tuple[Coordinate | None, ...] = ()
    per_row: tuple[Coordinate | None, ...] = ()
    if shared(plan).stream.boxed:
        starts = coordinates.start_w, coordinates.start_h, coordinates.start_n
        per_row = (coordinates.off_h,)
    elif not windowed:
        starts = coordinates.start_w, coordinates.start_n
        per_row = coordinates.start_h, coordinates.start_row
    body: list[Step] = [*block_channels(coordinates)]
    for tile in shared_tiles(plan):
        body += about(tile.only_column, *_load_tile(tile))
        if not tile.with_filters:
            body.append(_load_filters(tile))
    blocks = Loop(
        id="load.blocks", note="channel blocks", var=number("block"), count=plan.pipeline.blocks, body=tuple(body)
    )
    rows = Loop(
        id="load.rows",
        note="filter rows",
        var=number("r"),
        count=plan.pipeline.taps[0],
        body=(*(compute(each, "load") for each in per_row if each is not None), blocks),
    )
    begin = (compute(each, "load") for each in (*starts, coordinates.first_k) if each is not None)
    return (*parts_loaded(plan), *begin, rows)


def _load_tile(tile: SharedTile) -> Iterator[Step]:
    """One activation tile, when there is room."""
    plan = tile.plan
    mark = tile.mark
    sharing = shared(plan)
    if sharing.stream.boxed:
        *first, copy = _boxed(tile)
        yield from first
    else:
        copy = _windows(tile) if sharing.windowed else _whole(tile)
    one = copy.body[-1] if isinstance(copy, Loop) else copy
    copies = copy.count if isinstance(copy, Loop) else 1
    assert isinstance(one, TensorCopy)
    yield RingWait(id=f"load.wait_a{mark}", note="until the stage is free", ring=tile.ring.empty, starts_open=True)
    filters = len(tile.buffer.taps) * filter_tile_bytes(plan) if tile.with_filters else 0
    yield ExpectBytes(
        id=f"load.expect_a{mark}",
        note="the tile and its halo, and its filter tiles" if filters else "the tile and its halo",
        ring=tile.ring.full,
        bytes=plan.tiling.ctas * (copies * one.bytes_through(plan.indexing.loads.a) + filters),
    )
    yield copy
    if tile.with_filters:
        yield _load_filters(tile)
    stages = plan.tiling.a_stages
    yield Advance(id=f"load.next_a{mark}", note="next activation stage", stages=stages, state=tile.ring.state)


def filter_tile_bytes(plan: Plan) -> int:
    """Bytes of a CTA's part of the filter tile of one filter column."""
    return plan.tiling.b_rows * plan.tiling.row_bytes


def _load_filters(tile: SharedTile) -> Loop:
    """The filter tiles that an activation tile meets, in stages of their own or in its stage."""
    plan = tile.plan
    mark = tile.mark
    coordinates = row_coordinates(plan)
    column = tile.column(Var(tile.position))
    s = number(f"s{mark}")
    tap = number(f"tap{mark}")
    at = number(f"at_b{mark}")
    tap_steps = (
        Compute(id=f"load.s{mark}", note="filter column", dst=s, expr=column),
        compute(coordinates.tap, "load", dst=tap, s=Var(s)),
    )
    copy = TmaLoad(
        id=f"load.b{mark}",
        note="filter rows of this tap and block",
        map=MAP_B,
        tile=B,
        ring=tile.ring.full if tile.with_filters else FULL_B,
        coords=(coordinates.c.name, tap, coordinates.first_k.name),
        **(Part(ctas=None, at=at, bringers=1) if tile.with_filters else part_of(plan, B)),
    )
    bytes_each = filter_tile_bytes(plan)
    expected = plan.tiling.ctas * bytes_each
    place = Var(tile.position) * bytes_each
    inside = (*tap_steps, Compute(id=f"load.at_b{mark}", note="one filter tile a column", dst=at, expr=place), copy)
    alone = (
        *tap_steps,
        RingWait(id=f"load.wait_b{mark}", note="until the stage is free", ring=EMPTY_B, starts_open=True),
        ExpectBytes(id=f"load.expect_b{mark}", note="one filter tile", ring=FULL_B, bytes=expected),
        copy,
        Advance(id=f"load.next_b{mark}", note="next filter stage", stages=plan.tiling.b_stages, state="b"),
    )
    return Loop(
        id=f"load.columns{mark}",
        note=f"filter columns of {tile.name}",
        var=tile.position,
        count=len(tile.buffer.taps),
        body=about(column, *(inside if tile.with_filters else alone)),
        written_out=tile.with_filters,
    )


def _starts(plan: Plan) -> tuple[Coordinate, ...]:
    """Where a copy begins, behind its first channel: along W, and H and N or all rows counted through."""
    coordinates = row_coordinates(plan)
    found = coordinates.start_w, coordinates.start_h, coordinates.start_n, coordinates.start_row
    return tuple(each for each in found if each is not None)


def _whole(tile: SharedTile) -> TmaWideLoad:
    """The copy of an activation tile."""
    return TmaWideLoad(
        id=f"load.a{tile.mark}",
        note="pixels of one image row after the other",
        map=MAP_A,
        tile=A,
        ring=tile.ring.full,
        coords=(channels_of(row_coordinates(tile.plan)).name, *(each.name for each in _starts(tile.plan))),
        halo=tile.buffer.halo,
        offset=tile.buffer.offset,
        halo_each_window=tile.plan.indexing.loads.a.mode == "im2col_w128",
    )


def _boxed(tile: SharedTile) -> tuple[Step, ...]:
    """The copy of an activation tile through whole images, halo included; first, by how much its box is moved."""
    coordinates = row_coordinates(tile.plan)
    assert coordinates.off_h is not None
    off_w = number(f"off_w{tile.mark}")
    return (
        Compute(id=f"load.off_w{tile.mark}", note=f"offset of {tile.name}", dst=off_w, expr=Const(tile.buffer.offset)),
        TmaLoad(
            id=f"load.a{tile.mark}",
            note="pixels of one image row after the other",
            map=MAP_A,
            tile=A,
            ring=tile.ring.full,
            coords=(channels_of(coordinates).name, *(each.name for each in _starts(tile.plan))),
            offsets=(off_w, coordinates.off_h.name),
        ),
    )


def _windows(tile: SharedTile) -> Loop:
    """A copy for every window of an activation tile; they overlap by the halo."""
    plan = tile.plan
    mark = tile.mark
    window = number(f"window{mark}")
    starts = tuple((each, Number(f"{each.name}{mark}")) for each in _starts(plan))
    at = number(f"at{mark}")
    lane_bytes = 32 * plan.tiling.row_bytes
    body = (
        *(compute(each, "load", dst=name, window=Var(window)) for each, name in starts),
        Compute(id=f"load.at{mark}", note="32 lanes a window", dst=at, expr=Var(window) * lane_bytes),
        TmaWideLoad(
            id=f"load.a{mark}",
            note="windows overlap by the halo",
            map=MAP_A,
            tile=A,
            ring=tile.ring.full,
            coords=(channels_of(row_coordinates(plan)).name, *(name for _, name in starts)),
            halo=0,
            offset=tile.buffer.offset,
            at=at,
        ),
    )
    return Loop(
        id=f"load.windows{mark}",
        note="one copy a sub-partition",
        var=window,
        count=shared(plan).tile.windows,
        body=body,
    )
