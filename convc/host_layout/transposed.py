"""Transposed convolutions (ONNX ``ConvTranspose``) as ordinary ones.

A transposed convolution with filter w (C, K/G, R, S) adds every input pixel, times the filter, into the output:

    y[n, k, o] = bias[k] + sum over c, t of x[n, c, j] * w[c, k, t],     o + pad_lo = j*u + t*d   (each axis)

Two ordinary convolutions compute that, and the one with fewer multiplications is taken:

phases      Output o = i*u + a of phase a reads the pixels j = i + (a + pad_lo - t*d)/u, for the taps t that leave no
            remainder. All phases read a few pixels around i, so one convolution with stride 1 and a set of output
            channels for each phase makes them all; the host puts the phases side by side ("depth to space"). Where a
            phase does not read a pixel, its filter is zero there. Phases that no tap is of are zeros, which the host
            writes: 1x1 with stride 2 multiplies for one phase of four.
dilated     The input is spread out, u - 1 zeros between neighbours; then it is an ordinary convolution with stride 1
            and the filter turned round. It multiplies the zeros.

Which tap reads which pixel, and which channel is which phase, is derived (`convc.derive.hosted`); what stands here is
the way from a problem to the numbers of its axes, and arrays.

Sources: V. Dumoulin and F. Visin, "A guide to convolution arithmetic for deep learning", arXiv 1603.07285, chapter 4;
W. Shi et al., "Real-Time Single Image and Video Super-Resolution ...", arXiv 1609.05158, for the phases.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Literal

import msgspec
import numpy as np

from convc.derived.hosted import PHASES, SPREAD, axis_sizes, digits, hosted, numbered
from convc.ir.epilogue_values import keeps_zero
from convc.ir.problem import ConvProblem


class PhaseAxis(msgspec.Struct, frozen=True, kw_only=True):
    """One axis of the phases.

    Attributes:
        reads: (phase, tap of the transposed filter, tap of the ordinary one) of all that are not zero.
        taps: extent of the ordinary filter.
        before: pixels that its first tap lies before pixel i.
        lowest, step, count: the phases that are made, lowest + step*i; no tap is of another, whose outputs are zeros.
    """

    reads: tuple[tuple[int, int, int], ...]
    taps: int
    before: int
    lowest: int
    step: int
    count: int


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
    phases = math.prod(axis.count for axis in axes)
    lasts = [pixel_of(problem, axis, out - 1) for axis, out in enumerate(problem.out_extent)]
    pixels = [pixel + 1 for pixel, _ in lasts]
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
    phases, taps = np.indices((problem.stride[axis], problem.kernel[axis]))
    ahead, rest = reads_of(problem, axis, phases, taps)
    found = np.argwhere(rest == 0).tolist()
    offsets = ahead[rest == 0].tolist()
    first = min(0, *offsets)
    last = max(0, *offsets)
    reads = tuple((phase, tap, offset - first) for (phase, tap), offset in zip(found, offsets, strict=True))
    lowest, step, count = _made_phases(problem, sorted({phase for phase, _ in found}), problem.stride[axis])
    return PhaseAxis(reads=reads, taps=last - first + 1, before=-first, lowest=lowest, step=step, count=count)


def _made_phases(problem: ConvProblem, read: list[int], phases: int) -> tuple[int, int, int]:
    """The phases that the kernel makes, evenly apart: all where a sum of nothing is not stored as zero."""
    if problem.bias or not keeps_zero(problem.epilogue) or problem.out_zero_point:
        return 0, 1, phases
    step = math.gcd(*(phase - read[0] for phase in read)) or 1
    return read[0], step, (read[-1] - read[0]) // step + 1


def reads_of(model: ConvProblem, axis: int, phase: Any, tap: Any) -> tuple[Any, Any]:
    """Pixels from that of an output to the one that a tap of a phase reads, and the rest; where that is 0 it does."""
    found = hosted(PHASES, "reads", {**axis_sizes(model, axis), "phase": phase, "s": tap})
    return found["offset"], found["rest"]


def _dilated(problem: ConvProblem) -> ForwardEquivalent | None:
    """The convolution of the spread-out input; None where the pads leave nothing of it."""
    spread = _spread_extent(problem)
    pad_lo = [_zeros_before(problem, axis) for axis in range(problem.rank)]
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
    spread = np.zeros((*x.shape[:2], *_spread_extent(model)), x.dtype)
    first, second = ([place_of(model, axis, pixel) for axis in range(model.rank)] for pixel in (0, 1))
    spread[(..., *(slice(one, None, two - one) for one, two in zip(first, second, strict=True)))] = x
    cropped = cropped_before(model)
    return spread[(..., *(slice(lo, lo + e) for lo, e in zip(cropped, equivalent.problem.in_extent, strict=True)))]


def cropped_before(model: ConvProblem) -> list[int]:
    """Places of the spread input that the ordinary convolution does not see, in front of each axis."""
    return [max(0, -_zeros_before(model, axis)) for axis in range(model.rank)]


def _spread_extent(model: ConvProblem) -> list[int]:
    return [place_of(model, axis, extent - 1) + 1 for axis, extent in enumerate(model.in_extent)]


def place_of(model: ConvProblem, axis: int, pixel: Any) -> Any:
    """The place of a pixel in the spread input."""
    return hosted(SPREAD, "place", {**axis_sizes(model, axis), "x": pixel})["place"]


def _zeros_before(model: ConvProblem, axis: int) -> int:
    """Zeros in front of the spread input; below zero: places that are cropped."""
    return hosted(SPREAD, "pads", axis_sizes(model, axis))["before"]


def ordinary_filter(equivalent: ForwardEquivalent, model: ConvProblem, w: np.ndarray) -> np.ndarray:
    """Filters (C, K/G, *kernel) as (K, C/G, *kernel) of the ordinary convolution."""
    groups = model.groups
    depth = model.out_channels // groups
    turned = w.reshape(groups, model.group_channels, depth, *model.kernel).swapaxes(1, 2)
    if equivalent.strategy == "dilated":
        for axis, taps in enumerate(model.kernel):
            turned = np.take(turned, turned_tap(model, axis, np.arange(taps)), axis=3 + axis)
        return turned.reshape(equivalent.problem.w_shape)
    found = np.zeros(equivalent.problem.w_shape, w.dtype)
    channels = {phases: _channels(equivalent, model, phases) for phases in _phases_made(equivalent)}
    for reads in itertools.product(*(axis.reads for axis in equivalent.axes)):
        phases, old, new = zip(*reads, strict=True)
        found[(channels[phases], slice(None), *new)] = turned[(..., *old)].reshape(-1, model.group_channels)
    return found


def turned_tap(model: ConvProblem, axis: int, tap: Any) -> Any:
    """The tap of the model's filter that is a tap of the one turned round."""
    return hosted(SPREAD, "turned", {**axis_sizes(model, axis), "s": tap})["tap"]


