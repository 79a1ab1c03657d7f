"""Gradients of weights whose operands stay as they are: channels last, so that the tensor core reads them MN-major.

A gradient of weights is a convolution that sums over the pixels of another one (`convc.ir.gradients`). As an ordinary
kernel it wants what it sums side by side, so that x and dy are transposed first. Of numbers of 16 bits the tensor core
takes operands whose rows run the other way too (PTX manual: matrix descriptors, "MN-major"; ``imm-trans-a``): then both
come as they lie in memory of the forward pass, and only their result is the host's.

    ==========  ========================  =================================================================
    buffer      shape                     note
    ==========  ========================  =================================================================
    activation  (N, H, W, c_pitch)        x, as a forward kernel has it
    filter      (N*P*Q, k_pitch)          dy, a row a pixel
    output      (R, S, C', k_pitch)       dw; C': C rounded up to the channels that a swizzled row holds
    ==========  ========================  =================================================================
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from convc.ir.arch import SM_100A
from convc.ir.columns import Columns
from convc.ir.problem import ConvProblem

SUMMED: Columns = "summed"
OPERANDS = ("f16", "bf16")
"""Types whose operands the tensor core reads either way on every target (PTX manual, wgmma: "the transpose operation is
only supported for the .f16 / .bf16 types")."""

SPAN_BYTES = SM_100A.limits.swizzle_spans[-1]


def span_of(problem: ConvProblem) -> int:
    """Channels of a swizzled row: what a copy brings of each pixel."""
    return SPAN_BYTES // problem.operand_dtype.bytes


def why_not_summed(problem: ConvProblem) -> str | None:
    """Say why pixels of a problem cannot be summed as they lie; None where they can."""
    if not problem.late_filter:
        return "it is no gradient of weights"
    if problem.operand not in OPERANDS or problem.filter_operand is not None:
        types = problem.types.partition(" -> ")[0]
        return f"the tensor core reads operands MN-major of {' and '.join(OPERANDS)}, these are {types}"
    if problem.rank != 2:
        return f"it has {problem.rank} spatial axes, and MN-major operands are of two"
    if problem.groups > 1:
        return f"its {problem.groups} groups share the channels of a row"
    return None


def walked(gradient: ConvProblem) -> ConvProblem:
    """The forward convolution whose pixels are summed: that exchange once more (`convc.ir.gradients`)."""
    return replace(
        gradient,
        batch=gradient.in_channels,
        in_channels=gradient.batch,
        kernel=gradient.out_extent,
        stride=gradient.dilation,
        dilation=gradient.stride,
        late_filter=False,
    )


def spanned(gradient: ConvProblem) -> ConvProblem:
    """The gradient with channels of x, its images, up to whole spans: a row of the kernel's product each."""
    span = span_of(gradient)
    return replace(gradient, batch=-(-gradient.batch // span) * span)


def x_as_it_lies(images: np.ndarray) -> np.ndarray:
    """(N, H, W, C) of the gradient's activations (C, N, H, W)."""
    return np.moveaxis(images, 0, -1)


def dy_as_it_lies(taps: np.ndarray) -> np.ndarray:
    """(N*P*Q, K) of the gradient's filters (K, N, P, Q)."""
    return np.moveaxis(taps, 0, -1).reshape(-1, len(taps))


def result_as_it_lies(result: np.ndarray) -> np.ndarray:
    """(R, S, C, K) of the gradient's result (C, K, R, S)."""
    return result.transpose(2, 3, 0, 1)


def result_of(y: np.ndarray, gradient: ConvProblem) -> np.ndarray:
    """The result (C, K, R, S) from the kernel's (R, S, C', k_pitch)."""
    own = y[..., : gradient.batch, : gradient.out_channels]
    return np.ascontiguousarray(own.transpose(2, 3, 0, 1))
