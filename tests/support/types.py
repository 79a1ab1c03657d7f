"""Mixes of element types that a convolution can have, for hypothesis."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from convc import dtypes


@st.composite
def element_types(draw, operand: str | None = None) -> dict[str, Any]:
    """Fields `operand`, `filter_operand`, `out` and `out_zero_point` of a `ConvProblem`."""
    operand = operand or draw(st.sampled_from(dtypes.OPERANDS))
    kind = dtypes.KINDS[operand]
    filters = [None]
    if kind in dtypes.MIXED_KINDS:
        filters += [name for name, other in dtypes.KINDS.items() if other == kind and name != operand]
    outs = {"f16": [operand, operand, "f32"], "tf32": ["f32"], "f8f6f4": ["f16", "bf16", "f32"]}
    out = draw(st.sampled_from(outs.get(kind, ["s32", "u8", "s8"])))
    zero_point = 0
    if out in dtypes.INTEGER_OPERANDS:
        limits = dtypes.BY_NAME[out]
        zero_point = draw(st.integers(int(limits.min_finite), int(limits.max_finite)))
    return {
        "operand": operand,
        "filter_operand": draw(st.sampled_from(filters)),
        "out": out,
        "out_zero_point": zero_point,
    }
