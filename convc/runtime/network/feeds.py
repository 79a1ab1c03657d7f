"""Checks of what a model is given to run on: names, element types and extents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import TensorShapeProto, ValueInfoProto

from convc.errors import InputError
from convc.frontend.input_shapes import is_fixed
from convc.frontend.open_extents import extent_name
from convc.runtime.network.node_info import element_dtype
from convc.support.guessing import hint_of


def check_feeds(
    inputs: Sequence[ValueInfoProto], optional: Sequence[ValueInfoProto], feeds: Mapping[str, Any]
) -> dict[str, Any]:
    """The feeds, as arrays where the model says tensors; `InputError` where they do not fit the inputs."""
    known = {value.name: value for value in (*inputs, *optional)}
    listed = ", ".join(repr(value.name) for value in inputs) or "none"
    for name in feeds:
        if name not in known:
            raise InputError(f"the model has no input named {name!r}", hint=hint_of(name, list(known), "inputs"))
    for value in inputs:
        if value.name not in feeds:
            raise InputError(f"the input {value.name!r} is missing", hint=f"inputs: {listed}")
    extents: dict[str, tuple[int, str]] = {}
    return {name: _checked(known[name], value, extents) for name, value in feeds.items()}


def why_refused(declared: ValueInfoProto, shape: tuple[int, ...], dtype: np.dtype) -> str | None:
    """Say why an array of a shape and a type does not fit an input, to whose type floats are rounded; None: it does."""
    expected = element_dtype(declared.type.tensor_type.elem_type)
    floats = ("float16", "bfloat16", "float32", "float64")
    if expected is not None and expected.name in floats and dtype.name in floats:
        dtype = expected
    try:
        _checked(declared, np.broadcast_to(np.zeros((), dtype), shape), {})
    except InputError as problem:
        return f"{problem.message}, for the input {declared.name!r}"
    return None


def has_fixed_shape(declared: ValueInfoProto) -> bool:
    """Whether the model leaves no extent of an input open."""
    tensor = declared.type.tensor_type
    return tensor.HasField("shape") and all(map(is_fixed, tensor.shape.dim))


def _checked(declared: ValueInfoProto, value: Any, extents: dict[str, tuple[int, str]]) -> Any:
    """One value; ``extents`` collects what the names of extents stand for, and which input said so."""
    if not declared.type.HasField("tensor_type"):
        return value
    tensor = declared.type.tensor_type
    where = f"input {declared.name!r}"
    try:
        array = np.asarray(value)
    except ValueError:
        raise InputError(
            f"expected an array, got a {type(value).__name__} of parts of different lengths", where=where
        ) from None
    expected = element_dtype(tensor.elem_type)
    text = expected is not None and expected.kind in "OUS" and array.dtype.kind in "OUS"
    if expected is not None and array.dtype != expected and not text:
        raise InputError(f"expected an array of {expected.name}, got {array.dtype.name}", where=where)
    if not tensor.HasField("shape"):
        return array
    fits = len(tensor.shape.dim) == array.ndim
    for dim, extent in zip(tensor.shape.dim, array.shape, strict=False):
        if is_fixed(dim):
            fits = fits and dim.dim_value == extent
        elif name := extent_name(dim):
            first, who = extents.setdefault(name, (extent, declared.name))
            if first != extent:
                message = f"{name} is {first} in the input {who!r}, and {extent} here: got {list(array.shape)}"
                raise InputError(message, where=where)
    if not fits:
        shown = ", ".join(map(_extent, tensor.shape.dim))
        raise InputError(f"expected an array of shape [{shown}], got {list(array.shape)}", where=where)
    return array


def _extent(dim: TensorShapeProto.Dimension) -> str:
    return dim.dim_param or (str(dim.dim_value) if dim.HasField("dim_value") else "?")
