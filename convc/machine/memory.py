"""Global memory: named buffers at made-up 64-bit addresses.

Buffer number i starts at address (i + 1) << 40, so an address says which buffer it belongs to and a stray pointer never
lands in another one. Each buffer is a flat uint8 array padded to 16 bytes, which lets aligned vector accesses move
16-byte chunks as numpy complex128.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from convc.errors import MachineFault
from convc.machine.values import DTYPE

SHIFT = 40
CHUNK = np.dtype(np.complex128)
"""A 16-byte unit: numpy moves it in one piece and never computes with it."""


@dataclass(slots=True)
class Buffer:
    """One buffer: its bytes (padded to 16) and the size the kernel may touch."""

    name: str
    base: int
    size: int
    data: np.ndarray


class GlobalMemory:
    """All buffers of a launch."""

    def __init__(self) -> None:
        self.buffers: list[Buffer] = []
        self.by_name: dict[str, Buffer] = {}
        self.watch: tuple[int, int] | None = None
        self.watched: list[tuple] = []

    def add(self, name: str, data: np.ndarray) -> Buffer:
        """Place a buffer; ``data`` is any contiguous array, used in place when its size is a multiple of 16 bytes."""
        flat = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        size = flat.size
        if size % 16 or not flat.flags.writeable or flat.ctypes.data % 16:
            padded = np.zeros(-(-max(size, 1) // 16) * 16 + 16, np.uint8)
            start = -padded.ctypes.data % 16
            padded = padded[start : start + -(-max(size, 1) // 16) * 16]
            padded[:size] = flat
            flat = padded
        buffer = Buffer(name, (len(self.buffers) + 1) << SHIFT, size, flat)
        self.buffers.append(buffer)
        self.by_name[name] = buffer
        return buffer

    def locate(self, address: int | np.ndarray, size: int) -> tuple[Buffer, int | np.ndarray]:
        """The buffer and the byte offsets of accesses of ``size`` bytes; faults on stray or misaligned addresses."""
        first = address if isinstance(address, int) else int(address.flat[0])
        index = (first >> SHIFT) - 1
        if not 0 <= index < len(self.buffers):
            raise MachineFault(
                f"global address {first:#x} is in no buffer",
                hint="is the pointer parameter the right one, and loaded with .u64?",
            )
        buffer = self.buffers[index]
        if isinstance(address, int):
            offset: int | np.ndarray = address - buffer.base
            low = high = offset
            misaligned = offset % size
        else:
            offset = (address - np.uint64(buffer.base)).view(np.int64)
            low, high = int(offset.min()), int(offset.max())
            misaligned = bool((offset & (size - 1)).any())
        if low < 0 or high + size > buffer.size:
            where = low if low < 0 else high
            raise MachineFault(
                f"access of {size} bytes at offset {where} of buffer {buffer.name!r}, which has {buffer.size} bytes",
                hint="a guard is missing or wrong, or the launch file gives the buffer a wrong shape",
            )
        if misaligned:
            raise MachineFault(f"a {size}-byte access to buffer {buffer.name!r} is not aligned to {size} bytes")
        return buffer, offset


def read_words(data: np.ndarray, offset: int | np.ndarray, bits: int, count: int) -> list:
    """``count`` consecutive elements at byte offsets of a flat uint8 array: ints, or arrays shaped as ``offset``."""
    size = bits // 8
    if isinstance(offset, int):
        return [int(v) for v in data[offset : offset + size * count].view(DTYPE[bits])]
    words = data[: data.size // size * size].view(DTYPE[bits])
    index = offset >> (size.bit_length() - 1)
    return [words[index + i] for i in range(count)]


def write_words(data: np.ndarray, offset: np.ndarray, values: list, bits: int, mask: np.ndarray | None) -> None:
    """Store ``values`` (ints or arrays that broadcast with ``offset``) one after another at byte offsets.

    ``mask`` (bool, broadcastable to ``offset``) selects the lanes that write. Where lanes collide the highest wins,
    which the PTX manual leaves undefined.
    """
    size, count = bits // 8, len(values)
    shape = offset.shape
    packed = np.empty((*shape, count), DTYPE[bits])
    for i, value in enumerate(values):
        packed[..., i] = value
    total = size * count
    if total == 16:
        unit = CHUNK
    elif total in (1, 2, 4, 8):
        unit = DTYPE[8 * total]
    else:
        unit = np.dtype((np.void, total))
    units = packed.reshape(-1, count).view(unit).reshape(-1)
    target = data[: data.size // total * total].view(unit)
    index = (offset // total).reshape(-1)
    if mask is not None:
        keep = np.broadcast_to(mask, shape).reshape(-1)
        index, units = index[keep], units[keep]
    target[index] = units
