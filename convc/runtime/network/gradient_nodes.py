"""Nodes of training graphs on the host, for `onnx.reference`, which has none of them, nor has onnxruntime for users.

The gradients of a convolution are what its definition says, tap by tap: x at p*u + r*d - pad, times w at r, is added to
y at p; so dy at p, times w at r, is added to dx there, and dy times x to dw at r. Sums are float64, rounded once.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from onnx.reference.op_run import OpRun

from convc.errors import NodeError
from convc.frontend.conv_node import conv_attributes, conv_problem
from convc.frontend.expand_gradients import BIAS_DOMAIN, DOMAINS, NAME, TRAINING
from convc.ir.gradients import INPUT, WEIGHTS
from convc.ir.problem import ConvProblem


class ReluGrad(OpRun):
    """The gradient of a rectifier: dY where X, which may be what it took or what it made, is above zero."""

    op_domain = TRAINING

    def _run(self, dy: np.ndarray, x: np.ndarray) -> tuple[np.ndarray]:
        return (np.where(x > 0, dy, np.zeros((), dy.dtype)),)


class ConvBiasGrad(OpRun):
    """The gradient of a convolution's bias: dY, added up over images and pixels."""

    op_domain = BIAS_DOMAIN

    def _run(self, dy: np.ndarray) -> tuple[np.ndarray]:
        return (dy.astype(np.float64).sum(axis=(0, *range(2, dy.ndim))).astype(dy.dtype),)


class _OfInput(OpRun):
    """The gradient of a convolution's input, from dY and W."""

    op_domain = DOMAINS[INPUT]

    def _run(self, dy: np.ndarray, w: np.ndarray, x: np.ndarray, **_: object) -> tuple[np.ndarray]:
        forward = _forward(self, x, w)
        made = np.zeros(_by_group(forward, x).shape)
        given = _by_group(forward, dy.astype(np.float64))
        taps = w.astype(np.float64).reshape(forward.groups, -1, *w.shape[1:])
        for tap, pixels, outputs in _meetings(forward):
            made[pixels] += np.einsum("ngk...,gkc->ngc...", given[outputs], taps[(..., *tap)])
        return (made.reshape(x.shape).astype(x.dtype),)


class _OfWeights(OpRun):
    """The gradient of a convolution's weights, from X and dY."""

    op_domain = DOMAINS[WEIGHTS]

    def _run(self, x: np.ndarray, dy: np.ndarray, w: np.ndarray, **_: object) -> tuple[np.ndarray]:
        forward = _forward(self, x, w)
        made = np.zeros((forward.groups, w.shape[0] // forward.groups, *w.shape[1:]))
        pixels_of = _by_group(forward, x.astype(np.float64))
        given = _by_group(forward, dy.astype(np.float64))
        for tap, pixels, outputs in _meetings(forward):
            one, two = (each.reshape(*each.shape[:3], -1) for each in (given[outputs], pixels_of[pixels]))
            made[(..., *tap)] = np.einsum("ngki,ngci->gkc", one, two)
        return (made.reshape(w.shape).astype(w.dtype),)


GRADIENT_NODES = [ReluGrad, ConvBiasGrad, *(type(NAME, (each,), {}) for each in (_OfInput, _OfWeights))]
"""Classes for `onnx.reference`, which knows operators by their names and domains."""

Slices = tuple[slice, ...]


def _forward(node: OpRun, x: np.ndarray, w: np.ndarray) -> ConvProblem:
    """The convolution whose gradient it is; types are of no matter."""

    def refuse(message: str, hint: str = "") -> NodeError:
        return NodeError(message, where=NAME, hint=hint)

    attributes = conv_attributes(node.onnx_node, refuse)
    shapes = {"x_shape": x.shape, "w_shape": w.shape}
    return conv_problem(attributes, name=NAME, operand="f16", out="f16", bias=False, refuse=refuse, **shapes)


def _by_group(forward: ConvProblem, array: np.ndarray) -> np.ndarray:
    """(N, G, C/G, ...) of (N, C, ...)."""
    return array.reshape(array.shape[0], forward.groups, -1, *array.shape[2:])


def _meetings(forward: ConvProblem) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...], tuple[slice, ...]]]:
    """Each tap with the pixels that it reads, and the outputs that read them."""
    every = (slice(None),) * 3
    for tap in itertools.product(*map(range, forward.kernel)):
        along = [_along(forward, axis, at) for axis, at in enumerate(tap)]
        yield tap, (*every, *(pixels for pixels, _ in along)), (*every, *(outputs for _, outputs in along))


def _along(forward: ConvProblem, axis: int, tap: int) -> tuple[slice, slice]:
    """Pixels and outputs of a tap along an axis: those of outputs p with 0 <= p*u + r*d - pad < extent."""
    u = forward.stride[axis]
    shift = tap * forward.dilation[axis] - forward.pad_lo[axis]
    first = max(0, -(shift // u))
    last = min(forward.out_extent[axis] - 1, (forward.in_extent[axis] - 1 - shift) // u)
    count = max(0, last - first + 1)
    start = first * u + shift if count else 0
    return slice(start, start + count * u - u + 1 if count else 0, u), slice(first, first + count)
