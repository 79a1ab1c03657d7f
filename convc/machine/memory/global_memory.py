"""Memory addresses: global memory, and the windows of the generic address space.

A generic address is 64 bits. Its top byte names the state space: 0 global memory, `SHARED_WINDOW` shared memory (the
address in the shared::cluster window below it), `LOCAL_WINDOW`, `CONST_WINDOW`, `PARAM_WINDOW` likewise. So cvta adds
the window and cvta.to takes it off again; the low 32 bits of a generic shared address are the shared address itself.
Addresses in parameter space from `LOCAL_PARAMETERS` on are parameters of called functions, which lie in local memory.
Functions have addresses from `FUNCTIONS` on, 16 apart, where there is no memory.

Buffer number i starts at address (i + 1) << 40, or where it is asked for, so an address says which buffer it belongs to
and a stray pointer never lands in another one. The .global variables of a module are such buffers too, from number
`MODULE_FIRST` on. Each buffer is a flat uint8 array padded to 16 bytes, which lets aligned vector accesses move
16-byte chunks as numpy complex128.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import overload

import numpy as np

from convc.errors import MachineFault
from convc.machine.base.values import DTYPE, Value, array, split
from convc.ptx import Instr

SHIFT = 40
MODULE_FIRST = 0x4000
WINDOW_SHIFT = 56
SHARED_WINDOW = 0x7C << WINDOW_SHIFT
LOCAL_WINDOW = 0x7D << WINDOW_SHIFT
CONST_WINDOW = 0x7E << WINDOW_SHIFT
PARAM_WINDOW = 0x7F << WINDOW_SHIFT
LOCAL_PARAMETERS = 1 << 28
FUNCTIONS = 0x7B << WINDOW_SHIFT
WINDOWS = {0: "global", 0x7C: "shared", 0x7D: "local", 0x7E: "const", 0x7F: "param"}
"""State space of each window, by the top byte of a generic address."""
BASES = {
    "global": 0, "shared": SHARED_WINDOW, "local": LOCAL_WINDOW, "const": CONST_WINDOW, "param": PARAM_WINDOW,
}  # fmt: skip
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
    """All buffers of a launch.

    Attributes:
        buffers, module: of the launch file, and .global variables, in the order of their addresses.
        watch: global address of a byte whose writers are noted; None: of none.
        writers: instruction, CTA, warp and lane of each of them.
    """

    def __init__(self) -> None:
        self.buffers: list[Buffer | None] = []
        self.by_name: dict[str, Buffer] = {}
        self.module: list[Buffer] = []
        self.watch: int | None = None
        self.writers: list[tuple[Instr, int, int, int]] = []

    def add(self, name: str, data: np.ndarray, address: int | None = None) -> Buffer:
        """Place a buffer at an address, or behind the others.

        ``data`` is any contiguous array, used in place when its size is a multiple of 16 bytes.
        """
        flat = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        size = flat.size
        if size % 16 or not flat.flags.writeable or flat.ctypes.data % 16:
            padded = np.zeros(-(-max(size, 1) // 16) * 16 + 16, np.uint8)
            start = -padded.ctypes.data % 16
            padded = padded[start : start + -(-max(size, 1) // 16) * 16]
            padded[:size] = flat
            flat = padded
        number = len(self.buffers) if address is None else (address >> SHIFT) - 1
        buffer = Buffer(name, (number + 1) << SHIFT, size, flat)
        self.buffers += [None] * (number + 1 - len(self.buffers))
        self.buffers[number] = buffer
        self.by_name[name] = buffer
        return buffer

    def add_variable(self, name: str, data: np.ndarray) -> Buffer:
        """Place the next .global variable of the module: its bytes, padded to 16."""
        padded = np.zeros(-(-max(data.size, 1) // 16) * 16, np.uint8)
        padded[: data.size] = data
        buffer = Buffer(name, (MODULE_FIRST + len(self.module) + 1) << SHIFT, data.size, padded)
        self.module.append(buffer)
        return buffer

    def at(self, address: int) -> Buffer | None:
        """The buffer whose range an address falls into, or None."""
        index = (address >> SHIFT) - 1
        if 0 <= index < len(self.buffers):
            return self.buffers[index]
        index -= MODULE_FIRST
        return self.module[index] if 0 <= index < len(self.module) else None

    @overload
    def locate(self, address: int, size: int) -> tuple[Buffer, int]: ...
    @overload
    def locate(self, address: np.ndarray, size: int) -> tuple[Buffer, np.ndarray]: ...
    def locate(self, address: int | np.ndarray, size: int) -> tuple[Buffer, int | np.ndarray]:
        """The buffer and the byte offsets of accesses of ``size`` bytes; faults on stray or misaligned addresses."""
        first = address if isinstance(address, int) else int(address.flat[0])
        buffer = self.at(first)
        if buffer is None:
            raise MachineFault(
                f"global address {first:#x} is in no buffer",
                hint="check the pointer parameter, and that it is loaded with .u64",
            )
        offset: int | np.ndarray
        if isinstance(address, int):
            offset = low = high = address - buffer.base
            misaligned = offset % size
        else:
            offset = (address - np.uint64(buffer.base)).view(np.int64)
            low = int(np.minimum.reduce(offset, axis=None))
            high = int(np.maximum.reduce(offset, axis=None))
            misaligned = bool(np.bitwise_or.reduce(offset, axis=None) & (size - 1))
        if low < 0 or high + size > buffer.size:
            where = low if low < 0 else high
            raise MachineFault(
                f"access of {size} bytes at offset {where} of buffer {buffer.name!r}, which has {buffer.size} bytes",
                hint="check the guard of this access, and the buffer's shape in the launch file",
            )
        if misaligned:
            raise MachineFault(f"a {size}-byte access to buffer {buffer.name!r} is not aligned to {size} bytes")
        return buffer, offset


def read_words(data: np.ndarray, offset: int | np.ndarray, bits: int, count: int) -> list[Value]:
    """``count`` consecutive elements at byte offsets of a flat uint8 array: ints, or arrays shaped as ``offset``."""
    size = bits // 8
    if isinstance(offset, int):
        if bits == 128:
            return [int.from_bytes(data[offset : offset + 16].tobytes(), "little")]
        return [int(v) for v in data[offset : offset + size * count].view(DTYPE[bits])]
    words = data[: data.size // size * size].view(DTYPE[bits])
    index = offset >> (size.bit_length() - 1)
    if count == 1 or bits * count > 128:
        return [words.take(index + i if i else index) for i in range(count)]
    unit = DTYPE[bits * count]  # an access is aligned to its size, and moves as one
    units = words[: len(words) // count * count].view(unit).take(index >> (count.bit_length() - 1))
    return split(units, bits, count)


def write_words(
    data: np.ndarray,
    offset: np.ndarray,
    values: list[Value],
    bits: int,
    mask: np.ndarray | None,
    winner: str = "highest",
) -> None:
    """Store ``values`` (ints or arrays that broadcast with ``offset``) one after another at byte offsets.

    ``mask`` (bool, broadcastable to ``offset``) selects the lanes that write. Where lanes collide the ``winner`` is the
    highest or the lowest, which the PTX manual leaves undefined: the switch ``colliding_stores``.
    """
    count = len(values)
    if bits == 128:
        values = [array(v, 128) for v in values]
    shape = offset.shape
    packed = np.empty((*shape, count), DTYPE[bits])
    for i, value in enumerate(values):
        packed[..., i] = value
    total = bits // 8 * count
    unit = DTYPE[8 * total] if total <= 16 else np.dtype((np.void, total))
    units = packed.reshape(-1, count).view(unit).reshape(-1)
    target = data[: data.size // total * total].view(unit)
    index = (offset // total).reshape(-1)
    if mask is not None:
        keep = np.broadcast_to(mask, shape).reshape(-1)
        index = index[keep]
        units = units[keep]
    if winner == "lowest":
        index = index[::-1]
        units = units[::-1]
    target[index] = units
