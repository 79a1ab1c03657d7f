"""All algorithms with the numbers of a layer: each says whether it is taken; the nest of the kernel is what runs."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from convc.compiler.compile import compile_problem
from convc.compiler.index.conditions import conditions
from convc.compiler.options import ScheduleOptions
from convc.compiler.schedules.nesting import nest_of
from convc.explain.chain import chain_lines, kernel_loops, plan_stages
from convc.explain.tiles import kernel_nest
from convc.ir.epilogue import Relu
from convc.ir.problem import ConvProblem

PROBLEM = ConvProblem(
    batch=2, in_channels=64, out_channels=128, in_extent=(9, 9), kernel=(3, 3), pad_lo=(1, 1), pad_hi=(1, 1)
)
ALL = ["1: the definition", "2: reload", "3: slide", "3: stationary", "3.b: shift"]
KERNELS = {"reload": ALL[1], "slide": ALL[2], "stationary": ALL[3], "shift": ALL[4]}


def plan_of(problem=PROBLEM, **options):
    return compile_problem(problem, options=ScheduleOptions(**options)).plan


def titles(stages):
    return [stage.algorithm.title.removeprefix("Algorithm ") for stage in stages]


def said(stages, title):
    (found,) = (stage.said for stage in stages if stage.algorithm.title == f"Algorithm {title}")
    return found


@pytest.mark.parametrize("schedule", KERNELS)
def test_every_layer_has_all_algorithms_in_the_order_of_the_note(schedule):
    plan = plan_of(schedule=schedule)
    stages = plan_stages(plan)
    stream = ["2: reload, on a stream of output rows"] if schedule == "reload" else []
    assert titles(stages) == [*ALL[:2], *stream, *ALL[2:]]
    assert [stage.said.split(":")[0] for stage in stages].count("taken") == 1
    assert said(stages, KERNELS[schedule]).startswith("taken: the kernel is ")
    lines = list(chain_lines(stages))
    assert "Pei Luo" in lines[0]
    assert not any("BROKEN" in line for line in lines)
    start = lines.index(f"-- Algorithm {KERNELS[schedule]} --")
    kernel = lines[start : start + 12]
    assert any(line.startswith(f"for tile_m in 0..{plan.launch.tiles[0] - 1}:") for line in kernel)
    assert any(f"for r in 0..{plan.pipeline.taps[0] - 1}:" in line for line in kernel)


def test_the_others_say_what_they_would_take():
    plan = plan_of()
    stages = plan_stages(plan)
    taken = next(title for title in ALL if said(stages, title).startswith("taken: "))
    assert taken == KERNELS[plan.schedule.name]
    for title in ALL[1:]:
        if title != taken:
            assert re.search(r"not taken: .* would take about \d+ cycles \([+-]\d+%\)", said(stages, title)), title


def test_a_schedule_that_is_not_possible_says_why_with_numbers():
    problem = ConvProblem(in_channels=64, out_channels=64, in_extent=(4, 70), kernel=(1, 40))
    stages = plan_stages(plan_of(problem, schedule="auto", columns="off"))
    assert titles(stages)[-1] == "3.b: shift"
    assert re.search(r"not possible here: .*\d", said(stages, "3.b: shift"))


def test_what_breaks_a_condition_is_shown_with_the_numbers():
    """Rows of the filter that leave an image: pixels that are columns have no masks by rows."""
    problem = ConvProblem(
        batch=2, in_channels=64, out_channels=64, in_extent=(4, 5), kernel=(3, 3), pad_lo=(1, 1), pad_hi=(1, 1)
    )
    plan = plan_of(problem, schedule="slide", rows="merged", border="mask")
    instance = nest_of(plan).instance
    assert all(str(each).startswith("proved") for each in conditions(instance, plan.reuse.walk))
    assert said(plan_stages(plan), "3: stationary") == "not considered: another schedule was requested"


def test_the_kernel_comes_with_its_bias_and_epilogue():
    plan = plan_of(ConvProblem(in_channels=16, out_channels=20, in_extent=(8, 8), kernel=(3, 3), epilogue=(Relu(),)))
    (store,) = (line for line in kernel_nest(plan).lines() if " y[" in line)
    assert " + bias[" in store
    assert store.endswith("# then relu")
    assert kernel_loops(plan).text().bias == ""


def test_where_a_term_is_summed_is_told_apart_from_where_there_is_an_output():
    """72 channels in blocks of 64, 162 pixels in tiles of 128."""
    problem = replace(PROBLEM, in_channels=72, out_channels=130)
    nest = kernel_nest(plan_of(problem, schedule="reload", split_k="off", cta_group="1"))
    assert [guard.partition(" < ")[2] for guard in nest.guard] == ["162", "130"]
    assert nest.summed == ("block*64 + e < 72",)


def test_the_ways_to_cut_the_output_are_told_with_what_they_break():
    problem = ConvProblem(in_channels=64, out_channels=64, in_extent=(9, 9), kernel=(3, 3), stride=(2, 1), batch=2)
    plan = plan_of(problem, schedule="slide", rows="outer")
    (cuts,) = (stage.cuts for stage in plan_stages(plan) if stage.shares)
    assert [cut.split(":")[0] for cut in cuts] == [
        f"border {border}, rows {rows}" for border in ("mask", "zero") for rows in ("outer", "merged")
    ]
    assert re.fullmatch(r"border mask, rows outer: \d+ tiles, 9 lanes per row", cuts[0])
    assert re.search(r"rows merged: .*stride 2 .* 9 rows", cuts[1])
    assert said(plan_stages(plan), "3: slide").endswith("; 3 filter columns from 1 load, 9 lanes per row of 7 outputs")


def test_conditions_come_with_their_numbers():
    lines = list(chain_lines(plan_stages(plan_of(schedule="slide", rows="outer", border="mask"))))
    digits = 'theorem "the digits of t = T*n + q are n, q"'
    assert f"   met: period T >= Q [Q <= T: 9 <= 9, {digits}]" in lines
    assert any("disable-output-lane" in line for line in lines)
