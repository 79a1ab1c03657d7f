"""The K loop of the schedules that share activations: what comes before and after each multiplication."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from convc.compiler.plan.names import NewNumber
from convc.compiler.plan.records import Plan
from convc.compiler.schedules.cores.all import core_of
from convc.compiler.schedules.nesting import in_loops, nest_of
from convc.compiler.schedules.sharing.buffers import SharedTile, shared_tiles
from convc.compiler.schedules.sharing.indexing import row_coordinates
from convc.compiler.schedules.sharing.storage import EMPTY_B, FULL_B
from convc.compiler.schedules.skeleton import about, number
from convc.compiler.tile.steps.base import Compute, Step
from convc.compiler.tile.steps.lanes import JoinMask, LoadMask
from convc.compiler.tile.steps.rings import Advance, RingWait
from convc.ir.expr import IntExpr, Var


def k_loop(plan: Plan, multiply: Callable[[SharedTile], Iterable[Step]]) -> tuple[Step, ...]:
    """Multiply each activation tile with the filter tiles of its columns; the last commit completes the accumulator."""
    nest = nest_of(plan)
    body: list[Step] = []
    for tile in shared_tiles(plan, nest):
        note = "until the activations have landed"
        wait = RingWait(id=f"mma.wait_a{tile.mark}", note=note, ring=tile.ring.full, starts_open=False)
        body += about(tile.only_column, wait)
        body += multiply(tile)
    loops = in_loops("mma", nest.around, {"r": tuple(_line_masks(plan))}, tuple(body))
    return (*loops, *core_of(plan.arch).complete())


def before_tap(tile: SharedTile, position: IntExpr, which: str = "") -> Iterator[Step]:
    """Prepare the multiplication of a filter column: its numbers, its mask, its filter tile.

    The mask is read ahead of the wait for the filter tile, and joined behind it.

    Args:
        tile: the activation tile.
        position: place of the column among those of the tile.
        which: what the steps and numbers carry at their end, before the mark of the tile.
    """
    plan = tile.plan
    mark = f"{which}{tile.mark}"
    counter = tile.counter(position, which)
    if counter is not None:
        note = "0 in the first step of the tile"
        yield Compute(id=f"mma.k_step{mark}", note=note, dst=counter, expr=tile.step_number(position))
    coordinates = row_coordinates(plan)
    if coordinates.column_mask is not None:
        s = number(f"s{mark}")
        yield Compute(id=f"mma.s{mark}", note="filter column", dst=s, expr=tile.column(position))
        for rank, first in _tables(plan):
            note = f"lanes whose pixel lies in another image row{_whose(rank)}"
            yield LoadMask(id=f"mma.mask{mark}{_of(rank)}", note=note, entry=s, first=first, rank=rank)
    if not tile.with_filters:
        yield wait_for_filter(mark)
    if coordinates.column_mask is not None and coordinates.line_mask is not None:
        for rank, _ in _tables(plan):
            note = f"joined with the mask of the filter row{_whose(rank)}"
            yield JoinMask(id=f"mma.join{mark}{_of(rank)}", note=note, rank=rank)


def _line_masks(plan: Plan) -> Iterator[Step]:
    """Read the masks of a filter row; where its columns have masks too, they are joined to those."""
    coordinates = row_coordinates(plan)
    if coordinates.line_mask is None:
        return
    columns = 0 if coordinates.column_mask is None else plan.pipeline.taps[1]
    for rank, first in _tables(plan):
        yield LoadMask(
            id=f"mma.line_mask{_of(rank)}",
            note=f"lanes whose row is padding{_whose(rank)}",
            entry=number("r"),
            first=first + columns,
            rank=rank,
            beside=columns > 0,
        )


def _tables(plan: Plan) -> Iterator[tuple[int, int]]:
    """The CTAs whose lanes are masked, each with the first entry of its part of the table."""
    for rank in range(plan.tiling.ctas):
        yield rank, plan.storage.masks // plan.tiling.ctas * rank


def _whose(rank: int) -> str:
    """The end of a note about the second CTA of a pair."""
    return f", of CTA {rank}" if rank else ""


def _of(rank: int) -> str:
    """The end of the names of what is about the second CTA of a pair."""
    return f"_{rank}" if rank else ""


def wait_for_filter(mark: str) -> RingWait:
    """Wait for a filter tile."""
    return RingWait(id=f"mma.wait_b{mark}", note="until the filter tile has landed", ring=FULL_B, starts_open=False)


def release_filter(plan: Plan, mark: str, counter: NewNumber | None = None) -> Iterator[Step]:
    """Give a filter stage back; `counter` is the number of the multiplication, None where it is not the first."""
    yield from core_of(plan.arch).release(
        f"mma.release_b{mark}",
        "the stage is free once it has been multiplied",
        plan.storage.ring(EMPTY_B),
        before=None if counter is None else Var(counter),
        closes=True,
    )
    yield Advance(id=f"mma.next_b{mark}", note="next filter stage", stages=plan.tiling.b_stages, state="b")


def release_tile(tile: SharedTile) -> Iterator[Step]:
    """Give an activation stage back."""
    stages = tile.plan.tiling.a_stages
    release = core_of(tile.plan.arch).release(
        f"mma.release_a{tile.mark}",
        "the stage is free once it has been read",
        tile.plan.storage.ring(tile.ring.empty),
        before=None if tile.index else tile.round,
        closes=tile.with_filters,
    )
    move = Advance(id=f"mma.next_a{tile.mark}", note="next activation stage", stages=stages, state=tile.ring.state)
    yield from about(tile.only_column, *release, move)
