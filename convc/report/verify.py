"""The report of ``convc verify``: a row per layer; for a wrong one the first wrong element and who wrote it.

That of a whole network is in `convc.report.network`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from convc.errors import ConvcError
from convc.ir.epilogue import exact_on_integers
from convc.ir.network import CONVOLUTIONS
from convc.ir.problem import ConvProblem
from convc.machine import Counters
from convc.report.build import print_fused, print_skipped
from convc.report.counts import bytes_per_mma, print_counts
from convc.report.format import convolution, counted, number
from convc.report.launch import print_findings
from convc.report.layers import (
    ESTIMATED,
    Columns,
    count_of_special,
    estimate_cells,
    estimate_legend,
    first_wrong,
    nearest_to_bound,
    print_table,
    print_tuned,
    special_legend,
)
from convc.report.network import print_network
from convc.report.output import json_text
from convc.support.memory import human_bytes
from convc.verification.compare import Comparison
from convc.verification.records import Check, LayerReport, VerifyReport

LAYER_COLUMNS: Columns = (
    ("layer", "left"),
    ("convolution", "left"),
    ("type", "left"),
    ("schedule", "left"),
    *ESTIMATED,
    ("CTAs", "right"),
    ("MMAs", "right"),
    ("activation", "right"),
    ("filter", "right"),
    ("B/MMA", "right"),
    ("masked", "right"),
    ("worst error", "right"),
    ("of bound", "right"),
    ("seconds", "right"),
    ("verdict", "left"),
)
"""``activation`` and ``filter``: what TMA puts into shared memory of each; ``B/MMA``: bytes of shared memory that the
tensor core reads for each MMA; ``masked``: lanes of D that its instructions did not write. ``worst error`` and ``of
bound`` are of the normal data, both of the element nearest to its bound; ``seconds``: the simulator's, for one
launch."""

SHOWN = ("layer", "convolution", "schedule", "cycles", "us", "of peak", "verdict")
"""The columns that are printed unless all are asked for."""

BOUND_LEGEND = (
    "worst error, of bound: of the element nearest to its bound, of which it uses that share: 1 or less is right"
)


def print_layers(console: Console, layers: tuple[LayerReport, ...], wide: bool = False) -> None:
    """The table with what its numbers mean, and below it everything that is wrong."""
    print_table(console, LAYER_COLUMNS, layers, row, None if wide else SHOWN)
    estimated = estimate_legend(layer.planned for layer in layers)
    legend = [estimated, BOUND_LEGEND if wide else "", special_legend(layers)]
    if any(legend):
        console.print("; ".join(filter(None, legend)), soft_wrap=True)
    print_tuned(console, ((layer.name, layer.planned and layer.planned.tuning) for layer in layers))
    for layer in layers:
        for check in layer.checks:
            if not check.ok or check.findings:
                _print_details(console, layer, check)


def print_report(console: Console, report: VerifyReport, counts: bool = False, wide: bool = False) -> None:
    """A whole report: the layers, on demand with all that was counted, what was left out, and the sum.

    ``wide``: with all columns, each layer in one line.
    """
    if report.network is not None:
        print_network(console, report, report.network, wide)
        return
    print_layers(console, report.layers, wide)
    for layer in report.layers if counts else ():
        if layer.counters is not None:
            print_counts(console, layer.name, layer.counters)
    print_fused(console, report.layers)
    print_skipped(console, report.skipped)
    console.print(summary(report))


def summary(report: VerifyReport) -> str:
    """The sum of a report in one line."""
    launches = sum(len(layer.checks) for layer in report.layers)
    seconds = sum(check.seconds for layer in report.layers for check in layer.checks)
    sampled = "" if report.sampled is None else f" in a sample of {report.sampled}"
    left_out = sum(node.op_type in CONVOLUTIONS for node in report.skipped)
    others = f", {left_out} left out" if left_out else ""
    return (
        f"{report.count_right} of {len(report.layers)} layers right{sampled}{others}: "
        f"{counted(report.kernels, 'kernel')}, "
        f"{counted(launches, 'launch', 'launches')}, "
        f"{seconds:.2f} s simulated, seed {report.seed}"
    )


def report_json(report: VerifyReport) -> bytes:
    """A report as JSON, with the verdict of the whole and of every layer spelled out."""
    return json_text(_record(report))


def models_json(models: Sequence[Path], reports: Sequence[VerifyReport | ConvcError]) -> bytes:
    """Reports on several models as one JSON; in place of a report, the error that says why there is none."""
    records: list[dict[str, Any]] = []
    for model, report in zip(models, reports, strict=True):
        record = {"ok": False, "error": str(report)} if isinstance(report, ConvcError) else _record(report)
        records.append({"model": str(model)} | record)
    return json_text({"format": "convc-verify-models/2", "ok": all(r["ok"] for r in records), "models": records})


def _record(report: VerifyReport) -> dict[str, Any]:
    """A report as a record for JSON, with what its properties say."""
    said = {
        "format": "convc-verify/3",
        "ok": report.ok,
        "departs": report.departs,
        "sampled": msgspec.to_builtins(report.sampled),
    }
    record: dict[str, Any] = {**said, **msgspec.to_builtins(report)}
    for layer, entry in zip(report.layers, record["layers"], strict=True):
        entry["ok"] = layer.ok
    if report.network is not None:
        for output, entry in zip(report.network.outputs, record["network"]["outputs"], strict=True):
            entry["ok"] = output.ok
    return record


def row(layer: LayerReport) -> tuple[str, ...]:
    """The cells of a layer, one for each of `LAYER_COLUMNS`."""
    problem = layer.problem
    normal = layer.compared("normal")
    seconds = layer.seconds
    nearest = ("-", "-") if normal is None else map(number, nearest_to_bound(normal))
    return (
        layer.name,
        convolution(problem),
        problem.types,
        layer.schedule,
        *estimate_cells(layer.planned),
        *_counts(layer.counters),
        *nearest,
        "-" if seconds is None else f"{seconds:.3f}",
        verdicts(layer),
    )


def verdicts(layer: LayerReport) -> str:
    """List what was found in each check of a layer; ``sampled`` comes first where not all CTAs were run."""
    verdict_words = ", ".join(verdict(check, layer.problem) for check in layer.checks)
    return verdict_words if layer.sampled is None else f"sampled: {verdict_words}"


def verdict(check: Check, problem: ConvProblem) -> str:
    """``exact`` and ``in bound`` are good; the rest says what is wrong."""
    if check.fault and check.comparison is None:
        return f"{check.mode}: stopped"
    assert check.comparison is not None
    if check.comparison.count_wrong:
        return f"{check.mode}: {check.comparison.count_wrong} WRONG"
    if check.fault:
        return f"{check.mode}: stray writes"
    if not check.ok:
        return f"{check.mode}: findings"
    exact = check.mode == "integer" and exact_on_integers(problem.epilogue)
    return ("exact" if exact else "in bound") + count_of_special(check.comparison)


def _print_details(console: Console, layer: LayerReport, check: Check) -> None:
    console.print(f"\n{layer.name}, {check.mode} data, {layer.kernel}:")
    if check.fault:
        console.print(check.fault, soft_wrap=True)
    if check.comparison is not None and check.comparison.first is not None:
        wrong = check.comparison
        console.print(
            f"  {wrong.count_wrong} of {wrong.count} elements are wrong; "
            f"{first_wrong(wrong)}{_allowed(check.mode, wrong)}",
            soft_wrap=True,
        )
        if check.writer is None:
            console.print("  no thread wrote that element")
        else:
            who = check.writer
            console.print(
                f"  written by {who.who}, at {who.file}:{who.line}" + (f" (step {who.step})" if who.step else ""),
                soft_wrap=True,
            )
    print_findings(console, check.findings)


def _allowed(mode: str, wrong: Comparison) -> str:
    """The difference that would have been right, as the end of a sentence."""
    if mode == "integer":
        return " exactly"
    return f", off by at most {number(wrong.limit)}" if wrong.limit > 0 else ""


def _counts(counters: Counters | None) -> tuple[str, ...]:
    """The cells of what a launch did."""
    if counters is None:
        return ("-",) * 6
    loaded = (counters.tma_loads.get(buffer) for buffer in ("activation", "filter"))
    return (
        str(counters.ctas),
        str(counters.mma),
        *("-" if copies is None else human_bytes(copies.bytes) for copies in loaded),
        bytes_per_mma(counters),
        str(counters.masked_lanes),
    )
