"""ONNX's ``QuantizeLinear`` and ``DequantizeLinear`` on constants: whole numbers for real ones, and back.

    q = saturate(round(x / scale) + zero_point)         ties to even, x / scale in float32
    x = (q - zero_point) * scale                        in float32, rounded once more to float16 or bfloat16

A scale is one number, one per index of an axis (since operator set 13), or one per block of indices (since 21).
Source: ONNX operators, versions 10, 13, 19, 21, 23 and 25, which differ in the types they take and in what is said
here. onnxruntime has both in its own domain too, where its quantiser puts them for types that ONNX did not have yet.
"""

from __future__ import annotations

import ml_dtypes
import msgspec
import numpy as np
from onnx import AttributeProto, NodeProto, TensorProto

from convc.errors import ModelError
from convc.frontend.model_file import ONNX_DOMAINS
from convc.frontend.tensors import NUMPY_TYPES, STORED_TYPES, type_name
from convc.ir import dtypes
from convc.support.memory import require_memory

DOMAINS = (*ONNX_DOMAINS, "com.microsoft")
"""Where both operators are defined, with the same meaning."""

_REAL = {dtype.storage: dtype for dtype in (dtypes.F16, dtypes.BF16, dtypes.F32)}
_WHOLE = {dtype for dtype in STORED_TYPES.values() if not dtype.name.startswith("float")}
_INTEGERS = {np.dtype(np.uint8), np.dtype(np.int8)} | _WHOLE
_SCALED = _INTEGERS | {np.dtype(np.int32)} | set(STORED_TYPES.values())


def is_quantize(node: NodeProto) -> bool:
    """Whether a node makes whole numbers of real ones."""
    return node.op_type == "QuantizeLinear" and _is_well_formed(node)


def is_dequantize(node: NodeProto) -> bool:
    """Whether a node makes real numbers of whole ones."""
    return node.op_type == "DequantizeLinear" and _is_well_formed(node)


def _is_well_formed(node: NodeProto) -> bool:
    return node.domain in DOMAINS and len(node.input) in (2, 3) and all(node.input[:2]) and len(node.output) == 1


class ScaleAttributes(msgspec.Struct, frozen=True, kw_only=True):
    """The attributes of either operator.

    Attributes:
        axis: along which scales go, if there are several; may be negative.
        block: how many indices of the axis share a scale; 0: one each.
        output_dtype: ONNX's number for the type of the result; 0: that of the zero point, or of the scale.
    """

    axis: int
    block: int
    output_dtype: int


def scale_attributes(node: NodeProto) -> ScaleAttributes:
    """The attributes of a node for which `is_quantize` or `is_dequantize` holds; others do not touch 8-bit numbers."""
    given = {found.name: found.i for found in node.attribute if found.type == AttributeProto.INT}
    return ScaleAttributes(
        axis=given.get("axis", 1), block=given.get("block_size", 0), output_dtype=given.get("output_dtype", 0)
    )


def dequantised(node: NodeProto, x: np.ndarray, scale: np.ndarray, zero: np.ndarray | None) -> np.ndarray:
    """Compute the result of a `DequantizeLinear` of constants.

    Args:
        x: u8, s8, s32, or one of `STORED_TYPES`.
        scale: f16, bf16 or f32.
        zero: of the type of x, or None.

    Raises:
        ModelError: types or shapes are others.
        LimitError: it does not fit into memory.
    """
    where = _where(node)
    attributes = scale_attributes(node)
    out = _result_type(attributes.output_dtype, scale.dtype, where)
    if x.dtype not in _SCALED or out not in _REAL:
        raise ModelError(f"{x.dtype} times {scale.dtype} to {out} is not computed", where=where)
    if zero is not None and zero.dtype != x.dtype:
        raise ModelError(f"the zero point must be {x.dtype}, as the numbers are, got {zero.dtype}", where=where)
    require_memory(24 * x.size, f"{where} of shape {x.shape}")
    wide = np.int64 if x.dtype == np.int32 else np.float32  # which has all narrower ones, and half the bytes
    offset = wide(0) if zero is None else _spread(zero, x.shape, attributes, where).astype(wide)
    with np.errstate(all="ignore"):
        centred = (x.astype(wide) - offset).astype(np.float32, copy=False)
        real = centred * _spread(scale, x.shape, attributes, where).astype(np.float32)
        return dtypes.encode(_REAL[out], real)


def quantised(node: NodeProto, x: np.ndarray, scale: np.ndarray, zero: np.ndarray | None) -> np.ndarray:
    """Compute the result of a `QuantizeLinear` of constants.

    Args:
        x: f16, bf16 or f32.
        scale: f16, bf16 or f32.
        zero: u8, s8 or whole numbers of another width up to 16 bits, or None, which stands for 0 of the type that the
            node asks for (by default u8).

    Raises:
        ModelError: types or shapes are others, or a number is NaN.
        LimitError: it does not fit into memory.
    """
    where = _where(node)
    attributes = scale_attributes(node)
    own = np.dtype(np.uint8) if zero is None else zero.dtype
    out = own if zero is not None else _result_type(attributes.output_dtype, own, where)
    if x.dtype not in _REAL or scale.dtype not in _REAL or out not in _INTEGERS:
        raise ModelError(f"{x.dtype} over {scale.dtype} to {out} is not computed", where=where)
    require_memory(24 * x.size, f"{where} of shape {x.shape}")
    with np.errstate(all="ignore"):
        whole = np.rint(x.astype(np.float32) / _spread(scale, x.shape, attributes, where).astype(np.float32))
    if np.isnan(whole).any():
        raise ModelError("a number to be quantised is NaN", where=where)
    offset = 0 if zero is None else _spread(zero.astype(np.float64), x.shape, attributes, where)
    limits = ml_dtypes.iinfo(out)
    return np.clip(whole.astype(np.float64) + offset, int(limits.min), int(limits.max)).astype(out)


def _spread(numbers: np.ndarray, shape: tuple[int, ...], attributes: ScaleAttributes, where: str) -> np.ndarray:
    """Scales or zero points, so that they go with an array of a shape."""
    if numbers.size == 1:
        return numbers.reshape(())
    axis = attributes.axis + len(shape) if attributes.axis < 0 else attributes.axis
    refused = ModelError(f"scales of shape {numbers.shape} do not go with {shape} along axis {axis}", where=where)
    if not 0 <= axis < len(shape):
        raise refused
    if not attributes.block:
        if numbers.shape != (shape[axis],):
            raise refused
        return numbers.reshape(-1, *(1,) * (len(shape) - axis - 1))
    blocks = -(-shape[axis] // attributes.block) if attributes.block > 0 else 0
    if numbers.shape != (*shape[:axis], blocks, *shape[axis + 1 :]):
        raise refused
    owner = np.arange(shape[axis]) // attributes.block
    return np.take(numbers, owner, axis)


def _result_type(output_dtype: int, otherwise: np.dtype, where: str) -> np.dtype:
    if output_dtype == TensorProto.UNDEFINED:
        return otherwise
    if output_dtype in STORED_TYPES:
        return STORED_TYPES[output_dtype]
    if output_dtype not in NUMPY_TYPES:
        raise ModelError(f"a result of {type_name(output_dtype)} is not computed", where=where)
    return NUMPY_TYPES[output_dtype][0]


def _where(node: NodeProto) -> str:
    return f"node {node.name or node.output[0]!r} ({node.op_type})"
