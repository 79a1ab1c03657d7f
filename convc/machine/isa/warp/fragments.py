"""Where the lanes of a warp hold the matrices of mma.sync (PTX manual, 9.7.14.5, "Matrix Fragments").

A lane's fragment is a few registers, each with one or more elements, the lowest bits first. Written as digits, lane and
element number make up row and column; a layout says which digit goes where. In all shapes but one, lane l is
(group, thread) = (l / 4, l % 4):

| matrix | element number | row | column |
| --- | --- | --- | --- |
| A (m x k), and B as (n x k) | (chunk, half, part) | (half, group) | (chunk, thread, part) |
| C and D (m x 8) | (half, part) | (half, group) | (thread, part) |

``part`` counts the elements in a register (for C and D: 0 and 1, in one register or in two), ``half`` the groups of 8
rows, ``chunk`` what of k remains. m8n8k4 of f16 is four products at once, one for each value of ``quad``, where
lane l is (high, quad, thread) = (l / 16, l / 4 % 4, l % 4); see `quad_rows`, `quad_columns` and `quad_sums`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from convc.machine.base.values import DTYPE, Value, narrow

LANES = 32


@dataclass(frozen=True, eq=False)
class FragmentLayout:
    """Digits of (lane, element) and their order in (matrix, row, column).

    Each is itself alone, and quickly found in a table: what makes them makes one of a kind.

    Attributes:
        digits: extent of each digit, those of the lane first, the slowest first.
        order: the digits in the order in which they make up the matrix, the slowest first.
        shape: (matrices, rows, columns).
    """

    digits: tuple[int, ...]
    order: tuple[int, ...]
    shape: tuple[int, int, int]

    def matrix(self, elements: np.ndarray) -> np.ndarray:
        """(ctas, warps, lanes, elements) as (ctas, warps, matrices, rows, columns)."""
        side = self._side_by_side
        unit = np.dtype(f"u{side * elements.itemsize}") if side * elements.itemsize in (2, 4, 8) else elements.dtype
        flat = elements.reshape(-1, self._there.size).view(unit)
        places = self._there if unit == elements.dtype else self._there[::side] // side
        return flat.take(places, axis=1).view(elements.dtype).reshape(*elements.shape[:2], *self.shape)

    def elements(self, matrix: np.ndarray) -> np.ndarray:
        """The inverse of `matrix`."""
        flat = matrix.reshape(-1, self._back.size)
        return flat.take(self._back, axis=1).reshape(*matrix.shape[:2], LANES, -1)

    def registers(self, matrix: np.ndarray, width: int) -> list[Value]:
        """A matrix (ctas, warps, matrices, rows, columns) as values of registers of ``width`` bits."""
        flat = matrix.reshape(-1, self._back.size)
        parts = width // (8 * matrix.itemsize)
        words = flat.take(self._by_register(parts), axis=1).view(DTYPE[width])
        each = np.ascontiguousarray(words.reshape(len(flat), -1, LANES).swapaxes(0, 1))
        return [narrow(value) for value in each.reshape(-1, *matrix.shape[:2], LANES)]

    def _by_register(self, parts: int) -> np.ndarray:
        """`_back` with the registers of ``parts`` elements first, then the lanes."""
        found = self._orders.get(parts)
        if found is None:
            order = self._back.reshape(LANES, -1, parts).swapaxes(0, 1)
            found = self._orders[parts] = np.ascontiguousarray(order).reshape(-1)
        return found

    @functools.cached_property
    def _orders(self) -> dict[int, np.ndarray]:
        return {}

    @functools.cached_property
    def _side_by_side(self) -> int:
        """How many elements stay neighbours, so that they can be moved as one."""
        return self.digits[-1] if self.order[-1] == len(self.digits) - 1 else 1

    @functools.cached_property
    def _there(self) -> np.ndarray:
        """For each place of the matrices, which of the elements of all lanes it holds: quicker than to transpose."""
        numbers = np.arange(math.prod(self.digits)).reshape(self.digits)
        return numbers.transpose(self.order).reshape(-1)

    @functools.cached_property
    def _back(self) -> np.ndarray:
        """The inverse of `_there`."""
        return np.argsort(self._there)


@functools.cache
def operand(rows: int, depth: int, bits: int) -> FragmentLayout:
    """A (rows = m), or B transposed (rows = n), of elements of ``bits`` bits; f64 has one to a register."""
    parts = max(1, 32 // bits)
    return FragmentLayout((8, 4, depth // (4 * parts), rows // 8, parts), (3, 0, 2, 1, 4), (1, rows, depth))


@functools.cache
def accumulator(rows: int) -> FragmentLayout:
    """C and D."""
    return FragmentLayout((8, 4, rows // 8, 2), (2, 0, 1, 3), (1, rows, 8))


@functools.cache
def quad_rows(columns: int) -> FragmentLayout:
    """m8n8k4 of f16: a lane has a row: A.row, B.col (as n x k), and accumulators of f16."""
    return FragmentLayout((2, 4, 4, columns), (1, 0, 2, 3), (4, 8, columns))


@functools.cache
def quad_columns() -> FragmentLayout:
    """m8n8k4 of f16: a lane has four rows of a column: A.col, and B.row (as n x k)."""
    return FragmentLayout((2, 4, 4, 4), (1, 0, 3, 2), (4, 8, 4))


@functools.cache
def quad_sums() -> FragmentLayout:
    """m8n8k4 of f16: accumulators of f32; the two bits of the thread and the three of the element are digits."""
    return FragmentLayout((2, 4, 2, 2, 2, 2, 2), (1, 0, 5, 3, 4, 2, 6), (4, 8, 8))


def unpack(registers: Sequence[Value], warps: int, width: int, bits: int) -> np.ndarray:
    """Register values as the elements they hold: unsigned (ctas or 1, warps, lanes, elements), lowest bits first.

    Args:
        registers: values of ``width`` bits. warps: how many the strand has. bits: of an element.
    """
    rows = max([value.shape[0] if isinstance(value, np.ndarray) else 1 for value in registers])
    words = np.empty((rows, warps, LANES, len(registers)), DTYPE[width])
    for place, value in enumerate(registers):
        words[..., place] = value
    if bits >= 8:
        return words.view(DTYPE[bits])
    shifts = np.arange(0, width, bits, dtype=DTYPE[width])
    return ((words[..., None] >> shifts) & DTYPE[width].type((1 << bits) - 1)).reshape(rows, warps, LANES, -1)


def pack(elements: np.ndarray, width: int) -> list[Value]:
    """Elements of 8 bits and more (ctas, warps, lanes, elements) as values of registers of ``width`` bits."""
    words = np.ascontiguousarray(elements).view(DTYPE[width])
    return [narrow(value) for value in np.ascontiguousarray(words.transpose(3, 0, 1, 2))]
