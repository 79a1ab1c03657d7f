"""Notes on the nodes of a model (`convc.frontend.annotate`): schedule, verdict and counts of each layer."""

from __future__ import annotations

from pathlib import Path

from convc._version import __version__
from convc.frontend.annotate import annotate
from convc.frontend.annotate import check_annotated as check_annotated
from convc.frontend.onnx_reader import NOT_A_CONVOLUTION
from convc.report.format import number
from convc.report.layers import nearest_to_bound
from convc.report.verify import verdicts
from convc.verification.records import LayerReport, VerifyReport


def write_annotated(model: Path, target: Path, report: VerifyReport) -> int:
    """Write a copy of a model whose nodes say what a report found; how many do."""
    return annotate(model, target, notes_of(report))


def notes_of(report: VerifyReport) -> dict[str, dict[str, str]]:
    """Keys and texts by node, from a report: its layers, what was fused into them, what was left out."""
    about = {"version": __version__, "seed": str(report.seed)}
    notes = {
        node.name: {"verdict": f"not compiled: {node.reason}"}
        for node in report.skipped
        if node.reason != NOT_A_CONVOLUTION
    }
    fused = {name: {"fused_into": layer.name} for layer in report.layers for name in layer.fused}
    return notes | fused | {layer.name: _layer(layer) | about for layer in report.layers}


def _layer(layer: LayerReport) -> dict[str, str]:
    """The notes on a convolution that was verified."""
    problem = layer.problem
    counters = layer.counters
    normal = layer.compared("normal")
    notes = {
        "verdict": verdicts(layer),
        "schedule": layer.schedule,
        "kernel": layer.kernel.split("/")[0],
        "type": problem.types,
        "macs": str(problem.macs),
    }
    if layer.planned is not None:
        notes["cycles"] = f"{layer.planned.cycles:.0f}"
    if normal is not None:
        notes["worst_error"], notes["of_bound"] = map(number, nearest_to_bound(normal))
    if counters is not None:
        notes |= {"ctas": str(counters.ctas), "mmas": str(counters.mma)}
        for buffer, copies in sorted(counters.tma_loads.items()):
            notes[f"{buffer}_bytes"] = str(copies.bytes)
        notes["bytes_moved"] = str(counters.bytes_moved)
    return notes
