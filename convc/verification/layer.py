"""Verify one layer: run its kernel's text on data whose answer is known, and compare every element.

Two kinds of data (`convc.verification.data`): *integer* data have exact sums, so every bit must agree (unless the
epilogue computes exponentials or the like: then what that may err by, and no more, is allowed); *normal* data with the
model's own weights must stay inside a derived bound (`convc.verification.bound`). Where an element is wrong, the kernel
is run once more to see who wrote it.

Infinities and NaN among test data: they must reach the outputs that read them, and no other.

Normal data have one such number, in a pixel and a channel at random, so that a few outputs are not finite and all
others are what they would be. Some layouts multiply it by zeros for outputs that do not read it
(`convc.runtime.special_values`).
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from convc.build.folder import Layer
from convc.build.writer import kernel_file, layer_of
from convc.compiler.kernels import Kernel
from convc.errors import InputError, MachineError
from convc.host_layout.device_layout import device_layout
from convc.ir import dtypes
from convc.ir.dtypes import BY_NAME, encode
from convc.ir.epilogue import exact_on_integers
from convc.ir.findings import Finding, Verdict
from convc.ir.network import ConvNode
from convc.ir.planned import read_planned
from convc.ir.problem import ConvProblem
from convc.ir.sums import FLOAT32, Sums
from convc.machine import Counters, RunOptions
from convc.runtime.layer import LayerRun, last_writer, require_room, run_layer
from convc.support.files import to_npy_dtype
from convc.support.progress import SILENT, Progress
from convc.verification import reference
from convc.verification.bound import error_bound, expected_result
from convc.verification.compare import Comparison, compare
from convc.verification.data import integer_data, multipliers, normal_data, residual_data
from convc.verification.epilogue_bound import through_epilogue
from convc.verification.records import Check, LayerReport, Mode, Oracle

MOST = 0.25
"""The largest share of outputs that may read what is not finite: they show nothing of the sums that are made there."""

INFINITE = 0.25
"""The share of infinities; the others are NaN, which take fewer launches where a layout needs some."""

Box = tuple[slice, ...]
"""Outputs (n, k, pixel) that read a number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A number that is not finite.

    Attributes:
        place: (n, c, pixel) among the activations.
        value: infinity, -infinity or NaN.
        box: the outputs that read it, and perhaps some between them that do not.
    """

    place: tuple[int, ...]
    value: float
    box: Box


def draw_special(problem: ConvProblem, seed: int) -> Drawn | None:
    """Choose a place and a value; None for whole numbers, and where too many outputs would read it."""
    if problem.operand_dtype.integer:
        return None
    rng = np.random.default_rng((seed, 2))
    place = tuple(int(rng.integers(extent)) for extent in problem.x_shape)
    value = np.nan
    if rng.random() < INFINITE and _has_infinity(problem.operand):
        value = float(rng.choice((np.inf, -np.inf)))
    n, channel, *pixel = place
    own = problem.out_channels // problem.groups
    group = channel // problem.group_channels
    ranges = [_outputs(problem, axis, at) for axis, at in enumerate(pixel)]
    box = (slice(n, n + 1), slice(group * own, (group + 1) * own), *(slice(*ends) for ends in ranges))
    share = own * np.prod([last - first for first, last in ranges], dtype=float) / np.prod(problem.y_shape, dtype=float)
    return None if share > MOST else Drawn(place=place, value=value, box=box)


def without_drawn(found: Comparison, y: np.ndarray, drawn: Drawn | None) -> Comparison:
    """A comparison that does not count as remarkable what is not finite because of what was drawn."""
    if drawn is None or not found.ok:
        return found
    values = dtypes.decode(dtypes.of_array(y), y[drawn.box])
    return dataclasses.replace(
        found,
        count_nan=found.count_nan - int(np.isnan(values).sum()),
        count_infinite=found.count_infinite - int(np.isinf(values).sum()),
    )


def _has_infinity(operand: str) -> bool:
    """Whether infinity stays one when it is rounded to a type: not in e4m3, nor in blocks, whose factor becomes NaN."""
    return operand != "e4m3" and operand not in dtypes.SCALED_OPERANDS


def _outputs(problem: ConvProblem, axis: int, at: int) -> tuple[int, int]:
    """First and last-but-one output along an axis that may read the pixel ``at``."""
    step = problem.stride[axis]
    pad = problem.pad_lo[axis]
    span = problem.span[axis]
    extent = problem.out_extent[axis]
    if problem.transposed:
        first = at * step - pad
        last = first + span
    else:
        first = -((span - 1 - at - pad) // step)
        last = (at + pad) // step + 1
    first = min(max(0, first), extent)
    return first, min(max(first, last), extent)


MODES: tuple[Mode, ...] = ("integer", "normal")
"""Data that a layer is checked on by itself."""


def check_layer(
    conv: ConvNode,
    kernel: Kernel,
    *,
    seed: int = 0,
    modes: tuple[Mode, ...] = MODES,
    options: RunOptions | None = None,
    progress: Progress = SILENT,
    runs: Mapping[Mode, LayerRun] | None = None,
) -> LayerReport:
    """Run a layer's kernel on fresh data of each mode and compare.

    Args:
        conv: the layer, with the model's weights.
        kernel: its kernel.
        seed: of the data; the same seed gives the same data.
        modes: kinds of data to use.
        options: for the simulator.
        progress: told of the CTAs that are done, the modes one after the other.
        runs: of modes that were run already, with the same data (`run_part`, put together by `combined`).

    Raises:
        LimitError: the data do not fit into memory.
    """
    if not runs:
        _require_room(conv, kernel)
    given = runs or {}
    checks: list[Check] = []
    counters = None
    for index, mode in enumerate(modes):
        data = data_of(mode, conv, seed)
        layer = layer_of(conv.problem, kernel, data.weight, data.bias, data.multiplier)
        told = progress.piece(index, len(modes)).launch(f"{conv.name}, {mode} data")
        try:
            run = given.get(mode) or run_layer(layer, data.x, options, progress=told, residual=data.residual)
        except MachineError as fault:
            checks.append(Check(mode=mode, ok=False, seconds=0.0, fault=str(fault)))
            continue
        counters = counters or run.counters
        checks.append(_judged(mode, layer, data, run))
    return layer_report(conv, kernel, checks, counters)


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


def check_of(
    run: LayerRun, mode: Mode, comparison: Comparison, oracle: Oracle = "reference", writer: Finding | None = None
) -> Check:
    """The check of a run that came to an end: what an oracle says of its elements, and the simulator of the rest."""
    return Check(
        mode=mode,
        oracle=oracle,
        ok=comparison.ok and run.verdict < Verdict.incomplete,
        seconds=run.seconds,
        digest=hashlib.sha256(to_npy_dtype(run.y).data).hexdigest()[:16],
        comparison=comparison,
        writer=writer,
        findings=run.findings,
    )


def _judged(mode: Mode, layer: Layer, data: LayerData, run: LayerRun) -> Check:
    """A run compared with the reference; where an element is wrong, the kernel is run again to see who wrote it."""
    problem = layer.layout.model
    expected = expected_result(problem, data.x, data.weight, data.bias, data.multiplier, data.residual)
    comparison = without_drawn(compare(run.y, expected, bound_of(mode, problem, data, run.sums)), run.y, data.drawn)
    writer = None if comparison.first is None else last_writer(layer, data.x, comparison.first, data.residual)
    return check_of(run, mode, comparison, writer=writer)


def bound_of(mode: Mode, problem: ConvProblem, data: LayerData, sums: Sums) -> np.ndarray | None:
    """Bound what a right result may be off by; None: it must agree bit for bit."""
    if mode == "normal":
        return error_bound(problem, data.x, data.weight, data.bias, data.residual, sums, data.multiplier)
    if exact_on_integers(problem.epilogue):
        return None
    exact = reference.scaled_sums(problem, data.x, data.weight, data.bias, data.multiplier)
    return through_epilogue(problem, exact, np.zeros_like(exact), data.residual)


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
    values = expected_result(problem, data.x, data.weight, data.bias, data.multiplier, data.residual)
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
    return check_of(run, mode, comparison) if comparison.first is None else None


def run_part(
    conv: ConvNode, kernel: Kernel, mode: Mode, seed: int, options: RunOptions, ctas: tuple[int, int]
) -> LayerRun | None:
    """Run the CTAs ``ctas[0]`` up to ``ctas[1]`` of a layer's kernel on the data of `check_layer`.

    None where that is no clean run: only the whole launch can say what is wrong.
    """
    _require_room(conv, kernel)
    data = data_of(mode, conv, seed)
    layer = layer_of(conv.problem, kernel, data.weight, data.bias, data.multiplier)
    try:
        run = run_layer(layer, data.x, dataclasses.replace(options, ctas=ctas), residual=data.residual)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerData:
    """Operands that a layer is run on: x (N, C, H, W), w (K, C, R, S), the rest as far as the problem has it.

    ``drawn``: what is not finite among the activations.
    """

    x: np.ndarray
    weight: np.ndarray
    bias: np.ndarray | None
    multiplier: np.ndarray | None
    residual: np.ndarray | None
    drawn: Drawn | None = None


def drawn_for(mode: Mode, conv: ConvNode, seed: int) -> Drawn | None:
    """Choose an infinity or NaN for normal data; None for other data, and where the weights of the model have some."""
    own = (conv.weight, conv.bias, conv.multiplier)
    if mode == "integer" or not all(array is None or np.isfinite(array).all() for array in own):
        return None
    return draw_special(conv.problem, seed)


def data_of(mode: Mode, conv: ConvNode, seed: int) -> LayerData:
    """The operands of one check: exact numbers without the model's, or normal data with its weights."""
    integer = mode == "integer"
    if integer:
        x, weight, bias = integer_data(conv.problem, seed)
    else:
        x, weight, bias = normal_data(conv.problem, seed, conv.weight, conv.bias)
    drawn = drawn_for(mode, conv, seed)
    if drawn is not None:
        x[drawn.place] = drawn.value
    multiplier = conv.multiplier
    if integer or multiplier is None:
        multiplier = multipliers(conv.problem, seed, integer=integer)
    return LayerData(
        x=x,
        weight=weight,
        bias=bias,
        multiplier=multiplier,
        residual=residual_data(conv.problem, seed, integer=integer),
        drawn=drawn,
    )
