"""Parts of what a strand has: some of its CTAs or of its warps."""

from __future__ import annotations

import numpy as np

from convc.machine.base.values import Value


def part(array: np.ndarray, axis: int, index: np.ndarray) -> np.ndarray:
    """Some positions of an axis that may have the length 1, which stands for all."""
    if array.shape[axis] == 1:
        return array
    return array[index] if axis == 0 else array[:, index]


def mask_part(mask: np.ndarray | None, axis: int, index: np.ndarray) -> np.ndarray | None:
    """The part of a mask, where there is one."""
    return None if mask is None else part(mask, axis, index)


def value_part(value: Value, axis: int, index: np.ndarray) -> Value:
    """The part of a register's value."""
    return part(value, axis, index) if isinstance(value, np.ndarray) else value
