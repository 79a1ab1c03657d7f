"""Random problems agree in three oracles: conditions of theorems, isl's meaning of every number, and the sums."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest
from support.oracles import oracles_agree

from convc.compiler.options import ScheduleOptions
from convc.errors import InputError, PlanError
from tests.unit.derive.test_loops import problem_of

DRAWN = 4
MANY = 1000
KINDS = (
    ScheduleOptions(schedule="reload"),
    ScheduleOptions(schedule="slide", border="mask"),
    ScheduleOptions(schedule="slide", border="zero"),
    ScheduleOptions(schedule="slide", target="sm_90a"),
    ScheduleOptions(schedule="stationary"),
    ScheduleOptions(schedule="shift", shift="chain"),
    ScheduleOptions(schedule="shift", shift="windows"),
    ScheduleOptions(),
)


def agree(seed):
    """Compile one, which asks the theorems and isl, and run it in the interpreter and in the simulator."""
    drawn = random.Random(seed)
    while True:
        problem = problem_of(drawn)
        try:
            compiled = oracles_agree(
                problem, seed, lambda text, target: SimpleNamespace(spill_bytes=0), drawn.choice(KINDS)
            )
        except (PlanError, InputError):
            continue  # such a kernel there is not, for this problem
        break
    said = compiled.plan.indexing.derivation
    kept = ("proved: ", "limit kept: ")
    assert all(line.startswith(kept) or "no test of" in line for line in said), said
    assert sum("[theorem " in line for line in said) >= 8
    assert sum(" <= " in line or " < " in line for line in said) >= 4


@pytest.mark.parametrize("seed", range(DRAWN))
def test_some_problems_agree(seed):
    agree(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(DRAWN, MANY))
def test_a_thousand_problems_agree(seed):
    agree(seed)
