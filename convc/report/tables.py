"""The verify table as files: Markdown for people (issues, wikis), CSV for spreadsheets and pandas.

Markdown has the columns of the terminal; CSV has plain numbers in base units (bytes, seconds) and empty cells where
there is nothing to say, one row per layer.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from convc.report.layers import Columns, nearest_to_bound
from convc.report.verify import LAYER_COLUMNS, row, summary, verdict
from convc.support.visible import visible
from convc.verification.records import LayerReport, VerifyReport

CSV_COLUMNS: tuple[str, ...] = (
    "model", "layer", "batch", "in_channels", "in_extent", "out_channels", "kernel", "stride", "dilation", "pad_lo",
    "pad_hi", "operand", "out", "schedule", "cycles", "microseconds", "peak_share", "ctas", "mmas",
    "activation_bytes", "filter_bytes", "mma_b_bytes", "masked_lanes", "worst_error", "worst_ratio", "seconds",
    "integer", "normal", "sampled", "ok",
)  # fmt: skip
"""``in_extent`` to ``pad_hi`` have one number per spatial axis, as 3x3. ``integer`` and ``normal`` are the verdicts on
the two kinds of data. ``sampled`` says how many CTAs were run where not all were; ``ok`` is true or false, and then
sampled in place of true."""


def markdown_table(reports: Sequence[VerifyReport]) -> bytes:
    """The tables of reports as Markdown, each under its model's name where there are several."""
    parts: list[str] = []
    for report in reports:
        title = [f"### {_cell(report.source)}", ""] if len(reports) > 1 else []
        lines = markdown_grid(LAYER_COLUMNS, [row(layer) for layer in report.layers])
        parts.append("\n".join([*title, lines, summary(report)]))
    return ("\n\n".join(parts) + "\n").encode()


def markdown_grid(columns: Columns, rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table with its columns aligned, and an empty line behind it."""
    table = Table(box=box.MARKDOWN, header_style=None)
    for heading, justify in columns:
        table.add_column(heading, justify=justify, no_wrap=True)
    for cells in rows:
        table.add_row(*map(_cell, cells))
    out = io.StringIO()
    Console(file=out, width=10_000, markup=False, highlight=False, emoji=False, color_system=None).print(table)
    lines = [line.rstrip() for line in out.getvalue().splitlines() if line.strip()]
    return "\n".join([*lines, ""])


def csv_table(reports: Sequence[VerifyReport]) -> bytes:
    """All layers of reports as CSV (RFC 4180, UTF-8, lines end with LF), with a header line."""
    out = io.StringIO()
    writer = csv.DictWriter(out, CSV_COLUMNS, lineterminator="\n")
    writer.writeheader()
    for report in reports:
        for layer in report.layers:
            row = {"model": report.source, **_record(layer)}
            writer.writerow({name: visible(value) if isinstance(value, str) else value for name, value in row.items()})
    return out.getvalue().encode()


def _record(layer: LayerReport) -> dict[str, Any]:
    """The values of a layer by column; what it has no value for is left out."""
    problem = layer.problem
    counters = layer.counters
    normal = layer.compared("normal")
    checks = {check.mode: check for check in layer.checks}
    record: dict[str, Any] = {"layer": layer.name, "schedule": layer.schedule, "ok": str(layer.ok).lower()}
    for field in ("batch", "in_channels", "out_channels", "operand", "out"):
        record[field] = getattr(problem, field)
    for field in ("in_extent", "kernel", "stride", "dilation", "pad_lo", "pad_hi"):
        record[field] = "x".join(map(str, getattr(problem, field)))
    if counters is not None:
        record |= {"ctas": counters.ctas, "mmas": counters.mma, "mma_b_bytes": counters.mma_b_bytes}
        record["masked_lanes"] = counters.masked_lanes
        for buffer in ("activation", "filter"):
            if buffer in counters.tma_loads:
                record[f"{buffer}_bytes"] = counters.tma_loads[buffer].bytes
    if layer.planned is not None:
        planned = layer.planned
        record |= {
            "cycles": planned.cycles,
            "microseconds": planned.microseconds,
            "peak_share": planned.peak_share,
        }
    if normal is not None:
        record["worst_error"], record["worst_ratio"] = nearest_to_bound(normal)
    if layer.seconds is not None:
        record["seconds"] = layer.seconds
    if layer.sampled is not None:
        record["sampled"] = str(layer.sampled)
        record["ok"] = "sampled" if layer.ok else "false"
    return record | {mode: verdict(check, problem) for mode, check in checks.items()}


def _cell(text: str) -> str:
    """A text that stays in its cell, in one line, and is shown as it is: names come from strangers, with HTML too."""
    plain = visible(" ".join(text.split())).replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"([\\|`\[\]])", r"\\\1", plain)
