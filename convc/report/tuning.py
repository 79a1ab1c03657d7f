"""The report of ``convc tune``: of each problem what is fastest, where, and what was lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console

from convc.report.grid import Column, Row, print_grid

if TYPE_CHECKING:
    from convc.ir.tuned import Tuned

COLUMNS = (
    Column("layer", "left", name=True),
    Column("us", "right"),
    Column("+-", "right"),
    Column("gain", "right"),
    Column("of", "right"),
    Column("kernel", "left"),
)
"""Median of a launch, half of the range between its quartiles, times as fast as the estimate's choice, candidates."""


def print_bench(console: Console, where: str, engine: bool, why: str, target: str) -> None:
    """Say where candidates are measured; where that is the timing engine, why."""
    said = (
        f"the timing engine times kernels for {target}, on a {where}" if engine else f"kernels for {target} on {where}"
    )
    console.print(f"no GPU here ({why}): {said}" if why else said, soft_wrap=True, markup=False)


def print_tuned_layers(
    console: Console, layers: Sequence[tuple[tuple[str, ...], Tuned | None, bool, Sequence[tuple[str, str]], str]]
) -> None:
    """A row for each problem that has a record; below, what was lost.

    Args:
        layers: names, record, whether it was measured now, kernels that were lost and why, why there is no record.
    """
    rows = [Row(_cells(names, tuned, measured)) for names, tuned, measured, _, _ in layers if tuned is not None]
    if rows:
        print_grid(console, list(COLUMNS), rows)
        console.print(
            "gain: speedup over the kernel with the best estimate; of: number of candidates; *: existing record"
        )
    for names, _, _, lost, reason in layers:
        for title, why in lost:
            console.print(f"lost: {names[0]}: {title}: {why}", soft_wrap=True, markup=False)
        if reason:
            console.print(f"no record: {names[0]}: {reason}", soft_wrap=True, markup=False)


def _cells(names: tuple[str, ...], tuned: Tuned, measured: bool) -> tuple[str, ...]:
    first, *others = names
    more = f" and {len(others)} more" if others else ""
    gain = "" if tuned.gain is None else f"{tuned.gain:.2f}"
    count = f"{tuned.candidates}{'' if measured else '*'}"
    return f"{first}{more}", f"{tuned.microseconds:.2f}", f"{tuned.spread:.2f}", gain, count, tuned.title
