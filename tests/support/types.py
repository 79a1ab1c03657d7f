"""Mixes of element types that a convolution can have, for hypothesis."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from convc.ir import dtypes


@st.composite
def element_types(draw, operand: str | None = None) -> dict[str, Any]:
    """The fields of a `ConvProblem` that are about types and zero points."""
    operand = operand or draw(st.sampled_from(dtypes.OPERANDS))
    kind = dtypes.KINDS[operand]
    choices: list[str | None] = [None]
    if kind in dtypes.MIXED_KINDS:
        choices += [name for name, other in dtypes.KINDS.items() if other == kind and name != operand]
    own = [] if operand in dtypes.SPLIT_OPERANDS else [operand, operand]
    outs = {"f16": [*own, "f32"], "tf32": ["f32"], "i8": ["s32", "u8", "s8"]}
    out = draw(st.sampled_from(outs.get(kind, ["f16", "bf16", "f32"])))
    zero_point = 0
    if out in dtypes.INTEGER_OPERANDS:
        limits = dtypes.BY_NAME[out]
        zero_point = draw(st.integers(int(limits.min_finite), int(limits.max_finite)))
    filters = draw(st.sampled_from(choices))
    low, high = (int(end) for end in (dtypes.BY_NAME[operand].min_finite, dtypes.BY_NAME[operand].max_finite))
    whole = kind == "i8"
    return {
        "operand": operand,
        "filter_operand": filters,
        "pad_value": draw(st.sampled_from([0, low, high, 7])) if whole else 0,
        "filter_parts": draw(st.integers(1, 3)) if whole and (filters or operand) == "s8" else 1,
        "out": out,
        "out_zero_point": zero_point,
    }
