"""The report of ``convc survey``: a line per model, and below the table what each one says that is not right."""

from __future__ import annotations

from typing import Any

import msgspec
from rich.console import Console

from convc.report.format import counted
from convc.report.grid import Row, print_grid
from convc.report.layers import Columns, grid_columns
from convc.report.output import json_text
from convc.report.tables import markdown_grid
from convc.verification.survey import REFUSED, RIGHT, UNFINISHED, WRONG, SurveyedModel, SurveyReport

COLUMNS: Columns = (
    ("model", "left"),
    ("convolutions", "right"),
    ("verified", "right"),
    ("outputs", "right"),
    ("seconds", "right"),
    ("verdict", "left"),
)
"""``convolutions``: those that convc compiles, of all; ``verified``: right by the float64 reference; ``outputs``: of
the whole network, equal to the oracle's within what rounding explains."""


def print_survey(console: Console, report: SurveyReport) -> None:
    """The table, the first message of each model that has one, and the counts."""
    rows = [Row(_row(model), "red" if model.verdict == WRONG else None) for model in report.models]
    print_grid(console, grid_columns(COLUMNS), rows)
    for model in report.models:
        if model.problem:
            console.print(f"{model.file}: {_first_line(model.problem)}", soft_wrap=True)
        for reason in model.left_out:
            console.print(f"{model.file}: not compiled: {reason}", soft_wrap=True)
    oracles = sorted({model.oracle for model in report.models if model.oracle})
    if oracles:
        console.print(f"outputs are compared with {' and '.join(oracles)}, seed {report.seed}", soft_wrap=True)
    counts = ", ".join(f"{report.count(verdict)} {verdict}" for verdict in (RIGHT, WRONG, REFUSED, UNFINISHED))
    console.print(f"{counted(len(report.models), 'model')}: {counts}", soft_wrap=True)


def survey_json(report: SurveyReport) -> bytes:
    """The report as JSON."""
    record: dict[str, Any] = {"format": "convc-survey/1", "ok": report.ok, **msgspec.to_builtins(report)}
    return json_text(record)


def survey_markdown(report: SurveyReport) -> bytes:
    """The table as Markdown."""
    return markdown_grid(COLUMNS, [_row(model) for model in report.models]).encode()


def _row(model: SurveyedModel) -> tuple[str, ...]:
    every = None if model.convolutions is None else model.convolutions + len(model.left_out)
    return (
        model.file,
        _share(model.convolutions, every),
        _share(model.verified, model.convolutions),
        _share(model.outputs_right, model.outputs),
        f"{sum(model.seconds.values()):.1f}",
        model.verdict,
    )


def _share(part: int | None, whole: int | None) -> str:
    """``7`` of 7, ``6/7`` of more, ``-`` where it is not known."""
    if part is None:
        return "-"
    return str(part) if part == whole else f"{part}/{whole}"


def _first_line(problem: str) -> str:
    """The sentence of a message, with where it happened."""
    lines = [line.strip() for line in problem.splitlines()]
    where = next((line for line in lines[1:] if line.startswith("where: ")), "")
    return f"{lines[0]} ({where})" if where else lines[0]
