"""``convc time``: how long kernels take, and what they wait for."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click

from convc import api
from convc.api.options import ChipOptions
from convc.cli.options import (
    Chosen,
    Layers,
    batch_option,
    chosen_options,
    collected,
    dtype_option,
    fuse_option,
    json_option,
    layers_option,
    no_cache_option,
    path_type,
    precision_option,
    schedule_options,
)


@click.command("time")
@click.argument("source", type=path_type, metavar="MODEL|DIR|KERNEL.ptx")
@click.argument("launch", type=path_type, required=False, metavar="[LAUNCH.json]")
@layers_option
@click.option("--chip", default="b200", show_default=True, help="Whose parameters to use: b200 or h200.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Set a parameter: tma.fill=110.")
@click.option(
    "--clock", type=click.FloatRange(min=0.1, max=10.0), metavar="GHZ", help="SM clock, in place of the chip's."
)
@click.option("--cold", is_flag=True, help="Nothing is in L2 when a kernel begins.")
@click.option("--sass", is_flag=True, help="Time the instructions that ptxas makes of the text, not their classes.")
@click.option("--passes", is_flag=True, help="Also show an MMA of each shape step by step, inside the tensor core.")
@batch_option
@dtype_option
@precision_option
@fuse_option
@schedule_options
@no_cache_option
@json_option
@collected("chip", ChipOptions)
@chosen_options
def time_command(
    source: Path,
    launch: Path | None,
    layer: Layers,
    passes: bool,
    json_file: Path | None,
    chip: ChipOptions,
    chosen: Chosen,
) -> None:
    """Estimate how long kernels take on a chip that need not be there, and say what they wait for.

    The machine executes one cluster of the grid; its trace is replayed on a model of the chip whose numbers are
    measured or published (convc/timing/chips). One kernel is shown with its critical path and the numbers that the
    answer rests on, several with a line each.
    """
    # Imported when the command runs: its help needs no report.
    from convc.report.console import console, progress_bar
    from convc.report.output import check_reports, json_text, write_report
    from convc.report.timing import print_kernel, print_passes, print_times, times_json

    out = console(stderr=check_reports(json_file))
    with progress_bar() as progress:
        report = api.time(
            source,
            launch,
            layer,
            chip=chip,
            read=chosen.read,
            schedule=chosen.schedule,
            work=dataclasses.replace(chosen.work, progress=progress),
        )
    rows = [(one.name, one.schedule, one.tflops, one.kernel) for one in report.layers]
    if len(rows) == 1:
        print_kernel(out, rows[0])
    else:
        print_times(out, rows)
    if passes:
        for row in rows:
            print_passes(out, row[3])
    if json_file is not None:
        write_report(json_file, json_text(times_json(report.source, chip.chip, rows)))
