r"""Bounds on how far from the exact convolution a right kernel may be: derived, not tuned.

A result is y = s + b rounded to the result type, with s a sum of L = C*R*S products of two operands.

**Products.** Operands have p significant bits: f16 and tf32 11, bf16 8, e4m3 4, e5m2 3. A product of two has at most
22, 16, 8 or 7 bits, which float32 (24 bits) holds: products are exact, unless they fall below its smallest normal
number (see *Underflow*; of 8-bit operands none does, the smallest is 2^-32).

**Plain sums.** Adding n numbers in float32, in any order and grouping, each addition rounded to nearest or
cut toward zero, gives a computed sum with

    |computed - exact| <= gamma(n - 1) * sum |terms|,     gamma(n) = n*u / (1 - n*u),     u = 2^-23

(N. Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed., 2002: section 2.2 for the model of
rounding, lemma 3.1 for gamma, section 4.2 for sums in any order). Rounding to nearest has unit 2^-24,
cutting 2^-23; we take the larger.

**Fused sums.** One tensor-core instruction adds m products and the accumulator c in one step: every term is
cut toward zero to 25 fractional bits relative to the largest exponent e of all terms, the cut terms are
added exactly, and the result is cut to float32 (P. Xie et al., "MMA-Sim", arXiv 2511.10909; F. Khattak and
M. Mikaitis, "Accurate Models of NVIDIA Tensor Cores", arXiv 2512.07004; both validated on Blackwell). The
term with exponent e has 24 bits and is not cut, so at most m terms are, by less than 2^(e-25) = (u/4) * 2^e
each. Let M be |c| plus the magnitudes of the products; 2^e <= M. The step adds a factor (1 + m*u/4) for the
cuts and (1 + u) for the result:

    if  |c - exact c| <= gamma(n) * S   then   |new c - exact| <= gamma(n + m/4 + 1) * S'

with S, S' the sums of magnitudes before and after, because (1 + gamma(n)) * (1 + x*u) <= 1 + gamma(n + x)
for x >= 0. An instruction whose products are all zero changes nothing. There are at most L others, with L
products in all, so n <= L/4 + L. This is more than the L - 1 of plain sums: the bound covers both.
It holds whatever m is: 8 for tf32, 16 for f16 and bf16, 32 for e4m3 and e5m2, whose terms Blackwell aligns to 25 bits
as well.

**Eight-bit floats on Hopper** are aligned to 13 fractional bits, and a result's mantissa has 13 (recorded; the same two
papers). With u = 2^-13 each of the m cut terms loses less than u * 2^e in place of a quarter of that, so that an
instruction costs m + 1 units, and the sum L + I of I instructions. One takes 32 neighbours of K, among which the
channels of a tap lie side by side: I is at most C/32 + 2 for each tap, and L at most.

**Bias** is one more float32 addition: n grows by 1. One unit more pays for the float64 arithmetic of the
oracle and of this bound, whose gamma(L) has u = 2^-53. In all n = 1.25*L + 2, or L + I + 2 units of 2^-13.

**Multipliers.** A sum that is multiplied by a number m before the bias is rounded once more: with g the relative
part of the bound above, an error of g * S becomes (g (1 + u) + u) * S |m|, u = 2^-23, to which the magnitude of the
bias is added as before. What is lost below float32's normals is multiplied as well, and the product loses once more.

**Parts.** float32 operands that are multiplied in parts have a sum of L products of parts for each pass, whose
magnitudes are a little larger; what the passes leave out is relative to each product.
`convc.host_layout.split_precision` derives both.

**Scale factors** of blocks: an element of at most 4 bits times a factor of at most 4, so that a product of two such
numbers has at most 16 bits and is exact too. The products of nvfp4 and mxfp4 are cut to 35 fractional bits, after sums
of 16 that are exact: less is lost than above. The scales of whole tensors are powers of two, and multiplying a sum by
them rounds nothing.

**Underflow.** 2^e <= M needs significands of at least 1, and a subnormal operand has less: the hardware
takes it with the smallest normal exponent. Counting each operand other than zero as at least the smallest
normal number of its type repairs this. What is lost below float32's normals is at most one of its smallest
subnormals for a product and two for an instruction or addition, and 3*n is more than all of them.

**Epilogue.** `convc.verification.epilogue_bound` carries the bound through what is done to the sum after the bias.

**Whole numbers** are added without any rounding: `convc.verification.compare` asks for every bit, and there is no
bound.

**Result type.** Rounding is monotone: if the float32 value is within ``bound`` of s + b, the stored result
lies between the rounded ends of that interval. `convc.verification.compare` does just that, so the bound here is
for before the final rounding.
"""

from __future__ import annotations

import math

import numpy as np

from convc.errors import LimitError
from convc.host_layout.block_scaled import as_multiplied
from convc.host_layout.split_precision import GROWTH, MISSING, PASSES, SMALLEST
from convc.ir import dtypes
from convc.ir.problem import ConvProblem
from convc.ir.sums import FLOAT32, Sums
from convc.support.memory import named_memory
from convc.verification import reference
from convc.verification.epilogue_bound import through_epilogue

UNIT = 2.0**-FLOAT32.bits
"""Unit roundoff of float32 for cutting toward zero; twice that of rounding to nearest."""

INSTRUCTION_K = 32
"""Eight-bit elements of K that one tensor-core instruction takes (PTX, wgmma shapes)."""


