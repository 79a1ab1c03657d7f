"""The derivation of a layer with its numbers: the chain of its kernel, and the conditions that it meets."""

from __future__ import annotations

import pytest

from convc.compiler.compile import compile_problem
from convc.compiler.options import ScheduleOptions
from convc.explain.derived import derivation_of
from convc.ir.problem import ConvProblem

PROBLEM = ConvProblem(
    batch=2, in_channels=64, out_channels=128, in_extent=(9, 9), kernel=(3, 3), pad_lo=(1, 1), pad_hi=(1, 1)
)


def lines_of(**options):
    plan = compile_problem(PROBLEM, options=ScheduleOptions(**options)).plan
    return plan, list(derivation_of(plan))


CHAINS = {
    "reload": ["1: the definition", "2: reload"],
    "slide": ["1: the definition", "2: reload", "3: slide"],
    "stationary": ["1: the definition", "2: reload", "3: slide", "3: stationary"],
    "shift": ["1: the definition", "2: reload", "3: slide", "3.b: shift"],
}


@pytest.mark.parametrize("schedule", CHAINS)
def test_the_chain_is_that_of_the_schedule(schedule):
    plan, lines = lines_of(schedule=schedule)
    assert "Pei Luo" in lines[0]
    titles = [line for line in lines if line.startswith("-- ")]
    assert titles == [f"-- Algorithm {title} --" for title in CHAINS[schedule]]
    assert not any("BROKEN" in line for line in lines)
    last = lines[lines.index(titles[-1]) :]
    assert any(line.startswith(f"for tile_m in 0..{plan.launch.tiles[0] - 1}:") for line in last)
    assert any(f"for r in 0..{plan.pipeline.taps[0] - 1}:" in line for line in last)


def test_conditions_come_with_their_numbers():
    _, lines = lines_of(schedule="slide", rows="outer", border="mask")
    assert "   met: period T >= Q [Q <= T: 9 <= 9]" in lines
    assert any("disable-output-lane" in line for line in lines)
