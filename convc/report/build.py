"""The report of ``convc compile``: the layers, their kernels, and what was left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from rich.console import Console
from rich.table import Table

from convc.build.folder import Build, LayerRecord
from convc.host_layout.device_layout import device_layout
from convc.ir.launch import LaunchSpec
from convc.ir.network import CONVOLUTIONS, SkippedNode
from convc.report.format import convolution, counted
from convc.report.grid import Row, print_grid
from convc.report.layers import ESTIMATED, Columns, estimate_cells, estimate_legend, grid_columns, print_tuned
from convc.report.layout_notes import layout_notes
from convc.report.output import json_text
from convc.support.ptxas import Assembled

if TYPE_CHECKING:
    from convc.verification.records import LayerReport

BUILD_COLUMNS: Columns = (
    ("layer", "left"),
    ("convolution", "left"),
    ("schedule", "left"),
    *ESTIMATED,
    ("kernel", "left"),
)

WIDE_COLUMNS: Columns = (*BUILD_COLUMNS[:2], ("type", "left"), *BUILD_COLUMNS[2:])

FUSED = 8
"""Convolutions with fused nodes that are listed one by one."""
_NAMED = 8
"""Convolutions that are left out for one reason and named."""


def print_build(console: Console, build: Build, wide: bool = False) -> None:
    """One row per layer; then the repacking notes, schedules that were left on the way, and the nodes left out.

    Args:
        wide: print all columns, each layer in one line.
    """
    layers = build.network.layers
    columns = WIDE_COLUMNS if wide else BUILD_COLUMNS
    rows: list[Row] = []
    for layer in layers:
        types = (layer.problem.types,) if wide else ()
        cells = (layer.name, convolution(layer.problem), *types, layer.planned.schedule)
        rows.append(Row((*cells, *estimate_cells(layer.planned), layer.kernel)))
    print_grid(console, grid_columns(columns), rows, whole=wide)
    console.print(estimate_legend(layer.planned for layer in layers), soft_wrap=True)
    _print_fallen(console, build)
    print_tuned(console, ((layer.name, layer.planned.tuning) for layer in layers))
    notes: dict[str, list[str]] = {}
    for layer in build.network.layers:
        for note in layout_notes(device_layout(layer.problem, layer.columns)):
            notes.setdefault(note, []).append(layer.name)
    for note, names in notes.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        console.print(f"  {names[0]}{more}: {note}", soft_wrap=True)
    print_fused(console, build.network.layers)
    print_skipped(console, build.network.skipped)
    kernels = len({layer.kernel for layer in layers})
    console.print(f"wrote {build.path}: {counted(len(layers), 'layer')}, {counted(kernels, 'kernel')}", soft_wrap=True)


def _print_fallen(console: Console, build: Build) -> None:
    """Schedules that `auto` would have taken, the layers in whose place they took another, and why; each once."""
    fallen: dict[tuple[str, str, str], list[str]] = {}
    for layer in build.network.layers:
        for each in layer.planned.fell_back:
            fallen.setdefault((each.schedule, layer.planned.schedule, each.reason), []).append(layer.name)
    for (schedule, taken, reason), names in fallen.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        console.print(f"  {names[0]}{more}: {taken} in place of {schedule}: {reason}", soft_wrap=True)


def build_json(build: Build, assembled: Mapping[str, Assembled]) -> bytes:
    """A build as JSON: what its network.json says, and each kernel's text, launch, estimate and plan.

    ``assembled``: what ptxas said of a kernel, if it was asked, by the kernel's digest.
    """
    planned = {layer.kernel: layer.planned for layer in build.network.layers}
    kernels: dict[str, dict[str, Any]] = {}
    for digest, launch in _launches(build).items():
        kernels[digest] = {
            "file": str(build.path / "kernels" / digest / "kernel.ptx"),
            "grid": launch.grid,
            "block": launch.block,
            "cluster": launch.cluster,
            "shared_bytes": launch.shared_bytes,
            "estimate": planned[digest],
            "plan": _plan(build, digest),
            "assembled": _taken(assembled[digest]) if digest in assembled else None,
        }
    network = msgspec.to_builtins(build.network)
    return json_text(network | {"format": "convc-compile/1", "folder": str(build.path), "kernels": kernels})


def print_fused(console: Console, layers: Sequence[LayerRecord | LayerReport]) -> None:
    """Print the nodes that kernels do besides the convolutions."""
    taken = [layer for layer in layers if layer.fused]
    for layer in taken[:FUSED]:
        console.print(f"fused: {' + '.join((layer.name, *layer.fused))}", soft_wrap=True)
    if len(taken) > FUSED:
        nodes = counted(sum(len(layer.fused) for layer in taken[FUSED:]), "more node")
        into = counted(len(taken) - FUSED, "more convolution")
        console.print(f"fused: {nodes} into {into}", soft_wrap=True)


def print_skipped(console: Console, skipped: tuple[SkippedNode, ...]) -> None:
    """The nodes that were not compiled: each reason once, with the operators and how many of each.

    Convolutions that were left out are named.
    """
    left_out: dict[str, list[str]] = {}
    counts: dict[str, Counter[str]] = {}
    for node in skipped:
        if node.op_type in CONVOLUTIONS:
            left_out.setdefault(node.reason, []).append(node.name)
        else:
            counts.setdefault(node.reason, Counter())[node.op_type] += 1
    for reason, names in left_out.items():
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        console.print(f"left out: {', '.join(names[:_NAMED])}{more}: {reason}", soft_wrap=True)
    for reason, operators in counts.items():
        listed = ", ".join(f"{count} x {operator}" for operator, count in operators.items())
        console.print(f"not compiled: {listed} ({reason})", soft_wrap=True)


def print_assembled(console: Console, build: Build, assembled: Mapping[str, Assembled]) -> None:
    """Print what ptxas said of each kernel: registers per thread, static and dynamic shared memory, spills."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("cubin of kernel")
    for heading in ("registers", "static shared bytes", "dynamic shared bytes", "spilled bytes"):
        table.add_column(heading, justify="right")
    launches = _launches(build)
    for digest, result in assembled.items():
        numbers = (result.registers, result.shared_bytes, launches[digest].shared_bytes, result.spill_bytes)
        table.add_row(digest, *map(str, numbers))
    console.print(table)


def _launches(build: Build) -> dict[str, LaunchSpec]:
    return {layer.kernel: build.launch(layer) for layer in build.network.layers}


def _plan(build: Build, digest: str) -> msgspec.Raw | None:
    """The plan of a kernel as its folder has it; None where there is none."""
    file = build.path / "kernels" / digest / "plan.json"
    return msgspec.Raw(file.read_bytes()) if file.is_file() else None


def _taken(result: Assembled) -> dict[str, int]:
    """What a kernel takes, as JSON has it."""
    return {"registers": result.registers, "shared_bytes": result.shared_bytes, "spill_bytes": result.spill_bytes}
