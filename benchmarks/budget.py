"""What is fast enough: the budgets of ``budgets.toml``, and the table that holds numbers against them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table

BUDGETS = Path(__file__).with_name("budgets.toml")

Budget = Mapping[str, float]
"""``{at_most = …}`` or ``{at_least = …}``, with ``count = true`` of what is no time; nothing where there is none."""

Measured = Mapping[str, Mapping[str, float]]
"""Numbers, by benchmark and name."""

Budgets = Mapping[str, Mapping[str, Budget]]
"""Their budgets."""


def read_budgets() -> dict[str, dict[str, Budget]]:
    """The budget of each number, by benchmark and name."""
    return tomllib.loads(BUDGETS.read_text())


def over_budget(value: float, budget: Budget, tolerance: float = 1.0) -> bool:
    """Whether a number passes its budget; a ratio of times only where it does so by more than a factor."""
    factor = 1.0 if budget.get("count") else tolerance
    return value > budget.get("at_most", value) * factor or value * factor < budget.get("at_least", value * factor)


def exceeded(measured: Measured, budgets: Budgets, tolerance: float = 1.0) -> set[str]:
    """The benchmarks in which a number passes its budget."""
    return {
        name
        for name, numbers in measured.items()
        for key, value in numbers.items()
        if over_budget(value, budgets.get(name, {}).get(key, {}), tolerance)
    }


def better(first: Mapping[str, float], second: Mapping[str, float], budgets: Mapping[str, Budget]) -> dict[str, float]:
    """Of two measurements of a benchmark each number that is further from passing its budget."""
    high = {key for key, budget in budgets.items() if "at_least" in budget}
    return {key: (max if key in high else min)(value, second.get(key, value)) for key, value in first.items()}


def report(measured: Measured, budgets: Budgets, tolerance: float = 1.0) -> int:
    """Print every number with its budget; 1 where one is passed."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("benchmark", "number"):
        table.add_column(heading)
    table.add_column("measured", justify="right")
    table.add_column("budget")
    for name, numbers in measured.items():
        for key, value in numbers.items():
            budget = budgets.get(name, {}).get(key, {})
            table.add_row(name, key, f"{value:.4g}", _words(value, budget, tolerance))
    Console().print(table)
    return 1 if exceeded(measured, budgets, tolerance) else 0


def _words(value: float, budget: Budget, tolerance: float) -> str:
    """A budget, and what a number makes of it."""
    limits = " ".join(f"{word.replace('_', ' ')} {limit:g}" for word, limit in budget.items() if word != "count")
    if over_budget(value, budget, tolerance):
        return f"{limits} EXCEEDED"
    return f"{limits} passed, within tolerance" if over_budget(value, budget) else limits
