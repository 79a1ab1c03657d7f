"""The layers of a page for a browser: each kernel compiled and timed once."""

from __future__ import annotations

from collections.abc import Iterator

from convc.api.arguments import given_options
from convc.api.drawing import time_inspected, time_schedules
from convc.api.inspecting import Inspection, build_of, check_settled, inspect
from convc.api.models import Model, chosen_convolutions, name_of, read_network, say_left_out
from convc.api.options import ChipOptions, ReadOptions, ScheduleOptions, WorkOptions
from convc.api.timer import chip_of
from convc.api.timing import element_bits
from convc.api.working import timer_of, tuned_of
from convc.build.folder import Build, LayerRecord
from convc.build.selection import LayerNames, pick_layers
from convc.compiler.kernels import compile_shared, shared_problem
from convc.draw.roofline import RoofPoint
from convc.draw.schedules import timed_schedule
from convc.errors import InputError, PlanError
from convc.ir.network import ConvNode
from convc.page.records import PageKernel, PageLayer, PageReport
from convc.support.progress import Progress
from convc.timing.kernel import KernelTime

Node = ConvNode | LayerRecord
Found = tuple[Node, Inspection | str]
"""A layer, and how it is compiled or why it is not."""


def page_report(
    source: Model | Build,
    layer: LayerNames | None = None,
    *,
    chip: ChipOptions | None = None,
    read: ReadOptions | None = None,
    schedule: ScheduleOptions | None = None,
    work: WorkOptions | None = None,
) -> PageReport:
    """Compile and time layers for a page.

    The schedules of a layer are timed where the page has one kernel; of several, the planner's estimates are shown.

    Args:
        source: a model or a build folder, as for `convc.inspect`.
        layer: only this one: a name or a pattern, or several.
        chip: whose parameters are used; with ``sass`` the page has the machine code of each kernel, which is timed.
        read: how a model is read.
        schedule: which schedules to consider for a model's layers.
        work: the progress callback.

    Raises:
        InputError: there is no such layer, chip or file, or no layer at all.
        BuildError: the folder is damaged, or lacks a file that the page needs.
    """
    told = Progress((work or WorkOptions()).progress)
    options = chip or ChipOptions()
    parameters = chip_of(options)
    build = build_of(source)
    if build is None:
        assert not isinstance(source, Build)
        name = name_of(source)
        found = list(_of_model(source, layer, read, schedule, options, told.part(0.0, 0.5)))
    else:
        check_settled(read, schedule)
        name = str(build.path)
        found = list(_of_build(build, layer, told.part(0.0, 0.5)))
    if not found:
        raise InputError("there is nothing to report: no convolution", where=name)
    texts = list(dict.fromkeys(each.text for _, each in found if isinstance(each, Inspection)))
    times: dict[str, KernelTime] = {}
    kernels: list[PageKernel] = []
    for index, text in enumerate(texts):
        one = next(each for _, each in found if isinstance(each, Inspection) and each.text == text)
        told.part(0.5, 1.0)(f"time {one.node.name}", index / len(texts))
        times[text] = time_inspected(one, options)
        parameters = times[text].chip
        schedules = time_schedules(one, options) if len(texts) == 1 else {}
        schedules[one.plan.schedule.title] = timed_schedule(one.plan, times[text])
        kernels.append(
            PageKernel(compiled=one.compiled, text=text, edited=one.edited, time=times[text], schedules=schedules)
        )
    layers = tuple(_layer(node, each, texts, times) for node, each in found)
    return PageReport(source=name, chip=parameters, layers=layers, kernels=tuple(kernels))


def _layer(node: Node, inspection: Inspection | str, texts: list[str], times: dict[str, KernelTime]) -> PageLayer:
    if isinstance(inspection, str):
        return PageLayer(name=node.name, problem=node.problem, fused=node.fused, reason=inspection)
    point = RoofPoint(
        name=node.name,
        macs=node.problem.macs,
        element_bits=element_bits(node.problem),
        kernel=times[inspection.text],
    )
    return PageLayer(
        name=node.name, problem=node.problem, fused=node.fused, kernel=texts.index(inspection.text), point=point
    )


def _of_model(
    model: Model,
    layer: LayerNames | None,
    read: ReadOptions | None,
    schedule: ScheduleOptions | None,
    chip: ChipOptions,
    told: Progress,
) -> Iterator[Found]:
    """The layers of a model, each distinct problem compiled once."""
    options = given_options(schedule, ScheduleOptions, "schedule")
    network = read_network(model, read, layer)
    say_left_out(network, read, layer)
    convs = chosen_convolutions(network, layer)
    known: dict[object, Inspection | str] = {}
    for index, conv in enumerate(convs):
        key = shared_problem(conv.problem)
        if key not in known:
            told(f"plan {conv.name}", index / len(convs))
            try:
                compiled = compile_shared(
                    conv.problem, options, timer_of(options, chip), tuned_of(conv.problem, options)
                )
                known[key] = Inspection(node=conv, compiled=compiled, options=options)
            except PlanError as error:
                known[key] = error.message
        yield conv, known[key]


def _of_build(build: Build, layer: LayerNames | None, told: Progress) -> Iterator[Found]:
    """The layers of a build, each kernel compiled once with the options that the build holds."""
    records = pick_layers(build.network.layers, layer, str(build.path))
    known: dict[str, Inspection] = {}
    for index, record in enumerate(records):
        if record.kernel not in known:
            told(f"plan {record.name}", index / len(records))
            known[record.kernel] = inspect(build, record.name)
        yield record, known[record.kernel]
