"""Verify a few CTAs of a layer: a launch too large to be run as a whole is looked at where it is most likely wrong.

The kernel, its launch and its buffers are those of the whole layer; the simulator runs only the CTAs of the sample
(`convc.verification.sample`), and what these must write is compared with the reference, which computes nothing else.
The rest of the output must stay as it was. This says nothing of other CTAs, and reports call it a sample.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from convc.build.writer import layer_of
from convc.compiler.kernels import Kernel
from convc.ir.debug_info import read_debug_info
from convc.ir.network import ConvNode
from convc.ir.problem import ConvProblem
from convc.ir.sums import Sums
from convc.machine import RunOptions
from convc.runtime.layer import LayerRun, last_writer_packed, run_packed
from convc.verification.compare import compare
from convc.verification.layer_data import LayerData, bound_of, expected_of
from convc.verification.records import Check, Mode, Sampled
from convc.verification.sample import Outputs, TileMap, sample_ctas
from convc.verification.sample_data import Strips, sample_buffers, strips_of


class SampledLayer:
    """A layer with the data of a mode, of which a sample of the CTAs is run.

    Args:
        conv: the layer, with the model's weights.
        kernel: its kernel.
        mode: kind of data.
        seed: of the data and of the sample.
        count: CTAs at random, besides one for each corner and border of the image.

    Raises:
        LimitError: input and output do not fit into memory.
    """

    def __init__(self, conv: ConvNode, kernel: Kernel, mode: Mode, seed: int, count: int) -> None:
        self._mode: Mode = mode
        self._strips = strips_of(conv, mode, seed)
        self._layer = layer_of(conv.problem, kernel, self._strips.weight, self._strips.bias, self._strips.multiplier)
        self._tiles = TileMap(read_debug_info(kernel.debug_info), self._layer.layout, self._layer.launch)
        self._ctas = sample_ctas(self._tiles, self._layer.layout, count, seed)
        self._only = self._tiles.clusters(self._ctas)
        self._buffers = sample_buffers(self._layer, self._strips)
        self.sampled = Sampled(ctas=len(self._ctas), of=kernel.artifact.launch.ctas)

    def run(self, options: RunOptions, progress: Callable[[int, int], None] | None = None) -> LayerRun:
        """Launch the CTAs of the sample; `MachineError` where one fails."""
        return run_packed(self._layer, self._buffers, dataclasses.replace(options, only=self._only), progress)

    def judge(self, run: LayerRun) -> Check:
        """Compare what the CTAs wrote with the reference, and look whether they wrote anything else."""
        outputs = [
            part for part in map(self._tiles.outputs, self._ctas) if part.place.size
        ]  # a CTA of a pair may have none
        y = run.y.reshape(-1)
        values = np.concatenate([y[part.place] for part in outputs])
        expected = [_expected(self._mode, self._strips, part.element, run.sums) for part in outputs]
        right = np.concatenate([values for values, _ in expected])
        bounds = [bound for _, bound in expected if bound is not None]
        comparison = compare(values, right, np.concatenate(bounds) if bounds else None)
        writer = None
        if comparison.first is not None:
            elements = np.concatenate([np.stack(part.element) for part in outputs], axis=1)
            element = tuple(int(i) for i in elements[:, comparison.first[0]])
            comparison = dataclasses.replace(comparison, first=element)
            writer = last_writer_packed(self._layer, self._buffers, element, self._only)
        stray = _stray_bytes(run.y, outputs)
        fault = f"the CTAs of the sample wrote {stray} bytes of outputs that are not theirs" if stray else ""
        return Check.of(run, self._mode, comparison, values, fault, writer=writer)


def _stray_bytes(y: np.ndarray, outputs: Sequence[Outputs]) -> int:
    """Bytes of the output that changed outside of what the CTAs may write; an output starts as bytes 0xFF.

    ``y`` is no result any more afterwards: what the CTAs may write is painted over, so that nothing large is copied.
    """
    elements = y.reshape(-1).view(f"u{y.dtype.itemsize}")
    for part in outputs:
        elements[part.written] = np.iinfo(elements.dtype).max
    blank = np.iinfo(elements.dtype).max
    if int(elements.min(initial=blank)) == blank:
        return 0
    return int(np.count_nonzero(elements != blank)) * y.dtype.itemsize


def _expected(
    mode: Mode, strips: Strips, element: tuple[np.ndarray, ...], sums: Sums
) -> tuple[np.ndarray, np.ndarray | None]:
    """The reference at some elements, and what a right result may be off by; None: nothing."""
    right = np.empty(len(element[0]))
    allowed = np.zeros(len(element[0]))
    exact = False
    for some in _rows(element):
        n, k, *at = (coordinate[some] for coordinate in element)
        box = tuple((int(axis.min()), int(axis.max())) for axis in at)
        channels = _channels(strips.problem, k)
        small, first = _small_problem(strips.problem, box, channels)
        data = _small_data(strips, small, int(n[0]), box, first, channels)
        places = (0, k - channels.start, *(axis - low for axis, low in zip(at, first, strict=True)))
        right[some] = expected_of(small, data)[places]
        bound = bound_of(mode, small, data, sums)
        exact = bound is None
        if bound is not None:
            allowed[some] = bound[places]
    return right, None if exact else allowed


def _rows(element: tuple[np.ndarray, ...]) -> Iterator[np.ndarray]:
    """Indices of the elements that lie in one line of the output along its last axis, line by line."""
    n, _, *at = element
    line = n
    for axis in at[:-1]:
        line = line * (int(axis.max(initial=0)) + 1) + axis
    order = np.argsort(line, kind="stable")
    yield from np.split(order, np.flatnonzero(np.diff(line[order])) + 1)


def _channels(problem: ConvProblem, k: np.ndarray) -> slice:
    """The output channels to compute: those that are asked for, or all where a group has some of its own."""
    if problem.groups > 1 or problem.transposed:
        return slice(0, problem.out_channels)
    return slice(int(k.min()), int(k.max()) + 1)


def _small_problem(
    problem: ConvProblem, box: tuple[tuple[int, int], ...], channels: slice
) -> tuple[ConvProblem, tuple[int, ...]]:
    """The convolution whose output has a box in it, over an input that holds its padding; and its first output."""
    first: list[int] = []
    extent: list[int] = []
    axes = zip(box, problem.span, problem.stride, problem.pad_lo, strict=True)
    for (low, high), span, step, pad in axes:
        if problem.transposed:
            start = (low + pad - span + 1) // step
            extent.append((high + pad) // step + 2 - start)
            first.append(start * step - pad)
        else:
            extent.append((high - low) * step + span)
            first.append(low)
    small = dataclasses.replace(
        problem,
        batch=1,
        out_channels=channels.stop - channels.start,
        in_extent=tuple(extent),
        pad_lo=(),
        pad_hi=(),
        pad_value=0,
        output_padding=(),
    )
    return small, tuple(first)


def _small_data(
    strips: Strips,
    small: ConvProblem,
    n: int,
    box: tuple[tuple[int, int], ...],
    first: tuple[int, ...],
    channels: slice,
) -> LayerData:
    problem = strips.problem
    places: list[np.ndarray] = []
    axes = zip(first, small.in_extent, problem.stride, problem.pad_lo, strict=True)
    for low, extent, step, pad in axes:
        start = (low + pad) // step if problem.transposed else low * step - pad
        places.append(np.arange(start, start + extent))
    outputs = tuple(np.arange(low, low + extent) for low, extent in zip(first, small.out_extent, strict=True))
    weight = strips.weight if problem.transposed else strips.weight[channels]
    return LayerData(
        x=strips.activations(n, tuple(places)),
        weight=weight,
        bias=None if strips.bias is None else strips.bias[channels],
        multiplier=None if strips.multiplier is None else strips.multiplier[channels],
        residual=strips.added(n, outputs, channels),
    )
