"""Every change of the derivation, and of the code that puts numbers into it, is refused: no wrong kernel is written.

Of the derivation a theorem refuses it, or else the loop test, which runs the loops of a form. Of the compiler the
condition of a theorem does with the problem's numbers, or isl, which says that a number is not what it means (D100), or
the check of the loops. Where a kernel is written all the same, it makes the right sums: the change does not reach it.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import itertools
import random
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.derived_loops import computes
from support.mutants import DERIVE, changed_code, derived_by, forget, put_record
from support.oracles import oracles_agree

from convc.compiler.compile import compile_problem
from convc.compiler.index.conditions import conditions
from convc.compiler.index.maps import Proof
from convc.compiler.options import ScheduleOptions
from convc.errors import DerivationError, PlanError
from convc.ir.problem import ConvProblem
from tests.unit.derive.mutants import DERIVATION, NUMBERS
from tests.unit.derive.test_loops import CHOSEN, drawn_form, off

PROBLEMS = (
    ConvProblem(
        batch=3, in_channels=32, out_channels=256, groups=2, in_extent=(12, 13), kernel=(3, 5),
        pad_lo=(1, 3), pad_hi=(2, 1), bias=True,
    ),
    ConvProblem(
        in_channels=200, out_channels=72, in_extent=(17, 40), kernel=(2, 7), stride=(2, 3), dilation=(1, 2),
        pad_lo=(1, 4), pad_hi=(0, 3), out="f32",
    ),
    ConvProblem(
        batch=4, in_channels=64, out_channels=128, in_extent=(12, 22), kernel=(3, 4), stride=(1, 2), dilation=(2, 1),
        pad_lo=(2, 1), pad_hi=(2, 2),
    ),
    ConvProblem(
        batch=2, in_channels=64, out_channels=64, in_extent=(9, 21), kernel=(2, 5), stride=(1, 4), dilation=(1, 2),
        pad_lo=(0, 2), pad_hi=(1, 3), operand="bf16",
    ),
)  # fmt: skip
KINDS = (
    ScheduleOptions(schedule="reload"),
    ScheduleOptions(schedule="reload", cta_group="2"),
    ScheduleOptions(schedule="reload", multicast="1x2"),
    ScheduleOptions(schedule="slide", rows="outer", border="mask"),
    ScheduleOptions(schedule="slide", rows="merged", border="mask"),
    ScheduleOptions(schedule="slide", border="zero"),
    ScheduleOptions(schedule="slide", target="sm_90a"),
    ScheduleOptions(schedule="stationary"),
    ScheduleOptions(schedule="shift", shift="chain", border="mask"),
    ScheduleOptions(schedule="shift", shift="windows", rows="merged", border="mask"),
)
REFUSALS = (" needs ", "a number of the kernel is not what it means", "the derivation is refused")


def attempts():
    """Every problem in every kind."""
    return [(problem, kind) for problem in PROBLEMS for kind in KINDS]


def answer(problem, kind):
    """The kernel's text, or why there is none."""
    try:
        return compile_problem(problem, options=kind).artifact.ptx
    except (DerivationError, PlanError) as refused:
        return refused


@functools.cache
def as_it_is(every=True):
    """The kernels without a change, or one of each kind; kinds that are not for a problem are left out."""
    forget()
    found = {(problem, kind): answer(problem, kind) for problem, kind in attempts()}
    kernels = {attempt: text for attempt, text in found.items() if isinstance(text, str)}
    if every:
        return kernels
    first = {kind: problem for problem, kind in reversed(kernels)}
    return {(problem, kind): kernels[problem, kind] for kind, problem in first.items()}


def refused(text) -> bool:
    """Whether an answer is a refusal by a condition of a theorem, by isl or by the check of loops."""
    return isinstance(text, DerivationError | PlanError) and any(said in text.message for said in REFUSALS)


def tried(mutant, every=True):
    """Kernels that are refused, and those that are written and make other sums."""
    before = as_it_is(every)
    with changed_code(*mutant):
        found = {attempt: answer(*attempt) for attempt in before}
        others = [each for each, text in before.items() if isinstance(found[each], str) and found[each] != text]
        some = random.Random(0).sample(others, min(2, len(others)))
        wrong = [f"{kind.schedule} of {problem.describe()}" for problem, kind in some if not right(problem, kind)]
    return [text.message for text in found.values() if refused(text)], wrong


def right(problem, kind):
    """Whether the kernel computes what the reference does: numbers that are spelt otherwise are no mistake."""
    try:
        oracles_agree(problem, 1, lambda text, target: SimpleNamespace(spill_bytes=0), kind)
    except AssertionError:
        return False
    return True


def test_there_are_kernels_of_every_kind():
    assert {kind for _, kind in as_it_is()} == set(KINDS)
    assert len(NUMBERS) + len(DERIVATION) >= 100


def test_every_change_is_of_code_that_is_there():
    """Each place once; checked here, since most changes are tried in slow tests alone."""
    sources = {name: Path(inspect.getsourcefile(importlib.import_module(name))) for name, _, _ in NUMBERS}
    sources |= {file: DERIVE / file for file, _, _ in DERIVATION}
    gone = [(name, old) for name, old, _ in NUMBERS + DERIVATION if sources[name].read_text().count(old) != 1]
    assert not gone, gone


def check_numbers(mutant, every=True):
    by, wrong = tried(mutant, every)
    assert not wrong, wrong
    assert by, f"{mutant}: no kernel is refused"


@pytest.mark.parametrize("mutant", random.Random(8).sample(NUMBERS, 5), ids=str)
def test_some_wrong_numbers_are_refused(mutant):
    check_numbers(mutant, every=False)


@pytest.mark.slow
@pytest.mark.parametrize("mutant", NUMBERS, ids=str)
def test_every_wrong_number_is_refused(mutant):
    check_numbers(mutant)


@functools.cache
def forms():
    """Problems with forms of all schedules."""
    return [drawn_form(seed) for seed in range(40)]


def check_derivation(mutant, monkeypatch):
    """A theorem refuses it, or the loops make other sums, or numbers are refused."""
    changed = derived_by(*mutant)
    if changed is None:
        return
    put_record(monkeypatch, changed)
    forget()
    taken = all(computes(problem, instance) for problem, instance, _ in forms()) and enough()
    found = taken and any(refused(answer(*attempt)) for attempt in as_it_is())
    forget()
    assert not taken or found, f"{mutant} is taken"


def enough():
    """Whether the conditions let through no number that somebody chooses and that makes other sums."""
    for problem, instance, walk in forms():
        for name, by in itertools.product(CHOSEN, (-2, -1, 1, 2)):
            broken = off(instance, name, by)
            if broken is None or not all(isinstance(each, Proof) for each in conditions(broken, walk)):
                continue
            if not computes(problem, broken, instance):
                return False
    return True


@pytest.mark.parametrize("mutant", random.Random(5).sample(DERIVATION, 1), ids=str)
def test_a_wrong_derivation_is_refused(mutant, monkeypatch):
    forms()
    as_it_is()
    check_derivation(mutant, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("mutant", DERIVATION, ids=str)
def test_every_wrong_derivation_is_refused(mutant, monkeypatch):
    forms()
    as_it_is()
    check_derivation(mutant, monkeypatch)
