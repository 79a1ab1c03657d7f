"""Garbage collection is suspended for a while, and is afterwards as it was."""

from __future__ import annotations

import gc

import pytest

from convc.compiler.compile import compile_problem
from convc.compiler.options import ScheduleOptions
from convc.compiler.planner import columns
from convc.compiler.planner.columns import plan_problem
from convc.errors import InputError
from convc.ir.problem import ConvProblem
from convc.machine.launch import program_of
from convc.support import collecting
from convc.support.collecting import staying, uncollected

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


def test_what_stays_counts_as_old_until_a_caller_has_objects_frozen(enabled, monkeypatch):
    calls: list[str] = []
    counts = iter([0, 7])  # and nobody counts again: that takes long
    monkeypatch.setattr(collecting, "_frozen", [])
    monkeypatch.setattr(gc, "get_freeze_count", lambda: next(counts))
    monkeypatch.setattr(gc, "freeze", lambda: calls.append("freeze"))
    monkeypatch.setattr(gc, "unfreeze", lambda: calls.append("unfreeze"))
    for _ in range(4):
        with staying():
            assert not gc.isenabled()
        assert gc.isenabled() == enabled
    assert calls == ["freeze", "unfreeze"]  # what a caller froze stays frozen


def test_what_a_text_says_counts_as_old(monkeypatch):
    calls: list[str] = []
    monkeypatch.setattr(collecting, "_frozen", [])
    monkeypatch.setattr(gc, "get_freeze_count", lambda: 0)
    monkeypatch.setattr(gc, "freeze", lambda: calls.append("freeze"))
    monkeypatch.setattr(gc, "unfreeze", lambda: calls.append("unfreeze"))
    kernel = compile_problem(SMALL).artifact
    program_of(kernel.ptx, "read by nobody before.ptx", kernel.launch.entry)
    assert calls == ["freeze", "unfreeze"]
