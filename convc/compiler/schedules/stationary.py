"""The schedule ``stationary`` as roles: weights are the first operand, pixels the columns of the second.

One activation tile serves all filter columns of its buffer: tcgen05.mma.ws reads column j + shift in place of column j,
zeroes the columns whose pixel is padding, and may keep the pixels in its collector buffers, one for each 32 bytes of K.
The accumulator is transposed: its lanes are output channels, its columns output pixels.
"""

from __future__ import annotations

from collections.abc import Iterator

from convc.compiler.index.row_walk import Buffer, Tap, padding_run
from convc.compiler.plan.records import Plan
from convc.compiler.schedules.epilogue import epilogue_steps
from convc.compiler.schedules.epilogue_types import requantise
from convc.compiler.schedules.kernel import compute
from convc.compiler.schedules.roles import k_loop, names, release_filter, release_tile
from convc.compiler.tile.steps.base import Commit, Compute, Loop, RingWait, Step, TmemLoad
from convc.compiler.tile.steps.quantise import RequantiseLane
from convc.compiler.tile.steps.sharing import AddLaneBias, MmaStationary, PixelStore
from convc.ir.arch import SM_100A
from convc.ir.expr import Const, Var

ALL_ZEROED = SM_100A.limits.zero_run
"""A run that covers the widest tile."""
CHUNK = 8
"""Pixels that the epilogue reads at a time."""


def multiply(plan: Plan) -> tuple[Step, ...]:
    """Multiply the weights of every filter column with the same pixels, shifted."""
    body: list[Step] = []
    for index, buffer in enumerate(plan.reuse.walk.buffers):
        mark = names(plan, index)[1]
        body.append(
            RingWait(id=f"mma.wait_a{mark}", note="until the activations have landed", ring="full_a", fresh=False)
        )
        for place, tap in enumerate(buffer.taps):
            body += _tap(plan, buffer, tap, place, first=index == place == 0)
        body += release_tile(plan, mark)
    start = compute(plan, "mma", "start_w")
    return (start, *k_loop(plan, body), Commit(id="mma.done", note="the accumulator is complete", ring="done"))


def _tap(plan: Plan, buffer: Buffer, tap: Tap, place: int, first: bool) -> Iterator[Step]:
    """One filter column."""
    walk, name, counter = plan.reuse.walk, f"s{tap.s}", None
    first_zeroed, zeroed = padding_run(walk, tap) if walk.border == "mask" else (0, 0)
    entered, runs = None, None
    if zeroed:
        entered, runs = f"entered_{name}", (zeroed, walk.period - zeroed)
        q = (Var("start_w") + walk.problem.pad) // walk.problem.stride
        position = (q + (walk.period - first_zeroed)) % walk.period
        if zeroed == walk.period:  # a filter column that never meets the image: no column of any tile is used
            runs, position = (ALL_ZEROED, 1), Const(0)
        yield Compute(
            id=f"mma.{entered}",
            note=f"padding begins at column {first_zeroed} of every {walk.period}",
            dst=entered,
            expr=position,
        )
    if first:
        counter = "k_step"
        yield Compute(
            id="mma.k_step",
            note="0 in the first step of the tile",
            dst=counter,
            expr=Var("r") * plan.pipeline.blocks + Var("block"),
        )
    yield RingWait(id=f"mma.wait_b_{name}", note="until the filter tile has landed", ring="full_b", fresh=False)
    yield MmaStationary(
        id=f"mma.multiply_{name}",
        note=f"weights of filter column {tap.s} x pixels {tap.lanes} columns on",
        acc="acc",
        a="a",
        b="b",
        operand=plan.problem.operand,
        m=plan.tiling.block_n,
        n=plan.tiling.block_m,
        atoms=plan.pipeline.atoms,
        counter=counter,
        shift=tap.lanes,
        reach=max(each.halo for each in walk.buffers),
        runs=runs,
        entered=entered,
        filter_operand=plan.problem.filter_operand,
        collector=_collector(place, len(buffer.taps)),
    )
    yield from release_filter(plan, f"_{name}")


def _collector(place: int, count: int) -> str:
    """Pixels are kept from the first filter column of a buffer to its last."""
    if count == 1:
        return "discard"
    return "fill" if place == 0 else "lastuse" if place == count - 1 else "use"


def store(plan: Plan) -> tuple[Step, ...]:
    """Every lane carries one channel, some pixels at a time."""
    rows = tuple(f"m{i}" for i in range(CHUNK))
    write = PixelStore(
        id="store.write",
        note="one value a lane and pixel",
        buffer="out",
        out=plan.problem.out,
        columns=CHUNK,
        rows=rows,
        row_limit=plan.row_limit,
        row_bytes=plan.layout.k_pitch * plan.problem.out_dtype.bytes,
        channel="k",
        channel_limit=plan.channel_limit,
    )
    body = (
        Compute(id="store.column", note="first pixel of the chunk", dst="column", expr=Var("chunk") * CHUNK),
        TmemLoad(id="store.read", note="one channel a lane", acc="acc", first="column", columns=CHUNK),
        AddLaneBias(
            id="store.bias",
            note="the lane's channel",
            buffer="bias",
            channel="k",
            columns=CHUNK,
            dtype=plan.problem.sum_dtype.name,
        ),
        *requantise(plan, CHUNK, RequantiseLane),
        *(compute(plan, "store", "m", dst=row, lane=Var("column") + Const(i)) for i, row in enumerate(rows)),
        *epilogue_steps(plan.problem.epilogue, write),
        write,
    )
    return (
        Compute(id="store.lane", note="warp w reads lanes 32*w to 32*w + 31", dst="lane", expr=Var("thread")),
        compute(plan, "store", "k"),
        RingWait(id="store.wait", note="until the accumulator is complete", ring="done", fresh=False),
        Loop(
            id="store.chunks",
            note=f"{CHUNK} pixels at a time",
            var="chunk",
            count=plan.tiling.block_m // CHUNK,
            body=body,
        ),
    )
