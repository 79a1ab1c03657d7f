"""Verify one layer: run its kernel's text on data whose answer is known, and compare every element.

Each mode of data (`convc.verification.layer_data`) makes a case, the layer with its operands: of all CTAs, or of a
sample of them (`convc.verification.sampled_layer`). A case is run and judged. Where an element is wrong, the kernel is
run once more to see who wrote it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from convc.build.writer import kernel_file, layer_of
from convc.compiler.kernels import Kernel
from convc.errors import InputError, MachineError
from convc.host_layout.device_layout import device_layout
from convc.ir.dtypes import BY_NAME, encode
from convc.ir.network import ConvNode
from convc.ir.planned import read_planned
from convc.ir.sums import FLOAT32, Sums
from convc.machine import Counters, RunOptions
from convc.runtime.layer import LayerRun, last_writer, require_room, run_layer
from convc.support.progress import SILENT, Progress
from convc.verification.compare import compare
from convc.verification.layer_data import Drawn, bound_of, data_of, expected_of, without_drawn
from convc.verification.records import Check, LayerReport, Mode
from convc.verification.sampled_layer import SampledLayer

MODES: tuple[Mode, ...] = ("integer", "normal")
"""Data that a layer is checked on by itself."""


def check_layer(
    conv: ConvNode,
    kernel: Kernel,
    *,
    seed: int = 0,
    modes: tuple[Mode, ...] = MODES,
    sample: int | None = None,
    options: RunOptions | None = None,
    progress: Progress = SILENT,
    runs: Mapping[Mode, LayerRun] | None = None,
) -> LayerReport:
    """Run a layer's kernel on fresh data of each mode and compare.

    Args:
        conv: the layer, with the model's weights.
        kernel: its kernel.
        seed: of the data and of the sample; the same seed gives the same.
        modes: kinds of data to use.
        sample: CTAs at random that are run, besides one for each corner and border of the image; None: all are.
        options: for the simulator.
        progress: told of the CTAs that are done, the modes one after the other.
        runs: of modes that were run already, with the same data (`run_part`, put together by `combined`).

    Raises:
        LimitError: the data, or of a sample input and output, do not fit into memory.
    """
    if sample is None and not runs:
        _require_room(conv, kernel)
    checks: list[Check] = []
    counters = None
    sampled = None
    for index, mode in enumerate(modes):
        whole = sample is None
        case = WholeLayer(conv, kernel, mode, seed) if whole else SampledLayer(conv, kernel, mode, seed, sample)
        sampled = case.sampled
        part = "" if sampled is None else f"{sampled.ctas} CTAs, "
        told = progress.piece(index, len(modes)).launch(f"{conv.name}, {part}{mode} data")
        try:
            run = (runs or {}).get(mode) or case.run(options or RunOptions(), told)
        except MachineError as fault:
            checks.append(Check(mode=mode, ok=False, seconds=0.0, fault=str(fault)))
            continue
        counters = counters or run.counters
        checks.append(case.judge(run))
    return dataclasses.replace(layer_report(conv, kernel, checks, counters), sampled=sampled)


class WholeLayer:
    """A layer with the data of a mode, all of whose CTAs are run."""

    sampled = None

    def __init__(self, conv: ConvNode, kernel: Kernel, mode: Mode, seed: int) -> None:
        self._mode: Mode = mode
        self._data = data_of(mode, conv, seed)
        self._layer = layer_of(conv.problem, kernel, self._data.weight, self._data.bias, self._data.multiplier)

    def run(self, options: RunOptions, progress: Callable[[int, int], None] | None = None) -> LayerRun:
        """Launch the kernel; `MachineError` where it fails."""
        return run_layer(self._layer, self._data.x, options, progress=progress, residual=self._data.residual)

    def judge(self, run: LayerRun) -> Check:
        """Compare a run with the reference; where an element is wrong, the kernel is run again to see who wrote it."""
        data = self._data
        problem = self._layer.layout.model
        comparison = compare(run.y, expected_of(problem, data), bound_of(self._mode, problem, data, run.sums))
        comparison = without_drawn(comparison, run.y, data.drawn)
        wrong = comparison.first
        writer = None if wrong is None else last_writer(self._layer, data.x, wrong, data.residual)
        return Check.of(run, self._mode, comparison, writer=writer)


def _require_room(conv: ConvNode, kernel: Kernel) -> None:
    """Raise `LimitError` where a run on float32 data has no room, before the data are drawn."""
    require_room(device_layout(conv.problem, kernel.columns), 4 * math.prod(conv.problem.x_shape))


def layer_report(
    conv: ConvNode,
    kernel: Kernel,
    checks: Sequence[Check],
    counters: Counters | None = None,
    error: float | None = None,
) -> LayerReport:
    """The report on a layer after its checks; ``error``: `LayerReport.relative_rms_error`."""
    return LayerReport(
        name=conv.name,
        problem=conv.problem,
        schedule=kernel.schedule,
        kernel=kernel_file(kernel),
        counters=counters,
        checks=tuple(checks),
        fused=conv.fused,
        planned=read_planned(kernel.plan),
        relative_rms_error=error,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The reference for some images of a layer's output.

    Attributes:
        values: (n, K, P, Q) as they are to be stored where ``bound`` is None; else before the final rounding, in
            float32 where that holds all of them, else in float64.
        bound: float64, as of `bound_of`.
    """

    values: np.ndarray
    bound: np.ndarray | None


