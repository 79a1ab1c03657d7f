"""``python -m benchmarks.run``: measure, print a table, and fail where a number passes its budget."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tomllib
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import check, models, network, planning, reuse
from benchmarks import compile as compile_benchmark

BENCHMARKS = {
    "compile": compile_benchmark.measure, "network": network.measure, "check": check.measure, "reuse": reuse.measure,
    "models": models.measure, "planning": planning.measure,
}  # fmt: skip
BUDGETS = Path(__file__).with_name("budgets.toml")


def over_budget(value: float, budget: dict[str, float]) -> bool:
    """Whether a number passes its budget, ``{at_most = …}`` or ``{at_least = …}``."""
    return value > budget.get("at_most", value) or value < budget.get("at_least", value)


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmarks that are named, or all; 1 where a budget is passed."""
    parser = argparse.ArgumentParser(prog="benchmarks.run", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(BENCHMARKS)} (default: all)")
    parser.add_argument("--layers", choices=("all", "demo"), default="all", help="which ResNet-50 layers")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers as JSON")
    chosen = parser.parse_args(arguments)
    unknown = sorted(set(chosen.names) - set(BENCHMARKS))
    if unknown:
        parser.error(f"there is no benchmark {unknown[0]!r}: {', '.join(BENCHMARKS)}")
    try:
        measured = {name: BENCHMARKS[name](chosen.layers) for name in chosen.names or BENCHMARKS}
    except subprocess.CalledProcessError as failure:
        print(f"{' '.join(failure.cmd[1:])} ended with {failure.returncode}", file=sys.stderr)
        return 1
    if chosen.json:
        chosen.json.write_text(json.dumps(measured, indent=1) + "\n")
    return report(measured, tomllib.loads(BUDGETS.read_text()))


def report(measured: dict[str, dict[str, float]], budgets: dict) -> int:
    """Print every number with its budget; 1 where one is passed."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading, justify in (
        ("benchmark", "left"),
        ("number", "left"),
        ("measured", "right"),
        ("budget", "left"),
    ):
        table.add_column(heading, justify=justify)
    over = 0
    for name, numbers in measured.items():
        for key, value in numbers.items():
            budget = budgets.get(name, {}).get(key, {})
            words = " ".join(f"{word.replace('_', ' ')} {limit:g}" for word, limit in budget.items())
            failed = over_budget(value, budget)
            over += failed
            table.add_row(name, key, f"{value:.4g}", words + (" EXCEEDED" if failed else ""))
    Console().print(table)
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
