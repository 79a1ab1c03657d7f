"""From sums to the output type: the steps of an epilogue between the bias and the store."""

from __future__ import annotations

from convc.compiler.plan.records import Plan
from convc.compiler.tile.steps.base import Convert
from convc.compiler.tile.steps.quantise import Requantise, RequantiseLane


def requantise(
    plan: Plan, columns: int, kind: type[Requantise] | type[RequantiseLane]
) -> tuple[Requantise | RequantiseLane, ...]:
    """The step that scales sums of whole numbers, where the result has 8 bits; its multipliers lie behind the bias."""
    if not plan.problem.requantised:
        return ()
    return (
        kind(
            id="store.scale",
            note="one multiplier a channel",
            buffer="bias",
            first=plan.layout.bias.shape[-1],
            channel="k",
            columns=columns,
            zero_point=plan.problem.out_zero_point,
        ),
    )


def convert(plan: Plan, columns: int) -> tuple[Convert, ...]:
    """The step that packs values of less than 32 bits into words."""
    per_word = {8: "four", 16: "two"}.get(plan.problem.out_dtype.bits)
    if per_word is None:
        return ()
    out = plan.problem.out
    return (Convert(id="store.round", note=f"to {out}, {per_word} a word", out=out, columns=columns),)
