"""Fragments of wmma, and where its matrices lie in memory (PTX manual, 9.7.14.4.1 and .2).

The manual leaves the layout of a fragment open. What is here was recorded on an H100 (tests/recordings), and the
machine code that ptxas makes for sm_100a is the same: an m16n16k16 is two mma.sync of 8 columns each, an m32n8k16 two
of 16 rows, an m8n32k16 two with all matrices transposed. So lane l is (group, thread) = (l / 4, l % 4), and with rows
of A and columns of B tiled by 16 and 8:

| matrix | element number | row | column |
| --- | --- | --- | --- |
| A (m x k) | (tile, chunk, half, part) | (tile, half, group) | (chunk, thread, part) |
| B as (n x k) | (tile, chunk, part) | (tile, group) | (chunk, thread, part) |
| C and D | (tile of rows, tile of columns, half, part) | (tile, half, group) | (tile, thread, part) |

For m8n32k16 B lies as A does, A as B, and C and D as their transposes. A and B of f16 have eight registers in every
shape: the elements stand there as often as they fit, and a product reads the first of them.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from convc.machine.isa.warp.fragments import LANES, FragmentLayout

BITS = {"f64": 64, "s32": 32, "f32": 32, "tf32": 32, "f16": 16, "bf16": 16, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1}
"""Bits of an element in memory and in a register."""

ROW_BYTES = 16
"""What one lane's address of an ldmatrix is good for."""


class WmmaShape(NamedTuple):
    """m, n and k of a product."""

    m: int
    n: int
    k: int

    @property
    def turned(self) -> bool:
        """Whether it is done with all matrices transposed."""
        return self.m < self.n

    def of(self, matrix: str) -> tuple[int, int]:
        """Rows and columns of ``a``, ``b``, ``c`` or ``d``."""
        return {"a": (self.m, self.k), "b": (self.k, self.n)}.get(matrix, (self.m, self.n))


def shape_of(text: str) -> WmmaShape:
    """``m16n16k16`` as numbers."""
    return WmmaShape(*map(int, re.findall(r"\d+", text)))


def left(rows: int, depth: int, bits: int) -> FragmentLayout:
    """A (rows x depth): tiles of 16 rows, or one of 8."""
    parts = max(1, 32 // bits)
    halves = 1 if rows == 8 else 2
    tiles = rows // (8 * halves)
    digits = (8, 4, tiles, depth // (4 * parts), halves, parts)
    return FragmentLayout(digits, (2, 4, 0, 3, 1, 5), (1, rows, depth))


def right(columns: int, depth: int, bits: int) -> FragmentLayout:
    """B as (columns x depth): tiles of 8 columns."""
    parts = max(1, 32 // bits)
    return FragmentLayout((8, 4, columns // 8, depth // (4 * parts), parts), (2, 0, 3, 1, 4), (1, columns, depth))


def total(rows: int, columns: int) -> FragmentLayout:
    """C and D (rows x columns): tiles of 16 rows, or one of 8, and of 8 columns."""
    halves = 1 if rows == 8 else 2
    digits = (8, 4, rows // (8 * halves), columns // 8, halves, 2)
    return FragmentLayout(digits, (2, 4, 0, 3, 1, 5), (1, rows, columns))


class Fragment(NamedTuple):
    """One matrix of a product, as a warp holds it.

    Attributes:
        layout: which lane has which element of the matrix, or of its transpose.
        transposed: the layout is that of the transpose: of B, and of all but B in a shape that is turned.
        parts: neighbours, along a row of the layout, that stand together in a fragment.
        bits: of an element.
    """

    layout: FragmentLayout
    transposed: bool
    parts: int
    bits: int


def fragment_of(shape: WmmaShape, matrix: str, kind: str) -> Fragment:
    """The fragment of ``a``, ``b``, ``c`` or ``d`` with elements of a type."""
    bits = BITS[kind]
    if matrix in "cd":
        layout = total(shape.n, shape.m) if shape.turned else total(shape.m, shape.n)
        return Fragment(layout, shape.turned, 2, bits)
    is_a = matrix == "a"
    rows = shape.m if is_a else shape.n
    layout = left(rows, shape.k, bits) if is_a != shape.turned else right(rows, shape.k, bits)
    return Fragment(layout, not is_a, max(1, 32 // bits), bits)


class FragmentStorage(NamedTuple):
    """A fragment's elements in memory, in pieces that an access reads or writes at once.

    Attributes:
        lines, inside: int64 (pieces, 32): number of the row or column in memory, and bit from its start, by lane.
        element: bits of an element. bits, words: an access is of ``words`` words of ``bits`` bits.
        length: elements of a row or column, the stride where none is given.
        unit: bytes that the start, and the stride in bytes, are a multiple of, or hardware faults or rounds.
    """

    lines: np.ndarray
    inside: np.ndarray
    element: int
    bits: int
    words: int
    length: int
    unit: int


def storage_of(shape: WmmaShape, matrix: str, kind: str, by_rows: bool, space: str | None) -> FragmentStorage:
    """Say how wmma.load and wmma.store reach a matrix that lies by rows or by columns in a space (None: generic).

    The units are those that an H100 faulted at (tests/recordings): neighbours in a register are one access; 16-bit
    elements are read as pairs in either layout; in shared memory A and B come by ldmatrix, in rows of 16 bytes.
    """
    fragment = fragment_of(shape, matrix, kind)
    rows, columns = shape.of(matrix)
    numbers = np.arange(rows * columns).reshape(rows, columns)
    held = fragment.layout.elements((numbers.T if fragment.transposed else numbers)[None, None, None])
    elements = held.reshape(LANES, -1)
    along = by_rows != fragment.transposed
    together = fragment.parts if along else 1
    first = elements[:, ::together].T
    lines, inside = (first // columns, first % columns) if by_rows else (first % columns, first // columns)
    bits = fragment.bits
    access = (32, 1) if bits < 8 else (bits, together)
    unit = access[0] * access[1] // 8
    if bits == 16:
        unit = 4
    if matrix in "ab" and space is not None and space.startswith("shared") and bits <= 16 and (along or bits == 16):
        unit = ROW_BYTES
    return FragmentStorage(lines, inside * bits, bits, *access, columns if by_rows else rows, unit)