def ordinary_bias(equivalent: ForwardEquivalent, model: ConvProblem, bias: np.ndarray) -> np.ndarray:
    """Bias (K,) for every phase."""
    if equivalent.strategy == "dilated":
        return bias
    found = np.empty(equivalent.problem.out_channels, bias.dtype)
    for phases in _phases_made(equivalent):
        found[_channels(equivalent, model, phases)] = bias
    return found


def transposed_output(equivalent: ForwardEquivalent, model: ConvProblem, y: np.ndarray) -> np.ndarray:
    """What the ordinary convolution gives as the output (N, K, *out): its phases side by side, cropped; others zero."""
    if equivalent.strategy == "dilated":
        return y
    found = np.zeros((len(y), model.out_channels, *model.out_extent), y.dtype)
    for phases in _phases_made(equivalent):
        of_phase = found[(..., *_outputs(model, phases))]
        of_phase[...] = y[(slice(None), _channels(equivalent, model, phases), *map(slice, of_phase.shape[2:]))]
    return found


def ordinary_output(equivalent: ForwardEquivalent, model: ConvProblem, y: np.ndarray) -> np.ndarray:
    """The inverse of `transposed_output`: an output (N, K, *out) as the ordinary convolution makes it, zeros around."""
    if equivalent.strategy == "dilated":
        return y
    found = np.zeros(equivalent.problem.y_shape, y.dtype)
    for phases in _phases_made(equivalent):
        of_phase = y[(..., *_outputs(model, phases))]
        found[(slice(None), _channels(equivalent, model, phases), *map(slice, of_phase.shape[2:]))] = of_phase
    return found


