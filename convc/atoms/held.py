"""A matrix held by threads: a number of a thread and a number of a value, each written as digits, make up its place.

A *mode* is a digit: how often it counts, and how far one step of it goes along rows and columns. The digits of the
thread and those of the value, the fastest first, are a thread-value layout of CuTe: shapes and strides in pairs, the
strides being steps through the places of a tile. Which places these are its `Space` says:

| space | row | column | what a stride counts |
| --- | --- | --- | --- |
| matrix | row | column | elements, rows first: row + rows * column |
| tensor | lane of tensor memory | element of the lane | elements: 65536 columns are a lane, as addresses have it |
| shared | line of 128 bytes | element of the line | elements |

Elements in tensor memory are numbered in their own width, as CuTe does: two of 16 bits are one column. Lanes of the
second CTA of a pair are those from 128 on. A swizzle XORs the number of a line into that of a 16-byte chunk.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from convc.layout import Composed, Layout, Swizzle

LINE = 128
"""Bytes of a line of shared memory: all banks once."""

LANE = 1 << 16
"""What a lane adds to an address of tensor memory, in columns of 32 bits."""

SWIZZLES = {"none": (0, 4, 3), "32B": (1, 4, 3), "64B": (2, 4, 3), "128B": (3, 4, 3), "128B_atom32": (2, 5, 2)}
"""Bits, base and shift of a swizzle in byte addresses, CuTe's Sw<B,M,S>: bits of the line, address >> 7, go into others
(PTX manual, shared-memory swizzle modes). The base counts elements where addresses do."""


@dataclass(frozen=True, slots=True)
class Mode:
    """A digit of the number of a thread or of a value.

    Attributes:
        extent: values of the digit.
        row, column: how far a step goes; none where all of the digit's values hold the same element.
        only: the one value of the digit that counts, where an operand of the instruction selects it.
        copy: of a value, the digit counts copies of one element, which have one number.
    """

    extent: int
    row: int = 0
    column: int = 0
    only: int | None = None
    copy: bool = False


@dataclass(frozen=True, kw_only=True)
class Held:
    """A matrix, and who holds its elements.

    Attributes:
        name: A, B, D, ... what: a sentence of what rows, columns, threads and values are.
        rows, columns: extents of the tile, in elements.
        bits: of an element.
        threads, values: modes, the fastest first.
        letters: what a thread and a value are called in a cell, such as T and V.
        space: matrix, tensor or shared.
        swizzle: of shared memory.
    """

    name: str
    what: str
    rows: int
    columns: int
    bits: int
    threads: tuple[Mode, ...]
    values: tuple[Mode, ...]
    letters: tuple[str, str] = ("T", "V")
    space: str = "matrix"
    swizzle: str = "none"

    @cached_property
    def places(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Thread, value, row and column of all that is held: int64 arrays of one length, threads the slowest."""
        modes = (*self.values, *self.threads)[::-1]
        digits = np.indices([mode.extent for mode in modes]).reshape(len(modes), -1)[::-1]
        found = np.ones(digits.shape[1], bool)
        row = np.zeros(digits.shape[1], np.int64)
        column = row.copy()
        for mode, digit in zip((*self.values, *self.threads), digits, strict=True):
            row += mode.row * digit
            column += mode.column * digit
            if mode.only is not None:
                found &= digit == mode.only
        value = _number(self.values, digits)
        thread = _number(self.threads, digits[len(self.values) :])
        column = self._swizzled(row, column)
        return thread[found], value[found], row[found], column[found]

    def _swizzled(self, row: np.ndarray, column: np.ndarray) -> np.ndarray:
        """Columns of a line, its chunks moved by the number of the line."""
        bits, base, _ = SWIZZLES[self.swizzle]
        line = row & ((1 << bits) - 1)
        return column ^ (line << base) * 8 // self.bits

    @property
    def thread_count(self) -> int:
        """Threads, or what stands for them."""
        return math.prod(mode.extent for mode in self.threads)

    @property
    def value_count(self) -> int:
        """Values of a thread."""
        return math.prod(mode.extent for mode in self.values if not mode.copy)

    def grid(self, rows: int, columns: int) -> list[list[list[tuple[int, int]]]]:
        """The holders, as (thread, value), of each of the first places of the tile; some are held by no thread."""
        found: list[list[list[tuple[int, int]]]] = [[[] for _ in range(columns)] for _ in range(rows)]
        thread, value, row, column = self.places
        shown = (row < rows) & (column < columns)
        holders: list[tuple[int, int, int, int]] = np.stack((thread, value, row, column), 1)[shown].tolist()
        for t, v, i, j in holders:
            found[i][j].append((t, v))
        return found

    @property
    def steps(self) -> tuple[int, int]:
        """Steps through the numbers of places: of a row, and of a column."""
        if self.space == "tensor":
            return LANE * 32 // self.bits, 1
        return (LINE * 8 // self.bits, 1) if self.space == "shared" else (1, self.rows)

    @property
    def layout(self) -> Layout | Composed:
        """The thread-value layout: (thread, value) to the number of a place, behind the swizzle of shared memory."""
        threads = self._mode(self.threads)
        values = self._mode(self.values)
        found = Layout((threads.shape, values.shape), (threads.stride, values.stride))
        bits, base, shift = SWIZZLES[self.swizzle]
        if not bits:
            return found
        return Composed(swizzle=Swizzle(bits, base + 4 - self.bits.bit_length(), shift), layout=found)

    def _mode(self, modes: Sequence[Mode]) -> Layout:
        """Shapes and strides of modes; a digit with one value is left out."""
        row, column = self.steps
        told = [mode for mode in modes if mode.extent > 1] or [Mode(1)]
        shape = tuple(mode.extent for mode in told)
        stride = tuple(row * mode.row + column * mode.column for mode in told)
        return Layout(shape, stride) if len(told) > 1 else Layout(shape[0], stride[0])


def _number(modes: Sequence[Mode], digits: np.ndarray) -> np.ndarray:
    """The number that digits make up, the fastest first; copies do not count."""
    total = np.zeros(digits.shape[1], np.int64)
    step = 1
    for mode, digit in zip(modes, digits, strict=False):
        if not mode.copy:
            total += step * digit
            step *= mode.extent
    return total


@dataclass(frozen=True, kw_only=True)
class Atom:
    """An instruction and the matrices that it names.

    Attributes:
        name: as `convc draw atom` takes it. title: the PTX, or what it is.
        held: its matrices; three that are called A, B and D are drawn as a product.
        source: where the formula is from.
    """

    name: str
    title: str
    held: tuple[Held, ...]
    source: str

    def __iter__(self) -> Iterator[Held]:
        return iter(self.held)

    def __getitem__(self, name: str) -> Held:
        return next(one for one in self.held if one.name == name)
