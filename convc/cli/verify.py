"""``convc verify``: is every convolution of a model, or of several, right?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from convc.cli.options import (
    batch_option,
    counts_option,
    dtype_option,
    fuse_option,
    host_option,
    jobs_options,
    json_option,
    layer_option,
    no_cache_option,
    numerics_option,
    path_type,
    precision_option,
    schedule_options,
)
from convc.cli.verify_network import verify_network
from convc.errors import ConvcError, WorkerError

if TYPE_CHECKING:
    from convc.verification.records import VerifyReport


@click.command("verify", short_help="Check every convolution of a model.")
@click.argument("models", type=path_type, nargs=-1, required=True, metavar="MODEL...")
@layer_option()
@batch_option
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the data.")
@dtype_option
@precision_option
@fuse_option
@numerics_option
@schedule_options
@counts_option
@click.option(
    "--reweight",
    type=click.IntRange(min=0),
    metavar="SEED",
    help="Give every layer random weights, run the whole network, and compare it with onnxruntime as well.",
)
@host_option
@jobs_options
@no_cache_option
@json_option
@click.option("--markdown", type=path_type, metavar="FILE", help="Write the table as Markdown (- is stdout).")
@click.option("--csv", "csv_file", type=path_type, metavar="FILE", help="Write a row per layer as CSV (- is stdout).")
@click.option(
    "--annotate", type=path_type, metavar="OUT.onnx", help="Write a copy of MODEL whose nodes say what was found."
)
def verify_command(
    models: tuple[Path, ...],
    layer: str | None,
    counts: bool,
    jobs: int | None,
    executor: str | None,
    no_cache: bool,
    json_file: Path | None,
    markdown: Path | None,
    csv_file: Path | None,
    annotate: Path | None,
    reweight: int | None,
    host: str,
    **how,
) -> None:
    """Compile every convolution of MODEL, run the text on the machine, and compare with a float64 reference.

    Twice: on small integers, where every bit must agree, and on normal data with the model's weights, where
    every element must stay inside a derived bound. Exit code 1 when any element is wrong. Of several models each gets
    a table; one that cannot be read is said so, the others are checked, and the exit code is 2.

    With --reweight the model runs as a network: each convolution on what its neighbours made, compared with the
    float64 reference and with onnxruntime on the same input, and the network's outputs with onnxruntime's.
    """
    from convc import api
    from convc.frontend.annotate import annotate as write_annotated
    from convc.frontend.annotate import check_annotated
    from convc.report import tables
    from convc.report.annotation import notes_of
    from convc.report.console import console, print_heading, progress_bar
    from convc.report.output import check_reports, write_report
    from convc.report.verify import models_json, print_report, report_json
    from convc.workers.pool import Pool

    if reweight is not None:
        others = {
            "layer": layer,
            "counts": counts,
            "seed": how.pop("seed"),
            "no-fuse": not how.pop("fuse"),
            "jobs": jobs,
            "executor": executor,
            "markdown": markdown,
            "csv": csv_file,
            "annotate": annotate,
        }
        verify_network(models, reweight, host, json_file, others, cache=False if no_cache else None, **how)
        return
    if host != "reference":
        raise click.UsageError("--host is for whole networks: give --reweight too.")
    if layer is not None and len(models) > 1:
        raise click.UsageError("--layer names a layer of one model: give one MODEL.")
    if annotate is not None and len(models) > 1:
        raise click.UsageError("--annotate copies one model: give one MODEL.")
    quiet = check_reports(json_file, markdown, csv_file, annotate)
    if annotate is not None:
        check_annotated(models[0], annotate)
    made: list[VerifyReport | ConvcError] = []
    with Pool(executor, jobs) as pool:
        for model in models:
            with progress_bar() as progress:
                name = f"{model.name}: " if len(models) > 1 else ""
                bar = progress and (lambda what, part, name=name: progress(name + what, part))
                try:
                    report = api.verify(
                        model, layer=layer, cache=False if no_cache else None, executor=pool, progress=bar, **how
                    )
                except ConvcError as error:
                    if len(models) == 1 or isinstance(error, WorkerError):
                        raise
                    report = error
            made.append(report)
            if isinstance(report, ConvcError):
                click.echo(str(report), err=True)
            elif not quiet:
                if len(models) > 1:
                    print_heading(console(), str(model))
                print_report(console(), report, counts)
    reports = [report for report in made if not isinstance(report, ConvcError)]
    for file, content in (
        (json_file, lambda: report_json(reports[0]) if len(models) == 1 else models_json(models, made)),
        (markdown, lambda: tables.markdown(reports)),
        (csv_file, lambda: tables.csv_table(reports)),
    ):
        if file is not None:
            write_report(file, content())
    if annotate is not None:
        count = write_annotated(models[0], annotate, notes_of(reports[0]))
        if not quiet:
            console().print(f"wrote {annotate}: notes on {count} nodes", soft_wrap=True)
    if len(reports) < len(made):
        raise click.exceptions.Exit(2)
    if not all(report.ok for report in reports):
        raise click.exceptions.Exit(1)