def expect_part(conv: ConvNode, mode: Mode, seed: int, images: tuple[int, int], sums: Sums = FLOAT32) -> Expected:
    """The reference for the images ``images[0]`` up to ``images[1]`` of the data of `check_layer`."""
    data = data_of(mode, conv, seed)
    part = slice(*images)
    problem = dataclasses.replace(conv.problem, batch=images[1] - images[0])
    residual = None if data.residual is None else data.residual[part]
    data = dataclasses.replace(data, x=data.x[part], residual=residual)
    values = expected_of(problem, data)
    bound = bound_of(mode, problem, data, sums)
    if bound is None:
        return Expected(values=encode(BY_NAME[problem.out], values), bound=None)
    with np.errstate(over="ignore"):
        short = values.astype(np.float32)
    return Expected(values=short if np.array_equal(short, values) else values, bound=bound)


def judged_in_parts(mode: Mode, run: LayerRun, parts: Sequence[Expected], drawn: Drawn | None = None) -> Check | None:
    """A run compared with the reference for all images; None where an element is wrong.

    Then only `check_layer` can say who wrote it. ``drawn``: what is not finite in the data.
    """
    bounds = [part.bound for part in parts if part.bound is not None]
    values = np.concatenate([part.values for part in parts])
    if bounds:
        comparison = compare(run.y, values.astype(np.float64, copy=False), np.concatenate(bounds))
    else:
        comparison = compare(run.y, values)
    comparison = without_drawn(comparison, run.y, drawn)
    return Check.of(run, mode, comparison) if comparison.first is None else None


def run_part(
    conv: ConvNode, kernel: Kernel, mode: Mode, seed: int, options: RunOptions, ctas: tuple[int, int]
) -> LayerRun | None:
    """Run the CTAs ``ctas[0]`` up to ``ctas[1]`` of a layer's kernel on the data of `check_layer`.

    None where that is no clean run: only the whole launch can say what is wrong.
    """
    _require_room(conv, kernel)
    try:
        run = WholeLayer(conv, kernel, mode, seed).run(dataclasses.replace(options, ctas=ctas))
    except MachineError:
        return None
    return None if run.findings else run


def combined(parts: Sequence[LayerRun]) -> LayerRun:
    """The run of a whole launch from runs of all its CTAs, of which each writes outputs of its own.

    An output starts as bytes 0xFF (`convc.machine`), and the CTAs of one part alone write it: what others have left of
    it is all ones.
    """
    y = parts[0].y.copy()
    counters = Counters()
    whole = y.view(f"u{y.itemsize}")
    for part in parts:
        whole &= part.y.view(whole.dtype)
        counters.include(part.counters)
    seconds = sum(part.seconds for part in parts)
    return dataclasses.replace(parts[0], y=y, findings=(), counters=counters, seconds=seconds)


def modes_of(mode: str) -> tuple[Mode, ...]:
    """The modes that ``both``, ``integer`` or ``normal`` stands for."""
    chosen: tuple[Mode, ...] = tuple(known for known in MODES if mode in (known, "both"))
    if chosen:
        return chosen
    raise InputError(f"mode must be both, integer, normal or network, got {mode!r}")
