"""``python -m benchmarks.run``: measure, print a table, and fail where a number passes its budget."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from benchmarks import (
    batch,
    check,
    draw,
    foreign,
    models,
    network,
    page,
    parsing,
    planning,
    processes,
    reuse,
    ring,
    time_kernels,
    twins,
)
from benchmarks import compile as compile_benchmark
from benchmarks.budget import better, exceeded, read_budgets, report

BENCHMARKS = {
    "compile": compile_benchmark.measure, "network": network.measure, "check": check.measure, "reuse": reuse.measure,
    "models": models.measure, "planning": planning.measure, "parsing": parsing.measure, "processes": processes.measure,
    "twins": twins.measure, "batch": batch.measure, "foreign": foreign.measure, "time": time_kernels.measure,
    "page": page.measure, "draw": draw.measure, "ring": ring.measure,
}  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmarks that are named, or all; 1 where a budget is passed."""
    parser = argparse.ArgumentParser(prog="benchmarks.run", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(BENCHMARKS)} (default: all)")
    parser.add_argument("--layers", choices=("all", "demo"), default="all", help="which ResNet-50 layers")
    parser.add_argument(
        "--tolerance",
        type=float,
        default=1.0,
        metavar="X",
        help="by what factor a ratio of times may pass its budget, in the better of two measurements (default: 1)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers as JSON")
    chosen = parser.parse_args(arguments)
    unknown = sorted(set(chosen.names) - set(BENCHMARKS))
    if unknown:
        parser.error(f"there is no benchmark {unknown[0]!r}: {', '.join(BENCHMARKS)}")
    budgets = read_budgets()
    try:
        measured = {name: BENCHMARKS[name](chosen.layers) for name in chosen.names or BENCHMARKS}
        for name in exceeded(measured, budgets, chosen.tolerance) if chosen.tolerance > 1 else ():
            measured[name] = better(measured[name], BENCHMARKS[name](chosen.layers), budgets[name])
    except subprocess.CalledProcessError as failure:
        print(f"{' '.join(failure.cmd[1:])} ended with {failure.returncode}", file=sys.stderr)
        return 1
    if chosen.json:
        chosen.json.write_text(json.dumps(measured, indent=1) + "\n")
    return report(measured, budgets, chosen.tolerance)


if __name__ == "__main__":
    sys.exit(main())
