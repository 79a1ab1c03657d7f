"""The loads of a CTA where filter columns share activations.

Loops: filter rows r, channel blocks, buffers (written out), and innermost the filter columns of a buffer. Activations
and filter have rings of their own, since one tile of the first meets several of the second, or one for both.
"""

from __future__ import annotations

from collections.abc import Iterator

from convc.compiler.plan.coordinates import Coordinate, RowCoordinates
from convc.compiler.plan.names import A, B, Number
from convc.compiler.plan.records import Plan
from convc.compiler.schedules.features.multicast import CopyPart, part_of, parts_loaded
from convc.compiler.schedules.nesting import in_loops, levels, nest_of
from convc.compiler.schedules.sharing.buffers import SharedTile, shared_tiles
from convc.compiler.schedules.sharing.indexing import row_coordinates, shared
from convc.compiler.schedules.sharing.storage import EMPTY_B, FULL_B
from convc.compiler.schedules.skeleton import (
    MAP_A,
    MAP_B,
    about,
    channels_of,
    compute,
    number,
)
from convc.compiler.tile.steps.base import Compute, Loop, Step
from convc.compiler.tile.steps.copies import TmaLoad, TmaWideLoad
from convc.compiler.tile.steps.rings import Advance, ExpectBytes, RingWait
from convc.ir.expr import Const, Var


def load(plan: Plan) -> tuple[Step, ...]:
    """Copy an activation tile for every buffer, and a filter tile for each of its filter columns."""
    coordinates = row_coordinates(plan)
    nest = nest_of(plan)
    starts = () if shared(plan).windowed else _read(coordinates)
    made = levels(
        nest,
        "load",
        *starts,
        (coordinates.first_k, "first_k", "k"),
        (coordinates.c, "c", "c"),
        (coordinates.pack_c, "pack", "c"),
    )
    body: list[Step] = []
    for tile in shared_tiles(plan, nest):
        body += about(tile.only_column, *_load_tile(tile))
        if not tile.with_filters:
            body.append(_load_filters(tile))
    return (*parts_loaded(plan), *made[""], *in_loops("load", nest.around, made, tuple(body)))


def _read(coordinates: RowCoordinates) -> Iterator[tuple[Coordinate | None, str, str]]:
    """Where copies begin, with the maps and results that say so."""
    yield coordinates.start_w, "start", "w"
    if coordinates.start_row is not None:
        yield coordinates.start_row, "copy", "row"
        return
    yield coordinates.start_h, "copy", "h"
    if coordinates.off_h is None:
        yield coordinates.start_n, "start", "row"
    else:
        yield coordinates.start_n, "copy", "n"
        yield coordinates.off_h, "copy", "off_h"


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
    yield RingWait(id=f"load.wait_a{mark}", note="until the stage is free", ring=tile.ring.empty, starts_open=True)
    filters = tile.taps * tile.nest.number("bytes", "b") if tile.with_filters else 0
    yield ExpectBytes(
        id=f"load.expect_a{mark}",
        note="the tile with its halo, and its filter tiles" if filters else "the tile with its halo",
        ring=tile.ring.full,
        bytes=plan.tiling.ctas * (tile.nest.number("bytes", "a") + filters),
    )
    yield copy
    if tile.with_filters:
        yield _load_filters(tile)
    stages = plan.tiling.a_stages
    yield Advance(id=f"load.next_a{mark}", note="next activation stage", stages=stages, state=tile.ring.state)


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
        **(CopyPart(ctas=None, at=at, bringers=1) if tile.with_filters else part_of(plan, B)),
    )
    expected = plan.tiling.ctas * tile.nest.number("bytes", "b")
    place = tile.nest.value("filters", "byte", position=Var(tile.position))
    inside = (*tap_steps, Compute(id=f"load.at_b{mark}", note="one filter tile per column", dst=at, expr=place), copy)
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
        count=tile.taps,
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
        note="pixels of consecutive image rows",
        map=MAP_A,
        tile=A,
        ring=tile.ring.full,
        coords=(channels_of(row_coordinates(tile.plan)).name, *(each.name for each in _starts(tile.plan))),
        halo=tile.halo,
        offset=tile.offset,
        halo_each_window=tile.plan.indexing.loads.a.mode == "im2col_w128",
    )


def _boxed(tile: SharedTile) -> tuple[Step, ...]:
    """The copy of an activation tile through whole images, halo included; first, by how much its box is moved."""
    coordinates = row_coordinates(tile.plan)
    assert coordinates.off_h is not None
    off_w = number(f"off_w{tile.mark}")
    return (
        Compute(id=f"load.off_w{tile.mark}", note=f"offset of {tile.name}", dst=off_w, expr=Const(tile.offset)),
        TmaLoad(
            id=f"load.a{tile.mark}",
            note="pixels of consecutive image rows",
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
    place = tile.nest.value("window_at", "byte", window=Var(window))
    body = (
        *(compute(each, "load", dst=name, window=Var(window)) for each, name in starts),
        Compute(id=f"load.at{mark}", note="32 lanes per window", dst=at, expr=place),
        TmaWideLoad(
            id=f"load.a{mark}",
            note="windows overlap by the halo",
            map=MAP_A,
            tile=A,
            ring=tile.ring.full,
            coords=(channels_of(row_coordinates(plan)).name, *(name for _, name in starts)),
            halo=0,
            offset=tile.offset,
            at=at,
        ),
    )
    return Loop(
        id=f"load.windows{mark}",
        note="one copy per sub-partition",
        var=window,
        count=shared(plan).tile.windows,
        body=body,
    )
