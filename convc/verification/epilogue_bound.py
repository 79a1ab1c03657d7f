r"""The bound of a sum through an epilogue: by Lipschitz constants, and what each step rounds by itself.

Let v be what a step gets exactly, v' what it gets in the kernel, and |v' - v| <= e. A step f with Lipschitz constant
C moves that to C*e, and the kernel's own f errs by a further r, so that the result is within C*e + r. With
u = 2^-23, twice the unit of rounding to nearest:

**Relu, Clip.** C = 1; ``max`` and ``min`` do not round: r = 0.

**LeakyRelu.** C = max(1, |alpha|); one multiplication: r = u * |alpha| * (|v| + e), and one smallest subnormal.

**Residual.** C = 1, since the residual is exact; one addition: r = u * (|v| + e + |residual|).

**Sigmoid.** s(v) = 1 / (1 + 2^-(v * log2 e)) has s' = s * (1 - s) <= 1/4: C = 1/4. The kernel computes

    t = -v' * log2 e   (1 + d1)    constant and product rounded:               |d1| <= u
    E = 2^t            (1 + d2)    ex2.approx.ftz.f32:                         |d2| <= 2^-22 = 2u
    d = (1 + E)        (1 + d3)    one addition:                               |d3| <= u/2
    s = 1 / d          (1 + d4)    rcp.approx.ftz.f32:                         |d4| <= 2^-22 = 2u

(PTX manual: ``ex2`` has a maximum relative error of 2^-22; ``rcp`` one of 1 ulp, in older editions an absolute one of
2^-23 between 1 and 2, where the result may be as small as 1/2. An H100 errs by 2^-22.7 and 2^-23.3 at worst, over every
significand in 11 octaves for ``rcp``, and in 36 of either sign and 125 even sweeps of -125 to 125 for ``ex2``.)

The first two are the same as moving the argument by at most D = |v'| * d1 + d2; for |v'| < 2^22 D is below 1, and
s * (1 - s) changes by less than a factor e_ = 2.72 within it. As |v| * s * (1 - s) <= 0.224, they cost at most
0.224 * e_ * u + 2u/4; the last two cost 2.5u of s <= 1. With one percent for products of errors that is below 3.7u. For
|v'| >= 2^22 both s and the kernel's value are 0 or 1. Subnormal t, E and s are flushed (``.ftz``): t to 2^0 = 1,
which it is within 2^-125; E before 1 is added; s where it is below 2^-126. So r = 4u + 2^-125.

**SiLU.** v * s(v) has a derivative of at most 1.0999 (at v = 2.4): C = 1.1. As above, with v^2 * s * (1 - s) <= 0.44:
the argument's error costs 0.44 * e_ * u + 0.224 * e_ * 2u < 2.5u; the rest, 2.5u of s and u/2 of the last product,
3u * |v * s|. A flushed s costs |v'| * 2^-126; for |v'| >= 2^22 the result is v or 0, as it should be to well below
that. So r = u * (3 + 4 * (|silu(v)| + C*e)) + 2^-125 * (|v| + e).

Where a value may pass float32's largest number the bound becomes infinite, as for the sums themselves.
"""

from __future__ import annotations

import numpy as np

from convc.ir import dtypes
from convc.ir.epilogue import AddResidual, EpilogueStep, LeakyRelu, ReluGrad, Sigmoid, SiLU
from convc.ir.epilogue_values import epilogue_step
from convc.ir.problem import ConvProblem

UNIT = 2.0**-23
FLUSHED = 2.0**-125
"""Twice float32's smallest normal number."""
SLOPE_OF_SIGMOID = 0.25
SLOPE_OF_SILU = 1.1


def through_epilogue(
    problem: ConvProblem, sums: np.ndarray, bound: np.ndarray, residual: np.ndarray | None
) -> np.ndarray:
    """Largest difference between the exact result before the final rounding and a right one.

    Args:
        sums: exact sums with the bias, float64 (N, K, P, Q).
        bound: largest error of the kernel's, same shape; may be infinite.
        residual: same shape, or None where the problem has none.

    Returns:
        float64 (N, K, P, Q).
    """
    value = sums
    error = bound
    with np.errstate(all="ignore"):
        for step in problem.epilogue:
            after = epilogue_step(step, value, residual)
            error = _after(step, value, after, error, residual)
            largest = np.abs(after) + error
            error = np.where(largest <= dtypes.F32.max_finite, error, np.inf)  # infinite also where it is NaN
            value = after
    return error


def _after(
    step: EpilogueStep, value: np.ndarray, after: np.ndarray, error: np.ndarray, residual: np.ndarray | None
) -> np.ndarray:
    """C * e + r."""
    match step:
        case LeakyRelu(alpha=alpha):
            slope = abs(alpha)
            return max(1.0, slope) * error + UNIT * slope * (np.abs(value) + error) + dtypes.F32.min_subnormal
        case AddResidual():
            assert residual is not None
            return error + UNIT * (np.abs(value) + error + np.abs(np.asarray(residual, np.float64)))
        case ReluGrad():
            return np.where(np.asarray(residual, np.float64) > 0, error, 0.0)
        case Sigmoid():
            return SLOPE_OF_SIGMOID * error + 4 * UNIT + FLUSHED
        case SiLU():
            moved = SLOPE_OF_SILU * error
            return moved + UNIT * (3 + 4 * (np.abs(after) + moved)) + FLUSHED * (np.abs(value) + error)
        case _:
            return error
