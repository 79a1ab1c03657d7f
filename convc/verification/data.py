"""Inputs to judge a convolution by.

*Integer data* makes the answer exact: operands are small whole numbers, and every sum that can occur, in
any order, is a whole number below 2^24, which float32 holds exactly. No rounding happens before the final
one, so a kernel must match the oracle bit for bit; one wrong tap, pixel or channel shows. *Normal data*
looks like a real layer and exercises rounding; the answer is then judged with `convc.verification.bound`.
Convolutions of whole numbers are exact on any data: their integer data use the whole range of the types, and a bias
that makes s32 sums wrap; their normal data have the spread of a quantised layer.

Block-scaled types have whole numbers of e2m1, each block times a power of two, as exact data; and any float32 as normal
data, which kernel and oracle round alike.

All other arrays are float32 with values that the operand type can hold: x (N, C, H, W), w (K, C, R, S), b (K,) or
None (float64 where the sums are s32).

Exact operands of block-scaled types: whole numbers that survive their quantisation, with factors that differ.

Every block has one of a few powers of two, times whole numbers that e2m1 has, of which the first is the largest there
is. Then the factor of nvfp4, largest / 6, is a power of two as well, and all elements are exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from convc.host_layout.block_scaled import FORMATS, as_filters
from convc.host_layout.split_precision import EXACT_BITS
from convc.ir import dtypes
from convc.ir.epilogue import saturates_at
from convc.ir.problem import ConvProblem, shape_text
from convc.support.memory import require_memory

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray | None]


def integer_data(problem: ConvProblem, seed: int) -> Arrays:
    """Whole numbers with exact sums.

    The ranges are the widest for which

    * operands are exact: magnitudes up to 2^p of the operand type (p = its precision); where float32 is split into
      parts, as many bits as the products of parts that are made can carry, of activations or weights by turns;
    * sums are exact and finite: C*R*S * max|x| * max|w| + max|b| (and the residual, as large as a bias) is below 2^24,
      and not above the largest finite result;
    * results are mostly exact: the typical (root mean square) sum is at most 2^p / 4 of the result type, so
      that the final rounding does not hide an error of one; and, as far as whole numbers go, below what the epilogue
      saturates at.

    Where even magnitude 1 makes sums too large, only a share of the weights is not zero.
    """
    _require_arrays(problem)
    rng = np.random.default_rng(seed)
    if problem.operand_dtype.integer:
        return _whole_range(problem, rng)
    if problem.operand in FORMATS:
        most = _largest_sum(problem)
        x, w, largest = numbers_in_blocks(problem, rng, lambda largest: most - _added(problem) * largest)
        return x, w, _integers(rng, largest, (problem.out_channels,)) if problem.bias else None
    x_max, w_max = _integer_ranges(problem, seed)
    x = _integers(rng, x_max, problem.x_shape)
    w = _integers(rng, w_max, problem.w_shape)
    b = _integers(rng, x_max, (problem.out_channels,)) if problem.bias else None
    room = _largest_sum(problem) - _added(problem) * x_max
    if problem.gemm_k * x_max * w_max > room:
        _thin(rng, w.swapaxes(0, 1) if problem.transposed else w, room // (x_max * w_max))
    return x, w, b


def normal_data(problem: ConvProblem, seed: int, w: np.ndarray | None = None, b: np.ndarray | None = None) -> Arrays:
    """Normally distributed numbers, rounded to the operand type (the bias to the result type).

    x has variance 1; random weights have variance 1 / (C*R*S), so that results have variance about 1. Where
    the model has weights, pass them as ``w``, and its bias (or None) as ``b``.
    """
    _require_arrays(problem)
    rng = np.random.default_rng(seed)
    if problem.operand_dtype.integer:
        return _quantised(problem, rng, w, b)
    x = _normal(rng, problem.x_shape, problem.operand_dtype, 1.0)
    if w is None:
        w = _normal(rng, problem.w_shape, problem.filter_dtype, problem.gemm_k**-0.5)
        b = _normal(rng, (problem.out_channels,), problem.out_dtype, 1.0) if problem.bias else None
    return x, w, b


def multipliers(problem: ConvProblem, seed: int, *, integer: bool = True) -> np.ndarray | None:
    """Multipliers (K,) float32 of a problem whose sums have them, None of others.

    Those of a requantised problem spread the sums that normal data give over the range of the result, each channel a
    little differently; one in eight is a power of two, which makes ties. Those of float sums have either sign, and are
    1 or 2 on integer data, which stay whole; normal ones on others.
    """
    rng = np.random.default_rng((seed, 1))
    if problem.multiplier:
        if integer:
            return rng.choice(np.array([-2, -1, 1, _LARGEST_MULTIPLIER], np.float32), problem.out_channels)
        return rng.standard_normal(problem.out_channels, dtype=np.float32)
    if not problem.requantised:
        return None
    typical = math.sqrt(problem.gemm_k) * _SPREAD**2
    scale = (64 / typical * rng.uniform(0.5, 2, problem.out_channels)).astype(np.float32)
    scale[::8] = np.exp2(np.rint(np.log2(scale[::8])))
    return scale


_LARGEST_MULTIPLIER = 2
"""Of float sums on integer data."""

_SPREAD = 25.0
"""Standard deviation of quantised activations and weights in normal data."""


def _whole_range(problem: ConvProblem, rng: np.random.Generator) -> Arrays:
    """Any operands that the types have; the bias of every fourth channel is at an end of s32."""

    def draw(dtype: dtypes.DType, shape: tuple[int, ...]) -> np.ndarray:
        return rng.integers(int(dtype.min_finite), int(dtype.max_finite), shape, np.int16, endpoint=True)

    x = draw(problem.operand_dtype, problem.x_shape)
    w = draw(problem.filter_dtype, problem.w_shape)
    for _ in range(1, problem.filter_parts):
        w += draw(problem.filter_dtype, problem.w_shape)
    b = None
    if problem.bias:
        b = rng.integers(-1000, 1000, problem.out_channels).astype(np.float64)
        b[3::4] += np.where(b[3::4] < 0, 2.0**31 - 1, -(2.0**31))
    return x.astype(np.float32), w.astype(np.float32), b


def _quantised(problem: ConvProblem, rng: np.random.Generator, w: np.ndarray | None, b: np.ndarray | None) -> Arrays:
    """Operands around the middle of their range."""

    def draw(dtype: dtypes.DType, shape: tuple[int, ...]) -> np.ndarray:
        middle = 0.0 if dtype.signed else 128.0
        values = middle + _SPREAD * rng.standard_normal(shape, dtype=np.float32)
        return dtypes.quantise(dtype, values)

    x = draw(problem.operand_dtype, problem.x_shape)
    if w is None:
        w = problem.filter_parts * draw(problem.filter_dtype, problem.w_shape)
        reach = math.sqrt(problem.gemm_k) * _SPREAD**2
        b = np.rint(reach * rng.standard_normal(problem.out_channels)) if problem.bias else None
    return x, w, b


def residual_data(problem: ConvProblem, seed: int, *, integer: bool) -> np.ndarray | None:
    """The residual (N, K, P, Q) that goes with `integer_data` or `normal_data` of the same seed; None: there is none.

    Whole numbers as large as those of a bias, or normal ones of variance 1, with values of the result type.
    """
    if not problem.residual:
        return None
    require_memory(4 * math.prod(problem.y_shape), f"the residual of {problem.name!r} ({shape_text(problem.y_shape)})")
    rng = np.random.default_rng((seed, 1))
    if integer:
        return _integers(rng, _integer_ranges(problem, seed)[0], problem.y_shape)
    return _normal(rng, problem.y_shape, problem.out_dtype, 1.0)


def _added(problem: ConvProblem) -> int:
    """Numbers as large as max|x| that a sum may get besides its products."""
    return 1 + problem.residual


def _require_arrays(problem: ConvProblem) -> None:
    """Raise `LimitError` where x and w do not fit into memory."""
    size = 4 * (math.prod(problem.x_shape) + math.prod(problem.w_shape))
    shapes = f"x {shape_text(problem.x_shape)}, w {shape_text(problem.w_shape)}"
    require_memory(size, f"the test data of {problem.name!r} ({shapes})")


def _largest_sum(problem: ConvProblem) -> int:
    """The largest whole number that a sum may reach, so that it can still be multiplied."""
    largest = min((1 << 24) - 1, int(problem.out_dtype.max_finite))
    return largest // _LARGEST_MULTIPLIER if problem.multiplier else largest


def _integer_ranges(problem: ConvProblem, seed: int) -> tuple[int, int]:
    """(max |x|, max |w|), grown by turns while all three rules of `integer_data` hold; at least (1, 1).

    Of operands in parts the longer ones grow first, so that they have more than one part.
    """
    bits = (problem.operand_dtype.precision, problem.filter_dtype.precision)
    if problem.operand in EXACT_BITS:
        choices = EXACT_BITS[problem.operand]
        bits = choices[seed % len(choices)]
    x_limit, w_limit = (1 << count for count in bits)
    typical_max = (1 << problem.out_dtype.precision) / 4
    saturated = saturates_at(problem.epilogue)
    if saturated is not None:
        typical_max = min(typical_max, saturated)
    terms = problem.gemm_k
    added = _added(problem)
    largest_sum = _largest_sum(problem)

    def fits(x_max: int, w_max: int) -> bool:
        """Whether all three rules hold for these magnitudes."""
        variance = terms * _variance(x_max) * _variance(w_max)
        largest = terms * x_max * w_max + added * x_max
        exact = x_max <= x_limit and w_max <= w_limit and largest <= largest_sum
        return exact and variance <= typical_max**2

    # Parts carry different bits: the side with more of them must reach beyond one part, before both grow by turns.
    x_max = w_max = 1
    if x_limit > w_limit:
        while fits(2 * x_max, 3) and x_max < x_limit:
            x_max *= 2
    if w_limit > x_limit:
        while fits(3, 2 * w_max) and w_max < w_limit:
            w_max *= 2
    while fits(x_max + 1, w_max):
        x_max += 1
        if fits(x_max, w_max + 1):
            w_max += 1
    return x_max, w_max


def _variance(largest: int) -> float:
    """Variance of a uniform draw from -largest..largest."""
    return largest * (largest + 1) / 3


def _integers(rng: np.random.Generator, largest: int, shape: tuple[int, ...]) -> np.ndarray:
    """float32 whole numbers, evenly from -largest to largest."""
    kind = np.int16 if largest < 1 << 15 else np.int32
    return rng.integers(-largest, largest, size=shape, dtype=kind, endpoint=True).astype(np.float32)


def _thin(rng: np.random.Generator, w: np.ndarray, keep: int) -> None:
    """Leave at most ``keep`` weights of each output channel different from zero, in place."""
    for row in w:
        row[np.unravel_index(rng.permutation(row.size)[keep:], row.shape)] = 0


def _normal(rng: np.random.Generator, shape: tuple[int, ...], dtype: dtypes.DType, scale: float) -> np.ndarray:
    """Normal numbers, rounded to a type."""
    values = rng.standard_normal(shape, dtype=np.float32)
    values *= np.float32(scale)
    return dtypes.quantise(dtype, values)


CHOICES = (((0, 1, 2, 3, 4, 6), 2), ((0, 1, 2, 3, 4, 6), 1), ((0, 1, 2, 3, 4, 6), 0), ((1, 2, 3), 0))
"""Magnitudes and the largest exponent of a block's power of two, from the widest range to the narrowest."""


