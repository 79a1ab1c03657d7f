"""Garbage collection is suspended for a while, and is afterwards as it was."""

from __future__ import annotations

import gc

import pytest

from convc.compiler.compile import compile_problem
from convc.compiler.options import ScheduleOptions
from convc.compiler.schedules import columns
from convc.compiler.schedules.columns import plan_problem
from convc.errors import InputError
from convc.ir.problem import ConvProblem
from convc.support.collecting import uncollected

SMALL = ConvProblem(in_channels=16, out_channels=16, in_extent=(6, 6), kernel=(3, 3))


@pytest.fixture(params=[True, False])
def enabled(request):
    """Whether collection is on, as a caller has it."""
    before = gc.isenabled()
    (gc.enable if request.param else gc.disable)()
    yield request.param
    (gc.enable if before else gc.disable)()


def test_it_is_suspended_and_then_as_it_was(enabled):
    with uncollected():
        assert not gc.isenabled()
        with uncollected():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled() == enabled


def test_an_error_does_not_leave_it_suspended(enabled):
    with pytest.raises(InputError):
        compile_problem(SMALL, options=ScheduleOptions(schedule="none"))
    assert gc.isenabled() == enabled


def test_it_is_suspended_while_a_kernel_is_compiled(enabled, monkeypatch):
    seen: list[bool] = []

    def watched(*arguments, **more):
        seen.append(gc.isenabled())
        return plan_problem(*arguments, **more)

    monkeypatch.setattr(columns, "plan_problem", watched)
    compile_problem(SMALL)
    assert seen == [False]
    assert gc.isenabled() == enabled
