r"""float32 convolutions on a tensor core that multiplies 11 bits: three tf32 products in one kernel.

tf32 keeps 11 of the 24 significant bits of a float32. Cut x into hi = tf32(x) and lo = tf32(x - hi); then hi + lo
has all but the last bits of x, and

    x * w  =  hi_x*hi_w  +  hi_x*lo_w  +  lo_x*hi_w  +  what is left out.

("3xTF32": NVIDIA CUTLASS, examples 27 and 28; H. Ootomo and R. Yokota, "Recovering single precision accuracy from
Tensor Cores", 2022, for the idea.) A convolution adds over channels, so the three products need no kernel of their
own: they are ONE convolution with three times the channels, activations (hi, hi, lo) and filters (hi, lo, hi). It runs
through the same frontend, planner and kernel as any other, costs three times the work, and its sums stay in float32
accumulators.

**What is left out.** Rounding to nearest gives |x - hi| <= 2^-11 |x| and, with that, |x - hi - lo| <= 2^-22 |x|. So
hi + lo is x (1 + a), |a| <= 2^-22, and lo_x*lo_w, which is not computed, is at most (2^-11 + 2^-22)^2 |x w|. In all

    |three products - x*w|  <=  (2 * 2^-22 + 2^-22 + 2^-31) |x w|  <  2^-20 |x w|,

`TF32X3_ERROR`, as long as nothing is subnormal. One pass of tf32 has |hi_x*hi_w - x*w| <= (2 * 2^-11 + 2^-22) |x w|.
"""

from __future__ import annotations

import numpy as np

from convc import dtypes

TF32X3_ERROR = 2.0**-20
"""Largest relative error of a product by three tf32 products, without the rounding of the sum."""


def split_activations(x: np.ndarray, groups: int = 1) -> np.ndarray:
    """x (N, C, *spatial) float32 as (N, 3*C, *spatial): of each group the channels (hi, hi, lo)."""
    high, low = halves(x)
    return _by_group((high, high, low), groups, axis=1)


def split_filters(w: np.ndarray, groups: int = 1, axis: int = 1) -> np.ndarray:
    """w float32 with three times the input channels, (hi, lo, hi).

    Args:
        w: (K, C / groups, *kernel) with ``axis`` 1, as `Conv` has it, or (C, K / groups, *kernel) with ``axis`` 0, as
            `ConvTranspose` has it. Only the latter is cut into ``groups``.
    """
    high, low = halves(w)
    return _by_group((high, low, high), groups if axis == 0 else 1, axis)


def halves(array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(hi, lo), float32 with values of tf32; where tf32 has no finite neighbour, the value itself and 0."""
    high = dtypes.quantise(dtypes.TF32, array)
    beyond = ~np.isfinite(high)
    if beyond.any():
        high = np.where(beyond, array, high)
    with np.errstate(invalid="ignore"):
        rest = np.where(np.isfinite(high), array - high, np.float32(0))
    return high, dtypes.quantise(dtypes.TF32, rest)


def _by_group(parts: tuple[np.ndarray, ...], groups: int, axis: int) -> np.ndarray:
    """Join parts along an axis, group by group."""
    shape = parts[0].shape
    cut = (*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 :])
    joined = np.concatenate([part.reshape(cut) for part in parts], axis=axis + 1)
    return joined.reshape(*shape[:axis], len(parts) * shape[axis], *shape[axis + 1 :])
