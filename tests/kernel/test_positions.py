"""What a kernel computes about positions is derived: nobody but the derivation and its numbers does such arithmetic."""

from __future__ import annotations

import random

import pytest

from convc.compiler.compile import compile_problem
from convc.compiler.options import ScheduleOptions
from convc.errors import ConvcError
from convc.ir.expr import Const, Less, Var, floor_div
from tests.fuzz.schedules import Schedules
from tests.kernel.test_golden_kernels import CHOICES, PROBLEMS
from tests.support.arithmetic import arithmetic
from tests.support.examples import some

DERIVED = ("compiler/index/", "derived/", "derive/")
"""Where formulas get their numbers (and, where the record is not the one of `convc.derive`, are derived)."""

CHECKS = (
    "compiler/plan/hosted.py",
    "compiler/plan/meanings.py",
    "compiler/plan/summed.py: summed_meanings",
    "compiler/plan/validation.py",
    "compiler/schedules/loop_check.py",
)
"""Where it is said once more what each number means, so that isl can hold numbers against it: no kernel has it."""


def watched_while_compiling(problems) -> set[str]:
    with arithmetic() as found:
        for problem, choices in problems:
            try:
                compile_problem(problem, **choices)
            except ConvcError:
                continue
    return {each for each in found if not each.startswith((*DERIVED, *CHECKS))}


def drawn(count: int):
    subject = Schedules()
    for number in range(count):
        case = subject.case(random.Random(f"positions:{number}"))
        yield subject.problem(case), {"options": ScheduleOptions(**case["options"])}


def judged(found: set[str]) -> None:
    assert not found, (
        "arithmetic on positions outside of convc/derive, convc/derived and convc/compiler/index:\n"
        + "\n".join(sorted(found))
    )


def test_golden_kernels_compute_what_was_derived():
    judged(watched_while_compiling((problem, CHOICES[name]) for name, problem in PROBLEMS.items()))


def test_drawn_kernels_compute_what_was_derived():
    judged(watched_while_compiling(drawn(some(160))))


@pytest.mark.parametrize("made", [lambda r: r * 3 + 1, lambda r: floor_div(r, 2), lambda r: Less(r, Const(2))])
def test_such_arithmetic_is_noticed(made):
    with arithmetic() as found:
        made(Var("r"))
    assert len(found) == 1
    made(Var("r"))
    assert len(found) == 1
