"""Parts that reports on layers and on whole networks share: a row per layer, and the first wrong element."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from rich.console import Console, JustifyMethod

from convc.ir.planned import Planned
from convc.ir.tuned import Tuning
from convc.report.format import element_place
from convc.report.grid import Column, Row, print_grid

if TYPE_CHECKING:
    from convc.verification.compare import Comparison
    from convc.verification.records import LayerReport

Columns = tuple[tuple[str, JustifyMethod], ...]
"""Headings of a table, and how what is below them is aligned."""

NAMES = ("layer", "kernel")
"""Columns whose words may be broken anywhere."""

BELOW = "convolution"
"""The column whose cells stand on a line of their own where rows do not fit."""

ESTIMATED: Columns = (("cycles", "right"), ("us", "right"), ("of peak", "right"))
"""What the planner expects of a launch: SM clock cycles, the same as microseconds, and the model's multiplications as a
part of what all tensor cores could do meanwhile."""


def print_table(
    console: Console,
    columns: Columns,
    layers: Iterable[LayerReport],
    row: Callable[[LayerReport], tuple[str, ...]],
    shown: Sequence[str] | None = None,
) -> None:
    """A row for each layer, in red where it is wrong.

    Args:
        row: the cells of a layer, one for each of ``columns``.
        shown: headings of the columns to print; None: all, each row in one line.
    """
    kept = [index for index, (heading, _) in enumerate(columns) if shown is None or heading in shown]
    table = [(layer, row(layer)) for layer in layers]
    rows = [Row(tuple(cells[index] for index in kept), None if layer.ok else "red") for layer, cells in table]
    print_grid(console, grid_columns(columns[index] for index in kept), rows, whole=shown is None)


def grid_columns(columns: Iterable[tuple[str, JustifyMethod]]) -> list[Column]:
    """Columns of a table of layers: names may be broken, and the convolution may stand below."""
    return [Column(heading, justify, name=heading in NAMES, below=heading == BELOW) for heading, justify in columns]


def estimate_cells(planned: Planned | None) -> tuple[str, ...]:
    """The cells of what a plan expects, one for each of `ESTIMATED`."""
    if planned is None:
        return ("-",) * len(ESTIMATED)
    share = 100 * planned.peak_share
    return f"{planned.cycles:.0f}", f"{planned.microseconds:.1f}", f"{share:.1f}%" if share >= 1 else f"{share:.1g}%"


def estimate_legend(plans: Iterable[Planned | None]) -> str:
    """Say what the cells of an estimate mean, with the clock; empty where nothing is estimated."""
    one = next((planned for planned in plans if planned is not None), None)
    if one is None:
        return ""
    chip = f"{'an' if one.chip.startswith('H') else 'a'} {one.chip} at {one.clock_mhz / 1000:g} GHz"
    whose = "the timing engine's" if one.by == "engine" else "the planner's estimate"
    return f"cycles, us, of peak: {whose} for {chip}; 100% is its dense tensor-core peak"


def print_tuned(console: Console, layers: Iterable[tuple[str, object]]) -> None:
    """Print of each layer whose kernel a tuning record chose where that was, and how fast; alike layers once.

    Args:
        layers: names, each with a `Tuning` where there is one.
    """
    names_of: dict[str, list[str]] = {}
    for name, tuning in layers:
        if isinstance(tuning, Tuning):
            names_of.setdefault(str(tuning), []).append(name)
    for said, names in names_of.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        console.print(f"  {names[0]}{more}: {said}", soft_wrap=True, markup=False)


def first_wrong(wrong: Comparison) -> str:
    """Say where the first wrong element is, and what it should be."""
    element = element_place(wrong.first or ())
    return f"the first is ({element}): got {wrong.got!r}, expected {wrong.expected!r}"


def count_of_special(comparison: Comparison) -> str:
    """Say behind a verdict that is good how many elements are no finite numbers on both sides; empty where none is."""
    counts = ((comparison.count_nan, "NaN"), (comparison.count_infinite, "infinite"))
    said = [f"{'all' if count == comparison.count else count} {what}" for count, what in counts if count]
    return f" ({', '.join(said)})" if said else ""


def special_legend(layers: Iterable[LayerReport]) -> str:
    """Say what NaN and infinite in a verdict mean; empty where there is neither."""
    checked = [check.comparison for layer in layers for check in layer.checks if check.comparison is not None]
    words = [("NaN", any(comparison.count_nan for comparison in checked))]
    words.append(("infinite", any(comparison.count_infinite for comparison in checked)))
    said = ", ".join(word for word, there in words if there)
    return f"{said}: the same elements in the result and in the reference; they count as right" if said else ""


def network_verdict(layer: LayerReport) -> str:
    """Say what was found about a layer that ran in its network."""
    right = layer.compared("network")
    if not layer.ok or right is None:
        return "WRONG"
    return f"in bound{count_of_special(right)}"


def nearest_to_bound(comparison: Comparison) -> tuple[float, float]:
    """(error, share of what is allowed) of one element: the first wrong one, or else the one nearest to its bound."""
    error = abs(comparison.got - comparison.expected)
    if comparison.count_wrong == 0:
        return 0.0 if math.isnan(error) else error, comparison.worst_ratio  # both infinite, or both NaN
    if math.isnan(error):
        error = math.inf
    return error, error / comparison.limit if comparison.limit > 0 else math.inf
