"""Is a compiled convolution right? Its text is run on data whose answer is known, and every element compared.

Two kinds of data (`convc.verification.data`): *integer* data have exact sums, so every bit must agree (unless the
epilogue computes exponentials or the like: then what that may err by, and no more, is allowed); *normal* data with the
model's own weights must stay inside a derived bound (`convc.verification.bound`). Where an element is wrong, the kernel
is run once more to see who wrote it.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from convc.build.writer import kernel_file, layer_of
from convc.compiler.kernels import Kernel
from convc.errors import DeadlockError, InputError, MachineFault
from convc.ir.epilogue import exact_on_integers
from convc.ir.findings import Finding, Verdict
from convc.ir.network import ConvNode
from convc.ir.problem import ConvProblem
from convc.machine import Counters, RunOptions
from convc.runtime.layer import LayerRun, last_writer, run_layer
from convc.support.files import plain
from convc.verification import reference
from convc.verification.bound import error_bound, expected_result
from convc.verification.compare import Comparison, compare
from convc.verification.data import integer_data, multipliers, normal_data, residual_data
from convc.verification.epilogue_bound import through_epilogue

Mode = Literal["integer", "normal"]
MODES: tuple[Mode, ...] = ("integer", "normal")


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One run of a kernel, compared with the reference.

    Attributes:
        mode: which data.
        ok: every element is right and the machine found no error.
        seconds: wall time of the machine.
        digest: 16 hexadecimal digits of the SHA-256 of the result's bytes; empty where there is no result.
        comparison: the elements; None where the kernel did not come to an end.
        writer: who wrote the first wrong element; None where none is wrong, or where nobody wrote it.
        findings: what the machine noticed, worst first.
        fault: the machine's message where the kernel did not come to an end.
    """

    mode: Mode
    ok: bool
    seconds: float
    digest: str = ""
    comparison: Comparison | None = None
    writer: Finding | None = None
    findings: tuple[Finding, ...] = ()
    fault: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerReport:
    """Everything that was learnt about one layer.

    Attributes:
        name, problem: the layer.
        schedule: how its kernel walks the convolution.
        kernel: name of the kernel's file in messages.
        counters: what one launch did; None where no launch came to an end.
        checks: one per mode.
        fused: names of the nodes of the model that the kernel does as well.
    """

    name: str
    problem: ConvProblem
    schedule: str
    kernel: str
    counters: Counters | None
    checks: tuple[Check, ...]
    fused: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Every check is good."""
        return all(check.ok for check in self.checks)

    @property
    def normal(self) -> Comparison | None:
        """The comparison on normal data; None where it was not asked for, or the kernel did not come to an end."""
        return next((check.comparison for check in self.checks if check.mode == "normal"), None)

    @property
    def seconds(self) -> float | None:
        """Wall time of the fastest launch that came to an end."""
        return min((check.seconds for check in self.checks if check.comparison is not None), default=None)


def check_layer(
    conv: ConvNode,
    kernel: Kernel,
    *,
    seed: int = 0,
    modes: tuple[Mode, ...] = MODES,
    options: RunOptions | None = None,
    progress: Callable[[Mode, float], None] | None = None,
    runs: Mapping[Mode, LayerRun] | None = None,
) -> LayerReport:
    """Run a layer's kernel on fresh data of each mode and compare.

    Args:
        conv: the layer, with the model's weights.
        kernel: its kernel.
        seed: of the data; the same seed gives the same data.
        modes: kinds of data to use.
        options: for the machine.
        progress: called with the mode and the part of its CTAs that are done, 0 to 1.
        runs: of modes that were run already, with the same data (`run_part`, put together by `combined`).

    Raises:
        LimitError: the data do not fit into memory.
    """
    checked = [_check(mode, conv, kernel, seed, options, progress, (runs or {}).get(mode)) for mode in modes]
    counters = next((counters for _, counters in checked if counters is not None), None)
    return layer_report(conv, kernel, [check for check, _ in checked], counters)


def layer_report(
    conv: ConvNode, kernel: Kernel, checks: Sequence[Check], counters: Counters | None = None
) -> LayerReport:
    """What is to be said of a layer after its checks."""
    return LayerReport(
        name=conv.name,
        problem=conv.problem,
        schedule=kernel.schedule,
        kernel=kernel_file(kernel),
        counters=counters,
        checks=tuple(checks),
        fused=conv.fused,
    )


def _check(
    mode: Mode,
    conv: ConvNode,
    kernel: Kernel,
    seed: int,
    options: RunOptions | None,
    progress: Callable[[Mode, float], None] | None,
    run: LayerRun | None,
) -> tuple[Check, Counters | None]:
    """One run, judged; and what it did, where it came to an end."""
    data = _data(mode, conv, seed)
    layer = layer_of(conv.problem, kernel, data.weight, data.bias, data.multiplier)
    bar = None if progress is None else lambda done, total: progress(mode, done / total)
    try:
        run = run or run_layer(layer, data.x, options, progress=bar, residual=data.residual)
    except (MachineFault, DeadlockError) as fault:
        return Check(mode=mode, ok=False, seconds=0.0, fault=str(fault)), None
    expected = expected_result(conv.problem, data.x, data.weight, data.bias, data.multiplier, data.residual)
    comparison = compare(run.y, expected, _bound(mode, conv.problem, data))
    check = Check(
        mode=mode,
        ok=comparison.ok and run.verdict < Verdict.incomplete,
        seconds=run.seconds,
        digest=hashlib.sha256(plain(run.y)).hexdigest()[:16],
        comparison=comparison,
        writer=None if comparison.first is None else last_writer(layer, data.x, comparison.first, data.residual),
        findings=run.findings,
    )
    return check, run.counters


def _bound(mode: Mode, problem: ConvProblem, data: _Data) -> np.ndarray | None:
    """What a right result may be off by; None: nothing, bit for bit."""
    if mode == "normal":
        return error_bound(problem, data.x, data.weight, data.bias, data.residual)
    if exact_on_integers(problem.epilogue):
        return None
    sums = reference.conv_sums(problem, data.x, data.weight, data.bias)
    return through_epilogue(problem, sums, np.zeros_like(sums), data.residual)


def run_part(
    conv: ConvNode, kernel: Kernel, mode: Mode, seed: int, options: RunOptions, ctas: tuple[int, int]
) -> LayerRun | None:
    """Run the CTAs ``ctas[0]`` up to ``ctas[1]`` of a layer's kernel on the data of `check_layer`.

    None where that is no clean run: only the whole launch can say what is wrong.
    """
    data = _data(mode, conv, seed)
    layer = layer_of(conv.problem, kernel, data.weight, data.bias, data.multiplier)
    try:
        run = run_layer(layer, data.x, dataclasses.replace(options, ctas=ctas), residual=data.residual)
    except (MachineFault, DeadlockError):
        return None
    return None if run.findings else run


def combined(parts: Sequence[LayerRun]) -> LayerRun:
    """The run of a whole launch from runs of all its CTAs, of which each writes outputs of its own.

    An output starts as bytes 0xFF (`convc.machine`), so every byte that differs was written by the part's CTAs.
    """
    y, counters = parts[0].y.copy(), Counters()
    whole = y.view(np.uint8)
    for part in parts:
        written = part.y.view(np.uint8)
        np.copyto(whole, written, where=written != 0xFF)
        counters.include(part.counters)
    return LayerRun(y=y, findings=(), counters=counters, seconds=sum(part.seconds for part in parts))


def modes_of(mode: str) -> tuple[Mode, ...]:
    """The modes that ``both``, ``integer`` or ``normal`` stands for."""
    if mode == "both":
        return MODES
    if mode in MODES:
        return (mode,)
    raise InputError(f"mode must be both, integer or normal, got {mode!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Data:
    """What a layer is run on: x (N, C, H, W), w (K, C, R, S), the rest as far as the problem has it."""

    x: np.ndarray
    weight: np.ndarray
    bias: np.ndarray | None
    multiplier: np.ndarray | None
    residual: np.ndarray | None


def _data(mode: Mode, conv: ConvNode, seed: int) -> _Data:
    integer = mode == "integer"
    x, weight, bias = (
        integer_data(conv.problem, seed) if integer else normal_data(conv.problem, seed, conv.weight, conv.bias)
    )
    return _Data(
        x=x,
        weight=weight,
        bias=bias,
        multiplier=multipliers(conv.problem, seed) if integer or conv.multiplier is None else conv.multiplier,
        residual=residual_data(conv.problem, seed, integer=integer),
    )
