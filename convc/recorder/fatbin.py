"""The PTX in what a host program gives the driver: a text, or a fat binary of nvcc.

A fat binary is a header (magic u32, version u16, bytes of the header u16, bytes of what follows u64) and entries. Each
has a header of its own (kind u16, version u16, bytes of the header u32, of the contents u64; at byte 16 the bytes of a
compressed text, at 40 flags, at 56 the bytes of the text when it is whole), as nvcc 12 and 13 write them. A compressed
text is Zstandard's (nvcc 13) or LZ4's (nvcc 12).
"""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib
import re
import struct
from collections.abc import Iterator

from convc.errors import InputError

MAGIC = 0xBA55ED50
TEXT = 1
ZSTD = b"\x28\xb5\x2f\xfd"
LZ4_FLAG = 0x2000
MOST_TEXT = 64 << 20
"""Bytes of a text when it is whole: what asks for more is refused before it is made."""

_TARGET = re.compile(rb"^\s*\.target\s+(sm_\d+[af]?)", re.MULTILINE)


def ptx_of(image: bytes, target: str, where: str) -> str:
    """The PTX for a target: that which names it, or that of the newest older architecture.

    Args:
        image: what the program loads: text, or a fat binary.
        target: such as ``sm_100a``.
        where: what errors name as its place.

    Raises:
        InputError: there is none, with the option of nvcc that puts it there.
    """
    if image[:4] == struct.pack("<I", MAGIC):
        texts = list(_texts(image, where))
    elif image.startswith(b"\x7fELF"):
        texts = []
    else:
        texts = [image]
    best: tuple[int, bytes] | None = None
    for text in texts:
        found = target_of(text)
        if found is not None and (fit := _fit(found, target)) and (best is None or fit > best[0]):
            best = fit, text
    if best is None:
        named = [found for text in texts if (found := target_of(text))]
        has = f"PTX for {', '.join(named)} alone" if named else "machine code and no PTX"
        arch = target.removeprefix("sm_")
        raise InputError(
            f"the program has {has}; the simulator runs PTX for {target} or an older architecture",
            where=where,
            hint=f"nvcc -gencode arch=compute_{arch},code=[compute_{arch},{target}]",
        )
    return best[1].rstrip(b"\0").decode("utf-8", "replace")


def target_of(text: bytes) -> str | None:
    """The ``.target`` of a text, such as ``sm_100a``; None where it names none."""
    found = _TARGET.search(text)
    return None if found is None else found[1].decode()


def _fit(named: str, target: str) -> int:
    """How well a text's target fits, 0 where not at all: its own best, then the newest that runs there too."""
    number = int(re.sub(r"\D", "", named))
    own = int(re.sub(r"\D", "", target))
    if named == target:
        return 1 << 20
    family = number // 10 == own // 10 and named.endswith("f")
    portable = number <= own and not named.endswith(("a", "f"))
    return number + family if family or portable else 0


def _texts(image: bytes, where: str) -> Iterator[bytes]:
    """The texts in a fat binary."""
    _, _, head, size = struct.unpack_from("<IHHQ", image)
    at = head
    end = min(len(image), head + size)
    while at + 64 <= end:
        kind, _, head, size = struct.unpack_from("<HHIQ", image, at)
        if head < 64 or at + head + size > end:
            raise InputError("the fat binary of the program is cut off", where=where)
        if kind == TEXT:
            (packed,) = struct.unpack_from("<I", image, at + 16)
            flags, _, whole = struct.unpack_from("<QQQ", image, at + 40)
            yield _whole(image[at + head : at + head + size], packed, flags, whole, where)
        at += head + size


def _whole(data: bytes, packed: int, flags: int, size: int, where: str) -> bytes:
    """A text as it was before it was compressed."""
    if size > MOST_TEXT:
        raise InputError(f"a kernel's text has at most {MOST_TEXT} bytes, this one {size}", where=where)
    if data.startswith(ZSTD):
        return _zstd(data[:packed], size, where)
    return _lz4(data[:packed], size, where) if flags & LZ4_FLAG else data


def _zstd(data: bytes, size: int, where: str) -> bytes:
    """What Python brings along from 3.14 on, or the system's library."""
    try:
        return importlib.import_module("compression.zstd").decompress(data)
    except ImportError:
        pass
    name = ctypes.util.find_library("zstd")
    if name is None:
        raise InputError(
            "the kernels of the program are compressed by Zstandard, which this Python does not have",
            where=where,
            hint="nvcc -compress-mode=none, or install libzstd, or run convc with Python 3.14",
        )
    library = ctypes.CDLL(name)
    library.ZSTD_decompress.restype = ctypes.c_size_t
    library.ZSTD_decompress.argtypes = (ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t)
    room = ctypes.create_string_buffer(size)
    if library.ZSTD_decompress(room, size, data, len(data)) != size:
        raise InputError("a compressed text of the program cannot be read", where=where)
    return room.raw


def _lz4(data: bytes, size: int, where: str) -> bytes:
    """One block of LZ4: literals, then copies of what is there already."""
    out = bytearray()
    at = 0
    try:
        while at < len(data) and len(out) < size:
            token = data[at]
            count, at = _length(data, at + 1, token >> 4)
            out += data[at : at + count]
            at += count
            if at >= len(data):
                break
            distance = data[at] | data[at + 1] << 8
            count, at = _length(data, at + 2, token & 15)
            count += 4
            start = len(out) - distance
            if not 0 < distance <= len(out) or len(out) + count > size:
                raise IndexError
            for place in range(start, start + count):
                out.append(out[place])
    except IndexError:
        raise InputError("a compressed text of the program cannot be read", where=where) from None
    return bytes(out)


def _length(data: bytes, at: int, count: int) -> tuple[int, int]:
    """A length of LZ4: 15 goes on in the bytes behind; and where what follows begins."""
    if count == 15:
        while True:
            count += data[at]
            at += 1
            if data[at - 1] != 255:
                break
    return count, at