def ordinary_element(equivalent: ForwardEquivalent, model: ConvProblem, element: tuple[int, ...]) -> tuple[int, ...]:
    """Which element (n, k, *pixel) of the ordinary convolution an element of the output is, of a phase that is made."""
    if equivalent.strategy == "dilated":
        return element
    n, k, *outputs = element
    group, inside = digits(k, model.out_channels // model.groups)
    found = [pixel_of(model, axis, output) for axis, output in enumerate(outputs)]
    return (
        n,
        channel_of(equivalent, model, group, [phase for _, phase in found], inside),
        *(pixel for pixel, _ in found),
    )


def model_elements(
    equivalent: ForwardEquivalent, model: ConvProblem, element: tuple[np.ndarray, ...]
) -> tuple[np.ndarray, ...]:
    """The inverse of `ordinary_element`, of arrays n, k and pixel; a pixel may lie past the model's output."""
    if equivalent.strategy == "dilated":
        return element
    n, number, *pixel = element
    depth = model.out_channels // model.groups
    group, inside = digits(number, depth)
    phases: list[Any] = []
    for cut in reversed(equivalent.axes):
        group, index = digits(group, cut.count)
        phases.insert(0, phase_of(cut, index))
    outputs = (output_of(model, axis, *of_axis) for axis, of_axis in enumerate(zip(pixel, phases, strict=True)))
    return (n, numbered(group, depth, inside), *outputs)


def _phases_made(equivalent: ForwardEquivalent) -> Iterator[tuple[int, ...]]:
    """Every phase that the kernel makes, by its number along each axis."""
    return itertools.product(*([phase_of(cut, index) for index in range(cut.count)] for cut in equivalent.axes))


def phase_of(cut: PhaseAxis, index: Any) -> Any:
    """The phase of an axis that is made as number `index`."""
    return hosted(PHASES, "made", {"LOWEST": cut.lowest, "STEP": cut.step, "i": index})["phase"]


def index_of(cut: PhaseAxis, phase: Any) -> Any:
    """The inverse of `phase_of`."""
    return hosted(PHASES, "index", {"LOWEST": cut.lowest, "STEP": cut.step, "phase": phase})["i"]


def channel_of(
    equivalent: ForwardEquivalent, model: ConvProblem, group: Any, phases: Iterable[Any], inside: Any
) -> Any:
    """The channel of the ordinary convolution that is a channel of a phase of a group."""
    for phase, cut in zip(phases, equivalent.axes, strict=True):
        group = numbered(group, cut.count, index_of(cut, phase))
    return numbered(group, model.out_channels // model.groups, inside)


def _channels(equivalent: ForwardEquivalent, model: ConvProblem, phases: Iterable[int]) -> np.ndarray | slice:
    """The channels of a phase, in the order of the model's; as a slice where they lie side by side."""
    group, inside = digits(np.arange(model.out_channels), model.out_channels // model.groups)
    found = channel_of(equivalent, model, group, phases, inside)
    return slice(found[0], found[-1] + 1) if model.groups == 1 else found


def output_of(model: ConvProblem, axis: int, pixel: Any, phase: Any) -> Any:
    """The output along an axis that is a pixel of a phase."""
    return hosted(PHASES, "output", {**axis_sizes(model, axis), "q": pixel, "phase": phase})["o"]


def _outputs(model: ConvProblem, phases: Iterable[int]) -> Iterator[slice]:
    """The outputs of a phase along each axis."""
    for axis, phase in enumerate(phases):
        first, second = (output_of(model, axis, pixel, phase) for pixel in (0, 1))
        yield slice(first, None, second - first)


def pixel_of(model: ConvProblem, axis: int, output: Any) -> tuple[Any, Any]:
    """The inverse of `output_of`: pixel and phase."""
    found = hosted(PHASES, "pixel", {**axis_sizes(model, axis), "o": output})
    return found["q"], found["phase"]
