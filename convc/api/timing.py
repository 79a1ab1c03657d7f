"""The verb `time`: how long kernels take on a modelled chip, and what they wait for."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from convc.api.arguments import given_options
from convc.api.inputs import opened
from convc.api.inspecting import check_settled
from convc.api.models import Model, chosen_convolutions, read_network, say_left_out
from convc.api.options import ChipOptions, ReadOptions, ScheduleOptions, WorkOptions
from convc.api.timer import chip_of, settings_of
from convc.api.working import open_kernels
from convc.build.folder import Build
from convc.build.selection import LayerNames, pick_layers
from convc.compiler.kernels import planned_of
from convc.compiler.options import AUTO
from convc.compiler.schedules.all import SCHEDULES
from convc.compiler.schedules.base import TMA, Schedule
from convc.draw.roofline import RoofPoint, roofline_picture
from convc.draw.timeline import timeline_picture
from convc.errors import InputError, PlanError
from convc.host_layout.block_scaled import FORMATS
from convc.ir.launch import LaunchSpec, load_launch
from convc.ir.planned import read_order
from convc.ir.problem import ConvProblem
from convc.ir.tile_order import OrderTraffic
from convc.ir.tuned import Tuning
from convc.runtime.launch_files import read_buffers
from convc.support.counted import counted
from convc.support.files import read_text
from convc.support.progress import Progress
from convc.timing.kernel import KernelTime, gaps, target_of, time_kernel, waits_of_all
from convc.timing.parameters import Chip, check_target
from convc.timing.what_if import Candidate, WhatIf, asks_for_choices, check_what_if, what_if


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerTime:
    """The time of a layer, or of a kernel without one.

    Attributes:
        name: of the layer, or of the kernel's entry.
        schedule: of the layer; "" for a kernel that convc did not write.
        macs: multiply-adds of the convolution; None where the text alone is known.
        kernel: how long its kernel takes, and why.
        element_bits: of an operand of the tensor core; None as of ``macs``.
        tuned: the tuning record by which its kernel was chosen.
    """

    name: str
    schedule: str
    macs: int | None
    kernel: KernelTime
    element_bits: int | None = None
    tuned: Tuning | None = None

    @property
    def tflops(self) -> float | None:
        """Floating-point operations of the convolution, in 10^12 a second."""
        return None if self.macs is None else 2e-6 * self.macs / self.kernel.microseconds

    def _repr_svg_(self) -> str:
        """The first wave of its kernel, for notebooks."""
        return timeline_picture(self.kernel).svg()


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeReport:
    """The times of some kernels.

    Attributes:
        source: the model, the folder or the file.
        chip: whose parameters were used.
        layers: in the order of the model.
        what_ifs: the answers to `ChipOptions.what_if`.
    """

    source: str
    chip: Chip
    layers: tuple[LayerTime, ...]
    what_ifs: tuple[WhatIf, ...] = ()

    @property
    def microseconds(self) -> float:
        """All kernels, one after the other, without what lies between them."""
        return sum(layer.kernel.microseconds for layer in self.layers)

    @property
    def gaps(self) -> float:
        """Microseconds between the kernels where a graph launches them one behind the other."""
        return gaps([layer.kernel for layer in self.layers])

    @property
    def waits(self) -> Mapping[str, float]:
        """Share of that time by what the kernels wait for, most first."""
        return waits_of_all(layer.kernel for layer in self.layers)

    def _repr_svg_(self) -> str | None:
        """A kernel's first wave, or several layers under the roofs of the chip, for notebooks."""
        if len(self.layers) == 1:
            return self.layers[0]._repr_svg_()  # pyright: ignore[reportPrivateUsage] - the name is IPython's
        points = roof_points(self)
        return roofline_picture(points, self.chip).svg() if points else None

    def __repr__(self) -> str:
        kernels = counted(len(self.layers), "kernel")
        return f"<TimeReport {self.source}: {kernels}, {self.microseconds:.1f} us on {self.chip.name}>"


