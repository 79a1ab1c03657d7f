"""The kernels of a layer, timed: what a picture is drawn from that no single verb gives."""

from __future__ import annotations

from convc.api.inspecting import Inspection
from convc.api.options import ChipOptions
from convc.api.timer import chip_of
from convc.api.timing import only
from convc.compiler.kernels import compile_shared
from convc.compiler.schedules.all import schedule_of
from convc.draw.schedules import TimedSchedule, timed_schedule
from convc.timing.kernel import KernelTime, time_kernel
from convc.timing.parameters import Chip, check_target


def time_inspected(inspection: Inspection, chip: ChipOptions | None = None) -> KernelTime:
    """Time the kernel of a layer whose plan and tile program are at hand.

    Raises:
        InputError: there is no such chip, or the kernel is for another one.
    """
    options = chip or ChipOptions()
    parameters = _parameters(inspection, options)
    order = inspection.plan.launch.order.timed
    return time_kernel(
        inspection.text, inspection.launch, {}, parameters, name=inspection.node.name, sass=options.sass, order=order
    )


def _parameters(inspection: Inspection, options: ChipOptions) -> Chip:
    """The chip that was asked for, or the usual one of the layer's target; refused if it is of another architecture."""
    target = inspection.plan.arch.name
    parameters = chip_of(options, target)
    check_target(parameters, target, inspection.node.name)
    return parameters


def time_schedules(inspection: Inspection, chip: ChipOptions | None = None) -> dict[str, TimedSchedule]:
    """Time the kernel of every legal schedule of a layer, by the schedule's title such as ``shift windows``.

    Args:
        inspection: the layer, whose plan says which schedules are legal. Of the plan's own, its kernel is timed.
        chip: whose parameters are used.

    Raises:
        InputError: there is no such chip, or the kernel is for another one.
    """
    options = chip or ChipOptions()
    parameters = _parameters(inspection, options)
    asked = inspection.options
    timed: dict[str, TimedSchedule] = {}
    for choice in inspection.plan.choices:
        if choice.tiling is None or choice.fell:
            continue
        compiled = inspection.compiled
        if choice.schedule != inspection.plan.schedule:
            compiled = compile_shared(inspection.node.problem, only(schedule_of(choice.schedule), asked))
        artifact = compiled.artifact
        title = choice.schedule.title
        order = compiled.plan.launch.order.timed
        kernel = time_kernel(artifact.ptx, artifact.launch, {}, parameters, name=title, sass=options.sass, order=order)
        timed[title] = timed_schedule(compiled.plan, kernel)
    return timed
