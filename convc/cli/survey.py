"""``convc survey``: every ONNX model of a folder, a line each."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

import click

from convc import api
from convc.cli.options import (
    Chosen,
    chosen_options,
    collected,
    fuse_option,
    host_option,
    json_option,
    no_cache_option,
    path_type,
    precision_option,
    shape_option,
    target_type,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyOptions:
    """Options on how a model is surveyed, as `convc.survey` takes them."""

    seed: int
    sample: int | None
    limit: float
    extent: int
    host: str


@click.command("survey")
@click.argument("folder", type=path_type, metavar="DIR|MODEL.onnx")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the data.")
@click.option(
    "--sample",
    type=click.IntRange(min=0),
    metavar="N",
    help="As for verify: run N random CTAs of a layer, and its borders.",
)
@click.option(
    "--limit",
    type=click.FloatRange(min=0, min_open=True),
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="Time limit of a model.",
)
@click.option(
    "--extent",
    type=click.IntRange(min=1, max=1 << 20),
    default=64,
    show_default=True,
    metavar="N",
    help="Extent of open axes of inputs; an open batch is 1.",
)
@shape_option
@precision_option
@fuse_option
@host_option
@no_cache_option
@json_option
@click.option("--markdown", type=target_type, metavar="FILE", help="Write the table as Markdown (- is stdout).")
@collected("options", SurveyOptions)
@chosen_options
def survey_command(
    folder: Path, options: SurveyOptions, json_file: Path | None, markdown: Path | None, chosen: Chosen
) -> None:
    """List, verify and run every .onnx file below DIR, and print a line for each.

    A model's convolutions are compiled, run and compared with the float64 reference, as by verify; then the whole
    network runs on random data with its own weights, and its outputs are compared with onnxruntime's. Each model has
    its own process, so that a hang, a crash or a lack of memory affects one line.

    Exit code 1 if a result is wrong; unsupported models are listed as refused.
    """
    # Imported when the command runs: its help needs no report.
    from convc.report.console import console, progress_bar
    from convc.report.output import check_reports, write_report
    from convc.report.survey import print_survey, survey_json, survey_markdown

    quiet = check_reports(json_file, markdown)
    with progress_bar() as progress:
        work = dataclasses.replace(chosen.work, progress=progress)
        report = api.survey(folder, read=chosen.read, work=work, **dataclasses.asdict(options))
    if not quiet:
        print_survey(console(), report)
    write_report(json_file, survey_json(report))
    if markdown is not None:
        write_report(markdown, survey_markdown(report))
    if not report.ok:
        raise click.exceptions.Exit(1)
