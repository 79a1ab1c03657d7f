"""Zeroed and shifted columns of B in a weight-stationary MMA.

The mask is made of sub-masks, one for each bank of D (all of N, its halves, or its quarters). A sub-mask alternates
between a run of used and a run of zeroed columns. It begins with the run that ``zero_first`` names, ``start``
columns late (at most at the last column of that run). Column j of the MMA is zero where its mask says so, and
column j + shift of B elsewhere. (The switch ``zero_mask`` has the other reading: zero where the mask of j + shift says
so.)

Sources: PTX manual, zero-column mask descriptor; meaning of the two run lengths and of the start: an independent
model compared with SM100 (mlc-ai/TIRx-harness), and the mask generator in NVIDIA CUTLASS.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from convc.errors import MachineFault
from convc.machine.tensor_core.shapes import MmaShape
from convc.ptx.descriptors import ZeroColumnMask, decode_zero_mask


@lru_cache(maxsize=256)
def zero_columns(word: int, shape: MmaShape, counted: str) -> tuple[np.ndarray, int]:
    """Indices of the zeroed columns among the N of the MMA, and the shift; ``counted``: the switch ``zero_mask``."""
    try:
        mask = decode_zero_mask(word)
    except ValueError as error:
        raise MachineFault(f"zero-column mask descriptor {word:#018x}: {error}") from None
    most = min(16 if shape.m == 32 else 32, shape.max_shift)
    if mask.shift > most:
        raise MachineFault(
            f"zero-column mask descriptor {word:#018x}: a shift of {mask.shift} columns is more than {most}",
            hint="the largest shift is in bits 30-31 of the instruction descriptor; with M = 32 it is 16 at most",
        )
    if not mask.generate:
        return np.empty(0, np.intp), mask.shift
    width = shape.columns
    skip = mask.shift if counted == "before" else 0
    parts = [_sub_mask(mask, bank, width, skip) for bank in range(shape.banks)]
    return np.flatnonzero(np.concatenate(parts)), mask.shift


def _sub_mask(mask: ZeroColumnMask, bank: int, width: int, skip: int) -> np.ndarray:
    """bool (width,): the zeroed columns of one bank, whose pattern is entered ``skip`` columns late."""
    runs = [(False, mask.used), (True, mask.zeroed)]
    if mask.zero_first[bank]:
        runs.reverse()
    period = np.repeat([kind for kind, _ in runs], [length for _, length in runs])
    late = min(mask.starts[bank], runs[0][1] - 1)
    return period[(late + skip + np.arange(width)) % period.size]