def roof_points(report: TimeReport) -> list[RoofPoint]:
    """The layers of a report that a roofline can show: those whose convolution is known."""
    return [
        RoofPoint(name=one.name, macs=one.macs, element_bits=one.element_bits, kernel=one.kernel)
        for one in report.layers
        if one.macs is not None and one.element_bits is not None
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """A kernel to be timed."""

    name: str
    schedule: str
    macs: int | None
    text: str
    file: str
    launch: LaunchSpec
    folder: Path | None
    element_bits: int | None = None
    problem: ConvProblem | None = None  # whose schedule the planner may choose
    order: OrderTraffic | None = None
    tuned: Tuning | None = None

    @property
    def target(self) -> str:
        """The target of its kernel."""
        return target_of(self.text, self.file)


def time(
    source: Model | Build | str | Path,
    launch: str | Path | None = None,
    layer: LayerNames | None = None,
    *,
    chip: ChipOptions | None = None,
    read: ReadOptions | None = None,
    schedule: ScheduleOptions | None = None,
    work: WorkOptions | None = None,
) -> TimeReport:
    """Estimate how long kernels take: their traces, replayed on a model of a chip.

    Args:
        source: a model, a build folder or an open build; with ``launch`` the file of any PTX kernel.
        launch: the launch file of a kernel.
        layer: of a model or a build, only this one: a name or a pattern, or several.
        chip: whose parameters are used, and how they are changed.
        read: how a model is read.
        schedule: which schedules to consider for a model's layers.
        work: where compiled kernels are kept, and the progress callback.

    Returns:
        Cycles and microseconds of every kernel, its critical path, and what each answer depends on.

    Raises:
        InputError: there is no such chip, parameter, layer or file, or a kernel is for another chip.
        UnmodelledError: the control flow of a kernel depends on time.
        PtxSyntaxError, LaunchError, PlanError, MachineFault: a kernel cannot be compiled or run.
        ToolError: with `ChipOptions.sass`, ptxas or nvdisasm is missing, or refuses a kernel.

    Example:
        >>> convc.time("tiny_two_convs.onnx").layers[0].kernel.launch.rounds
        1
    """
    model = given_options(chip, ChipOptions, "chip")
    settings = settings_of(model)
    parameters = chip_of(model)
    check_what_if(parameters, model.what_if)  # before anything is compiled: all chips have the same names
    chosen = given_options(work, WorkOptions, "work")
    told = Progress(chosen.progress)
    jobs: list[_Job] = []
    for job in _jobs(source, launch, layer, read, schedule, chosen, model):
        if not jobs:
            parameters = chip_of(model, job.target)
        check_target(parameters, job.target, job.name)
        jobs.append(job)
    others: list[_Job] = []
    if asks_for_choices(model.what_if) and len(jobs) == 1 and jobs[0].problem is not None:
        others = list(_other_schedules(jobs[0], jobs[0].problem, schedule, chosen, model))
    timed: dict[str, KernelTime] = {}
    layers: list[LayerTime] = []
    for index, job in enumerate([*jobs, *others]):
        told(f"time {job.name}", index / len([*jobs, *others]))
        key = f"{job.launch}\n{job.order}\n{job.text}"
        if key not in timed:
            timed[key] = _timed(job, model, parameters)
        layers.append(
            LayerTime(
                name=job.name,
                schedule=job.schedule,
                macs=job.macs,
                kernel=timed[key],
                element_bits=job.element_bits,
                tuned=job.tuned,
            )
        )
    kernels = [Candidate(layer=one.name, schedule=one.schedule, kernel=one.kernel) for one in layers]
    asked = kernels[: len(jobs)]
    compared = kernels[len(jobs) :]
    return TimeReport(
        source=_called(source),
        chip=parameters,
        layers=tuple(layers[: len(jobs)]),
        what_ifs=tuple(what_if(name, parameters, settings, asked, compared) for name in dict.fromkeys(model.what_if)),
    )


def _timed(job: _Job, options: ChipOptions, chip: Chip) -> KernelTime:
    buffers: dict[str, np.ndarray] = {} if job.folder is None else read_buffers(job.launch, job.folder)
    return time_kernel(
        job.text,
        job.launch,
        buffers,
        chip,
        name=job.name,
        file=job.file,
        cold=options.cold,
        sass=options.sass,
        order=job.order,
    )


def _jobs(
    source: Model | Build | str | Path,
    launch: str | Path | None,
    layer: LayerNames | None,
    read: ReadOptions | None,
    schedule: ScheduleOptions | None,
    work: WorkOptions,
    chip: ChipOptions,
) -> Iterator[_Job]:
    if launch is not None:
        yield _foreign(source, Path(launch))
        return
    path = Path(source) if isinstance(source, str | Path) else None
    if path is not None and path.suffix == ".ptx":
        raise InputError(
            "a kernel file needs its launch file", where=str(path), hint="convc time KERNEL.ptx LAUNCH.json"
        )
    if isinstance(source, Build) or (path is not None and path.is_dir()):
        check_settled(read, schedule)
        yield from _built(source if isinstance(source, Build) else opened(str(path)), layer)
        return
    yield from _compiled(source, layer, read, schedule, work, chip)


def _foreign(source: object, launch: Path) -> _Job:
    """A kernel that convc did not write."""
    if not isinstance(source, str | Path):
        raise InputError("a launch file goes with a kernel file")
    spec = load_launch(launch)
    text = read_text(Path(source))
    return _Job(name=spec.entry, schedule="", macs=None, text=text, file=str(source), launch=spec, folder=launch.parent)


def _built(build: Build, layer: LayerNames | None) -> Iterator[_Job]:
    for record in pick_layers(build.network.layers, layer, str(build.path)):
        ready = build.load(record.name)
        job = _job(record.name, record.planned.schedule, record.problem, ready.ptx, ready.file, ready.launch)
        yield dataclasses.replace(job, order=build.order(record), tuned=record.planned.tuning)


def _compiled(
    model: Model,
    layer: LayerNames | None,
    read: ReadOptions | None,
    schedule: ScheduleOptions | None,
    work: WorkOptions,
    chip: ChipOptions,
) -> Iterator[_Job]:
    network = read_network(model, read, layer)
    say_left_out(network, read, layer)
    with open_kernels(schedule, work, chip) as kernels:
        for conv in chosen_convolutions(network, layer):
            kernel = kernels.compiled(conv.problem)
            artifact = kernel.artifact
            job = _job(conv.name, kernel.schedule, conv.problem, artifact.ptx, "kernel.ptx", artifact.launch)
            free = schedule is None or schedule.schedule == AUTO
            problem = conv.problem if free else None
            tuned = planned_of(kernel).tuning
            yield dataclasses.replace(job, problem=problem, order=read_order(kernel.plan), tuned=tuned)


def _other_schedules(
    planned: _Job, problem: ConvProblem, options: ScheduleOptions | None, work: WorkOptions, chip: ChipOptions
) -> Iterator[_Job]:
    """The kernels of a layer in all legal schedules but the planned one."""
    for one in SCHEDULES:
        if f"{one.name} {one.variant}".strip() == planned.schedule:
            continue
        with open_kernels(only(one, options), work, chip) as kernels:
            try:
                kernel = kernels.compiled(problem)
            except PlanError:
                continue  # it is not legal here
        artifact = kernel.artifact
        job = _job(planned.name, kernel.schedule, problem, artifact.ptx, "kernel.ptx", artifact.launch)
        yield dataclasses.replace(job, order=read_order(kernel.plan))


def only(schedule: Schedule, options: ScheduleOptions | None) -> ScheduleOptions:
    """The options that ask for one schedule, with what others say where it has a use for it."""
    requested = options or ScheduleOptions()
    shared = requested if schedule.shares else ScheduleOptions()
    return dataclasses.replace(
        requested,
        schedule=schedule.name,
        shift=schedule.variant or AUTO,
        border=shared.border,
        rows=shared.rows,
        filters=shared.filters,
        store=requested.store if requested.store in schedule.stores else AUTO,
        cta_group=requested.cta_group if schedule.pairs else AUTO,
        residual_load=requested.residual_load if TMA in schedule.stores else AUTO,
        split_k=requested.split_k if schedule.splits else "off",
        multicast=requested.multicast if schedule.multicasts else "off",
        timed=False,
    )


def _job(name: str, schedule: str, problem: ConvProblem, text: str, file: str, launch: LaunchSpec) -> _Job:
    return _Job(
        name=name,
        schedule=schedule,
        macs=problem.macs,
        text=text,
        file=file,
        launch=launch,
        folder=None,
        element_bits=element_bits(problem),
    )


def element_bits(problem: ConvProblem) -> int:
    """Bits of an operand of the tensor core."""
    blocks = FORMATS.get(problem.operand)
    return problem.operand_dtype.bits if blocks is None else 8 // blocks.packed


def _called(source: object) -> str:
    if isinstance(source, str | Path):
        return Path(source).name
    if isinstance(source, Build):
        return str(source.path)
    return getattr(source, "name", "") or "model"
