"""What is said of a whole network: a row per convolution, the drift of its outputs, and which layer departs first."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from convc.report.format import convolution, element_place, number, times
from convc.report.output import json_text
from convc.runtime.layer import to_standard_dtype
from convc.runtime.network.executor import RunStats
from convc.verification.compare import Comparison
from convc.verification.network import LayerResult, NetworkReport

COLUMNS = (
    ("layer", "left"),
    ("convolution", "left"),
    ("type", "left"),
    ("worst error", "right"),
    ("of bound", "right"),
    ("onnxruntime", "right"),
    ("drift", "right"),
    ("seconds", "right"),
    ("verdict", "left"),
)
"""``of bound``: worst error as a share of the derived bound, against the float64 reference on the operands of the
kernel. ``onnxruntime``: the same against onnxruntime on the input that reached the layer. ``drift``: relative root mean
square difference from onnxruntime's run of the whole network."""


def print_network(console: Console, report: NetworkReport) -> None:
    """The table, everything that is wrong, what ran on the host, and the end."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading, justify in COLUMNS:
        table.add_column(heading, justify=justify, overflow="fold")
    for layer in report.layers:
        table.add_row(*_row(layer), style=None if layer.ok else "red")
    console.print(table)
    for layer in report.layers:
        for who, comparison in (("the float64 reference", layer.kernel), ("onnxruntime", layer.runtime)):
            if comparison is not None and not comparison.ok:
                _print_wrong(console, layer.name, who, comparison)
    print_refused(console, report.refused)
    print_hidden(console, report.hidden)
    for output in report.outputs:
        shown = "not compared" if output.drift is None else f"drift {number(output.drift)}, {_allowed(output)}"
        console.print(f"output {output.name}: {output.dtype} {times(output.shape)}, {shown}", soft_wrap=True)
    if report.silent:
        console.print(f"end to end: not compared: {report.silent}", soft_wrap=True)
    good = sum(layer.ok for layer in report.layers)
    seconds = sum(layer.seconds for layer in report.layers)
    beside = f"onnxruntime {report.witness}" if report.witness else "no onnxruntime, the float64 reference alone"
    parts = [
        f"{good} of {len(report.layers)} convolutions right: {report.kernels} kernels",
        f"{report.host} other nodes on the host",
        f"{seconds:.2f} s simulated",
        f"{report.replaced} tensors of random weights, seed {report.seed}",
    ]
    console.print(f"{', '.join(parts)}; {beside}", soft_wrap=True)
    if report.departs is not None:
        console.print(f"first departs: {report.departs}", soft_wrap=True)


def print_refused(console: Console, refused: Mapping[str, str]) -> None:
    """Convolutions that ran on the host, each reason once."""
    reasons: dict[str, list[str]] = {}
    for name, reason in refused.items():
        reasons.setdefault(reason, []).append(name)
    for reason, names in reasons.items():
        listed = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        console.print(f"on the host: {len(names)} convolutions ({listed}): {reason}", soft_wrap=True)


def print_hidden(console: Console, hidden: Mapping[str, int]) -> None:
    """Convolutions inside nodes that ran on the host."""
    for name, count in hidden.items():
        console.print(f"on the host: {count} convolutions inside the node {name}, which runs there as a whole")


def print_run_stats(console: Console, stats: RunStats) -> None:
    """What a run of a network did, in a line or two."""
    print_refused(console, stats.refused)
    print_hidden(console, stats.hidden)
    fused = sum(map(len, stats.fused.values()))
    counts = f" with {fused} nodes fused into them, {stats.handed} buffers handed over"
    with_them = counts if fused or stats.handed else ""
    console.print(
        f"{len(stats.compiled)} convolutions from PTX{with_them}, {stats.seconds:.3f} s simulated; "
        f"{stats.host + len(stats.refused)} nodes on the host",
        soft_wrap=True,
    )


def network_run_json(model: str, stats: RunStats, results: Mapping[str, Any], files: Mapping[str, Path]) -> bytes:
    """A run of a network as JSON: its outputs, the files that they went to, and what was done where."""
    outputs = [
        {
            "name": name,
            "dtype": to_standard_dtype(value).dtype.name if hasattr(value, "dtype") else type(value).__name__,
            "shape": list(getattr(value, "shape", ())),
            "file": str(files[name]) if name in files else None,
        }
        for name, value in results.items()
    ]
    return json_text({"format": "convc-network-run/2", "model": model, "outputs": outputs, "stats": stats})


def network_json(report: NetworkReport) -> bytes:
    """The same as JSON, with the verdict of the whole and of every layer spelled out."""
    plain = msgspec.to_builtins(report)
    plain = {"format": "convc-network/1", "ok": report.ok, "departs": report.departs, **plain}
    for layer, record in zip(report.layers, plain["layers"], strict=True):
        record["ok"] = layer.ok
    for output, record in zip(report.outputs, plain["outputs"], strict=True):
        record["ok"] = output.ok
    return json_text(plain)


def _row(layer: LayerResult) -> tuple[str, ...]:
    problem = layer.problem
    return (
        layer.name,
        convolution(problem),
        problem.types,
        number(layer.kernel.worst_error),
        number(layer.kernel.worst_ratio),
        "-" if layer.runtime is None else number(layer.runtime.worst_ratio),
        "-" if layer.drift is None else number(layer.drift),
        f"{layer.seconds:.3f}",
        "in bound" if layer.ok else "WRONG",
    )


def _allowed(output) -> str:
    return f"up to {number(output.allowed)} expected" + ("" if output.ok else ": DEPARTED")


def _print_wrong(console: Console, name: str, who: str, wrong: Comparison) -> None:
    element = element_place(wrong.first or ())
    console.print(
        f"{name}: {wrong.count_wrong} of {wrong.count} elements differ from {who}; the first is ({element}): "
        f"got {wrong.got!r}, expected {wrong.expected!r}, off by at most {number(wrong.limit)}",
        soft_wrap=True,
    )
