"""ONNX tensors to numpy arrays, with every size checked before memory is taken.

A `TensorProto` says its type and extents and carries its elements in one of three ways: as raw
little-endian bytes, in a repeated field for its type, or in another file ("external data"). The name of
that file comes from the model and is not to be trusted: it must stay inside the model's folder, symbolic
links included.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, SupportsInt

import ml_dtypes
import numpy as np
from onnx import TensorProto, helper, numpy_helper

from convc.errors import ModelError
from convc.support.memory import require_memory

NUMPY_TYPES: dict[int, tuple[np.dtype, str]] = {
    TensorProto.FLOAT: (np.dtype("<f4"), "float_data"),
    TensorProto.DOUBLE: (np.dtype("<f8"), "double_data"),
    TensorProto.FLOAT16: (np.dtype("<f2"), "int32_data"),
    TensorProto.BFLOAT16: (np.dtype(ml_dtypes.bfloat16), "int32_data"),
    TensorProto.INT32: (np.dtype("<i4"), "int32_data"),
    TensorProto.UINT8: (np.dtype(np.uint8), "int32_data"),
    TensorProto.INT8: (np.dtype(np.int8), "int32_data"),
    TensorProto.INT64: (np.dtype("<i8"), "int64_data"),
}
"""Element types that are read: numpy type, and the repeated field for it (f16 and bf16 as bit patterns)."""

_STORED = (
    "UINT16", "INT16", "UINT4", "INT4", "UINT2", "INT2", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2",
    "FLOAT8E5M2FNUZ", "FLOAT4E2M1",
)  # fmt: skip
STORED_TYPES: dict[int, np.dtype] = {
    number: helper.tensor_dtype_to_np_dtype(number)
    for name, number in TensorProto.DataType.items()  # an older onnx does not have all of them
    if name in _STORED
}
"""Types that weights are stored in and nothing is computed in: a `DequantizeLinear` makes real numbers of them."""

_UNASKED = 4096
"""Bytes that are there without asking."""

_TYPE_NAMES: dict[int, str] = {
    TensorProto.FLOAT: "f32",
    TensorProto.DOUBLE: "f64",
    TensorProto.FLOAT16: "f16",
    TensorProto.BFLOAT16: "bf16",
    TensorProto.UINT8: "u8",
    TensorProto.INT8: "s8",
    TensorProto.INT32: "s32",
}


def type_name(element_type: int) -> str:
    """convc's word for an ONNX element type, ONNX's own in lower case for other types."""
    if element_type in _TYPE_NAMES:
        return _TYPE_NAMES[element_type]
    try:
        return TensorProto.DataType.Name(element_type).lower()
    except ValueError:
        return f"type {element_type}"


def tensor_array(tensor: TensorProto, folder: Path) -> np.ndarray:
    """The elements of a tensor.

    Args:
        tensor: from an initializer or an attribute.
        folder: the model's, for external data.

    Raises:
        ModelError: type not read, extents and data that do not agree, an external file outside ``folder``.
        LimitError: more than memory holds.
    """
    where = f"tensor {tensor.name!r}"
    if tensor.data_type not in NUMPY_TYPES:
        raise ModelError(f"elements of {type_name(tensor.data_type)} are not read", where=where)
    dtype, field = NUMPY_TYPES[tensor.data_type]
    shape = checked_shape(tensor.dims, dtype, where)
    count = math.prod(shape)
    if tensor.data_location == TensorProto.EXTERNAL:
        return _external(tensor, folder, dtype, count, where).reshape(shape)
    if tensor.HasField("raw_data"):
        expected = count * dtype.itemsize
        got = len(tensor.raw_data)
        if got != expected:
            raise ModelError(f"shape {shape} needs {expected} bytes of data, got {got}", where=where)
        return np.frombuffer(tensor.raw_data, dtype).reshape(shape)
    values = getattr(tensor, field)
    if len(values) != count:
        raise ModelError(f"shape {shape} needs {count} elements, got {len(values)}", where=where)
    if field != "int32_data" or dtype == np.int32:
        return np.array(values, dtype).reshape(shape)
    return _narrowed(np.array(values, np.int64), dtype, where).reshape(shape)


def stored_array(tensor: TensorProto, folder: Path) -> np.ndarray:
    """The elements of a tensor of one of `STORED_TYPES`, as an array of ml_dtypes or of numpy; see `tensor_array`."""
    where = f"tensor {tensor.name!r}"
    dtype = STORED_TYPES[tensor.data_type]
    shape = checked_shape(tensor.dims, dtype, where)
    packed = -(-math.prod(shape) * _bits(dtype) // 8)
    whole = tensor
    if tensor.data_location == TensorProto.EXTERNAL:
        data = _external(tensor, folder, np.dtype(np.uint8), packed, where)
        whole = TensorProto(data_type=tensor.data_type, dims=tensor.dims, raw_data=data.tobytes())
    if whole.HasField("raw_data") and len(whole.raw_data) != packed:
        raise ModelError(f"shape {shape} needs {packed} bytes of data, got {len(whole.raw_data)}", where=where)
    try:
        return numpy_helper.to_array(whole).reshape(shape)
    except Exception as error:  # ValueError, TypeError and others, by type
        raise ModelError(f"elements of {type_name(tensor.data_type)} cannot be read: {error}", where=where) from None


def _bits(dtype: np.dtype) -> int:
    """Bits of an element in a tensor, where those of less than a byte are packed."""
    if dtype.name.startswith("float"):
        return ml_dtypes.finfo(dtype).bits  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return ml_dtypes.iinfo(dtype).bits


def _narrowed(values: np.ndarray, dtype: np.dtype, where: str) -> np.ndarray:
    """Elements of 8 or 16 bits from the 32-bit field: whole numbers as they are, the others as bit patterns."""
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if ((values < limits.min) | (values > limits.max)).any():
            raise ModelError(f"elements of {dtype} must be in {limits.min}..{limits.max}", where=where)
        return values.astype(dtype)
    if ((values < 0) | (values > 0xFFFF)).any():
        raise ModelError("16-bit elements must be stored as patterns 0..65535", where=where)
    return values.astype(np.uint16).view(dtype)


def checked_shape(dims: Iterable[SupportsInt], dtype: np.dtype, where: str) -> tuple[int, ...]:
    """Extents as a tuple, when they are not negative and memory holds the elements."""
    shape = tuple(int(extent) for extent in dims)
    if any(extent < 0 for extent in shape):
        raise ModelError(f"extents must not be negative, got {shape}", where=where)
    size = math.prod(shape) * dtype.itemsize
    if size > _UNASKED:  # to ask the system takes longer than to read a small tensor
        require_memory(size, f"{where} of shape {shape}")
    return shape


def _external(tensor: TensorProto, folder: Path, dtype: np.dtype, count: int, where: str) -> np.ndarray:
    """Elements from a file beside the model (ONNX documentation, "External Data")."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = _location(tensor, where)
    size = count * dtype.itemsize
    try:
        offset = int(entries.get("offset", 0))
        length = int(entries.get("length", size))
    except ValueError:
        raise ModelError("offset and length of external data must be whole numbers", where=where) from None
    if length != size or offset < 0:
        raise ModelError(
            f"external data must have {size} bytes at offset 0 or later, got {length} bytes at {offset}",
            where=where,
        )
    path = _inside(folder, location, where)
    try:
        with path.open("rb") as file:
            available = os.fstat(file.fileno()).st_size - offset
            if available < size:
                raise ModelError(f"{location!r} ends before byte {offset + size}", where=where)
            file.seek(offset)
            return np.fromfile(file, dtype, count)
    except OSError as error:
        raise ModelError(f"cannot read external data {location!r}: {error.strerror}", where=where) from None


