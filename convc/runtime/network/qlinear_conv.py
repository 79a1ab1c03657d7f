"""`QLinearConv` on the host, with a scale of the weights per channel in any number of dimensions.

`onnx.reference` spreads such scales over images, (1, K, 1, 1), whatever the rank is: a row becomes an image by it, and
of a volume the extents do not fit.

Source: ONNX operators, ``QLinearConv``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx.reference.ops.op_conv import _conv_implementation  # pyright: ignore[reportPrivateUsage] - of every rank
from onnx.reference.ops.op_qlinear_conv import QLinearConv as OfImages

IMAGES = 4
"""The rank of what `onnx.reference` takes scales per channel for."""


class QLinearConv(OfImages):
    """The operator for `onnx.reference`, which knows it by the name of the class."""

    op_domain = ""
    auto_pad: Any  # attributes of the node, where a call does not give them
    dilations: Any
    group: Any
    kernel_shape: Any
    pads: Any
    strides: Any

    def _run(self, *given: Any, **attributes: Any) -> tuple[np.ndarray]:
        """Numbers of the type of the result's zero point; ``given``: the inputs of the operator, in its order."""
        x, x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point, *bias = given
        if x.ndim == IMAGES or np.size(w_scale) == 1:
            return super()._run(*given, **attributes)
        names = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
        chosen = [attributes.get(name) or getattr(self, name) for name in names]
        taps = w.astype(np.int32) - w_zero_point.astype(np.int32).reshape(-1, *(1,) * (w.ndim - 1))
        sums = _conv_implementation(
            x.astype(np.int32) - x_zero_point.astype(np.int32), taps, bias[0] if bias else None, *chosen
        )
        scale = (x_scale * w_scale / y_scale).reshape(-1, *(1,) * (x.ndim - 2))
        limits = np.iinfo(y_zero_point.dtype)
        scaled = np.clip(sums.astype(np.int32) * scale + y_zero_point, limits.min, limits.max)
        return (np.round(scaled).astype(y_zero_point.dtype),)
