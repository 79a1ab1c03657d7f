"""Parts that reports on layers and on whole networks share: a row per layer, and the first wrong element."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from rich.console import Console, JustifyMethod
from rich.table import Table

from convc.report.format import element_place
from convc.verification.compare import Comparison
from convc.verification.records import LayerReport, ModelReport

Columns = tuple[tuple[str, JustifyMethod], ...]
"""Headings of a table, and how what is below them is aligned."""


def print_table(
    console: Console, columns: Columns, layers: Iterable[LayerReport], row: Callable[[LayerReport], tuple[str, ...]]
) -> None:
    """A row for each layer, in red where it is wrong."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading, justify in columns:
        table.add_column(heading, justify=justify, overflow="fold")
    for layer in layers:
        table.add_row(*row(layer), style=None if layer.ok else "red")
    console.print(table)


def first_wrong(wrong: Comparison) -> str:
    """Say where the first wrong element is, and what it should be."""
    element = element_place(wrong.first or ())
    return f"the first is ({element}): got {wrong.got!r}, expected {wrong.expected!r}"


def model_record(report: ModelReport, format: str, **more: Any) -> dict[str, Any]:
    """A report as plain data, with the verdict of the whole and of every layer spelled out, and ``more`` besides."""
    record: dict[str, Any] = {"format": format, "ok": report.ok, **more, **msgspec.to_builtins(report)}
    for layer, entry in zip(report.layers, record["layers"], strict=True):
        entry["ok"] = layer.ok
    return record
