"""Products of one accumulator that wait are multiplied as one, where one gather can read their operands."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from convc.machine.lazy import deferral
from convc.machine.lazy.deferral import Deferral
from convc.machine.lazy.evaluate import DeferredProduct, Kind
from convc.machine.lazy.widen import Workspace

HALF, BYTES = Kind("f16", "f16"), Kind("e4m3", "e4m3")
A, B, OTHER = object(), object(), object()
KEY = 64, 32
FIRST, SECOND = np.array([0, 1]), np.array([2, 3])


def step(a: object = A, b: object = B) -> DeferredProduct:
    left, right = (SimpleNamespace(regions=[SimpleNamespace(loader=loader)]) for loader in (a, b))
    return DeferredProduct(left, right, None)


@pytest.fixture
def performed(monkeypatch):
    """(columns, whether what is there counts, steps) of each product, as they are performed."""
    done = []

    def products_of(key, waiting, ctas):
        note = (key, waiting.accumulate, list(waiting.steps))
        return SimpleNamespace(perform=lambda tensor, workspaces: done.append(note))

    monkeypatch.setattr(deferral, "products_of", products_of)
    return done


def waits() -> Deferral:
    return Deferral(SimpleNamespace(), SimpleNamespace(ctas=4), (Workspace(), Workspace()))


def test_steps_that_go_on_adding_join(performed):
    work, steps = waits(), [step() for _ in range(5)]
    for at, one in enumerate(steps):
        work._add(KEY, one, HALF, at > 0, FIRST)
    assert performed == []
    work.materialize(95, 1)
    assert performed == [(KEY, False, steps)]
    assert work.waiting == {}


@pytest.mark.parametrize(
    ("second", "kind", "rows"),
    [
        (step(a=OTHER), HALF, FIRST),
        (step(b=OTHER), HALF, FIRST),
        (step(), BYTES, FIRST),
        (step(), HALF, SECOND),
        (step(), HALF, None),
    ],
)
def test_steps_of_other_tensors_types_or_ctas_are_added_after_those_before(second, kind, rows, performed):
    work, first = waits(), step()
    work._add(KEY, first, HALF, True, FIRST)
    work._add(KEY, second, kind, True, rows)
    assert performed == [(KEY, True, [first])]
    work.materialize(0, 512)
    assert performed[1:] == [(KEY, True, [second])]


@pytest.mark.parametrize(
    ("rows", "kept"),
    [
        (FIRST, False),
        (None, False),
        (SECOND, True),
    ],
)
def test_an_accumulator_that_is_written_anew_forgets_what_waited(rows, kept, performed):
    """Not where other CTAs begin anew: theirs is another accumulator."""
    work, first, second = waits(), step(), step()
    work._add(KEY, first, HALF, False, FIRST)
    work._add(KEY, second, HALF, False, rows)
    work.materialize(*KEY)
    assert [steps for _, _, steps in performed] == [[first], [second]][not kept :]


@pytest.mark.parametrize(("column", "touched"), [(0, False), (32, False), (33, True), (95, True), (96, False)])
def test_only_what_reaches_into_the_columns_is_performed(column, touched, performed):
    work = waits()
    work._add(KEY, step(), HALF, False, None)
    work.materialize(column, 32)
    assert bool(performed) == touched
    assert bool(work.waiting) != touched


def test_another_accumulator_in_some_of_the_columns_comes_after(performed):
    work, first, second = waits(), step(), step()
    work._add(KEY, first, HALF, False, None)
    work._add((80, 32), second, HALF, False, None)
    assert [steps for _, _, steps in performed] == [[first]]
    assert list(work.waiting) == [(80, 32)]


@pytest.mark.parametrize(
    ("a", "b", "parts"),
    [
        ([0, 2, 4, 100, 102, 104], [0, 2, 4, 6, 8, 10], [[0, 1, 2], [3, 4, 5]]),
        ([0, 2, 4, 6, 8, 10], [0, 2, 4, 50, 52, 54], [[0, 1, 2], [3, 4, 5]]),
        ([0, 2, 4, 6], [0, 8, 16, 24], [[0], [1], [2], [3]]),
        ([0, 2], [0, 2], [[0], [1]]),
        ([5], [7], [[0]]),
    ],
    ids=["A begins elsewhere", "B begins elsewhere", "none does", "two", "one"],
)
def test_a_run_is_cut_where_an_operand_begins_elsewhere(a, b, parts):
    run = [SimpleNamespace(a=x, b=y, at=at) for at, (x, y) in enumerate(zip(a, b, strict=True))]
    assert [[mma.at for mma in part] for part in deferral._strides(run)] == parts
