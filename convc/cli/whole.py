"""The end of ``convc verify`` of a whole network, on random weights or on data of the user's."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from convc import api
from convc.api.options import ReadOptions, WorkOptions
from convc.cli.options import Chosen
from convc.cli.streams import DASH
from convc.cli.suggest import print_next, slowest
from convc.errors import ConvcError

if TYPE_CHECKING:
    from convc import DataReport, NetworkReport
    from convc.report.console import Console

Shapes = Mapping[str, tuple[int, ...]]
"""Extents of inputs, by name."""

Judged = TypeVar("Judged", "NetworkReport", "DataReport")


def judge(
    model: Path,
    json_file: Path | None,
    chosen: Chosen,
    verify: Callable[[WorkOptions], Judged],
    show: Callable[[Console, Judged], None],
    as_json: Callable[[Judged], bytes],
    shapes: Callable[[Judged], Shapes] = lambda report: {},
) -> None:
    """Verify a network, say what was found and what to try next, and end with 1 where anything is wrong.

    Args:
        model: as it was named.
        json_file: where the report goes as JSON; None: nowhere.
        chosen: the options of the call.
        verify: the verb, which goes about its work as its argument says.
        show: prints a report.
        as_json: a report as JSON.
        shapes: of the inputs whose extents the run settled, which the next command must be given.
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
        read = dataclasses.replace(chosen.read, shapes={**chosen.read.shapes, **shapes(report)})
        again = dataclasses.replace(chosen, read=read)
        print_next(console(), "inspect", model, picked if _is_read(model, picked, read) else None, again)
    if json_file is not None:
        write_report(json_file, as_json(report))
    if not report.ok:
        raise click.exceptions.Exit(1)


def _is_read(model: Path, layer: str | None, read: ReadOptions) -> bool:
    """Whether a layer that ran in its network is also there when the model is read alone, as ``convc inspect`` does.

    It is not where its weights or extents are known only when the network runs.
    """
    if layer is None or str(model) == DASH:
        return False
    try:
        given = read.shapes or read.batch
        network = api.load(model, batch=given, dtype=read.dtype, precision=read.precision, fuse=read.fuse)
    except ConvcError:
        return False
    return any(conv.name == layer for conv in network.convs)
