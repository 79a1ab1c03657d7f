"""``convc draw passes|timeline|roofline|schedules``: pictures of the time that kernels take."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from convc import api
from convc.api.options import ChipOptions
from convc.cli.contradictions import MODEL_OPTIONS, refuse_given
from convc.cli.draw_layer import layer_of_model
from convc.cli.draw_output import check_output, output_option, write_picture
from convc.cli.files import chip_file
from convc.cli.options import (
    Chosen,
    Layers,
    chosen_options,
    collected,
    layers_option,
    model_options,
    no_cache_option,
    path_type,
    read_model_argument,
)

if TYPE_CHECKING:
    from convc import TimeReport
    from convc.api.inspecting import Inspection
    from convc.api.timing import LayerTime

Command = Callable[..., Any]


def chip_options(command: Command) -> Command:
    """``--chip`` and ``--set``, as ``chip``."""
    command = collected("chip", ChipOptions)(command)
    command = click.option(
        "--set", "settings", multiple=True, metavar="NAME=VALUE", help="Set a parameter of the chip: tma.fill=110."
    )(command)
    return click.option(
        "--chip",
        callback=chip_file,
        metavar="NAME|FILE.toml",
        help="The chip: b200, b300, h100 or h200; by default the target of the kernels.",
    )(command)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """All that says which kernels are timed, and on which chip."""

    source: Path
    launch: Path | None
    layer: Layers
    chip: ChipOptions
    chosen: Chosen

    def report(self) -> TimeReport:
        """The times."""
        from convc.report.console import progress_bar

        if self.launch is not None:
            refuse_given("a kernel with its launch file is no layer of a model", {*MODEL_OPTIONS, "layer"})
        chosen = self.chosen
        with progress_bar() as progress:
            work = dataclasses.replace(chosen.work, progress=progress)
            return api.time(
                self.source,
                self.launch,
                self.layer,
                chip=self.chip,
                read=chosen.read,
                schedule=chosen.schedule,
                work=work,
            )

    def single(self) -> LayerTime:
        """The time of the only layer; click.UsageError where there are several."""
        first, *others = self.report().layers
        if others:
            names = ", ".join(one.name for one in (first, *others[:7]))
            raise click.UsageError(f"the picture is of one kernel: choose a layer with --layer, of {names}")
        return first


def timed_source(command: Command) -> Command:
    """The arguments and options of ``convc time`` that say which kernels are timed, and on which chip, as ``timed``."""
    command = chosen_options(chip_options(collected("timed", Timed)(command)))
    command = layers_option(model_options(no_cache_option(command)))
    command = click.argument("launch", type=path_type, required=False, metavar="[LAUNCH.json]")(command)
    return click.argument("source", type=path_type, callback=read_model_argument, metavar="MODEL|DIR|KERNEL.ptx")(
        command
    )


@click.command("passes", short_help="MMAs step by step, inside the tensor core.")
@timed_source
@output_option
def passes_command(timed: Timed, output: Path | None) -> None:
    """Draw the first MMAs of a kernel cycle by cycle: the port of shared memory and the four sub-cores."""
    from convc.draw.passes import passes_picture

    check_output(output)
    write_picture(passes_picture(timed.single().kernel), output)


@click.command("timeline", short_help="The first wave of a kernel, warp by warp.")
@timed_source
@output_option
def timeline_command(timed: Timed, output: Path | None) -> None:
    """Draw what the warps, the units and the stages of a kernel do in its first wave, and what they wait for."""
    from convc.draw.timeline import timeline_picture

    check_output(output)
    write_picture(timeline_picture(timed.single().kernel), output)


@click.command("roofline", short_help="Layers under the roofs of a chip.")
@timed_source
@output_option
def roofline_command(timed: Timed, output: Path | None) -> None:
    """Draw the layers of a model by their operations a byte and a second, under the roofs of the chip."""
    from convc.api.timing import roof_points
    from convc.draw.roofline import roofline_picture

    check_output(output)
    report = timed.report()
    write_picture(roofline_picture(roof_points(report), report.chip), output)


def timed_layer(command: Command) -> Command:
    """One layer and a chip, as ``found`` and ``chip``, with what the layer is planned with as ``chosen``."""

    @functools.wraps(command)
    def inspected(model: Path, layer: str | None, output: Path | None, chip: ChipOptions, chosen: Chosen) -> object:
        check_output(output)
        found = api.inspect(model, layer, read=chosen.read, schedule=chosen.schedule)
        return command(found=found, chip=chip, chosen=chosen, output=output)

    return layer_of_model(chip_options(output_option(inspected)))


@click.command("schedules", short_help="The schedules of a layer, by what each waits for.")
@timed_layer
def schedules_command(found: Inspection, chip: ChipOptions, chosen: Chosen, output: Path | None) -> None:
    """Draw the time of every legal schedule of a layer, split by what its critical path goes through."""
    from convc.api.drawing import time_schedules
    from convc.draw.schedules import schedules_picture

    write_picture(schedules_picture(found.plan, time_schedules(found, chip)), output)


@click.command("memory-time", short_help="Shared and tensor memory of a CTA, cycle by cycle.")
@timed_layer
def memory_time_command(found: Inspection, chip: ChipOptions, chosen: Chosen, output: Path | None) -> None:
    """Draw which bytes of shared memory fill and are full, and who uses tensor memory, over a kernel's first wave."""
    from convc.api.drawing import time_inspected
    from convc.draw.memory_time import memory_time_picture

    write_picture(memory_time_picture(time_inspected(found, chip), found.program), output)
