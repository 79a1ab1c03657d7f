"""``convc time``: how long kernels take, and what they wait for."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from convc import api
from convc.api.options import ChipOptions
from convc.cli.contradictions import MODEL_OPTIONS, check_order, refuse_given
from convc.cli.files import chip_file
from convc.cli.options import (
    Chosen,
    Layers,
    chosen_options,
    collected,
    json_option,
    layers_option,
    model_options,
    no_cache_option,
    path_type,
    target_type,
)
from convc.cli.streams import model_source

if TYPE_CHECKING:
    from convc import TimeReport
    from convc.report.console import Console


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """Parts of a report that are shown or written on demand."""

    timeline: bool
    passes: bool
    passes_file: Path | None
    trace_file: Path | None
    csv_file: Path | None
    json_file: Path | None

    def check(self) -> None:
        """Raise click.UsageError where options do not go together."""
        if self.passes_file is None:
            return
        if not self.passes:
            raise click.UsageError("-o is where --passes goes: give --passes too.")
        if self.passes_file.suffix not in (".csv", ".svg"):
            raise click.UsageError(f"the file of --passes ends in .csv or .svg, got {self.passes_file}")

    def check_single(self) -> None:
        """Raise click.UsageError where something of a single kernel is asked for, and there are several."""
        for option, asked in (
            ("--timeline", self.timeline),
            ("--trace", self.trace_file is not None),
            ("--passes with -o", self.passes_file is not None),
        ):
            if asked:
                raise click.UsageError(f"{option} is about one kernel: choose a layer with --layer.")


@click.command("time")
@click.argument("source", type=path_type, metavar="MODEL|DIR|KERNEL.ptx")
@click.argument("launch", type=path_type, required=False, metavar="[LAUNCH.json]")
@layers_option
@click.option(
    "--chip",
    callback=chip_file,
    metavar="NAME|FILE.toml",
    help="The chip: b200, b300, h100 or h200; by default the target of the kernels.",
)
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="Set a parameter: tma.fill=110, tmem.banks=8x64."
)
@click.option(
    "--what-if",
    "what_if",
    multiple=True,
    metavar="NAME",
    help="Also show the time at both ends of a parameter's range, or in each setting of tmem.banks.",
)
@click.option(
    "--clock", type=click.FloatRange(min=0.1, max=10.0), metavar="GHZ", help="SM clock, in place of the chip's."
)
@click.option("--cold", is_flag=True, help="L2 is empty when a kernel starts.")
@click.option("--timeline", is_flag=True, help="Also show each warp and unit over time, as text.")
@click.option("--sass", is_flag=True, help="Time the SASS that ptxas generates instead of the PTX text.")
@click.option("--passes", is_flag=True, help="Also show an MMA of each shape step by step, inside the tensor core.")
@click.option(
    "-o",
    "--output",
    "passes_file",
    type=target_type,
    metavar="FILE.csv|.svg",
    help="With --passes: write the steps to this file, as CSV or as a picture.",
)
@click.option(
    "--trace",
    "trace_file",
    type=target_type,
    metavar="FILE.pftrace",
    help="Write the first wave of a kernel as a trace that ui.perfetto.dev opens (extra convc[trace]).",
)
@click.option(
    "--csv",
    "csv_file",
    type=target_type,
    metavar="FILE",
    help="Write a row per layer as CSV, or of a single kernel a row per event (- is stdout).",
)
@model_options
@no_cache_option
@json_option
@collected("chip", ChipOptions)
@collected("shown", Shown)
@chosen_options
def time_command(
    source: Path,
    launch: Path | None,
    layer: Layers,
    shown: Shown,
    chip: ChipOptions,
    chosen: Chosen,
) -> None:
    """Estimate how long kernels take on a chip, and what they wait for, without the chip.

    The simulator executes one cluster of the grid; its trace is replayed on a model of the chip whose numbers are
    measured or published (convc/timing/chips). A single kernel is shown with its critical path and the parameters that
    its time depends on, several with a line each.
    """
    # Imported when the command runs: its help needs no report.
    from convc.report.console import console, progress_bar
    from convc.report.hmma import published
    from convc.report.layers import print_tuned
    from convc.report.output import check_reports
    from convc.report.passes import opened
    from convc.report.perfetto import require_perfetto
    from convc.report.timing import print_kernel, print_times
    from convc.report.what_if import print_what_if

    shown.check()
    check_order(source, launch)
    if launch is not None:
        refuse_given("a kernel with its launch file is no layer of a model", {*MODEL_OPTIONS, "layer"})
    if shown.trace_file is not None:
        require_perfetto()
    out = console(stderr=check_reports(shown.json_file, shown.csv_file, shown.trace_file, shown.passes_file))
    with progress_bar() as progress:
        report = api.time(
            model_source(source),
            launch,
            layer,
            chip=chip,
            read=chosen.read,
            schedule=chosen.schedule,
            work=dataclasses.replace(chosen.work, progress=progress),
        )
    if shown.passes:
        for one in report.layers:
            if shown.passes_file is not None or not published(one.kernel):
                opened(one.kernel)
    rows = [(one.name, one.schedule, one.tflops, one.kernel) for one in report.layers]
    if len(rows) == 1:
        print_kernel(out, rows[0])
    else:
        shown.check_single()
        print_times(out, rows)
    print_tuned(out, ((one.name, one.tuned) for one in report.layers))
    for answer in report.what_ifs:
        print_what_if(out, answer)
    _show_more(out, report, shown)


def _show_more(out: Console, report: TimeReport, shown: Shown) -> None:
    from convc.draw.passes import passes_picture
    from convc.report.hmma import print_hmma, published
    from convc.report.output import json_text, write_report
    from convc.report.passes import passes_csv, print_passes
    from convc.report.perfetto import trace_bytes
    from convc.report.time_files import events_csv, layers_csv, times_json
    from convc.report.timeline import print_timeline

    rows = [(one.name, one.schedule, one.tflops, one.kernel) for one in report.layers]
    kernels = [one.kernel for one in report.layers]
    if shown.timeline:
        print_timeline(out, kernels[0])
    if shown.passes_file is not None:
        drawn = shown.passes_file.suffix == ".svg"
        content = passes_picture(kernels[0]).svg().encode() if drawn else passes_csv(kernels[0])
        write_report(shown.passes_file, content)
    elif shown.passes:
        for kernel in kernels:
            if published(kernel):
                print_hmma(out, kernel)
            else:
                print_passes(out, kernel)
    if shown.trace_file is not None:
        write_report(shown.trace_file, trace_bytes(kernels[0]))
    if shown.csv_file is not None:
        write_report(shown.csv_file, events_csv(kernels[0]) if len(rows) == 1 else layers_csv(rows))
    if shown.json_file is not None:
        write_report(shown.json_file, json_text(times_json(report.source, report.chip.name, rows, report.what_ifs)))
