"""The report of ``convc compile``: the layers, their kernels, and what was left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from convc.build.folder import Build
from convc.ir.launch import LaunchSpec
from convc.ir.network import SkippedNode
from convc.layout.device_layout import device_layout
from convc.report.format import convolution
from convc.report.layout_notes import layout_notes
from convc.report.output import json_text
from convc.support.ptxas import Assembled

FUSED = 8
"""Convolutions with fused nodes that are listed one by one."""


def print_build(console: Console, build: Build) -> None:
    """One row per layer; then the repacking notes and the nodes left out."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("layer", "convolution", "type", "kernel"):
        table.add_column(heading, overflow="fold")
    for layer in build.network.layers:
        problem = layer.problem
        table.add_row(layer.name, convolution(problem), problem.types, layer.kernel)
    console.print(table)
    notes: dict[str, list[str]] = {}
    for layer in build.network.layers:
        for note in layout_notes(device_layout(layer.problem)):
            notes.setdefault(note, []).append(layer.name)
    for note, names in notes.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        console.print(f"  {names[0]}{more}: {note}", soft_wrap=True)
    print_fused(console, build.network.layers)
    print_skipped(console, build.network.skipped)
    kernels = len({layer.kernel for layer in build.network.layers})
    console.print(f"wrote {build.path}: {len(build.network.layers)} layers, {kernels} kernels")


def build_json(build: Build, assembled: Mapping[str, Assembled]) -> bytes:
    """A build as JSON: what its network.json says, each kernel's text and launch, and what ptxas said of it, if asked.

    ``assembled`` by the kernel's digest.
    """
    kernels: dict[str, dict[str, Any]] = {}
    for digest, launch in _launches(build).items():
        kernels[digest] = {
            "file": str(build.path / "kernels" / digest / "kernel.ptx"),
            "grid": launch.grid,
            "block": launch.block,
            "cluster": launch.cluster,
            "shared_bytes": launch.shared_bytes,
            "assembled": _taken(assembled[digest]) if digest in assembled else None,
        }
    network = msgspec.to_builtins(build.network)
    return json_text(network | {"format": "convc-compile/1", "folder": str(build.path), "kernels": kernels})


def print_fused(console: Console, layers: Sequence) -> None:
    """Print the nodes that kernels do besides the convolutions (of any records with ``name`` and ``fused``)."""
    taken = [layer for layer in layers if layer.fused]
    for layer in taken[:FUSED]:
        console.print(f"fused: {' + '.join((layer.name, *layer.fused))}", soft_wrap=True)
    if len(taken) > FUSED:
        nodes = sum(len(layer.fused) for layer in taken[FUSED:])
        console.print(f"fused: {nodes} more nodes into {len(taken) - FUSED} more convolutions")


def print_skipped(console: Console, skipped: tuple[SkippedNode, ...]) -> None:
    """The nodes that were not compiled: operators and how many of each, and each reason once."""
    counts: dict[tuple[str, str], int] = {}
    for node in skipped:
        counts[node.op_type, node.reason] = counts.get((node.op_type, node.reason), 0) + 1
    for (operator, reason), count in counts.items():
        console.print(f"not compiled: {count} x {operator} ({reason})")


def print_assembled(console: Console, build: Build, assembled: Mapping[str, Assembled]) -> None:
    """Print what ptxas said of each kernel: registers per thread, static and dynamic shared memory, spills."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("cubin of kernel")
    for heading in ("registers", "static shared bytes", "dynamic shared bytes", "spilled bytes"):
        table.add_column(heading, justify="right")
    launches = _launches(build)
    for digest, made in assembled.items():
        numbers = (made.registers, made.shared_bytes, launches[digest].shared_bytes, made.spill_bytes)
        table.add_row(digest, *map(str, numbers))
    console.print(table)


def _launches(build: Build) -> dict[str, LaunchSpec]:
    """How each kernel of a build is launched, by its digest."""
    return {layer.kernel: build.launch(layer) for layer in build.network.layers}


def _taken(made: Assembled) -> dict[str, int]:
    """What a kernel takes, as JSON has it."""
    return {"registers": made.registers, "shared_bytes": made.shared_bytes, "spill_bytes": made.spill_bytes}