def check_external(tensor: TensorProto, folder: Path) -> None:
    """Raise `ModelError` where the file of an external tensor is not in the model's folder."""
    where = f"tensor {tensor.name!r}"
    _inside(folder, _location(tensor, where), where)


def _location(tensor: TensorProto, where: str) -> str:
    """The name of the file; protobuf leaves bytes that are no UTF-8 as they are."""
    values: list[Any] = [entry.value for entry in tensor.external_data if entry.key == "location"]
    location = values[-1] if values else ""
    if not isinstance(location, str):
        raise ModelError("the file name of external data is not valid UTF-8", where=where)
    return location


def _inside(folder: Path, location: str, where: str) -> Path:
    """The regular file that ``location`` names, inside ``folder`` even after following symbolic links."""
    escapes = ModelError(
        f"external data {location!r} does not lie in the folder of the model",
        where=where,
        hint="only relative paths without '..' are allowed, and no symbolic links out of the folder",
    )
    named = (PurePosixPath(location), PureWindowsPath(location))
    if not location or any(path.is_absolute() or path.drive or ".." in path.parts for path in named):
        raise escapes
    try:
        path = (folder / location).resolve(strict=True)
        inside = path.is_relative_to(folder.resolve(strict=True))
    except (OSError, ValueError, RuntimeError):
        raise ModelError(f"there is no file {location!r} beside the model", where=where) from None
    if not inside:
        raise escapes
    if not path.is_file():
        raise ModelError(f"external data {location!r} is not a regular file", where=where)
    return path
