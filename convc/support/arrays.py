"""Arrays by name from ``.npy`` and ``.npz``, files or bytes: every header is checked before memory is taken.

A ``.npz`` file is a ZIP archive of ``.npy`` files (`numpy.savez`). What a file is, is seen from its first bytes.
Nothing in it is ever run (no pickles), and no more is unpacked than the headers of its arrays say, which are checked
first.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, BinaryIO, TypeGuard, cast

import ml_dtypes
import numpy as np

from convc.errors import ConvcError, InputError
from convc.support.files import NpyHeader, parse_npy_header, read_npy, replacing, to_npy_dtype
from convc.support.memory import require_memory
from convc.support.missing import is_missing, no_file

Accept = Callable[[str, NpyHeader], str | None]
"""Says what is wrong with the array of a name ("" where a file holds one without a name), or None."""

MAX_ARRAYS = 10_000
"""Most arrays of a file that is read."""

_ZIP = b"PK"


def is_array(value: object) -> TypeGuard[np.ndarray]:
    """Whether a value is an array; `isinstance` alone leaves the types of its elements open."""
    return isinstance(value, np.ndarray)


def read_arrays(path: Path, accept: Accept = lambda name, header: None) -> dict[str, np.ndarray]:
    """The arrays of a ``.npy`` (under the name "") or ``.npz`` file, contiguous.

    Raises:
        InputError: the file is missing or damaged, or the sentence of ``accept``.
        LimitError: the arrays do not fit into memory.
    """
    if not path.is_file():
        if is_missing(path):
            raise no_file(path)
        raise InputError("expected a .npy or .npz file, this is not a regular file", where=str(path))
    try:
        with path.open("rb") as stream:
            if stream.read(2) == _ZIP:
                return _unpacked(stream, str(path), accept)
    except OSError as problem:
        raise InputError(f"cannot read the file: {problem.strerror}", where=str(path)) from None

    def check(header: NpyHeader) -> str | None:
        _require(header, str(path))
        return accept("", header)

    return {"": read_npy(path, check=check)}


def arrays_of(data: bytes, where: str, accept: Accept = lambda name, header: None) -> dict[str, np.ndarray]:
    """The arrays in the bytes of a ``.npy`` or ``.npz`` file, as `read_arrays`; ``where`` is for messages."""
    stream = io.BytesIO(data)
    if data[:2] == _ZIP:
        return _unpacked(stream, where, accept)
    return {"": _array(stream, len(data), "", where, accept)}


def write_npz(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays by name as ``.npz``, not compressed, whole or not at all."""
    with replacing(path) as stream:
        pack_npz(stream, arrays)


def pack_npz(stream: BinaryIO, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays by name as ``.npz`` to a stream."""
    # Not `numpy.savez`, whose keywords are the names: one may be `file`.
    with zipfile.ZipFile(stream, "w") as archive:
        for name, array in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array, order="C"), allow_pickle=False)


def storable(name: str, value: object) -> np.ndarray:
    """An output as an array that ``.npy`` can hold, bfloat16 as float32; `InputError` where it is none."""
    array = cast("np.ndarray", value) if isinstance(value, np.ndarray) else None
    if array is None or array.dtype.kind in "OUS":
        shown = type(cast("object", value)).__name__ if array is None else f"{array.dtype.name} {list(array.shape)}"
        raise InputError(
            f"the output {name!r} is {shown}, which cannot be written as .npy",
            hint="name the outputs that can: -o NAME=FILE.npy",
        )
    return to_npy_dtype(array.astype(np.float32) if array.dtype == ml_dtypes.bfloat16 else array)


def npy_bytes(array: np.ndarray) -> bytes:
    """The bytes of the ``.npy`` file of an array."""
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asarray(array, order="C"), allow_pickle=False)
    return stream.getvalue()


def _unpacked(stream: BinaryIO, where: str, accept: Accept) -> dict[str, np.ndarray]:
    """The arrays of an archive."""
    try:
        with zipfile.ZipFile(stream) as archive:
            members = archive.infolist()
            if len(members) > MAX_ARRAYS:
                raise InputError(f"expected at most {MAX_ARRAYS} arrays, got {len(members)}", where=where)
            require_memory(sum(member.file_size for member in members), f"reading {where}")
            arrays: dict[str, np.ndarray] = {}
            for member in members:
                name = member.filename.removesuffix(".npy")
                if name == member.filename or not name:
                    raise InputError(f"expected arrays (NAME.npy) in the archive, got {member.filename!r}", where=where)
                if name in arrays:
                    raise InputError(f"there are two arrays of the name {name!r}", where=where)
                with archive.open(member) as part:
                    arrays[name] = _array(part, member.file_size, name, where, accept)
            return arrays
    except (zipfile.BadZipFile, zlib.error, RuntimeError, EOFError, ValueError) as problem:
        reason = str(problem) or type(problem).__name__
        raise InputError(f"not a .npz file that can be read: {reason}", where=where) from None


def _array(stream: IO[bytes], held: int, name: str, where: str, accept: Accept) -> np.ndarray:
    """One array of a stream that holds so many bytes."""
    place = f"{where}, array {name!r}" if name else where
    header = parse_npy_header(stream, held, place)
    _require(header, place)
    wrong = accept(name, header)
    if wrong:
        raise InputError(wrong, where=place)
    data = stream.read(header.nbytes)
    if len(data) < header.nbytes:
        raise InputError(f"truncated: {header} takes {header.nbytes} bytes, got {len(data)}", where=place)
    values = np.frombuffer(bytearray(data), header.dtype)
    return np.asarray(values.reshape(header.shape, order="F" if header.fortran else "C"), order="C")


def _require(header: NpyHeader, what: str) -> None:
    """Raise `LimitError` where an array and its copy do not fit into memory."""
    try:
        require_memory(2 * header.nbytes, f"reading {what}")
    except ConvcError as problem:
        problem.where = what
        raise
