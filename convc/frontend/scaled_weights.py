r"""Weights times a scale per output channel, and whether a narrow type holds them.

A normal number is rounded to a share of itself, whatever its scale. Below the smallest normal number of its type a
number loses more, and above the largest all. Let e be by how much the rounding of a weight errs beyond that share, in
the model's scale. With folded weights the sum of a channel errs by up to

    sum of e |x|     and with those of the model, scaled afterwards, by up to     sum of e' |x|

Folding is fine where the first is at most twice the second and, with what float32 sums may err by as
`convc.verification` has it, n u per unit of sum |w x|, that more: for |x| of one size,

    sum of e <= 2 * sum of e' + n u * sum of |w|,     n = 1.25 L + 2,  u = 2^-23,  L products.

Elsewhere weights stay as the model has them, and the epilogue multiplies sums (`ConvProblem.multiplier`).
"""

from __future__ import annotations

import numpy as np

from convc.ir import dtypes
from convc.ir.problem import ConvProblem
from convc.ir.sums import FLOAT32

MORE = 2.0
"""Times what the model's own weights lose below the normal numbers of their type that scaled ones may lose."""


def may_scale(problem: ConvProblem, weight: np.ndarray, scale: np.ndarray, shift: np.ndarray) -> bool:
    """Whether weights and bias may be scaled before they are rounded.

    Args:
        weight: of the model, float64, as `ConvProblem.w_shape` has them.
        scale, shift: float64 (K,), of the sums.
    """
    with np.errstate(all="ignore"):
        folded = scaled_weights(problem, weight, scale)
        finite = np.isfinite(weight)
        if not np.isfinite(dtypes.quantise(dtypes.F32, shift)).all() or not (np.isfinite(folded) | ~finite).all():
            return False
        if problem.operand in dtypes.SCALED_OPERANDS:  # a block has a factor of its own
            return True
        if not (np.isfinite(_multiplied(problem, folded)) | ~finite).all():
            return False
        lost = _by_channel(problem, np.where(finite, _lost(problem, folded), 0.0))
        own = np.abs(scale) * _by_channel(problem, np.where(finite, _lost(problem, weight), 0.0))
        size = _by_channel(problem, np.where(finite, np.abs(folded), 0.0))
    n = problem.gemm_k * 2.0 ** (FLOAT32.bits - FLOAT32.fraction) + problem.gemm_k + 2
    return bool((lost <= MORE * own + n * 2.0**-FLOAT32.bits * size).all())


def may_multiply(problem: ConvProblem, scale: np.ndarray, shift: np.ndarray) -> bool:
    """Whether the epilogue may scale sums instead: float32 holds scale and shift (float64, (K,)), to full precision."""
    if problem.operand in dtypes.SCALED_OPERANDS:
        return False
    size = np.abs(scale)
    held = (size == 0) | ((size >= dtypes.F32.min_normal) & (size <= dtypes.F32.max_finite))
    return bool(held.all() and np.isfinite(dtypes.quantise(dtypes.F32, shift)).all())


def scaled_weights(problem: ConvProblem, weight: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Weights (K, C/G, R, S), or (C, K/G, R, S) of a transposed convolution, times a number per output channel."""
    taps = (1,) * problem.rank
    if not problem.transposed:
        return weight * scale.reshape(-1, 1, *taps)
    parts = weight.reshape(problem.groups, -1, *weight.shape[1:])
    return (parts * scale.reshape(problem.groups, 1, -1, *taps)).reshape(weight.shape)


def _multiplied(problem: ConvProblem, weight: np.ndarray) -> np.ndarray:
    """The numbers that the tensor core multiplies in place of weights.

    The parts of float32 have all bits of it, down to the smallest number of their type.
    """
    rounded = dtypes.quantise(problem.operand_dtype, weight).astype(np.float64)
    if problem.operand not in dtypes.SPLIT_OPERANDS:
        return rounded
    least = (dtypes.TF32 if problem.operand.startswith(dtypes.TF32.name) else dtypes.BF16).min_subnormal
    return np.rint(rounded / least) * least


def _lost(problem: ConvProblem, weight: np.ndarray) -> np.ndarray:
    """The error of rounding beyond a unit roundoff of each number."""
    unit = problem.operand_dtype.unit_roundoff
    return np.maximum(0.0, np.abs(_multiplied(problem, weight) - weight) - unit * np.abs(weight))


def _by_channel(problem: ConvProblem, array: np.ndarray) -> np.ndarray:
    """Sums (K,) of numbers that lie as weights do."""
    if not problem.transposed:
        return array.reshape(len(array), -1).sum(axis=1)
    parts = array.reshape(problem.groups, -1, *array.shape[1:])
    return parts.sum(axis=(1, *range(3, parts.ndim))).reshape(-1)
