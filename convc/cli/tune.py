"""``convc tune``: the candidates of layers are measured, and the fastest is remembered."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click
from click.core import ParameterSource

from convc import api
from convc.api.options import TuneOptions
from convc.cli.choice import Choice
from convc.cli.options import (
    Chosen,
    Layers,
    chosen_options,
    collected,
    layers_option,
    model_options,
    no_cache_option,
    path_type,
    target_type,
)
from convc.cli.streams import model_source


@click.command("tune")
@click.argument("source", type=path_type, required=False, metavar="[MODEL|DIR]")
@layers_option
@model_options
@click.option(
    "--candidates",
    type=click.IntRange(1, 1000),
    default=12,
    show_default=True,
    metavar="N",
    help="Maximum number of candidates per layer.",
)
@click.option(
    "--seconds",
    type=float,
    default=20.0,
    show_default=True,
    metavar="S",
    help="Time limit of a layer; no measurement starts after it.",
)
@click.option(
    "--on",
    type=Choice(["auto", "gpu", "engine"]),
    default="auto",
    show_default=True,
    help="Measure on the first GPU, or with the timing engine; auto: engine where there is no GPU.",
)
@click.option("--again", is_flag=True, help="Measure layers again that have a record.")
@click.option(
    "--timeout", type=float, default=10.0, show_default=True, metavar="SECONDS", help="Time limit of a launch."
)
@click.option("--import", "records", type=path_type, metavar="FILE.json", help="First import the records of a file.")
@click.option("--export", type=target_type, metavar="FILE.json", help="Write the records of these layers to a file.")
@no_cache_option
@collected("options", TuneOptions)
@chosen_options
def tune_command(source: Path | None, layer: Layers, options: TuneOptions, chosen: Chosen) -> None:
    """Measure the best candidates of each layer on the first GPU, and record the fastest in the compile cache.

    The candidates of a convolution are the kernels whose estimates are within 25 % of the best. Later runs of compile,
    verify, inspect, time and launch with the same options use the fastest. Without a GPU the timing engine times the
    candidates. --export and --import transfer records.
    """
    # Imported when the command runs: its help needs no report.
    from convc.report.console import console, progress_bar
    from convc.report.format import counted
    from convc.report.tuning import print_bench, print_tuned_layers

    out = console()
    source_of = click.get_current_context().get_parameter_source
    options = dataclasses.replace(options, own_target=source_of("target") is not ParameterSource.COMMANDLINE)
    report = None
    build = source is not None and source.is_dir()
    try:
        with progress_bar() as progress:
            steps = api.tune_layers(
                None if source is None else model_source(source),
                layer=layer,
                read=chosen.read,
                schedule=chosen.schedule,
                options=options,
                work=dataclasses.replace(chosen.work, progress=progress),
            )
            for report in steps:  # noqa: B007 - the last one is the whole, or all there is where Ctrl-C comes
                pass
    finally:
        if report is not None:
            if report.imported:
                out.print(
                    f"took {counted(report.imported, 'record')} of {options.records}", soft_wrap=True, markup=False
                )
            if report.where:
                print_bench(out, report.where, report.engine, report.why, report.target)
            rows = [
                (one.names, None if one.record is None else one.record.tuned, one.measured, one.lost, one.reason)
                for one in report.layers
            ]
            print_tuned_layers(out, rows)
    if build:
        out.print("the build folder is unchanged: compile the model again to use the fastest kernels", soft_wrap=True)
    if report is not None and not report.ok:
        raise click.exceptions.Exit(1)
