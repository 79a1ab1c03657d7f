"""What is fast enough: the budgets of ``budgets.toml``, and the table that holds numbers against them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table

BUDGETS = Path(__file__).with_name("budgets.toml")

Budget = Mapping[str, float]
"""``{at_most = …}`` or ``{at_least = …}``; nothing where a number has no budget."""


def read_budgets() -> dict[str, dict[str, Budget]]:
    """The budget of each number, by benchmark and name."""
    return tomllib.loads(BUDGETS.read_text())


def over_budget(value: float, budget: Budget) -> bool:
    """Whether a number passes its budget."""
    return value > budget.get("at_most", value) or value < budget.get("at_least", value)


def report(measured: Mapping[str, Mapping[str, float]], budgets: Mapping[str, Mapping[str, Budget]]) -> int:
    """Print every number with its budget; 1 where one is passed."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("benchmark", "number"):
        table.add_column(heading)
    table.add_column("measured", justify="right")
    table.add_column("budget")
    over = 0
    for name, numbers in measured.items():
        for key, value in numbers.items():
            budget = budgets.get(name, {}).get(key, {})
            words = " ".join(f"{word.replace('_', ' ')} {limit:g}" for word, limit in budget.items())
            if over_budget(value, budget):
                over += 1
                words += " EXCEEDED"
            table.add_row(name, key, f"{value:.4g}", words)
    Console().print(table)
    return 1 if over else 0
