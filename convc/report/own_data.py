"""The report of ``convc verify --input``: convolutions by the derived bound, outputs by the rule that decided."""

from __future__ import annotations

from typing import Any

import msgspec
from rich.console import Console

from convc.report.format import convolution, counted, number, times
from convc.report.layers import Columns, first_wrong, network_verdict, print_table, special_legend
from convc.report.network import (
    print_amplification,
    print_elsewhere,
    print_empty,
    print_floating,
    print_hidden,
    print_refused,
    print_special,
)
from convc.report.output import json_text
from convc.verification.records import DataReport, ExpectedOutput, LayerReport

DATA_COLUMNS: Columns = (
    ("layer", "left"),
    ("convolution", "left"),
    ("type", "left"),
    ("worst error", "right"),
    ("of bound", "right"),
    ("seconds", "right"),
    ("verdict", "left"),
)


def print_data(console: Console, report: DataReport) -> None:
    """The table of the convolutions, a line for each output, what ran on the host, and the end."""
    print_table(console, DATA_COLUMNS, report.layers, _row)
    if legend := special_legend(report.layers):
        console.print(legend, soft_wrap=True)
    for layer in report.layers:
        wrong = layer.compared("network")
        if wrong is not None and not layer.ok:
            console.print(
                f"{layer.name}: {wrong.count_wrong} of {wrong.count} elements; {first_wrong(wrong)}", soft_wrap=True
            )
    print_empty(console, report.stats.empty)
    print_refused(console, report.stats.refused)
    print_hidden(console, report.stats.hidden)
    print_elsewhere(console, report.stats.elsewhere)
    print_floating(console, report.stats.floating)
    print_special(console, report.stats.special)
    if report.silent:
        console.print(f"onnxruntime was not run: {report.silent}", soft_wrap=True)
    for output in report.outputs:
        console.print(output_line(output), soft_wrap=True)
    print_amplification(console, report)
    layers = sum(layer.ok for layer in report.layers)
    compared = [output for output in report.outputs if output.decided_by]
    console.print(
        f"{layers} of {len(report.layers)} convolutions right by the derived bound, "
        f"{sum(output.ok for output in compared)} of {len(compared)} outputs right by {report.oracle}; "
        f"{report.stats.seconds:.2f} s simulated",
        soft_wrap=True,
    )


def output_line(output: ExpectedOutput) -> str:
    """Say what became of an output, and which rule decided."""
    name = f"output {output.name}: {output.dtype} {times(output.shape) or 'scalar'}"
    if not output.decided_by:
        return f"{name}, not compared"
    verdict = "right" if output.ok else "WRONG"
    if output.amplified:
        verdict = "right except for amplified rounding,"
    start = f"{name}, {verdict} by {output.decided_by}: worst error {number(output.worst_error)}"
    if output.count_nan:
        start = f"{start}, {counted(output.count_nan, 'element')} NaN on both sides"
    if output.decided_by == "relative RMS error":
        return f"{start}, relative RMS error {number(output.measured)}, up to {number(output.limit)} expected"
    if output.decided_by == "derived bound":
        start = f"{start}, {number(output.measured)} of the bound"
    if output.first is None:
        return start
    place = ", ".join(map(str, output.first))
    return (
        f"{start}; {output.count_wrong} elements are wrong, the first is [{place}]: got {output.got!r}, "
        f"expected {output.expected!r}"
    )


def data_json(report: DataReport) -> bytes:
    """The report as JSON, with the verdict of the whole, of every layer and of every output spelled out."""
    record: dict[str, Any] = {"format": "convc-data/1", "ok": report.ok, **msgspec.to_builtins(report)}
    for parts, entries in ((report.layers, record["layers"]), (report.outputs, record["outputs"])):
        for part, entry in zip(parts, entries, strict=True):
            entry["ok"] = part.ok
    return json_text(record)


def _row(layer: LayerReport) -> tuple[str, ...]:
    right = layer.compared("network")
    return (
        layer.name,
        convolution(layer.problem),
        layer.problem.types,
        "-" if right is None else number(right.worst_error),
        "-" if right is None else number(right.worst_ratio),
        "-" if layer.seconds is None else f"{layer.seconds:.3f}",
        network_verdict(layer),
    )
