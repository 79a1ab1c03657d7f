"""The bench on which the candidates of a problem are measured: the first GPU, or else the timing engine."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from convc.api.options import ChipOptions, ScheduleOptions, TuneOptions
from convc.api.timer import EngineTimer, chip_of
from convc.compiler.compile import text_digest
from convc.compiler.contestants import Contestant, contestants
from convc.compiler.tunings import TuningRecord
from convc.errors import GpuError, InputError, PlanError
from convc.gpu.apart import race_apart
from convc.gpu.cuda import CudaDriver
from convc.gpu.driver import Device, Driver
from convc.gpu.race import Limits, Runner, Tally, race, tally
from convc.ir.arch import ARCHS
from convc.ir.problem import ConvProblem
from convc.ir.tuned import Tuned
from convc.support.counted import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedLayer:
    """A problem that was tuned.

    Attributes:
        names: of the layers that have it.
        problem: what they compute.
        record: what was measured; None where nothing came to its end.
        measured: it was measured now, and not before.
        lost: kernels that have no time, and why.
        reason: why there is no record; else empty.
    """

    names: tuple[str, ...]
    problem: ConvProblem
    record: TuningRecord | None
    measured: bool = True
    lost: tuple[tuple[str, str], ...] = ()
    reason: str = ""

    @property
    def ok(self) -> bool:
        """Every candidate came to its end."""
        return self.record is not None and not self.lost


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TuneReport:
    """The tuned problems of a model or a build.

    Attributes:
        source: the model or the folder; "" where records came from a file alone.
        where: the GPU, or the chip that the timing engine models. engine: it was that.
        why: why no GPU was asked; empty where one was, or none was wanted.
        target: that the kernels are for.
        layers: in the order of the model, each problem once.
        imported: records that were taken from a file.
    """

    source: str
    where: str
    engine: bool
    why: str
    target: str
    layers: list[TunedLayer] = field(default_factory=list[TunedLayer])
    imported: int = 0

    @property
    def ok(self) -> bool:
        """Every candidate of every layer came to its end."""
        return all(layer.ok for layer in self.layers)

    def __repr__(self) -> str:
        return f"<TuneReport {self.source}: {counted(len(self.layers), 'problem')} on {self.where}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """The place where candidates are measured, and the options there."""

    report: TuneReport
    options: ScheduleOptions
    tuning: TuneOptions
    driver: Driver | None


def bench_of(tuning: TuneOptions, options: ScheduleOptions, driver: Driver | None, no_options: bool) -> Bench:
    """The GPU, or else the timing engine; GpuError where the GPU is asked for and will not do."""
    if options.timed:
        raise InputError("tuning replaces the timing engine's choice: leave timed out")
    device: Device | None = None
    why = ""
    if tuning.on != "engine":
        try:
            device = _device(driver)
        except GpuError as error:
            if tuning.on == "gpu":
                raise
            why = error.message
    if device is None:
        chip = chip_of(ChipOptions(), options.target)
        report = TuneReport(source="", where=chip.name, engine=True, why=why, target=options.target)
        return Bench(report=report, options=dataclasses.replace(options, tuned="off"), tuning=tuning, driver=driver)
    own = next((name for name in ARCHS if name == f"{device.arch}a"), None)
    if own is not None and (no_options if tuning.own_target is None else tuning.own_target):
        options = dataclasses.replace(options, target=own)
    if options.target != own:
        fits = "convc has no kernels for it" if own is None else f"--target {own} is for it"
        raise GpuError(
            f"the kernels are for {options.target}, and this GPU is an {device.name} ({device.arch})",
            hint=f"{fits}; --on engine times kernels for any target",
        )
    report = TuneReport(source="", where=device.name, engine=False, why="", target=options.target)
    return Bench(report=report, options=dataclasses.replace(options, tuned="off"), tuning=tuning, driver=driver)


def _device(driver: Driver | None) -> Device:
    if driver is not None:
        return driver.device()
    opened = CudaDriver()
    try:
        return opened.device()
    finally:
        opened.close()


def known_layer(problem: ConvProblem, names: tuple[str, ...], options: ScheduleOptions, tuned: Tuned) -> TunedLayer:
    """A layer that was measured before."""
    return TunedLayer(names=names, problem=problem, record=_record(problem, options, tuned), measured=False)


def _record(problem: ConvProblem, options: ScheduleOptions, tuned: Tuned) -> TuningRecord:
    return TuningRecord(problem=problem, options=dataclasses.replace(options, tuned="auto"), tuned=tuned)


def tuned_layer(problem: ConvProblem, names: tuple[str, ...], bench: Bench) -> TunedLayer:
    """Measure the candidates of a problem."""
    try:
        candidates = list(contestants(problem, bench.options, bench.tuning.candidates))
    except PlanError as error:
        return TunedLayer(names=names, problem=problem, record=None, reason=error.message)
    outcome = _simulated(candidates, bench) if bench.report.engine else _launched(candidates, bench)
    lost = tuple((candidates[number].title, reason) for number, reason in outcome.lost.items())
    if not outcome.times:
        reason = "no candidate finished"
        return TunedLayer(names=names, problem=problem, record=None, lost=lost, reason=reason)
    medians = {number: statistics.median(turns) for number, turns in outcome.times.items()}
    best = min(medians, key=lambda number: medians[number])
    kernel = candidates[best].compiled.artifact
    tuned = Tuned(
        device=bench.report.where,
        by="engine" if bench.report.engine else "gpu",
        choice=candidates[best].choice,
        block_n=candidates[best].block_n,
        kernel=text_digest(kernel.ptx),
        title=candidates[best].title,
        microseconds=medians[best],
        spread=_spread(outcome.times[best]),
        estimated=medians.get(0),
        candidates=len(medians) + len(lost),
        lost=len(lost),
    )
    return TunedLayer(names=names, problem=problem, record=_record(problem, bench.options, tuned), lost=lost)


def _launched(candidates: Sequence[Contestant], bench: Bench) -> Tally:
    """Race on the GPU."""
    runners = [Runner(text=one.compiled.artifact.ptx, launch=one.compiled.artifact.launch) for one in candidates]
    limits = Limits(seconds=bench.tuning.seconds, timeout=bench.tuning.timeout)
    driver = bench.driver
    if driver is not None:
        return tally(runners, lambda some: race(driver, some, limits))
    return tally(runners, lambda some: race_apart(some, limits))


def _simulated(candidates: Sequence[Contestant], bench: Bench) -> Tally:
    """The timing engine's times."""
    timer = EngineTimer(ChipOptions())
    clock = chip_of(ChipOptions(), bench.options.target)["chip.clock"]
    times: dict[int, list[float]] = {}
    until = time.monotonic() + bench.tuning.seconds
    for number, one in enumerate(candidates):
        if number >= 2 and time.monotonic() > until:
            break
        order = one.compiled.plan.launch.order.timed
        times[number] = [timer(one.compiled.artifact, order) / (1e3 * clock)]
    return Tally(times=times, lost={})


def _spread(turns: Sequence[float]) -> float:
    """Half of the range between the quartiles."""
    if len(turns) < 2:
        return 0.0
    low, _, high = statistics.quantiles(turns, n=4, method="inclusive")
    return (high - low) / 2
