"""The arguments of a launch as buffers of the simulator: one for each piece of memory, however many views it has.

Two arguments that share memory (slices of one tensor, or an output that is an input) share a buffer, so that a kernel
that writes through one and reads through the other does so here too.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from convc.errors import InputError
from convc.ir.element_types import ELEMENT_TYPES
from convc.ir.launch import BufferSpec, PointerParam
from convc.triton.tensors import Memory, memory_of

EXACT = 16
"""Alignment that compilers ask for: a pointer is as far from a multiple of it here as it is in the caller's memory."""


@dataclass(slots=True, kw_only=True)
class Piece:
    """A piece of memory that is one buffer.

    Attributes:
        name: of the first argument that lies in it.
        start, end: addresses. views: of the arguments in it.
    """

    name: str
    start: int
    end: int
    views: list[Memory] = field(default_factory=list[Memory])

    @property
    def shift(self) -> int:
        """Bytes of the buffer in front of the memory, so that pointers are as aligned as they are there."""
        return self.start % EXACT

    @property
    def spec(self) -> BufferSpec:
        """Type and shape: those of the array where there is one and it is all of the memory."""
        first = self.views[0]
        size = self.end - self.start + self.shift
        if all(view.dtype == first.dtype and view.shape == first.shape for view in self.views) and not self.shift:
            width = ELEMENT_TYPES[first.dtype].bytes
            if first.shape is not None and size == width * int(np.prod(first.shape, dtype=np.int64)):
                return BufferSpec(dtype=first.dtype, shape=first.shape)
            if size % width == 0:
                return BufferSpec(dtype=first.dtype, shape=(size // width,))
        return BufferSpec(dtype="u8", shape=(size,))

    def memory(self) -> np.ndarray:
        """The caller's bytes."""
        first = self.views[0]
        whole = Memory(
            start=self.start,
            size=self.end - self.start,
            pointer=self.start,
            dtype="u8",
            shape=None,
            writable=first.writable,
        )
        return whole.bytes()

    def contents(self) -> np.ndarray:
        """A copy of the memory as it is now, as the buffer takes it: uint8."""
        held = np.zeros(self.end - self.start + self.shift, np.uint8)
        held[self.shift :] = self.memory()
        return held


class Buffers:
    """Places arrays, and afterwards knows the pieces of memory behind them."""

    def __init__(self, arrays: dict[str, object]) -> None:
        self._memories = {name: memory_of(name, array) for name, array in arrays.items()}
        self.pieces: list[Piece] = []
        for name, memory in sorted(self._memories.items(), key=lambda item: item[1].start):
            last = self.pieces[-1] if self.pieces else None
            if last is not None and memory.start < last.end:
                last.end = max(last.end, memory.start + memory.size)
                last.views.append(memory)
            else:
                end = memory.start + memory.size
                self.pieces.append(Piece(name=name, start=memory.start, end=end, views=[memory]))
        order = list(arrays)
        self.pieces.sort(key=lambda piece: order.index(piece.name))

    def pointer(self, name: str, array: object) -> PointerParam:
        """The address of an argument's first element; ``array`` is the one that was given by this name."""
        memory = self._memories[name]
        for piece in self.pieces:
            if piece.start <= memory.pointer <= piece.end and any(view is memory for view in piece.views):
                return PointerParam(buffer=piece.name, offset=memory.pointer - piece.start + piece.shift)
        raise InputError(f"argument {name!r} is not in a buffer: {array!r}")

    def write_back(self, results: dict[str, np.ndarray]) -> None:
        """Give the caller's arrays what the kernel left in their buffers.

        Raises:
            InputError: the kernel changed an array that is read-only.
        """
        for piece in self.pieces:
            left = np.ascontiguousarray(results[piece.name]).reshape(-1).view(np.uint8)[piece.shift :]
            held = piece.memory()
            if np.array_equal(left, held):
                continue
            if not any(view.writable for view in piece.views):
                raise InputError(f"the kernel wrote to argument {piece.name!r}, an array that is read-only")
            held[:] = left
