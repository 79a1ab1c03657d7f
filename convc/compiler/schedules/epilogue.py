"""The epilogue: from the accumulator to global memory, where a lane has an output pixel.

The parts that do not depend on that (requantisation, the steps of a problem's epilogue, rounding) serve the schedule
whose lanes are channels too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from convc.compiler.plan.names import ACC
from convc.compiler.plan.records import Plan
from convc.compiler.plan.work import row_chunk
from convc.compiler.schedules.skeleton import BIAS, DONE, OUT, RESIDUAL, compute, number, pixel_bits
from convc.compiler.tile.steps.base import Compute, Loop, RingWait, Step
from convc.compiler.tile.steps.epilogue import (
    AddBias,
    AddLaneResidual,
    AddRowResidual,
    ApplyClip,
    ApplyLeakyRelu,
    ApplyRelu,
    ApplySigmoid,
    ApplySilu,
    Convert,
    GlobalStore,
    PixelStore,
    Requantise,
    RequantiseLane,
    TmemLoad,
)
from convc.ir.epilogue import AddResidual, Clip, EpilogueStep, LeakyRelu, Relu, Sigmoid, SiLU
from convc.ir.expr import Var

PER_WORD = {8: "four", 16: "two"}
"""How many values of so many bits are packed into a word."""


def chunk_of(plan: Plan) -> int:
    """Columns that the epilogue reads at a time."""
    return row_chunk(plan.tiling.block_n)


def row_epilogue(plan: Plan, before: tuple[Step, ...] = (), scaled: tuple[Step, ...] = ()) -> tuple[Step, ...]:
    """Every lane carries one row of the accumulator, some columns at a time.

    Args:
        before: what the role does until the accumulator is complete.
        scaled: steps on the sums before the bias is added.
    """
    columns = chunk_of(plan)
    coordinates = plan.indexing.coordinates
    column = number("column")
    write = GlobalStore(
        id="epilogue.write",
        note="16 bytes at a time",
        buffer=OUT,
        at=coordinates.out_byte.name,
        out=plan.problem.out,
        columns=columns,
        row=coordinates.m.name,
        row_limit=plan.indexing.row_limit,
        channel=coordinates.k.name,
        channel_limit=plan.indexing.channel_limit,
    )
    bias = AddBias(
        id="epilogue.bias",
        note="one number a channel",
        buffer=BIAS,
        channel=coordinates.k.name,
        columns=columns,
        dtype=plan.problem.sum_dtype.name,
    )
    place = compute(coordinates.out_byte, "epilogue", 64)
    finish = (*epilogue_steps(plan.problem.epilogue, write), *convert(plan, columns))
    body = (
        Compute(id="epilogue.column", note="first column of the chunk", dst=column, expr=Var("chunk") * columns),
        compute(coordinates.k, "epilogue"),
        TmemLoad(id="epilogue.read", note="one row a lane", acc=ACC, first=column, columns=columns),
        *scaled,
        bias,
        *requantise(plan, columns, Requantise),
        *((place, *finish) if plan.problem.residual else (*finish, place)),  # a residual is read where y is stored
        write,
    )
    count = plan.tiling.block_n // columns
    chunks = f"{columns} columns at a time"
    return (
        *this_lane(plan),
        compute(coordinates.m, "epilogue", pixel_bits(plan)),
        *before,
        accumulated(),
        Loop(id="epilogue.chunks", note=chunks, var=number("chunk"), count=count, body=body),
    )


def this_lane(plan: Plan) -> tuple[Step, ...]:
    """Find the lane of tensor memory that a thread has."""
    note = "warp w reads lanes 32*w to 32*w + 31"
    return (Compute(id="epilogue.lane", note=note, dst=number("lane"), expr=Var("thread")),)


def accumulated() -> RingWait:
    """The wait for the accumulator."""
    return RingWait(id="epilogue.wait", note="until the accumulator is complete", ring=DONE, starts_open=False)


def requantise(
    plan: Plan, columns: int, kind: type[Requantise] | type[RequantiseLane]
) -> tuple[Requantise | RequantiseLane, ...]:
    """The step that scales sums of whole numbers, where the result has 8 bits; its multipliers lie behind the bias."""
    if not plan.problem.requantised:
        return ()
    step = kind(
        id="epilogue.scale",
        note="one multiplier a channel",
        buffer=BIAS,
        first=plan.layout.bias.shape[-1],
        channel=plan.indexing.coordinates.k.name,
        columns=columns,
        zero_point=plan.problem.out_zero_point,
    )
    return (step,)


def convert(plan: Plan, columns: int) -> tuple[Convert, ...]:
    """The step that packs values of less than 32 bits into words."""
    per_word = PER_WORD.get(plan.problem.out_dtype.bits)
    if per_word is None:
        return ()
    out = plan.problem.out
    return (Convert(id="epilogue.round", note=f"to {out}, {per_word} a word", out=out, columns=columns),)


def epilogue_steps(epilogue: tuple[EpilogueStep, ...], store: GlobalStore | PixelStore) -> Iterator[Step]:
    """One step each, in order; `store` says which of the lane's values are stored, and where."""
    for index, step in enumerate(epilogue):
        common: dict[str, Any] = {
            "id": f"epilogue.apply_{index}",
            "note": str(step),
            "columns": store.columns,
        }
        match step:
            case Relu():
                yield ApplyRelu(**common)
            case LeakyRelu(alpha=alpha):
                yield ApplyLeakyRelu(**common, alpha=alpha)
            case Clip(low=low, high=high):
                yield ApplyClip(**common, low=low, high=high)
            case Sigmoid():
                yield ApplySigmoid(**common)
            case SiLU():
                yield ApplySilu(**common)
            case AddResidual():
                yield _residual(common["id"], common["note"], store)


def _residual(id: str, note: str, store: GlobalStore | PixelStore) -> Step:
    """The step that adds a residual, which lies as the result will."""
    if isinstance(store, PixelStore):
        return AddLaneResidual(
            id=id,
            note=note,
            columns=store.columns,
            buffer=RESIDUAL,
            out=store.out,
            rows=store.rows,
            row_limit=store.row_limit,
            row_bytes=store.row_bytes,
            channel=store.channel,
            channel_limit=store.channel_limit,
        )
    return AddRowResidual(
        id=id,
        note=note,
        columns=store.columns,
        buffer=RESIDUAL,
        at=store.at,
        out=store.out,
        row=store.row,
        row_limit=store.row_limit,
        channel=store.channel,
        channel_limit=store.channel_limit,
    )
