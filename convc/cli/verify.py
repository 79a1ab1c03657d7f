"""``convc verify``: is every convolution of a model right?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from convc.cli.options import (
    batch_option,
    counts_option,
    dtype_option,
    layer_option,
    model_argument,
    no_cache_option,
    numerics_option,
    path_type,
    schedule_options,
)

if TYPE_CHECKING:
    from convc.plan.records import Options


@click.command("verify", short_help="Check every convolution of a model.")
@model_argument
@layer_option()
@batch_option
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the data.")
@dtype_option
@numerics_option
@schedule_options
@counts_option
@no_cache_option
@click.option("--json", "file", type=path_type, metavar="FILE", help="Write a JSON report (- is stdout).")
def verify_command(
    model: Path,
    layer: str | None,
    batch: int | None,
    seed: int,
    dtype: str | None,
    numerics: str,
    options: Options,
    counts: bool,
    no_cache: bool,
    file: Path | None,
) -> None:
    """Compile every convolution of MODEL, run the text on the machine, and compare with a float64 reference.

    Twice: on small integers, where every bit must agree, and on normal data with the model's weights, where
    every element must stay inside a derived bound. Exit code 1 when any element is wrong.
    """
    from convc import api
    from convc.files import check_target, write_bytes
    from convc.report.console import console, progress_bar
    from convc.report.verify import print_report, report_json

    to_stdout = file == Path("-")
    if file is not None and not to_stdout:
        check_target(file)
    with progress_bar() as progress:
        report = api.verify(
            model,
            layer=layer,
            batch=batch,
            seed=seed,
            dtype=dtype,
            numerics=numerics,
            options=options,
            cache=False if no_cache else None,
            progress=progress,
        )
    if to_stdout:
        click.echo(report_json(report), nl=False)
    else:
        if file is not None:
            write_bytes(file, report_json(report))
        print_report(console(), report, counts)
    if not report.ok:
        raise click.exceptions.Exit(1)
