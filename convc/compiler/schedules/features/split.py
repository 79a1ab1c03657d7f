"""From a kernel with a CTA for each tile to one whose tiles are shared by the CTAs of a cluster, or of several.

Loads and multiplications stay as they are, in a loop over the steps of the CTA's part. What was the epilogue becomes
two: each CTA leaves all sums of its part in shared memory, and when all of the cluster have, each adds the parts of its
own columns and stores these. No CTA leaves before the others have read its sums. With several clusters it keeps these
sums in global memory instead, and the warp that is last to do so of those of all clusters adds and stores.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

from msgspec.structs import replace

from convc.compiler.plan.names import PART, SUMS, NewNumber, Number
from convc.compiler.plan.records import Plan
from convc.compiler.plan.split import QUAD, summed_columns
from convc.compiler.plan.storage import SUM_BYTES
from convc.compiler.schedules.base import Roles
from convc.compiler.schedules.cores.all import core_of
from convc.compiler.schedules.epilogue import direct_stores, stage_numbers
from convc.compiler.schedules.features.changes import split_of
from convc.compiler.schedules.skeleton import (
    COUNTERS,
    TURN,
    WORKSPACE,
    compute,
    number,
    pixel_bits,
    shares_blocks,
    warps_role,
)
from convc.compiler.tile.program import Role, walk
from convc.compiler.tile.steps.base import Compute, Loop, Repeat, Step
from convc.compiler.tile.steps.split import (
    AddKept,
    AddSums,
    ClusterArrive,
    ClusterWait,
    KeepSums,
    LastLoop,
    ShareLoop,
    StageSums,
)
from convc.compiler.tile.uses import reads
from convc.ir.expr import IntExpr, Var, substitute

STEP = "step"
"""Counts the steps of a tile, through the loops of its K loop."""


def sharing_k(plan: Plan, roles: Roles) -> Roles:
    """The roles of a schedule, for CTAs that share the K loop of a tile."""
    return dataclasses.replace(
        roles,
        load=tuple(_shared(plan, "load", step) for step in roles.load),
        multiply=tuple(_shared(plan, "mma", step) for step in roles.multiply),
        epilogue=_leave_sums(plan),
    )


def _shared(plan: Plan, role: str, step: Step) -> Step:
    """A step of a role; of the K loop those turns that are the CTA's own."""
    if not isinstance(step, Loop):
        return step
    if shares_blocks(plan):
        return _own_blocks(plan, role, step)
    nest, body = _nest(step)
    derived = split_of(plan)
    numbers: list[Compute] = []
    for name, _ in nest:
        value = Var(STEP) if len(nest) == 1 else derived.let(name)  # one loop counts the steps themselves
        numbers.append(Compute(id=f"{role}.{name}", note="of this CTA's part", dst=number(name), expr=value))
    before = derived.value("turn", "turn")
    numbers.append(Compute(id=f"{role}.before", note="steps before this one", dst=TURN, expr=before))
    needed = {name for each in walk(body) for name in reads(each)}
    own = (*(each for each in numbers if each.dst in needed), *body)
    return _share_loop(plan, role, number(STEP), nest, own)


def _own_blocks(plan: Plan, role: str, loop: Loop) -> Loop | ShareLoop:
    """A K loop with the channel blocks of the CTA's part alone: as many in every filter tap."""
    if loop.var == "block":
        return _share_loop(plan, role, loop.var, ((loop.var, loop.count),), loop.body)
    if loop.var == "k_step":
        derived = split_of(plan)
        loops = (axis for axis, _, _ in derived.record.loops if axis != PART)
        return replace(loop, count=math.prod(map(derived.extent, loops)))
    body = (_own_blocks(plan, role, step) if isinstance(step, Loop) else step for step in loop.body)
    return replace(loop, body=tuple(body))


