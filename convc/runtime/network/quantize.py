"""`QuantizeLinear` on the host, with saturation as ONNX defines it where `onnx.reference` does not.

Its own class makes int32 of quotients before it saturates: from 2^31 on they turn round to the other end of the range.

Source: ONNX operators, ``QuantizeLinear``: "y = saturate((x / y_scale) + y_zero_point)".
"""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper
from onnx.reference.ops.op_quantize_linear import (  # pyright: ignore[reportPrivateUsage] - all versions at once
    _CommonQuantizeLinear,
)

BEYOND = float(1 << 24)
"""A quotient that saturates with every zero point and in every type of at most 16 bits, and that float32 has."""


class QuantizeLinear(_CommonQuantizeLinear):
    """The operator for `onnx.reference`, which knows it by the name of the class; of every operator set."""

    op_domain = ""

    def _run(
        self,
        x: np.ndarray,
        y_scale: np.ndarray,
        zero_point: np.ndarray | None = None,
        axis: int = 1,
        saturate: bool = True,
        block_size: int | None = None,
        output_dtype: Any = None,
        precision: int | None = None,
    ) -> tuple[np.ndarray]:
        """Numbers of the type of the zero point, or that the node asks for; arguments as the operator has them."""
        scale = _spread(y_scale, x.shape, axis, block_size)
        if precision:
            kind = helper.tensor_dtype_to_np_dtype(precision)
            x = x.astype(kind)
            scale = scale.astype(kind)
        quotient = x / scale
        if quotient.dtype.itemsize < np.dtype(np.float32).itemsize:  # float16 does not reach that far
            quotient = quotient.astype(np.float32)
        near = np.clip(quotient, -BEYOND, BEYOND)
        one = np.ones((), near.dtype)
        return super()._run(near, one, zero_point, axis, saturate, block_size, output_dtype)


def _spread(scale: np.ndarray, shape: tuple[int, ...], axis: int, block_size: int | None) -> np.ndarray:
    """A scale as a tensor can be divided by it: one number, or one for each place or block of places along an axis.

    ValueError where there are not as many blocks as the tensor has.
    """
    if scale.size == 1:
        return scale.reshape(())
    if not block_size:
        one_each = [1] * len(shape)
        one_each[axis] = scale.size
        return scale.reshape(one_each)
    inside = tuple(slice(extent) for extent in shape)  # the last block may be cut short
    repeated = np.repeat(scale, block_size, axis)[inside]
    if repeated.shape != shape:
        raise ValueError(
            f"a tensor of shape {shape} has no scales of {scale.shape} in blocks of {block_size}, axis {axis}"
        )
    return repeated
