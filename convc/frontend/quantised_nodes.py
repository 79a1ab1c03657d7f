"""ONNX's ``ConvInteger`` and ``QLinearConv``: convolutions of 8-bit numbers that have zero points, and scales.

Source: ONNX operators, ``ConvInteger`` and ``QLinearConv``, both of operator set 10. Zero points are taken out here
(`convc.frontend.zero_points`), so that nothing behind the frontend knows them but the host, which pads with that of the
activations, and the epilogue, which adds that of the result. Scales become one multiplier per output channel.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np
from onnx import NodeProto

from convc.frontend.conv_node import Refuse, conv_attributes, conv_problem
from convc.frontend.zero_points import multiplier_of, remove_zero_points
from convc.ir import dtypes
from convc.ir.network import ConvNode, TensorRef
from convc.support.memory import require_memory

QUANTISED = ("ConvInteger", "QLinearConv")

_INPUTS = {
    "ConvInteger": ("activations", "weights", "x_zero_point", "w_zero_point"),
    "QLinearConv": (
        "activations", "x_scale", "x_zero_point", "weights", "w_scale", "w_zero_point", "y_scale", "y_zero_point",
        "bias",
    ),
}  # fmt: skip
"""What the inputs of each operator are, in order."""
_REQUIRED = {"ConvInteger": 2, "QLinearConv": 8}
"""How many of them must be there."""

Constant = Callable[[str, str], np.ndarray]
"""The value of a tensor by its name, and what it is for; `NodeError` where it is not constant."""


def quantised_conv(
    node: NodeProto, name: str, x: TensorRef, constant: Constant, refuse: Refuse, shape: Callable[[], tuple[int, ...]]
) -> ConvNode:
    """Read a node.

    Args:
        node: of one of the `QUANTISED` operators.
        name: of the convolution.
        x: the activations.
        constant: gives the value of another input.
        refuse: makes the error.
        shape: gives the extents of the activations, all known, or raises `NodeError`.

    Raises:
        NodeError: inputs are missing or not constant, types do not go together, scales or zero points are inconsistent.
        ProblemError: the numbers of the convolution do not fit together.
    """
    _check_inputs(node, refuse)
    attributes = conv_attributes(node, refuse)
    if x.dtype not in dtypes.INTEGER_OPERANDS:
        raise refuse(f"the activations of a {node.op_type} must be u8 or s8, got {x.dtype}")
    x_shape = shape()
    others = zip(_INPUTS[node.op_type][1:], node.input[1:], strict=False)
    given = {what: constant(tensor, what) for what, tensor in others if tensor}
    w = given["weights"]
    filters = _eight_bits(w, "weights", refuse)
    x_zero = _zero_point(given.get("x_zero_point"), x.dtype, "x_zero_point", (), refuse)
    w_zero = _zero_point(given.get("w_zero_point"), filters, "w_zero_point", w.shape[:1], refuse)
    require_memory(40 * w.size, f"the zero points of {w.size} weights")
    scaled = node.op_type == "QLinearConv"
    bias = given.get("bias")
    out = _eight_bits(given["y_zero_point"], "y_zero_point", refuse) if scaled else "s32"
    problem = conv_problem(
        attributes,
        name=name,
        x_shape=x_shape,
        w_shape=w.shape,
        operand=x.dtype,
        out=out,
        bias=bias is not None,
        refuse=refuse,
    )
    out_zero = 0
    multiplier = None
    if scaled:
        out_zero = int(_zero_point(given["y_zero_point"], out, "y_zero_point", (), refuse))
        multiplier = _multiplier(given, problem.out_channels, refuse)
        if bias is not None and (bias.dtype != np.int32 or bias.shape != w.shape[:1]):
            raise refuse(f"the bias must be int32 of shape {w.shape[:1]}, got {bias.dtype} {bias.shape}")
    problem = dataclasses.replace(problem, filter_operand=filters, out_zero_point=out_zero)
    problem, weight, total = remove_zero_points(problem, w, int(x_zero), w_zero, bias)
    return ConvNode(
        name=name,
        problem=problem,
        input=x,
        weight=weight,
        bias=total,
        output=TensorRef(name=node.output[0], dtype=problem.out, shape=problem.y_shape),
        multiplier=multiplier,
    )


def _check_inputs(node: NodeProto, refuse: Refuse) -> None:
    """A node has as many inputs as its operator takes, and those that it needs."""
    words = _INPUTS[node.op_type]
    least = _REQUIRED[node.op_type]
    if not least <= len(node.input) <= len(words) or len(node.output) != 1:
        raise refuse(
            f"a {node.op_type} has {least} to {len(words)} inputs and 1 output, got {len(node.input)} and "
            f"{len(node.output)}"
        )
    missing = [what for what, tensor in zip(words[:least], node.input, strict=False) if not tensor]
    if missing:
        raise refuse(f"the {missing[0]} is missing")


def _multiplier(given: Mapping[str, np.ndarray], channels: int, refuse: Refuse) -> np.ndarray:
    """What sums are multiplied with, float32 (K,); `NodeError` where it is not finite."""
    x_scale = _scale(given["x_scale"], "x_scale", (), refuse)
    w_scale = _scale(given["w_scale"], "w_scale", given["weights"].shape[:1], refuse)
    y_scale = _scale(given["y_scale"], "y_scale", (), refuse)
    multiplier = multiplier_of(x_scale, w_scale, y_scale, channels)
    if not np.isfinite(multiplier).all():
        raise refuse("x_scale * w_scale / y_scale is too large for float32")
    return multiplier


def _eight_bits(array: np.ndarray, what: str, refuse: Refuse) -> str:
    """convc's word for an 8-bit type of whole numbers."""
    for name in dtypes.INTEGER_OPERANDS:
        if array.dtype == dtypes.BY_NAME[name].storage:
            return name
    raise refuse(f"the {what} must be uint8 or int8, got {array.dtype}")


def _zero_point(
    array: np.ndarray | None, dtype: str, what: str, channels: tuple[int, ...], refuse: Refuse
) -> np.ndarray:
    """A zero point, of the type that it belongs to, or where `channels` is given one per channel; 0 where none is."""
    if array is None:
        return np.zeros((), np.int64)
    expected = dtypes.BY_NAME[dtype].storage
    if array.dtype != expected:
        raise refuse(f"the {what} must be {expected}, as the numbers that it belongs to are, got {array.dtype}")
    return _scalar_or(array, what, channels, refuse).astype(np.int64)


def _scale(array: np.ndarray, what: str, channels: tuple[int, ...], refuse: Refuse) -> np.ndarray:
    """A scale, positive and finite; where `channels` is given it may be one per channel."""
    if array.dtype != np.float32:
        raise refuse(f"the {what} must be float32, got {array.dtype}")
    array = _scalar_or(array, what, channels, refuse)
    if not (np.isfinite(array) & (array > 0)).all():
        wrong = array[~(np.isfinite(array) & (array > 0))].flat[0]
        raise refuse(f"the {what} must be positive and finite, got {wrong:g}")
    return array


def _scalar_or(array: np.ndarray, what: str, channels: tuple[int, ...], refuse: Refuse) -> np.ndarray:
    """A single number as a scalar, or one number per channel."""
    if array.size == 1 and array.ndim <= 1:
        return array.reshape(())
    if channels and array.shape == channels:
        return array
    also = f" or one number per output channel, {channels}" if channels else ""
    raise refuse(f"the {what} must be a scalar{also}, got shape {array.shape}")
