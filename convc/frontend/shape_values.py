"""Values that nodes compute of extents: what exporters write for ``x.reshape(x.shape[0], -1)``, crops and paddings.

They are a few numbers each. The operators that such arithmetic is mostly made of are computed here; all others that
have constant results by those who compute weights (`convc.frontend.folding`). Division is ONNX's, towards zero.

Where some extents are open, those that are known still pass through operators that only move numbers: so the fourth
extent can be taken of a tensor whose first is unknown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import NodeProto, helper

from convc.errors import ConvcError
from convc.frontend.folding import folded, is_folded

LARGEST = (1 << 63) - 1
"""ONNX holds extents as int64."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Partial:
    """Numbers of which some are known.

    Attributes:
        numbers: with 1 in the place of those that are not.
        known: of the same shape, boolean.
    """

    numbers: np.ndarray
    known: np.ndarray


Value = np.ndarray | Partial


def shape_value(node: NodeProto, shape: Sequence[int | None]) -> Value | None:
    """The result of `Shape` or `Size` of a tensor of these extents; None where nothing of it is known."""
    if node.op_type == "Size":
        elements = math.prod(-1 if extent is None else extent for extent in shape)
        return np.array(elements, np.int64) if None not in shape and elements <= LARGEST else None
    attributes = {attribute.name: attribute.i for attribute in node.attribute}
    picked = list(shape)[attributes.get("start", 0) : attributes.get("end")]
    if None not in picked:
        return np.array(picked, np.int64)
    return Partial(
        numbers=np.array([1 if extent is None else extent for extent in picked], np.int64),
        known=np.array([extent is not None for extent in picked], bool),
    )


def node_values(node: NodeProto, opset: int, given: Sequence[Value | None]) -> list[Value] | None:
    """The outputs of a node of the standard domain that have names; None where they are not known.

    Args:
        node: whose outputs are known to be small.
        opset: operator set of the model.
        given: one for each input, None for one that is left out.
    """
    whole = [each for each in given if not isinstance(each, Partial)]
    try:
        with np.errstate(all="ignore"):
            if len(whole) < len(given):
                return _partial(node, given)
            if node.op_type in _MOVES or node.op_type in _ARITHMETIC:
                made = (_MOVES | _ARITHMETIC)[node.op_type](node, whole)
                return None if made is None else [made]
            if is_folded(node):
                results = folded(node, opset, whole)
                return None if results is None else list(results)
    except (ConvcError, ValueError, IndexError, TypeError, OverflowError):  # inputs that the operator does not take:
        return None  # whoever runs the node says so
    return None


def _partial(node: NodeProto, given: Sequence[Value | None]) -> list[Value] | None:
    """What a node that only moves numbers makes of some that are known."""
    if node.op_type not in _MOVES or node.op_type == "Cast":
        return None
    moved = given if node.op_type == "Concat" else given[:1]
    if any(isinstance(each, Partial) for each in given[len(moved) :]):
        return None
    numbers = [each.numbers if isinstance(each, Partial) else each for each in given]
    flags: list[np.ndarray | None] = [None if each is None else _flags(each) for each in moved]
    flags += [each for each in given[len(moved) :] if not isinstance(each, Partial)]
    made = _MOVES[node.op_type](node, numbers)
    known = _MOVES[node.op_type](node, flags)
    if made is None or known is None:
        return None
    return [made if known.all() else Partial(numbers=made, known=known)]


def _flags(value: Value) -> np.ndarray:
    """Numbers that are known, as booleans."""
    return value.known if isinstance(value, Partial) else np.ones(value.shape, bool)


def _attribute(node: NodeProto, name: str, default: Any = None) -> Any:
    for attribute in node.attribute:
        if attribute.name == name:
            return helper.get_attribute_value(attribute)
    return default


def _axes(node: NodeProto, arrays: Sequence[np.ndarray | None]) -> tuple[int, ...] | None:
    """Axes of `Squeeze` and `Unsqueeze`, from the attribute or since operator set 13 the second input."""
    if len(arrays) > 1 and arrays[1] is not None:
        return tuple(int(axis) for axis in arrays[1].reshape(-1))
    axes = _attribute(node, "axes")
    return None if axes is None else tuple(axes)


def _unsqueeze(node: NodeProto, arrays: Sequence[Any]) -> np.ndarray | None:
    axes = _axes(node, arrays)
    return None if axes is None else np.expand_dims(arrays[0], axes)


def _squeeze(node: NodeProto, arrays: Sequence[Any]) -> np.ndarray:
    return np.squeeze(arrays[0], _axes(node, arrays))


def _gather(node: NodeProto, arrays: Sequence[Any]) -> np.ndarray:
    return np.take(arrays[0], arrays[1], axis=_attribute(node, "axis", 0))


def _concat(node: NodeProto, arrays: Sequence[Any]) -> np.ndarray | None:
    return None if any(array is None for array in arrays) else np.concatenate(arrays, _attribute(node, "axis", 1))


def _slice(node: NodeProto, arrays: Sequence[Any]) -> np.ndarray:
    """Slices of ONNX clamp as those of Python do, also where they go backwards."""
    data = arrays[0]
    if len(arrays) == 1:  # before operator set 10
        named: list[Any] = [_attribute(node, "starts"), _attribute(node, "ends"), _attribute(node, "axes")]
    else:
        named = [None if array is None else array.tolist() for array in arrays[1:]]
    named += [None, None]
    starts, ends, axes, steps = named[:4]
    chosen: list[slice] = [slice(None)] * data.ndim
    for start, end, axis, step in zip(
        starts, ends, axes or range(len(starts)), steps or [1] * len(starts), strict=True
    ):
        chosen[axis] = slice(start, end, step)
    return data[tuple(chosen)]


def _identity(node: NodeProto, arrays: Sequence[Any]) -> np.ndarray:
    return arrays[0]


def _cast(node: NodeProto, arrays: Sequence[Any]) -> np.ndarray | None:
    target = helper.tensor_dtype_to_np_dtype(_attribute(node, "to"))
    array = arrays[0]
    if array.dtype.kind == "f" and target.kind in "iu":
        limits = np.iinfo(target)
        if not ((array >= limits.min) & (array < float(limits.max))).all():
            return None  # what becomes of it is not defined
    return array.astype(target)


def _quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray | None:
    if a.dtype.kind not in "iu":
        return a / b
    if (b == 0).any():
        return None
    down = a // b
    return down + ((down < 0) & (down * b != a)).astype(a.dtype)


def _elementwise(compute: Callable[[Any, Any], np.ndarray | None]) -> Callable[..., np.ndarray | None]:
    """An operator of two inputs of one type."""

    def made(node: NodeProto, arrays: Sequence[Any]) -> np.ndarray | None:
        first, second = arrays
        if _attribute(node, "axis") is not None or _attribute(node, "broadcast") is not None:
            return None  # of operator sets before 7
        result = compute(first, second)
        return None if result is None else np.asarray(result).astype(first.dtype)

    return made


_MOVES: dict[str, Callable[..., np.ndarray | None]] = {
    "Identity": _identity,
    "Cast": _cast,
    "Gather": _gather,
    "Slice": _slice,
    "Concat": _concat,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
}
"""Operators that move numbers, and compute none."""

_ARITHMETIC: dict[str, Callable[..., np.ndarray | None]] = {
    "Add": _elementwise(lambda a, b: a + b),
    "Sub": _elementwise(lambda a, b: a - b),
    "Mul": _elementwise(lambda a, b: a * b),
    "Div": _elementwise(_quotient),
}