def error_bound(
    problem: ConvProblem,
    x: np.ndarray,
    w: np.ndarray,
    b: np.ndarray | None,
    residual: np.ndarray | None = None,
    sums: Sums = FLOAT32,
    multiplier: np.ndarray | None = None,
) -> np.ndarray | None:
    """Largest difference between the exact result and a right one, before rounding to the result type.

    Args:
        x, w, b: operands as the kernel gets them: x (N, C, H, W), w (K, C, R, S), b (K,) or None.
        residual: (N, K, P, Q) where the epilogue adds one.
        sums: how products are added (`convc.ir.sums.sums_of`).
        multiplier: (K,) where the problem has `ConvProblem.multiplier`.

    Returns:
        float64 (N, K, P, Q); infinite where float32 sums may overflow. None: every bit must agree.

    Raises:
        LimitError: sums so long that nothing is promised (n*u >= 1: above 6.7 million terms in float32).
    """
    if problem.operand_dtype.integer:
        return None
    n, gamma = sum_gamma(problem, sums)
    split = problem.operand in PASSES
    floors = (SMALLEST, SMALLEST) if split else (problem.operand_dtype.min_normal, problem.filter_dtype.min_normal)
    # Subnormal operands count as the smallest normal number: see "Underflow" above.
    if problem.operand in dtypes.SCALED_OPERANDS:
        raised = as_multiplied(problem, x, w, floors=True)
        x, w = as_multiplied(problem, x, w)
    else:
        raised = (_at_least(x, floors[0]), _at_least(w, floors[1]))
    sizes = None if b is None else np.abs(b)
    relative = gamma * GROWTH + MISSING[problem.operand] if split else gamma
    lost = 3 * n * (1 + gamma) * dtypes.F32.min_subnormal
    if multiplier is None:
        bound = _within_float32(reference.conv_sums(problem, *raised, sizes), relative, lost)
    else:
        bound = _scaled(problem, raised, sizes, np.abs(np.asarray(multiplier, np.float64)), (relative, lost))
    if not problem.epilogue:
        return bound
    exact = reference.scaled_sums(problem, x, w, b, multiplier)
    bound[~np.isfinite(exact)] = 0.0  # nothing rounds an infinity
    return through_epilogue(problem, exact, bound, residual)


def _within_float32(magnitude: np.ndarray, relative: float, lost: float | np.ndarray) -> np.ndarray:
    """The bound of sums whose terms have this magnitude; infinite where float32 may overflow."""
    bound = relative * magnitude + lost
    bound[~(magnitude + bound <= dtypes.F32.max_finite)] = np.inf  # also where it is NaN
    return bound


def _scaled(
    problem: ConvProblem,
    raised: tuple[np.ndarray, np.ndarray],
    bias: np.ndarray | None,
    multiplier: np.ndarray,
    errors: tuple[float, float],
) -> np.ndarray:
    """The bound of sums that are multiplied before the bias: see "Multipliers" above.

    Args:
        raised: magnitudes of the operands.
        bias, multiplier: magnitudes (K,).
        errors: the relative part of the bound of sums, and what is lost below float32's normals.
    """
    relative, lost = errors
    sums = reference.conv_sums(problem, *raised)
    scale = multiplier.reshape(-1, *(1,) * problem.rank)
    with np.errstate(invalid="ignore", over="ignore"):
        magnitude = sums * scale + (0 if bias is None else bias.reshape(scale.shape))
        bound = _within_float32(magnitude, relative * (1 + UNIT) + UNIT, lost * (scale * (1 + UNIT) + 1))
    bound[np.isinf(_within_float32(sums, relative, lost))] = np.inf
    return bound


def expected_result(problem: ConvProblem, x: np.ndarray, w: np.ndarray, *others: np.ndarray | None) -> np.ndarray:
    """The right result before the final rounding: the oracle on the numbers that the tensor core multiplies.

    Args:
        x, w: operands as the kernel gets them, (N, C, H, W) and (K, C, R, S); block-scaled ones stand for others.
        others: bias, multiplier and residual, as of `convc.verification.reference.conv_problem`.

    Returns:
        float64 (N, K, P, Q).

    Raises:
        LimitError: where there is no memory for the activations with their padding.
    """
    with named_memory(f"the reference of {problem.name!r}"):
        return reference.conv_problem(problem, *as_multiplied(problem, x, w), *others)


def sum_gamma(problem: ConvProblem, sums: Sums = FLOAT32) -> tuple[float, float]:
    """n and gamma(n) of the module's text for the sums of a problem; `LimitError` where n*u >= 1."""
    terms = problem.gemm_k * len(PASSES.get(problem.operand, (None,)))
    unit = 2.0**-sums.bits
    n = terms * 2.0 ** (sums.bits - sums.fraction) + _instructions(problem, terms, sums) + 2
    if n * unit >= 1:
        kept = "float32" if sums == FLOAT32 else f"{sums.bits} bit"
        raise LimitError(
            f"a {kept} sum of {terms} terms has no error bound",
            where=f"convolution {problem.name!r}",
            hint="compare on integer data, whose sums are exact",
        )
    return n, n * unit / (1 - n * unit)


def _instructions(problem: ConvProblem, terms: int, sums: Sums) -> int:
    """Most instructions, or additions, whose products are not all zero for one element of the result."""
    if sums == FLOAT32:
        return terms
    channels = problem.in_channels // problem.groups
    return min(terms, math.prod(problem.kernel) * (channels // INSTRUCTION_K + 2))


def _at_least(array: np.ndarray, floor: float) -> np.ndarray:
    """|array|, with values between 0 and ``floor`` raised to it."""
    magnitude = np.abs(np.asarray(array, np.float64))
    np.maximum(magnitude, floor, out=magnitude, where=magnitude > 0)
    return magnitude
