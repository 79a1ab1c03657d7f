"""Extents of operators for which ONNX's inference gives others than runtimes make.

* Pooling with ``ceil_mode``: a window that would begin behind the image is left out (ONNX says so since operator set
  22, onnxruntime and PyTorch have always done it). With ``auto_pad`` SAME there is a pixel for each stride.
* `ConvTranspose` with ``output_shape``, or with ``auto_pad`` SAME and ``output_padding``.
* `Resize` and `Upsample` by scales: the product of extent and scale is one of float32, and then rounded down.

Each was found by a sweep against onnxruntime (`tests/unit/frontend/test_corrected_extents.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import NodeProto, helper

from convc.errors import NodeError
from convc.frontend.empty_convs import result_shape

Shape = tuple[int, ...]
Arrays = Sequence[np.ndarray | None]


def corrected_extents(node: NodeProto, shapes: Sequence[Shape | None], values: Arrays) -> Shape | None:
    """The extents of the first output of a node of the standard domain; None where inference is right.

    Args:
        node: the node.
        shapes: of its inputs, None for one that is left out or not known.
        values: of its inputs, None for one that is not known.
    """
    correct = _BY_OPERATOR.get(node.op_type)
    if correct is None or not shapes or shapes[0] is None:
        return None
    given = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    try:
        return correct(node, given, shapes, values)
    except (NodeError, ValueError, IndexError, TypeError, ZeroDivisionError):  # attributes that contradict one another
        return None


def _pooled(node: NodeProto, given: dict[str, Any], shapes: Sequence[Shape | None], values: Arrays) -> Shape | None:
    x = shapes[0] or ()
    kernel = given.get("kernel_shape", ())
    rank = len(kernel)
    if not given.get("ceil_mode") or len(x) != rank + 2:
        return None
    strides = given.get("strides") or [1] * rank
    dilations = given.get("dilations") or [1] * rank
    pads = given.get("pads") or [0] * (2 * rank)
    made: list[int] = []
    for at, extent in enumerate(x[2:]):
        if given.get("auto_pad", b"NOTSET") in (b"SAME_UPPER", b"SAME_LOWER"):
            made.append(-(-extent // strides[at]))
            continue
        free = extent + pads[at] + pads[at + rank] - (kernel[at] - 1) * dilations[at] - 1
        count = -(-free // strides[at]) + 1
        made.append(count - ((count - 1) * strides[at] >= extent + pads[at]))
    return (*x[:2], *made) if min(made, default=0) >= 0 else None


def _transposed(node: NodeProto, given: dict[str, Any], shapes: Sequence[Shape | None], values: Arrays) -> Shape | None:
    x = shapes[0]
    w = shapes[1]
    return None if x is None or w is None else result_shape(node, x, w)


def _resized(node: NodeProto, given: dict[str, Any], shapes: Sequence[Shape | None], values: Arrays) -> Shape | None:
    x = shapes[0] or ()
    place = 1 if len(values) == 2 else 2  # before operator set 11 there is no region in front
    sizes = values[3] if len(values) > 3 else None
    cropped = given.get("coordinate_transformation_mode") == b"tf_crop_and_resize"
    computed = values[place] if len(values) > place else None
    scales = given.get("scales", computed)  # an attribute before operator set 9
    if scales is None or sizes is not None or cropped or (len(node.input) > 3 and node.input[3]):
        return None
    made = list(x)
    axes = given.get("axes") or range(len(x))
    factors = np.asarray(scales, np.float32)
    if len(factors) != len(axes):
        return None
    for axis, factor in zip(axes, factors, strict=True):
        made[axis] = int(np.floor(np.float32(x[axis]) * factor))
    return tuple(made)


_BY_OPERATOR: dict[str, Callable[..., Shape | None]] = {
    "AveragePool": _pooled,
    "LpPool": _pooled,
    "MaxPool": _pooled,
    "ConvTranspose": _transposed,
    "Resize": _resized,
    "Upsample": _resized,
}
CORRECTED = frozenset(_BY_OPERATOR)
"""Operators that are looked at."""