def _share_loop(
    plan: Plan, role: str, var: NewNumber, nest: tuple[tuple[str, int], ...], body: tuple[Step, ...]
) -> ShareLoop:
    """The loop over every n-th step, of n CTAs, from the number of the CTA on."""
    derived = split_of(plan)
    return ShareLoop(
        id=f"{role}.share",
        note="the K steps of this CTA's part",
        var=var,
        count=derived.extent("turn"),
        body=body,
        first=PART,
        stride=derived.number("counted", "stride"),
        limit=derived.number("counted", "limit"),
        nest=nest,
    )


def _nest(loop: Loop) -> tuple[tuple[tuple[str, int], ...], tuple[Step, ...]]:
    """The loops of a K loop, outermost first, and what is done in all of them together.

    Each but the innermost has a loop over the rest as its last step.
    """
    *before, last = loop.body
    if isinstance(last, Loop) and last.var in ("s", "block"):
        nest, body = _nest(last)
        return ((loop.var, loop.count), *nest), (*before, *body)
    return ((loop.var, loop.count),), loop.body


def _leave_sums(plan: Plan) -> tuple[Step, ...]:
    """Every lane leaves its row of the accumulator in shared memory."""
    core = core_of(plan.arch)
    columns = core.columns(plan)
    stage = StageSums(
        id="epilogue.sums",
        note="for the CTAs that share the tile",
        columns=columns,
        tile=SUMS,
        first=Number("column"),
        lane=Number("lane"),
    )
    chunks = Loop(
        id="epilogue.parts",
        note=f"{columns} columns at a time",
        var=number("chunk"),
        count=core.chunks(plan),
        body=(*core.read(columns), stage),
        written_out=core.written_out,
    )
    return (*core.lane(), *stage_numbers(plan), *core.accumulated(), *core.vacated(plan), chunks)


def finished(plan: Plan, teardown: tuple[Role, ...]) -> tuple[Role, ...]:
    """The teardown of split-K CTAs: all meet, each adds the parts of its columns, and all meet again."""
    end, *others = teardown
    fenced = plan.storage.tmem_columns > 0
    adding = plan.tiling.block_m // 32
    there = (
        ClusterArrive(id="meet.arrive", note="the partial sums of this CTA are written", fenced=fenced),
        ClusterWait(id="meet.wait", note="until the partial sums of all parts are written", fenced=fenced),
    )
    meet = replace(end, name="meet", note="sums are read after they are written", steps=there)
    add = warps_role(
        "add",
        adding - 1,
        "adds the partial sums of all parts, and stores the results",
        tuple(_named(_add(plan))),
    )
    read = ClusterArrive(id="leave.arrive", note="these warps read no partial sums")
    leave = replace(end, name="leave", first_warp=adding, note="arrives for the warps that add no sums", steps=(read,))
    done = ClusterWait(id="end.wait", note="until all CTAs have read the partial sums of this one")
    return (meet, *others, add, leave, replace(end, note="no CTA exits before its sums have been read", steps=(done,)))


def _add(plan: Plan) -> tuple[Step, ...]:
    """Every lane adds the parts of its row, the columns of this CTA, and writes what comes of it.

    Where one chunk is all, the others are told as soon as it has been read.
    """
    columns, chunks = summed_columns(plan.tiling, plan.launch.cluster[2], plan.problem.out_dtype)
    told = (ClusterArrive(id="epilogue.arrive", note="all partial sums have been read"),)
    when_read = told if chunks == 1 else ()
    behind = () if chunks == 1 else told
    pixel = compute(plan.indexing.coordinates.m, "epilogue", pixel_bits(plan))
    lane = core_of(plan.arch).lane()
    if plan.arch.limits.row_lanes > 1:  # sums in shared memory need not be read by who had them in registers
        lane = (Compute(id="epilogue.lane", note="one row of the tile", dst=number("lane"), expr=Var("thread")),)
    if plan.launch.clusters == 1:
        read = (_column(plan), _summed(plan, columns), *when_read)
        return (*lane, pixel, direct_stores(plan, read, columns, chunks), *behind)
    return (*lane, pixel, _kept(plan, when_read, columns, chunks), *behind, *_finished(plan, columns, chunks))


