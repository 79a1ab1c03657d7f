"""The oracle: a convolution of any rank in float64, written from the definition.

Every output is a sum of what it reads, and of nothing else: infinities and NaN of other groups, taps and pixels do not
reach it. Padding is zeros, which are not multiplied by weights that are not finite.

Nothing here knows about tiles, layouts or the simulator. The input is padded with zeros; a strided *view* of
it then holds, for every output pixel, the pixels that its filter touches (no copy: overlapping windows of
the same memory). Windows of a bounded number of output pixels at a time are gathered into a matrix and
multiplied with the filters by BLAS.

float64 has 53 significant bits: products of two operands (48 bits at most) are exact, and sums of integers
are exact up to 2^53, so on integer data this is the exact answer.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence

import numpy as np

from convc.ir import dtypes
from convc.ir.dtypes import DType
from convc.ir.epilogue_values import after_epilogue
from convc.ir.problem import ConvProblem
from convc.support.memory import human_bytes

_GATHER_BYTES = 8 << 20
"""Gather at most about this much at a time: bounds memory, and stays in the cache that BLAS reads from."""


def conv_problem(
    problem: ConvProblem,
    x: np.ndarray,
    w: np.ndarray,
    bias: np.ndarray | None = None,
    multiplier: np.ndarray | None = None,
    residual: np.ndarray | None = None,
) -> np.ndarray:
    """A whole problem, before the final rounding: requantised, or with its epilogue.

    Args:
        x, w, bias: (N, C, H, W), (K, C, R, S), and (K,) or None.
        multiplier: (K,) of a problem that is requantised or has `ConvProblem.multiplier`, None of others.
        residual: (N, K, P, Q) where the epilogue adds one, None elsewhere.
    """
    if problem.requantised and multiplier is not None:
        sums = conv_sums(problem, x, w, bias)
        return requantise(sums, multiplier, problem.out_zero_point, problem.out_dtype)
    return epilogue(problem, scaled_sums(problem, x, w, bias, multiplier), residual)


def scaled_sums(
    problem: ConvProblem,
    x: np.ndarray,
    w: np.ndarray,
    bias: np.ndarray | None = None,
    multiplier: np.ndarray | None = None,
) -> np.ndarray:
    """`conv_sums`, multiplied by a number per output channel before the bias where there are multipliers (K,)."""
    if problem.multiplier != (multiplier is not None):
        expected = "multipliers" if problem.multiplier else "no multipliers"
        raise ValueError(f"expected {expected} of convolution {problem.name!r}")
    if multiplier is None:
        return conv_sums(problem, x, w, bias)
    channels = (-1, *(1,) * problem.rank)
    with np.errstate(invalid="ignore", over="ignore"):
        sums = conv_sums(problem, x, w) * np.asarray(multiplier, np.float64).reshape(channels)
        return sums if bias is None else sums + np.asarray(bias, np.float64).reshape(channels)


def conv_sums(problem: ConvProblem, x: np.ndarray, w: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
    """`conv` with the steps and pads of a problem; x (N, C, H, W), w (K, C, R, S), bias (K,) or None."""
    if x.shape != problem.x_shape or w.shape != problem.w_shape:
        raise ValueError(f"expected x {problem.x_shape} and w {problem.w_shape}, got {x.shape} and {w.shape}")
    if problem.transposed:
        return transposed(problem, x, w, bias)
    return conv(
        x,
        w,
        bias,
        stride=problem.stride,
        dilation=problem.dilation,
        pads=(problem.pad_lo, problem.pad_hi),
        pad_value=problem.pad_value,
        groups=problem.groups,
    )


def requantise(sums: np.ndarray, multiplier: np.ndarray, zero_point: int, out: DType) -> np.ndarray:
    """Whole sums to 8 bits: saturate(round(float32(sum) * multiplier[k]) + zero_point).

    The conversion of the sum, which wraps modulo 2^32 first, the product and the rounding are to nearest, ties to even,
    in float32.

    Args:
        sums: (N, K, *out), whole numbers.
        multiplier: (K,) float32.

    Returns:
        float64 (N, K, *out), whole numbers that ``out`` has.
    """
    wrapped = dtypes.encode(dtypes.S32, sums).astype(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = np.rint(wrapped * np.asarray(multiplier, np.float32).reshape(-1, *(1,) * (sums.ndim - 2)))
    return np.clip(np.nan_to_num(scaled.astype(np.float64), nan=0.0) + zero_point, out.min_finite, out.max_finite)


def transposed(problem: ConvProblem, x: np.ndarray, w: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
    """Transposed convolution (ONNX ``ConvTranspose``): every input pixel times the filter is added where it belongs.

    Args:
        x, w, bias: (N, C, *in), (C, K/G, *kernel), and (K,) or None.

    Returns:
        float64 (N, K, *out).
    """
    groups = problem.groups
    depth = problem.out_channels // groups
    full = [out + lo + hi for out, lo, hi in zip(problem.out_extent, problem.pad_lo, problem.pad_hi, strict=True)]
    total = _filled((problem.batch, groups, depth, *full), 0.0)
    pixels = x.astype(np.float64).reshape(problem.batch, groups, problem.group_channels, -1)
    filters = w.astype(np.float64).reshape(groups, problem.group_channels, depth, *problem.kernel)
    for tap in np.ndindex(*problem.kernel):
        place: list[slice] = []
        for t, d, u, extent in zip(tap, problem.dilation, problem.stride, problem.in_extent, strict=True):
            place.append(slice(t * d, t * d + (extent - 1) * u + 1, u))
        with np.errstate(all="ignore"):
            products = np.matmul(filters[(..., *tap)].swapaxes(1, 2), pixels)
            total[(..., *place)] += products.reshape(*total.shape[:3], *problem.in_extent)
    inside = [slice(lo, lo + out) for lo, out in zip(problem.pad_lo, problem.out_extent, strict=True)]
    cropped = total[(..., *inside)].reshape(problem.y_shape)
    return cropped if bias is None else cropped + np.asarray(bias, np.float64).reshape(-1, *(1,) * problem.rank)


def epilogue(problem: ConvProblem, sums: np.ndarray, residual: np.ndarray | None = None) -> np.ndarray:
    """Apply a problem's epilogue to exact sums (N, K, P, Q), in float64."""
    if problem.residual != (residual is not None) or (residual is not None and residual.shape != problem.y_shape):
        expected = f"a residual {problem.y_shape}" if problem.residual else "no residual"
        raise ValueError(f"expected {expected}, got {None if residual is None else residual.shape}")
    return after_epilogue(problem.epilogue, sums, residual)


