"""Copies with cache policies: each is made before it is named."""

from __future__ import annotations

from test_verify_program import rewrite, without

from convc.compiler.compile import compile_problem
from convc.compiler.options import ScheduleOptions
from convc.compiler.tile.show import show
from convc.compiler.tile.verify import contradictions
from convc.ir.problem import ConvProblem

PROBLEM = ConvProblem(in_channels=16, out_channels=24, in_extent=(6, 9), kernel=(1, 1))


def test_a_policy_that_nobody_makes_is_a_contradiction():
    options = ScheduleOptions(schedule="reload", cache_hints="on")
    program = compile_problem(PROBLEM, options=options, block_n=32).program
    assert contradictions(program) == ()
    assert contradictions(rewrite(program, without("load.evict_first"))) == tuple(
        f"load.{tile} reads evict_first, which nothing sets before" for tile in "ab"
    )
    assert "evict_first = policy evict_first of L2" in show(program)
    assert "counted on full, evict_first" in show(program)
