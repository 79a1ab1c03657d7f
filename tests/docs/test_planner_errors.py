"""The planner's model against the engine, over networks: a table of timing_measurements.md, and what auto takes."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from planner_errors import MARKED, PAGE, correlation, light_layers, measured, table

from convc.compiler.compile import compile_problem
from convc.compiler.options import AUTO, ScheduleOptions
from convc.ir.problem import ConvProblem
from convc.timing.kernel import time_kernel
from convc.timing.parameters import read_chip

BEFORE = Path(__file__).resolve().parents[1] / "recordings" / "timing" / "choices_before.csv"
EVERY = 9
"""Of the layers one in so many is timed."""


@pytest.mark.slow
def test_the_table_is_made_by_its_script_and_the_orders_agree():
    rows = measured()
    text = PAGE.read_text("utf-8")
    made = table(rows)
    assert text == MARKED.sub(lambda match: match[1] + made + match[2], text)
    assert all(correlation(found) >= 0.98 for found in rows.values())


@pytest.mark.slow
def test_no_layer_is_slower_than_by_the_formula_that_ranked_before():
    with BEFORE.open(encoding="utf-8") as file:
        before = {f"light_{row['model']} {row['layer']}": row for row in csv.DictReader(file)}
    layers = dict(light_layers())
    assert set(layers) == set(before)
    for name in list(before)[EVERY // 2 :: EVERY]:
        row = before[name]
        forced = ScheduleOptions(schedule=row["schedule"], shift=row["variant"] or "auto")
        old = cycles(layers[name], forced, int(row["columns"]), int(row["stages"]))
        assert cycles(layers[name], ScheduleOptions(schedule=AUTO)) <= 1.02 * old, name


def cycles(
    problem: ConvProblem, options: ScheduleOptions, columns: int | None = None, stages: int | None = None
) -> float:
    """The engine's time of a kernel."""
    artifact = compile_problem(problem, options=options, block_n=columns, stages=stages).artifact
    return time_kernel(artifact.ptx, artifact.launch, {}, read_chip("b200")).cycles
