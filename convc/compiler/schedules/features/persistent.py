"""From a kernel that makes one tile a CTA to one with persistent CTAs.

Nothing of a schedule changes: each role does for every tile what it did for its one. Stage and phase of every ring go
on from tile to tile. The accumulator is one of two halves, which the mma and epilogue roles hand to
each other, and the epilogue takes care of what it keeps in shared memory.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from msgspec.structs import replace

from convc.compiler.plan.names import ACC, ANSWERED, ANSWERS, DONE, DRAINED, HEARD, Number
from convc.compiler.plan.persistent import AHEAD, ASKED, HALVES, STATE
from convc.compiler.plan.records import Plan
from convc.compiler.plan.storage import ANSWER_BYTES, MASKS
from convc.compiler.schedules.base import Roles
from convc.compiler.schedules.features.changes import persistent_change
from convc.compiler.schedules.features.tile_order import CTA, needed_by, place_steps
from convc.compiler.schedules.skeleton import EPILOGUE_THREADS, number
from convc.compiler.tile.program import walk
from convc.compiler.tile.steps.base import Loop, Step
from convc.compiler.tile.steps.channels import HoldNumbers, StageNumbers
from convc.compiler.tile.steps.epilogue import TmemLoad
from convc.compiler.tile.steps.persistent import (
    AnswerRead,
    AskTile,
    FetchLoop,
    Release,
    ReleaseLast,
    ReleaseRead,
    RoleSync,
    StoresRead,
    TakeTile,
    TileLoop,
)
from convc.compiler.tile.steps.rings import Advance, ExpectBytes, RingWait, WaitMmas, WarpCommit
from convc.compiler.tile.steps.staged import StoreWait
from convc.ir.debug_info import WALK
from convc.ir.expr import IntExpr, Var, substitute
from convc.ir.tile_order import TILE


def with_persistent(plan: Plan, roles: Roles) -> Roles:
    """The roles of a schedule, for persistent CTAs."""
    if not roles.epilogue:
        load = (_tiles(plan, "load", roles.load),)
        return dataclasses.replace(roles, load=load, multiply=_multiply_and_store(plan, roles.multiply))
    return dataclasses.replace(
        roles,
        load=(_tiles(plan, "load", roles.load),),
        multiply=(_tiles(plan, "mma", _multiply(roles)),),
        epilogue=_epilogue(plan, roles),
    )


def _tiles(plan: Plan, role: str, steps: tuple[Step, ...]) -> TileLoop | FetchLoop:
    """The walk of a role, which works out where a tile is as far as its steps ask for that."""
    derived = persistent_change(plan)
    count = derived.extent("turn")
    found = needed_by(place_steps(plan, role, Var(WALK)), steps)
    if plan.launch.dynamic:
        return FetchLoop(
            id=f"{role}.tiles",
            note="the CTA's own tile, then those of clusters that it cancels",
            var=number(WALK),
            count=count,
            body=(*found, *(_ask() if role == "load" else ()), *steps, *_take(role)),
            first=CTA,
        )
    return TileLoop(
        id=f"{role}.tiles",
        note="tile = CTA, CTA + CTAs of the grid, ...",
        var=number(WALK),
        count=count,
        body=(*found, *steps),
        first=CTA,
        stride=derived.number("tile", "stride"),
        limit=derived.number("tile", "limit"),
    )


def _ask() -> tuple[Step, ...]:
    """Ask for the tile after this one, before it is loaded: the answer comes meanwhile."""
    return (
        RingWait(id="load.heard", note="until all roles have read the previous response", ring=HEARD, starts_open=True),
        ExpectBytes(id="load.expect_answer", note="16 bytes of the response", ring=ANSWERED, bytes=ANSWER_BYTES),
        AskTile(id="load.ask", note="request the tile of a cluster that has not started", ring=ANSWERED, tile=ANSWERS),
    )


def _take(role: str) -> tuple[Step, ...]:
    """Go on to the tile that was given to this CTA, or end."""
    return (
        RingWait(id=f"{role}.answered", note="until the response has arrived", ring=ANSWERED, starts_open=False),
        TakeTile(id=f"{role}.take", note="the tile of the response, if there is one", tile=ANSWERS, var=Number(WALK)),
        AnswerRead(id=f"{role}.told", note="the response may be overwritten", ring=HEARD),
        Advance(id=f"{role}.next_answer", note="next response", stages=AHEAD, state=ASKED),
    )


def _multiply(roles: Roles) -> tuple[Step, ...]:
    """Wait for a half that is no longer read, fill it, and go on to the other."""
    masked = roles.masks is not None
    note = "until the epilogue has read this half" + (", and lane masks are written" if masked else "")
    free = RingWait(id="mma.drained", note=note, ring=DRAINED, starts_open=not masked)
    other = Advance(id="mma.other", note="the other half of the accumulator", stages=HALVES, state=STATE)
    table = Advance(id="mma.other_masks", note="the other table of masks", stages=HALVES, state=MASKS)
    return (free, *roles.multiply, other, *((table,) if masked else ()))


def _multiply_and_store(plan: Plan, steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """The tile loop of warps that multiply and run the epilogue: the loads of the next tiles run ahead meanwhile.

    What the epilogue adds to each channel is brought once, that of all tiles.
    """
    last = [step for step in steps if isinstance(step, StoreWait)]
    once = _numbers(steps, StageNumbers)
    late = {step.ring: step.ctas for step in walk(steps) if isinstance(step, WarpCommit) and step.behind}
    body: list[Step] = []
    for step in steps:
        if step in last or step in once:
            continue
        body.append(step)
        if isinstance(step, WaitMmas):
            body += (
                ReleaseLast(id=f"mma.last_{ring}", note="the MMAs that read it are complete", ring=ring, ctas=ctas)
                for ring, ctas in late.items()
            )
            if last:
                body.append(StoresRead(id="epilogue.again", note="stores of the previous tile have read shared memory"))
    return (*once, _tiles(plan, "mma", tuple(body)), *last)


def _numbers(steps: tuple[Step, ...], kind: type[Step]) -> tuple[Step, ...]:
    """The step of a kind that brings what is added to each channel, behind the one that says from where; or none."""
    places = [index for index, step in enumerate(steps) if isinstance(step, kind)]
    return steps[places[0] - 1 : places[0] + 1] if places else ()


def _epilogue(plan: Plan, roles: Roles) -> tuple[Step, ...]:
    """Give the half back, and use shared memory again when it has been read."""
    early = roles.masks is None and roles.zero is None
    steps = _given_back(plan, roles.epilogue) if early else roles.epilogue
    last = [step for step in steps if isinstance(step, StoreWait)]
    once = _numbers(steps, HoldNumbers)
    body: list[Step] = []
    if roles.masks is not None:
        # Behind the last tile anything will do.
        following = substitute(persistent_change(plan).value("following", "tile"), {TILE: Var(WALK)})
        body += _masks(plan, roles.masks, following, "_next")
    for step in steps:
        if step in last or step in once:
            continue
        body.append(step)
        if last and isinstance(step, RingWait) and step.ring == DONE:
            body.append(StoresRead(id="epilogue.again", note="stores of the previous tile have read shared memory"))
    if roles.zero is not None:
        body.append(replace(roles.zero, id="epilogue.zero"))
    if roles.masks is None and not early:
        body.append(Release(id="epilogue.release", note="MMAs may overwrite this half", ring=DRAINED))
    body.append(Advance(id="epilogue.other", note="the other half of the accumulator", stages=HALVES, state=STATE))
    if any(isinstance(step, StageNumbers) for step in walk(steps)):
        note = "all warps have read the bias of this tile"
        body.append(RoleSync(id="epilogue.meet", note=note, threads=EPILOGUE_THREADS))
    if roles.masks is None:
        return (*once, _tiles(plan, "epilogue", tuple(body)), *last)
    clear = () if roles.zero is None else (replace(roles.zero, id="epilogue.zero_first", every=True),)
    first = Loop(
        id="epilogue.before",
        note="the first tile",
        var=number("before"),
        count=1,
        body=(*clear, *_masks(plan, roles.masks, Var(CTA), "_first")),
        written_out=True,
    )
    return (*once, first, _tiles(plan, "epilogue", tuple(body)), *last)


def _given_back(plan: Plan, steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Steps that give the half back as soon as its last columns have been read."""
    released: list[Step] = []
    for step in steps:
        released.append(replace(step, body=_given_back(plan, step.body)) if isinstance(step, Loop) else step)
        if isinstance(step, TmemLoad):
            note = "after the last columns: MMAs may overwrite this half"
            last = plan.storage.tmem_tile(ACC).columns - step.columns
            released.append(ReleaseRead(id="epilogue.release", note=note, ring=DRAINED, first=step.first, last=last))
    return tuple(released)


def _masks(plan: Plan, fill: Callable[[str, str], tuple[Step, ...]], tile: IntExpr, which: str) -> tuple[Step, ...]:
    """Fill the table of a tile's lane masks, and say that it is there, and that the half of the accumulator is free.

    The tile before the one that is stored had both: it has been waited for, and stored. Both CTAs of a pair say so, and
    the first one alone, which multiplies for both, has a table to fill.
    """
    steps = fill("epilogue", which)
    filled = (*needed_by(place_steps(plan, "epilogue", tile, which), steps), *steps)
    if plan.tiling.ctas > 1:
        note = "the other CTA of the pair issues no MMAs"
        var = number(f"filled{which}")
        id = f"epilogue.masks{which}"
        filled = (Loop(id=id, note=note, var=var, count=1, body=filled, written_out=True, leads=True),)
    return (
        *filled,
        Release(id=f"epilogue.release{which}", note="lane masks are written, and this half is free", ring=DRAINED),
        Advance(id=f"epilogue.other_masks{which}", note="the other table of masks", stages=HALVES, state=MASKS),
    )
