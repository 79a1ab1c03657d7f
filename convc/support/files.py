"""Files in and out: arrays whose size is known before memory is taken, outputs that are whole or not there.

An input array is a ``.npy`` file. Its header says type and shape, so a wrong file is refused before a byte of
data is read, and nothing in it is ever run (no pickles). An output file is written under another name next to
its own and renamed at the end: a run that stops half-way leaves the old file, or none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tokenize import TokenError
from typing import IO, BinaryIO

import numpy as np

from convc.errors import ConvcError, InputError
from convc.support.missing import is_missing, no_file


@dataclass(frozen=True, slots=True, kw_only=True)
class NpyHeader:
    """What a ``.npy`` file says of itself: shape, element type, order, and where its data start."""

    shape: tuple[int, ...]
    dtype: np.dtype
    fortran: bool
    offset: int

    @property
    def nbytes(self) -> int:
        """Bytes of data after the header."""
        count = 1
        for extent in self.shape:
            count *= extent
        return count * self.dtype.itemsize

    def __str__(self) -> str:
        return f"{self.dtype.name} {list(self.shape)}"


def read_npy_header(path: Path, error: type[ConvcError] = InputError) -> NpyHeader:
    """Read and check the header of a ``.npy`` file (format 1.0 or 2.0, NumPy enhancement proposal 1).

    Raises:
        error: the file is missing, is no .npy file, holds Python objects, or is shorter than its header says.
    """
    if is_missing(path):
        raise no_file(path, error)
    if not path.is_file():
        raise error("expected a .npy file, this is not a regular file", where=str(path))
    try:
        with path.open("rb") as stream:
            return parse_npy_header(stream, path.stat().st_size, str(path), error)
    except OSError as problem:
        raise error(f"cannot read the file: {problem.strerror}", where=str(path)) from None


def parse_npy_header(stream: IO[bytes], size: int, where: str, error: type[ConvcError] = InputError) -> NpyHeader:
    """Read the header of ``.npy`` data of ``size`` bytes from a stream, which then stands where the data start.

    Raises:
        error: they are no such data, hold Python objects, or are shorter than the header says.
    """
    try:
        version = np.lib.format.read_magic(stream)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"its format version is {version[0]}.{version[1]}; 1.0 and 2.0 are known")
        read = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }[version]
        shape, fortran, dtype = read(stream)
        header = NpyHeader(shape=shape, dtype=dtype, fortran=fortran, offset=stream.tell())
    except OSError:
        raise
    except (ValueError, TypeError, SyntaxError, TokenError, RecursionError, MemoryError) as problem:
        first = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
        raise error(f"not a .npy file: {first}", where=where) from None
    if dtype.hasobject or dtype.fields is not None or not dtype.itemsize or any(extent < 0 for extent in shape):
        raise error(f"expected an array of numbers, got {header}", where=where)
    held = size - header.offset
    if held < header.nbytes:
        raise error(f"the file is truncated: {header} takes {header.nbytes} bytes, got {held}", where=where)
    return header


def read_npy(
    path: Path,
    *,
    check: Callable[[NpyHeader], str | None] = lambda header: None,
    error: type[ConvcError] = InputError,
) -> np.ndarray:
    """Read a ``.npy`` file whose header passes ``check`` (which answers what is wrong, or None).

    Returns:
        The array, contiguous in C order.

    Raises:
        error: see `read_npy_header`, or the sentence of ``check``.
    """
    header = read_npy_header(path, error)
    wrong = check(header)
    if wrong:
        raise error(wrong, where=str(path))
    try:
        return np.asarray(np.load(path, allow_pickle=False), order="C")
    except (OSError, ValueError, MemoryError) as problem:
        raise error(f"cannot read the array: {problem}", where=str(path)) from None


def read_text(path: Path, error: type[ConvcError] = InputError) -> str:
    """Read a text, such as a kernel; ``error`` where there is none, or it is not UTF-8."""
    if is_missing(path):
        raise no_file(path, error)
    if not path.is_file():
        raise error("expected a text file here, this is a folder or a device", where=str(path))
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as problem:
        raise error(f"the text is not UTF-8: {problem.reason}", where=str(path)) from None
    except OSError as problem:
        raise error(f"cannot read the file: {problem.strerror}", where=str(path)) from None


def check_target(path: Path, error: type[ConvcError] = InputError) -> None:
    """Raise ``error`` where no file can be written to ``path``: it is a folder, or lies in none."""
    if path.is_dir():
        raise error("expected the name of a file, this is a folder", where=str(path))
    if not path.parent.is_dir():
        raise error("the folder to write to does not exist", where=str(path))


@contextmanager
def replacing(path: Path, error: type[ConvcError] = InputError) -> Generator[BinaryIO]:
    """Open a file to write that takes the place of ``path`` when the block ends well, and vanishes when not.

    A device or a pipe (``/dev/null``) is written directly.

    Raises:
        error: the folder is missing, or may not be written.
    """
    check_target(path, error)
    special = path.exists() and not path.is_file()
    target = path if special else path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with target.open("wb") as stream:
            yield stream
        if not special:
            os.replace(target, path)
    except OSError as problem:
        raise error(f"cannot write the file: {problem.strerror}", where=str(path)) from None
    finally:
        if not special:
            with suppress(OSError):
                target.unlink()


def write_npy(path: Path, array: np.ndarray, error: type[ConvcError] = InputError) -> None:
    """Write an array as ``.npy``, whole or not at all."""
    with replacing(path, error) as stream:
        # A file of its own numpy writes in C, and does not say why it could not.
        np.lib.format.write_array(_Writes(stream), np.asarray(array, order="C"), allow_pickle=False)  # pyright: ignore[reportArgumentType]


@dataclass(frozen=True, slots=True)
class _Writes:
    """A stream of which numpy sees that it can be written to, and not that it is a file."""

    stream: BinaryIO

    def write(self, data: bytes) -> int:
        return self.stream.write(data)


def write_bytes(path: Path, data: bytes, error: type[ConvcError] = InputError) -> None:
    """Write bytes, whole or not at all."""
    with replacing(path, error) as stream:
        stream.write(data)


def to_npy_dtype(array: np.ndarray) -> np.ndarray:
    """The array in a type that .npy can name: its own, or the bits of its elements (bfloat16 as uint16)."""
    return array if array.dtype.isbuiltin == 1 else array.view(f"u{array.dtype.itemsize}")