def conv(
    x: np.ndarray,
    w: np.ndarray,
    bias: np.ndarray | None = None,
    *,
    stride: Sequence[int] | None = None,
    dilation: Sequence[int] | None = None,
    pads: tuple[Sequence[int], Sequence[int]] | None = None,
    groups: int = 1,
    pad_value: float = 0.0,
) -> np.ndarray:
    """Convolution (ONNX ``Conv``: cross-correlation with zero padding) in float64.

    Args:
        x: (N, C, *spatial), any real type.
        w: (K, C / groups, *kernel).
        bias: (K,) or None.
        stride, dilation: one per spatial axis, default 1.
        pads: pixels before and behind, each one per spatial axis, default 0.
        pad_value: what x is outside its extent.
        groups: output channels k of group g see only the input channels of group g.

    Returns:
        float64 (N, K, *out).

    Raises:
        ValueError: when shapes do not fit or the output is empty.
    """
    rank = x.ndim - 2
    stride = tuple(stride or (1,) * rank)
    dilation = tuple(dilation or (1,) * rank)
    pad_lo, pad_hi = pads or ((0,) * rank, (0,) * rank)
    batch, channels = x.shape[:2]
    filters, depth, *kernel = w.shape
    if w.ndim != x.ndim or rank < 1 or depth * groups != channels or filters % groups:
        raise ValueError(f"x {x.shape} and w {w.shape} do not fit together with {groups} group(s)")
    padded = _padded(x, tuple(pad_lo), tuple(pad_hi), pad_value)
    span = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    out = tuple((e - s) // u + 1 for e, s, u in zip(padded.shape[2:], span, stride, strict=True))
    if min(out) < 1:
        raise ValueError(f"x {x.shape} and w {w.shape} give an empty output {out}")

    if any((*pad_lo, *pad_hi)) and not np.isfinite(w).all():
        return _inside(x, w, bias, (stride, dilation, tuple(pad_lo)), out, groups)
    windows = _windows(padded, kernel, out, stride, dilation)
    matrices = np.asarray(w, np.float64).reshape(groups, filters // groups, -1)  # (G, K/G, C/G*R*S)
    y = np.empty((batch, groups, filters // groups, *out))
    terms = matrices.shape[-1]
    with np.errstate(all="ignore"):  # infinities and NaN in the data are the caller's business
        for tile in _tiles(out, max(1, _GATHER_BYTES // (8 * terms))):
            for n in range(batch):
                for g in range(groups):
                    columns = windows[(n, slice(g * depth, (g + 1) * depth), ..., *tile)].reshape(terms, -1)
                    part = y[(n, g, slice(None), *tile)]
                    part[...] = (matrices[g] @ columns).reshape(part.shape)
        y = y.reshape(batch, filters, *out)
        if bias is not None:
            y += np.asarray(bias, np.float64).reshape(-1, *(1,) * rank)
    return y


def _inside(
    x: np.ndarray,
    w: np.ndarray,
    bias: np.ndarray | None,
    steps: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]],
    out: tuple[int, ...],
    groups: int,
) -> np.ndarray:
    """`conv` tap by tap, without products of padding: where there is no pixel, an infinite weight means nothing.

    Args:
        steps: stride, dilation and pads before, one per spatial axis each.
    """
    total = np.zeros((len(x), groups, len(w) // groups, *out))
    pixels = np.asarray(x, np.float64).reshape(len(x), groups, -1, *x.shape[2:])
    filters = np.asarray(w, np.float64).reshape(groups, -1, *w.shape[1:])
    for tap in np.ndindex(*w.shape[2:]):
        read: list[slice] = []
        written: list[slice] = []
        for t, step, spread, pad, extent, count in zip(tap, *steps, x.shape[2:], out, strict=True):
            first = max(0, -((t * spread - pad) // step))
            last = min(count, (extent - 1 - t * spread + pad) // step + 1)
            start = first * step + t * spread - pad
            written.append(slice(first, max(first, last)))
            read.append(
                slice(max(0, start), max(0, start) + max(0, (last - first - 1) * step + 1) * (last > first), step)
            )
        with np.errstate(all="ignore"):
            total[(..., *written)] += np.einsum("ngc...,gkc->ngk...", pixels[(..., *read)], filters[(..., *tap)])
    y = total.reshape(len(x), len(w), *out)
    return y if bias is None else y + np.asarray(bias, np.float64).reshape(-1, *(1,) * len(out))


def _padded(x: np.ndarray, pad_lo: tuple[int, ...], pad_hi: tuple[int, ...], value: float) -> np.ndarray:
    if not any(pad_lo + pad_hi):
        return np.asarray(x, np.float64)
    axes = list(zip(pad_lo, x.shape[2:], pad_hi, strict=True))
    padded = _filled((*x.shape[:2], *(lo + extent + hi for lo, extent, hi in axes)), value)
    padded[(..., *(slice(lo, lo + extent) for lo, extent, _ in axes))] = x
    return padded


def _filled(shape: tuple[int, ...], value: float) -> np.ndarray:
    """An array of one value, float64. MemoryError also where numpy has other words: no memory has so many addresses."""
    size = 8 * math.prod(shape)
    if size > sys.maxsize:
        raise MemoryError(f"Unable to allocate {human_bytes(size)} for an array with shape {shape}")
    return np.full(shape, value, np.float64)


def _windows(
    x: np.ndarray, kernel: Sequence[int], out: tuple[int, ...], stride: Sequence[int], dilation: Sequence[int]
) -> np.ndarray:
    """View (N, C, *kernel, *out): entry [n, c, tap, pixel] is x[n, c, pixel*stride + tap*dilation]."""
    steps = x.strides[2:]

    def strides(factors: Sequence[int], extents: Sequence[int]) -> Iterator[int]:
        """Bytes from one to the next; none where there is one alone, whose stride may be too large for numpy."""
        return (s * f if e > 1 else 0 for s, f, e in zip(steps, factors, extents, strict=True))

    return np.lib.stride_tricks.as_strided(
        x,
        shape=(*x.shape[:2], *kernel, *out),
        strides=(*x.strides[:2], *strides(dilation, kernel), *strides(stride, out)),
        writeable=False,
    )


def _tiles(out: tuple[int, ...], limit: int) -> Iterator[tuple[slice, ...]]:
    """Cut the output into boxes of at most ``limit`` pixels (at least one), outermost axis first."""
    inner = math.prod(out[1:])
    step = max(1, limit // inner)
    for start in range(0, out[0], step):
        head = slice(start, min(start + step, out[0]))
        if inner <= limit or len(out) == 1:
            yield (head, *(slice(None),) * (len(out) - 1))
        else:
            for rest in _tiles(out[1:], limit):
                yield (head, *rest)