def _column(plan: Plan) -> Compute:
    """The first column of a chunk that the CTA adds."""
    place = _of_rank(plan, split_of(plan).value("column", "column"))
    return Compute(id="epilogue.column", note="first column of the chunk", dst=number("column"), expr=place)


def _of_rank(plan: Plan, value: IntExpr) -> IntExpr:
    """A number of the CTA's rank in its cluster; where there is one cluster, that is the number of its part."""
    rank = Var(PART) if plan.launch.clusters == 1 else split_of(plan).value("rank", "rank")
    return substitute(value, {"rank": rank})


def _summed(plan: Plan, columns: int, first: str = "column") -> AddSums:
    """The sums of the CTAs of a cluster, added."""
    return AddSums(
        id="epilogue.add",
        note="in a fixed order: the same bits in every run",
        columns=columns,
        first=Number(first),
        tile=SUMS,
        lane=Number("lane"),
        row=plan.indexing.coordinates.m.name,
        row_limit=plan.indexing.row_limit,
        parts=plan.launch.cluster[2],
        dtype=plan.problem.sum_dtype.name,
    )


def _kept(plan: Plan, when_read: tuple[Step, ...], columns: int, chunks: int) -> Loop:
    """What a cluster has added goes to its place in the workspace: pieces of the CTA's own columns."""
    column = _column(plan)
    own = Compute(
        id="epilogue.own", note=column.note, dst=number("own"), expr=substitute(column.expr, {"chunk": Var("piece")})
    )
    kept = substitute(split_of(plan).value("kept", "own"), {"column": Var("own")})
    place = Compute(id="epilogue.place", note="where this cluster stores its sums", dst=number("kept"), expr=kept)
    keep = KeepSums(
        id="epilogue.keep",
        note="for the last cluster of the tile",
        columns=columns,
        buffer=WORKSPACE,
        at=Number("kept"),
        pitch=_pitch(plan),
    )
    note = f"{columns} columns at a time"
    body = (own, _summed(plan, columns, "own"), *when_read, place, keep)
    return Loop(id="epilogue.pieces", note=note, var=number("piece"), count=chunks, body=body)


def _finished(plan: Plan, columns: int, chunks: int) -> tuple[Step, ...]:
    """The last warp to keep its sums adds those of all clusters, and writes what comes of it."""
    derived = split_of(plan)
    first = derived.value("kept", "first")
    place = Compute(id="epilogue.first", note="where cluster 0 stored its sums", dst=number("kept_first"), expr=first)
    add = AddKept(
        id="epilogue.all",
        note="in a fixed order: the same bits in every run",
        columns=columns,
        first=Number("column"),
        buffer=WORKSPACE,
        at=Number("kept_first"),
        pitch=_pitch(plan),
        between=derived.number("kept", "between"),
        clusters=plan.launch.clusters,
        dtype=plan.problem.sum_dtype.name,
    )
    stores = direct_stores(plan, (_column(plan), place, add), columns, chunks)
    counter = _of_rank(plan, derived.value("counter", "counter"))
    last = LastLoop(
        id="epilogue.last",
        note="in the last warp to arrive",
        var=stores.var,
        count=stores.count,
        body=stores.body,
        buffer=COUNTERS,
        counter=Number("counter"),
        clusters=plan.launch.clusters,
    )
    note = "of the warps that add these rows and columns"
    return (Compute(id="epilogue.counter", note=note, dst=number("counter"), expr=counter), last)


def _pitch(plan: Plan) -> int:
    """Bytes from four columns in the workspace to the next four."""
    return QUAD * SUM_BYTES * plan.tiling.block_m


def _named(steps: tuple[Step, ...]) -> Iterator[Step]:
    """Steps with the name of the role that does them now."""
    for step in steps:
        named = replace(step, id=step.id.replace("epilogue.", "add."))
        yield replace(named, body=tuple(_named(named.body))) if isinstance(named, Repeat) else named
