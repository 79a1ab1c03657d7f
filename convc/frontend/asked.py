"""Options of reading that a model has no use for, which are refused rather than ignored."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import onnx

from convc.errors import InputError
from convc.frontend.constants import Constants
from convc.frontend.onnx_reader import is_convolution
from convc.frontend.shapes import UNKNOWN, infer_types
from convc.frontend.tensors import type_name
from convc.ir.network import ConvNode

_SETTLED = "f16", "bf16", "f32", "f64"
"""Floating-point types, as `type_name` spells them."""


def check_batch(model: onnx.ModelProto, batch: int | None) -> None:
    """Raise `InputError` for a batch where the model has fixed another one for all its images (3-D to 5-D inputs)."""
    constants = {tensor.name for tensor in model.graph.initializer}
    shapes = [
        value.type.tensor_type.shape.dim
        for value in model.graph.input
        if value.name not in constants and value.type.tensor_type.HasField("shape")
    ]
    firsts = [dims[0] for dims in shapes if 3 <= len(dims) <= 5]
    fixed = [first.dim_value for first in firsts if first.HasField("dim_value")]
    if batch is None or not firsts or len(fixed) < len(firsts) or batch in fixed:
        return
    raise InputError(
        f"the model has a batch of {fixed[0]}, got {batch}",
        hint="leave batch (--batch) out, or export the model with an open first extent",
    )


def check_operands(convs: Iterable[ConvNode], dtype: str | None, precision: str | None) -> None:
    """Raise `InputError` for an operand type or a precision that none of the convolutions took."""
    found = {conv.problem.operand for conv in convs}
    _refuse_unused(dtype, precision, found, dtype in found, precision in found)


def check_types(model: onnx.ModelProto, dtype: str | None, precision: str | None) -> None:
    """Raise `InputError` for an operand type or a precision that no convolution of a model can take.

    A convolution whose input has an unknown type can take any.
    """
    if dtype is None and precision is None:
        return
    types = infer_types(model, Constants(model.graph, Path(), {}), None)
    inputs = [types.get(node.input[0], UNKNOWN) for node in model.graph.node if is_convolution(node) and node.input]
    found = {type_name(each.element_type) for each in inputs if each.element_type}
    if len(found) == 0 or any(not each.element_type for each in inputs):
        return
    _refuse_unused(dtype, precision, found, any(name in _SETTLED for name in found), "f32" in found)


def _refuse_unused(dtype: str | None, precision: str | None, found: set[str], retyped: bool, split: bool) -> None:
    """Raise `InputError` for an option that changed nothing."""
    listed = ", ".join(sorted(found))
    if dtype is not None and not retyped:
        raise InputError(
            f"{dtype} replaces floating-point types, the convolutions are {listed}",
            hint="leave dtype (--dtype) out: integer convolutions keep their type",
        )
    if precision is not None and not split:
        raise InputError(
            f"{precision} is a way to multiply float32, the convolutions are {listed}",
            hint="leave precision (--precision) out, or choose another type with dtype (--dtype)",
        )
