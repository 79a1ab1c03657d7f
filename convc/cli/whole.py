"""The end of ``convc verify`` of a whole network, on random weights or on data of the user's."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from convc.api.options import WorkOptions
from convc.cli.options import Chosen
from convc.cli.suggest import print_next, slowest

if TYPE_CHECKING:
    from convc import DataReport, NetworkReport
    from convc.report.console import Console

Judged = TypeVar("Judged", "NetworkReport", "DataReport")


def judge(
    model: Path,
    json_file: Path | None,
    chosen: Chosen,
    verify: Callable[[WorkOptions], Judged],
    show: Callable[[Console, Judged], None],
    as_json: Callable[[Judged], bytes],
) -> None:
    """Verify a network, say what was found and what to try next, and end with 1 where anything is wrong.

    Args:
        model: as it was named.
        json_file: where the report goes as JSON; None: nowhere.
        chosen: the options of the call.
        verify: the verb, which goes about its work as its argument says.
        show: prints a report.
        as_json: a report as JSON.
    """
    # Imported when the command runs: its help needs no report.
    from convc.report.console import console, progress_bar
    from convc.report.output import check_reports, write_report

    quiet = check_reports(json_file)
    with progress_bar() as progress:
        report = verify(dataclasses.replace(chosen.work, progress=progress))
    if not quiet:
        show(console(), report)
        wrong = next((layer.name for layer in report.layers if not layer.ok), None)
        picked = wrong or slowest((layer.name, layer.planned) for layer in report.layers)
        print_next(console(), "inspect", model, picked, chosen)
    if json_file is not None:
        write_report(json_file, as_json(report))
    if not report.ok:
        raise click.exceptions.Exit(1)
