"""The list of a model's layers, which stands before all that can be said about one of them."""

from __future__ import annotations

from typing import Any

import msgspec

from convc.ir.planned import ListedLayer, Listing
from convc.report.build import print_skipped
from convc.report.console import Console
from convc.report.format import convolution, counted, human_bytes
from convc.report.grid import Row, print_grid
from convc.report.layers import Columns, estimate_cells, estimate_legend, grid_columns, print_tuned
from convc.report.output import json_text

LIST_COLUMNS: Columns = (
    ("layer", "left"),
    ("operator", "left"),
    ("convolution", "left"),
    ("type", "left"),
    ("schedule", "left"),
    ("cycles", "right"),
    ("of peak", "right"),
)
WIDE_COLUMNS: Columns = (
    *LIST_COLUMNS[:6],
    ("us", "right"),
    LIST_COLUMNS[6],
    ("traffic", "right"),
    ("waits for", "left"),
    ("fused", "left"),
)


def print_listing(console: Console, listing: Listing, wide: bool = False) -> None:
    """A row for each layer, the reasons why some have no kernel, and what else is in the model."""
    rows = [Row(_cells(layer, wide), "red" if layer.reason else None) for layer in listing.layers]
    print_grid(console, grid_columns(WIDE_COLUMNS if wide else LIST_COLUMNS), rows, whole=wide)
    legend = estimate_legend(layer.planned for layer in listing.layers)
    if legend:
        console.print(legend, soft_wrap=True)
    print_tuned(console, ((layer.name, layer.planned and layer.planned.tuning) for layer in listing.layers))
    reasons: dict[str, list[str]] = {}
    for layer in listing.layers:
        if layer.reason:
            reasons.setdefault(layer.reason, []).append(layer.name)
    for reason, names in reasons.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        console.print(f"no kernel: {names[0]}{more}: {reason}", soft_wrap=True)
    print_skipped(console, listing.skipped)
    plans = [layer.planned for layer in listing.layers if layer.planned is not None]
    sum_of = f", about {sum(plan.cycles for plan in plans):.0f} cycles in total" if plans else ""
    console.print(f"{listing.source}: {counted(len(listing.layers), 'convolution')}{sum_of}", soft_wrap=True)


def listing_json(listing: Listing) -> bytes:
    """The list as JSON."""
    record: dict[str, Any] = msgspec.to_builtins(listing)
    return json_text({"format": "convc-layers/1", **record})


def _cells(layer: ListedLayer, wide: bool) -> tuple[str, ...]:
    problem = layer.problem
    planned = layer.planned
    cycles, us, share = estimate_cells(planned)
    schedule = "-" if planned is None else planned.schedule
    first = (layer.name, layer.operator, convolution(problem), problem.types, schedule, cycles)
    if not wide:
        return (*first, share)
    moved = "-" if planned is None else human_bytes(planned.traffic_bytes)
    waits = "-" if planned is None else planned.bottleneck
    return (*first, us, share, moved, waits, ", ".join(layer.fused) or "-")
