"""The schedules of ``add_a_schedule.md``, as they stand there: listed, estimated, compiled and run."""

from __future__ import annotations

import dataclasses
import sys

import pytest
from pages import module_of
from support.oracles import oracles_agree
from support.schedules import only

from convc.compiler.compile import compile_problem
from convc.compiler.options import ScheduleOptions
from convc.compiler.planner.search import plan
from convc.compiler.schedules import all as listed
from convc.errors import PlanError
from convc.explain.schedules import choice_lines
from convc.host_layout.device_layout import device_layout
from convc.ir.problem import ConvProblem

PROBLEM = ConvProblem(
    name="same",
    batch=2,
    in_channels=64,
    out_channels=64,
    in_extent=(12, 14),
    kernel=(3, 3),
    pad_lo=(1, 1),
    pad_hi=(1, 1),
    bias=True,
)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The module of the page."""
    return module_of("add_a_schedule.md", tmp_path_factory.mktemp("page"))


@pytest.fixture(autouse=True)
def _registered(page, monkeypatch):
    """The list of schedules with the two of the page, in every module that has it."""
    shipped = listed.SCHEDULES
    for module in [module for name, module in sys.modules.items() if name.startswith("convc.")]:
        if getattr(module, "SCHEDULES", None) is shipped:
            monkeypatch.setattr(module, "SCHEDULES", (*shipped, page.HALF_AN_SM, page.UNMASKED))


def test_both_are_among_the_choices():
    assert listed.names()[-1] == "unmasked"
    assert listed.variants()[-1] == "pairs"


def test_both_are_in_the_table_of_estimates():
    lines = choice_lines(plan(device_layout(PROBLEM), options=ScheduleOptions()))
    for title in ("shift pairs", "unmasked"):
        assert len([line for line in lines if title in line and " tile, " in line]) == 1


def test_a_schedule_that_is_not_legal_says_why(page):
    masked = only(page.UNMASKED, border="mask")
    with pytest.raises(PlanError, match="lanes at the border are masked"):
        plan(device_layout(PROBLEM), options=masked)


@pytest.mark.parametrize("name", ["HALF_AN_SM", "UNMASKED"])
def test_three_oracles_agree(page, name, assembled):
    schedule = getattr(page, name)
    compiled = oracles_agree(PROBLEM, 5, assembled, options=only(schedule))
    assert compiled.plan.schedule == schedule.id


def test_what_the_page_says_of_them(page):
    wide = dataclasses.replace(PROBLEM, in_channels=256, out_channels=256)
    pairs = compile_problem(wide, options=only(page.HALF_AN_SM)).plan
    assert 2 * (pairs.storage.smem_bytes + page.SYSTEM_BYTES) <= 228 << 10
    assert any(rejection.rule == "two_ctas" for rejection in pairs.rejected)
    assert compile_problem(PROBLEM, options=only(page.UNMASKED)).plan.storage.masks == 0