def numbers_in_blocks(
    problem: ConvProblem, rng: np.random.Generator, room: Callable[[int], int]
) -> tuple[np.ndarray, np.ndarray, int]:
    """Activations and filters of the widest range whose sums have room, and the largest magnitude without its power.

    Where even the narrowest is too much, whole blocks of weights are zero.

    Args:
        room: what sums of products may come to, where the largest magnitude is the one given.

    Returns:
        float32 x and w, in the shapes of the problem.
    """
    block = FORMATS[problem.operand].block
    terms = problem.gemm_k

    def fits(numbers: tuple[int, ...], spread: int) -> bool:
        return terms * numbers[-1] ** 2 * 4**spread <= room(numbers[-1])

    numbers, spread = next((choice for choice in CHOICES if fits(*choice)), CHOICES[-1])
    largest = numbers[-1]
    taps_shape = (problem.out_channels, problem.group_channels, *problem.kernel)
    x = _draw(rng, problem.x_shape, problem.groups, block, numbers, spread)
    taps = _draw(rng, taps_shape, 1, block, numbers, spread)
    most = room(largest) // largest**2
    if terms > most:
        blocks = -(-problem.group_channels // block)
        for row in taps:
            keep = np.zeros(blocks * math.prod(problem.kernel), bool)
            keep[rng.permutation(keep.size)[: most // block]] = True
            kept = np.repeat(keep.reshape(blocks, *problem.kernel), block, axis=0)
            row[~kept[: problem.group_channels]] = 0
    return x, as_filters(problem, taps), largest


def _draw(
    rng: np.random.Generator, shape: tuple[int, ...], groups: int, block: int, numbers: tuple[int, ...], spread: int
) -> np.ndarray:
    """float32 (N, C, *extent), in blocks along axis 1."""
    count, channels, *extent = shape
    own = channels // groups
    drawn = rng.choice(numbers, (count, groups, own, *extent))
    drawn[:, :, ::block] = numbers[-1]
    drawn = np.where(rng.random(drawn.shape) < 0.5, -drawn, drawn)
    power = np.exp2(rng.integers(0, spread, (count, groups, -(-own // block), *extent), endpoint=True))
    drawn = drawn * np.repeat(power, block, axis=2)[:, :, :own]
    return drawn.reshape(shape).astype(np.float32)
