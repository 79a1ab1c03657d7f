"""Extents of graph inputs that the model leaves open: what was asked for, or a batch of one, which is said.

An extent with a name (``N``) is the same in all inputs, so that one that is given settles the others; a word for
"unknown" is no name (`convc.frontend.open_extents`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx

from convc.errors import InputError
from convc.frontend.open_extents import extent_name
from convc.support.guessing import hint_of

Shapes = Mapping[str, tuple[int, ...]]
"""Extents of graph inputs, by name."""


LARGEST_EXTENT = (1 << 63) - 1
"""ONNX holds extents as int64."""


def is_fixed(dim: onnx.TensorShapeProto.Dimension) -> bool:
    """Whether a model says an extent: one of 0 is no open one (ONNX IR, "Static tensor shapes"); -1 stands for open."""
    return dim.HasField("dim_value") and dim.dim_value >= 0


def open_inputs(inputs: Sequence[onnx.ValueInfoProto]) -> list[str]:
    """Names of the inputs of which the model leaves an extent open, or all of them."""
    return [
        value.name
        for value in inputs
        if not value.type.tensor_type.HasField("shape") or not all(map(is_fixed, value.type.tensor_type.shape.dim))
    ]


def check_batch_size(batch: int | None) -> None:
    """Raise `InputError` for a number of images that no tensor can have."""
    if batch is not None and batch < 0:
        raise InputError(f"batch must be at least 0, got {batch}")
    if batch is not None and batch > LARGEST_EXTENT:
        raise InputError(f"batch must be at most {LARGEST_EXTENT}, got {batch}")


def input_shapes(inputs: Sequence[onnx.ValueInfoProto], asked: Shapes) -> tuple[dict[str, tuple[int, ...]], list[str]]:
    """Settle the shapes of inputs, as far as they can be.

    Args:
        inputs: graph inputs that are no constants.
        asked: shapes that the caller wants.

    Returns:
        Shapes of the inputs that the model leaves open, by name, without those that stay unknown; and a sentence for
        each input whose batch was taken to be 1.

    Raises:
        InputError: there is no such input, or it has another rank or other extents.
    """
    known = {value.name: value for value in inputs}
    named: dict[str, int] = {}
    for name, shape in asked.items():
        if name not in known:
            raise InputError(f"the model has no input named {name!r}", hint=hint_of(name, list(known), "inputs"))
        _check(known[name], shape, named)
    found = {name: tuple(shape) for name, shape in asked.items()}
    said: list[str] = []
    for value in inputs:
        dims = value.type.tensor_type.shape.dim
        if value.name in found or not value.type.tensor_type.HasField("shape"):
            continue
        shape = [dim.dim_value if is_fixed(dim) else named.get(extent_name(dim)) for dim in dims]
        if shape and shape[0] is None and None not in shape[1:]:
            shape[0] = 1
            if name := extent_name(dims[0]):
                named[name] = 1
            listed = "x".join(map(str, shape))
            options = f"--batch N, or --shape {value.name}:{listed}"
            said.append(f"the batch of {value.name!r} is open, and taken to be 1 ({options})")
        if any(not is_fixed(dim) for dim in dims):
            settled = tuple(extent for extent in shape if extent is not None)
            if len(settled) == len(shape):
                found[value.name] = settled
    return found, said


def every_shape(
    inputs: Sequence[onnx.ValueInfoProto], batch: int | Shapes | None
) -> tuple[dict[str, tuple[int, ...]], list[str]]:
    """Settle the shapes of all inputs of known rank, for data that are drawn: what nobody says is 1.

    Args:
        inputs: graph inputs that are no constants.
        batch: the first extent of each input, where it is open; or the shapes that are asked for, by name.

    Returns:
        The shapes by name, and a sentence for each input of which something was taken to be 1.

    Raises:
        InputError: as `input_shapes`.
    """
    asked = batch if isinstance(batch, int) else None
    found, said = ({}, []) if isinstance(batch, int) else input_shapes(inputs, batch or {})
    named: dict[str, int] = {}
    # Those that are settled come first: what a name stands for there it stands for everywhere.
    for value in sorted(inputs, key=lambda each: each.name not in found):
        shape = list(found.get(value.name, ()))
        guessed = False
        for at, dim in enumerate(value.type.tensor_type.shape.dim):
            if at == len(shape):
                first = asked if at == 0 else None
                known = dim.dim_value if is_fixed(dim) else named.get(extent_name(dim), first)
                guessed = guessed or known is None
                shape.append(1 if known is None else known)
            if name := extent_name(dim):
                named.setdefault(name, shape[at])
        found[value.name] = tuple(shape)
        if guessed:
            listed = "x".join(map(str, shape))
            said.append(f"extents of {value.name!r} that are open are taken to be 1 (--shape {value.name}:{listed})")
    return found, said


def guessed_shapes(inputs: Sequence[onnx.ValueInfoProto], asked: Shapes, extent: int) -> dict[str, tuple[int, ...]]:
    """Shapes for all inputs of known rank, where nobody is there to be asked: a batch is 1, another axis ``extent``.

    Args:
        inputs: graph inputs that are no constants.
        asked: shapes that are settled.
        extent: of axes that are open, but the first; a name that stands for a batch somewhere does so everywhere.
    """
    ranked = [value for value in inputs if value.type.tensor_type.HasField("shape")]
    firsts = {dim.dim_param for value in ranked for dim in value.type.tensor_type.shape.dim[:1]} - {""}
    shapes = dict(asked)
    for value in ranked:
        dims = value.type.tensor_type.shape.dim
        if value.name in shapes or all(map(is_fixed, dims)):
            continue
        guessed = [1 if dim.dim_param in firsts else extent for dim in dims]
        guessed[0] = 1
        shapes[value.name] = tuple(
            dim.dim_value if is_fixed(dim) else guess for dim, guess in zip(dims, guessed, strict=True)
        )
    return shapes


def _check(value: onnx.ValueInfoProto, shape: Sequence[int], named: dict[str, int]) -> None:
    """Raise `InputError` where an input cannot have a shape; ``named`` collects what names of extents stand for."""
    where = f"input {value.name!r}"
    if min(shape, default=0) < 0:
        raise InputError(f"extents must be at least 0, got {list(shape)}", where=where)
    if max(shape, default=1) > LARGEST_EXTENT:
        raise InputError(f"extents must be at most {LARGEST_EXTENT}, got {list(shape)}", where=where)
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return
    dims = tensor.shape.dim
    shown = ", ".join(dim.dim_param or (str(dim.dim_value) if is_fixed(dim) else "?") for dim in dims)
    fits = len(dims) == len(shape)
    for dim, extent in zip(dims, shape, strict=False):
        if is_fixed(dim):
            fits = fits and dim.dim_value == extent
        elif name := extent_name(dim):
            fits = fits and named.setdefault(name, extent) == extent
    if not fits:
        raise InputError(f"the model declares [{shown}], got {list(shape)}", where=where)
