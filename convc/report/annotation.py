"""What the nodes of an annotated model say (`convc.frontend.annotate`): schedule, verdict and counts of each layer."""

from __future__ import annotations

from typing import Any

import convc
from convc.frontend.onnx_reader import NOT_A_CONVOLUTION
from convc.report.format import number
from convc.report.verify import verdict
from convc.verification.layer import LayerReport


def notes_of(report: Any) -> dict[str, dict[str, str]]:
    """Keys and texts by node, of a `VerifyReport`: its layers, what was fused into them, what was left out."""
    about = {"version": convc.__version__, "seed": str(report.seed)}
    notes = {
        node.name: {"verdict": f"not compiled: {node.reason}"}
        for node in report.skipped
        if node.reason != NOT_A_CONVOLUTION
    }
    fused = {name: {"fused_into": layer.name} for layer in report.layers for name in layer.fused}
    return notes | fused | {layer.name: _layer(layer) | about for layer in report.layers}


def _layer(layer: LayerReport) -> dict[str, str]:
    problem, counters = layer.problem, layer.counters
    found = {
        "verdict": ", ".join(verdict(check, layer.problem) for check in layer.checks),
        "schedule": layer.schedule,
        "kernel": layer.kernel.split("/")[0],
        "type": problem.types,
        "macs": str(problem.macs),
    }
    if layer.normal is not None:
        found["worst_error"] = number(layer.normal.worst_error)
        found["of_bound"] = number(layer.normal.worst_ratio)
    if counters is not None:
        found |= {"ctas": str(counters.ctas), "mmas": str(counters.mma)}
        for buffer, copies in sorted(counters.tma_loads.items()):
            found[f"{buffer}_bytes"] = str(copies.bytes)
        found["bytes_moved"] = str(counters.bytes_moved)
    return found
