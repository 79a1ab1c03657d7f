"""The epilogue: from the accumulator to global memory, where a lane has an output pixel.

The parts that do not depend on that (requantisation, the steps of a problem's epilogue, rounding) serve the schedule
whose lanes are channels too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from convc.compiler.plan.records import Plan
from convc.compiler.schedules.cores.all import core_of
from convc.compiler.schedules.skeleton import BIAS, OUT, RESIDUAL, compute, number, pixel_bits
from convc.compiler.tile.steps.base import Loop, Step
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
)
from convc.ir.epilogue import AddResidual, Clip, EpilogueStep, LeakyRelu, Relu, Sigmoid, SiLU

PER_WORD = {8: "four", 16: "two"}
"""How many values of so many bits are packed into a word."""


def row_epilogue(plan: Plan, before: tuple[Step, ...] = (), scaled: tuple[Step, ...] = ()) -> tuple[Step, ...]:
    """Every lane carries one row of the accumulator, some columns at a time.

    Args:
        before: what the role does until the accumulator is complete.
        scaled: steps on the sums before the bias is added.
    """
    core = core_of(plan.arch)
    columns = core.columns(plan)
    coordinates = plan.indexing.coordinates
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
    first_column, *read = core.read(columns)
    body = (
        first_column,
        compute(coordinates.k, "epilogue"),
        *read,
        *scaled,
        bias,
        *requantise(plan, columns, Requantise),
        *((place, *finish) if plan.problem.residual else (*finish, place)),  # a residual is read where y is stored
        write,
    )
    chunks = Loop(
        id="epilogue.chunks",
        note=f"{columns} columns at a time",
        var=number("chunk"),
        count=core.chunks(plan),
        body=body,
        written_out=core.written_out,
    )
    return (
        *core.lane(),
        compute(coordinates.m, "epilogue", pixel_bits(plan)),
        *before,
        *core.accumulated(),
        chunks,
    )


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
