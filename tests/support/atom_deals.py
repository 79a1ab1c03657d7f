"""Matrices dealt to the threads of an atom, and collected again, by its table alone."""

from __future__ import annotations

import numpy as np

from convc.atoms.held import Held


def deal(held: Held, matrix: np.ndarray, fill: float = 0) -> np.ndarray:
    """Values of each thread, (threads, values), of a matrix that covers the tile."""
    out = np.full((held.thread_count, held.value_count), fill, matrix.dtype)
    thread, value, row, column = held.places
    out[thread, value] = matrix[row, column]
    return out


def collect(held: Held, values: np.ndarray) -> np.ndarray:
    """The tile of what threads hold; every place must be held, by one value."""
    tile = np.zeros((held.rows, held.columns), values.dtype)
    seen = np.zeros(tile.shape, int)
    thread, value, row, column = held.places
    tile[row, column] = values[thread, value]
    np.add.at(seen, (row, column), 1)
    assert (seen == 1).all(), held.name
    return tile


def laid(held: Held, matrix: np.ndarray) -> np.ndarray:
    """The bytes of an operand (rows, k) in shared memory: (lines, 128)."""
    tile = np.zeros((held.rows, held.columns), matrix.dtype)
    thread, value, row, column = held.places
    tile[row, column] = matrix[thread, value]
    return tile.view(np.uint8).reshape(held.rows, -1)
