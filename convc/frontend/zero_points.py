r"""Convolutions of 8-bit numbers with zero points (ONNX ``ConvInteger`` and ``QLinearConv``), exactly.

    y[n, k, p, q] = sum over c, r, s of (x[...] - zx) * (w[k, c, r, s] - zw[k]),    x = zx outside the image

The tensor core multiplies u8 and s8 and knows no zero points. So

* zw is subtracted from the weights on the host: w' = w - zw has 9 bits at worst. Where all w' fit s8 or u8, that is the
  type of the filter; otherwise w' is a sum of s8 *parts*, each with a copy of the channels of x;
* zx comes out of the sum: y = sum x*w' - zx * sum w', where x is zx in the padding. The second sum is a number per
  output channel and joins the bias. Where zx is not 0 and there is padding, the image is padded with zx on the host.

All sums are modulo 2^32, as ONNX has it and the tensor core makes them.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from convc.ir import dtypes
from convc.ir.problem import ConvProblem

S8 = dtypes.S8


def remove_zero_points(
    problem: ConvProblem,
    w: np.ndarray,
    x_zero_point: int = 0,
    w_zero_point: np.ndarray | int = 0,
    bias: np.ndarray | None = None,
) -> tuple[ConvProblem, np.ndarray, np.ndarray | None]:
    """A convolution without zero points that has the same results, and its filter and bias.

    Args:
        problem: the convolution with zero points; its operand types are those of the arrays.
        w: (K, C/G, R, S), whole numbers.
        x_zero_point: a number that the activations' type has.
        w_zero_point: a number that the filters' type has, or one for each output channel, (K,).
        bias: (K,) whole numbers, or None.

    Returns:
        The problem; filter (K, C/G, R, S), float32; bias (K,), float64 with the values of an s32, or None.
    """
    zero = np.asarray(w_zero_point, np.int64).reshape(-1, *(1,) * (w.ndim - 1))
    filters = w.astype(np.int64) - zero
    name, parts = filter_type(filters, problem.filter_operand or problem.operand)
    total = np.zeros(len(filters), np.int64) if bias is None else bias.astype(np.int64)
    total = total - x_zero_point * filters.reshape(len(filters), -1).sum(axis=1)
    wanted = bias is not None or bool(x_zero_point)
    lowered = dataclasses.replace(
        problem,
        filter_operand=name,
        filter_parts=parts,
        pad_value=int(x_zero_point) if any(problem.pad_lo + problem.pad_hi) else 0,
        bias=wanted,
    )
    total = dtypes.encode(dtypes.S32, total).astype(np.float64)
    return lowered, filters.astype(np.float32), total if wanted else None


def filter_type(filters: np.ndarray, own: str) -> tuple[str, int]:
    """The 8-bit type that holds whole numbers, their own if it does, and how many parts of that type it takes."""
    low = int(filters.min(initial=0))
    high = int(filters.max(initial=0))
    for name in (own, "s8", "u8"):
        if dtypes.BY_NAME[name].min_finite <= low and high <= dtypes.BY_NAME[name].max_finite:
            return name, 1
    return "s8", max(-(-high // int(S8.max_finite)), -(-low // int(S8.min_finite)))


def multiplier_of(x_scale: np.ndarray, w_scale: np.ndarray, y_scale: np.ndarray, channels: int) -> np.ndarray:
    """x_scale * w_scale / y_scale, each operation rounded to float32, as float32 (K,); w_scale is a scalar or (K,)."""
    with np.errstate(all="ignore"):  # a scale that is no number is refused by who asks
        product = np.asarray(x_scale, np.float32) * np.asarray(w_scale, np.float32)
        scale = np.asarray(product / np.asarray(y_scale, np.float32), np.float32)
    return np.ascontiguousarray(np.broadcast_to(scale.reshape(-1), (channels,)))
