"""Transposed convolutions (ONNX ``ConvTranspose``) as ordinary ones.

A transposed convolution with filter w (C, K/G, R, S) adds every input pixel, times the filter, into the output:

    y[n, k, o] = bias[k] + sum over c, t of x[n, c, j] * w[c, k, t],     o + pad_lo = j*u + t*d   (each axis)

Two ordinary convolutions compute that, and the one with fewer multiplications is taken:

phases      Output o = i*u + a of phase a reads the pixels j = i + (a + pad_lo - t*d)/u, for the taps t that leave no
            remainder. All phases read a few pixels around i, so one convolution with stride 1 and a set of output
            channels for each phase makes them all; the host puts the phases side by side ("depth to space"). Where a
            phase does not read a pixel, its filter is zero there.
dilated     The input is spread out, u - 1 zeros between neighbours; then it is an ordinary convolution with stride 1
            and the filter turned round. It multiplies the zeros.

Sources: V. Dumoulin and F. Visin, "A guide to convolution arithmetic for deep learning", arXiv 1603.07285, chapter 4;
W. Shi et al., "Real-Time Single Image and Video Super-Resolution ...", arXiv 1609.05158, for the phases.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

import msgspec
import numpy as np

from convc.ir.problem import ConvProblem


class PhaseAxis(msgspec.Struct, frozen=True, kw_only=True):
    """One axis of the phases.

    Attributes:
        reads: (phase, tap of the transposed filter, tap of the ordinary one) of all that are not zero.
        taps: extent of the ordinary filter.
        before: pixels that its first tap lies before pixel i.
    """

    reads: tuple[tuple[int, int, int], ...]
    taps: int
    before: int


class ForwardEquivalent(msgspec.Struct, frozen=True, kw_only=True):
    """A transposed convolution as an ordinary one.

    Attributes:
        strategy: ``phases`` or ``dilated``, as the head of this module explains them.
        problem: the ordinary convolution; with phases its output channels are (group, phase, channel of the group).
        axes: how each axis is cut into phases; empty for ``dilated``.
    """

    strategy: Literal["phases", "dilated"]
    problem: ConvProblem
    axes: tuple[PhaseAxis, ...] = ()


def forward_equivalent(problem: ConvProblem) -> ForwardEquivalent:
    """The one with fewer multiplications; of two equal ones that without zeros in the input."""
    strategies = (_phases(problem), _dilated(problem))
    return min((found for found in strategies if found is not None), key=lambda found: found.problem.macs)


def _phases(problem: ConvProblem) -> ForwardEquivalent:
    """The convolution that makes all phases, as output channels."""
    axes = tuple(_phase_axis(problem, axis) for axis in range(problem.rank))
    phases = math.prod(problem.stride)
    pixels = [-(-out // u) for out, u in zip(problem.out_extent, problem.stride, strict=True)]
    after = [
        max(0, i + axis.taps - 1 - extent - axis.before)
        for i, axis, extent in zip(pixels, axes, problem.in_extent, strict=True)
    ]
    ones = (1,) * problem.rank
    return ForwardEquivalent(
        strategy="phases",
        problem=replace(
            problem,
            transposed=False,
            output_padding=(),
            out_channels=problem.out_channels * phases,
            kernel=tuple(axis.taps for axis in axes),
            stride=ones,
            dilation=ones,
            pad_lo=tuple(axis.before for axis in axes),
            pad_hi=tuple(after),
        ),
        axes=axes,
    )


def _phase_axis(problem: ConvProblem, axis: int) -> PhaseAxis:
    """Which tap of the transposed filter each phase of an axis reads, and at which offset from its pixel."""
    u = problem.stride[axis]
    d = problem.dilation[axis]
    pad = problem.pad_lo[axis]
    found = [
        (phase, tap, (phase + pad - tap * d) // u)
        for phase in range(u)
        for tap in range(problem.kernel[axis])
        if (phase + pad - tap * d) % u == 0
    ]
    offsets = [0, *(offset for _, _, offset in found)]
    first = min(offsets)
    last = max(offsets)
    reads = tuple((phase, tap, offset - first) for phase, tap, offset in found)
    return PhaseAxis(reads=reads, taps=last - first + 1, before=-first)


def _dilated(problem: ConvProblem) -> ForwardEquivalent | None:
    """The convolution of the spread-out input; None where the pads leave nothing of it."""
    spread = [(e - 1) * u + 1 for e, u in zip(problem.in_extent, problem.stride, strict=True)]
    pad_lo = [span - 1 - lo for span, lo in zip(problem.span, problem.pad_lo, strict=True)]
    ends = zip(problem.span, problem.pad_hi, problem.output_padding, strict=True)
    pad_hi = [span - 1 - hi + more for span, hi, more in ends]
    # A pad below zero crops the spread-out input: what lies there reaches only outputs that the model crops.
    cropped = tuple(e + min(0, lo) + min(0, hi) for e, lo, hi in zip(spread, pad_lo, pad_hi, strict=True))
    if min(cropped) < 1:
        return None
    return ForwardEquivalent(
        strategy="dilated",
        problem=replace(
            problem,
            transposed=False,
            output_padding=(),
            in_extent=cropped,
            stride=(1,) * problem.rank,
            pad_lo=tuple(max(0, pad) for pad in pad_lo),
            pad_hi=tuple(max(0, pad) for pad in pad_hi),
        ),
    )


def ordinary_input(equivalent: ForwardEquivalent, model: ConvProblem, x: np.ndarray) -> np.ndarray:
    """Activations (N, C, *in) as the ordinary convolution takes them: spread out and cropped, or as they are."""
    if equivalent.strategy == "phases":
        return x
    extent = [(e - 1) * u + 1 for e, u in zip(model.in_extent, model.stride, strict=True)]
    spread = np.zeros((*x.shape[:2], *extent), x.dtype)
    spread[(..., *(slice(None, None, u) for u in model.stride))] = x
    first = [max(0, pad - span + 1) for pad, span in zip(model.pad_lo, model.span, strict=True)]
    return spread[(..., *(slice(lo, lo + e) for lo, e in zip(first, equivalent.problem.in_extent, strict=True)))]


def ordinary_filter(equivalent: ForwardEquivalent, model: ConvProblem, w: np.ndarray) -> np.ndarray:
    """Filters (C, K/G, *kernel) as (K, C/G, *kernel) of the ordinary convolution."""
    groups = model.groups
    depth = model.out_channels // groups
    turned = w.reshape(groups, model.group_channels, depth, *model.kernel).swapaxes(1, 2)
    if equivalent.strategy == "dilated":
        turned = turned[(..., *(slice(None, None, -1) for _ in model.kernel))]
        return turned.reshape(equivalent.problem.w_shape)
    taps = equivalent.problem.kernel
    found = np.zeros((groups, *model.stride, depth, model.group_channels, *taps), w.dtype)
    for reads in itertools.product(*(axis.reads for axis in equivalent.axes)):
        phases, old, new = zip(*reads, strict=True)
        found[(slice(None), *phases, slice(None), slice(None), *new)] = turned[(..., *old)]
    return found.reshape(equivalent.problem.w_shape)


def ordinary_bias(equivalent: ForwardEquivalent, model: ConvProblem, bias: np.ndarray) -> np.ndarray:
    """Bias (K,) for every phase."""
    phases = equivalent.problem.out_channels // model.out_channels
    groups = bias.reshape(model.groups, 1, -1)
    return np.repeat(groups, phases, axis=1).reshape(-1)


def transposed_output(equivalent: ForwardEquivalent, model: ConvProblem, y: np.ndarray) -> np.ndarray:
    """What the ordinary convolution gives as the output (N, K, *out): its phases side by side, cropped."""
    if equivalent.strategy == "dilated":
        return y
    rank = model.rank
    depth = model.out_channels // model.groups
    pixels = y.shape[2:]
    apart = y.reshape(len(y), model.groups, *model.stride, depth, *pixels)
    order = [0, 1, 2 + rank]  # N, G, K/G, then pixel and phase of each axis in turn
    for axis in range(rank):
        order += [3 + rank + axis, 2 + axis]
    together = apart.transpose(order).reshape(len(y), model.out_channels, *_whole(model, pixels))
    return np.ascontiguousarray(together[(..., *map(slice, model.out_extent))])


def ordinary_output(equivalent: ForwardEquivalent, model: ConvProblem, y: np.ndarray) -> np.ndarray:
    """The inverse of `transposed_output`: an output (N, K, *out) as the ordinary convolution makes it, zeros around."""
    if equivalent.strategy == "dilated":
        return y
    rank = model.rank
    pixels = equivalent.problem.out_extent
    whole = np.zeros((*y.shape[:2], *_whole(model, pixels)), y.dtype)
    whole[(..., *map(slice, model.out_extent))] = y
    split = [extent for pair in zip(pixels, model.stride, strict=True) for extent in pair]
    apart = whole.reshape(len(y), model.groups, -1, *split)
    phases = range(4, 4 + 2 * rank, 2)  # axes of `apart`: N, G, K/G, then pixel and phase of each axis in turn
    places = range(3, 3 + 2 * rank, 2)
    return apart.transpose(0, 1, *phases, 2, *places).reshape(equivalent.problem.y_shape)


def ordinary_element(equivalent: ForwardEquivalent, model: ConvProblem, element: tuple[int, ...]) -> tuple[int, ...]:
    """Which element (n, k, *pixel) of the ordinary convolution an element of the output is."""
    if equivalent.strategy == "dilated":
        return element
    n, k, *pixel = element
    group, inside = divmod(k, model.out_channels // model.groups)
    phase = np.ravel_multi_index([o % u for o, u in zip(pixel, model.stride, strict=True)], model.stride)
    number = (group * math.prod(model.stride) + int(phase)) * (model.out_channels // model.groups) + inside
    return (n, number, *(o // u for o, u in zip(pixel, model.stride, strict=True)))


def model_elements(
    equivalent: ForwardEquivalent, model: ConvProblem, element: tuple[np.ndarray, ...]
) -> tuple[np.ndarray, ...]:
    """The inverse of `ordinary_element`, of arrays n, k and pixel; a pixel may lie past the model's output."""
    if equivalent.strategy == "dilated":
        return element
    n, number, *pixel = element
    depth = model.out_channels // model.groups
    outer, inside = np.divmod(number, depth)
    group, phase = np.divmod(outer, math.prod(model.stride))
    phases = np.unravel_index(phase, model.stride)
    shifted = (p * u + a for p, u, a in zip(pixel, model.stride, phases, strict=True))
    return (n, group * depth + inside, *shifted)


def _whole(model: ConvProblem, pixels: tuple[int, ...]) -> Iterator[int]:
    """Extents of the output before it is cropped: so many pixels of every phase."""
    return (count * u for count, u in zip(pixels, model.stride, strict=True))
