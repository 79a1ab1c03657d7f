"""Kernels that begin before the one in front of them has ended."""

from __future__ import annotations

import pytest
from support.witnesses import witnesses_agree
from test_verify_program import rewrite, without

from convc.compiler.compile import compile_problem
from convc.compiler.options import ScheduleOptions
from convc.compiler.tile.verify import contradictions
from convc.gpu.plan import plan_launch
from convc.ir.problem import ConvProblem

PROBLEM = ConvProblem(in_channels=16, out_channels=24, in_extent=(6, 9), kernel=(3, 3), pad_lo=(1, 1), pad_hi=(1, 1))
TOUCHES = ("cp.async.bulk.tensor", "ld.global", "st.global")


@pytest.mark.parametrize("target", ["sm_100a", "sm_90a"])
@pytest.mark.parametrize("dependent", [True, False])
def test_a_dependent_kernel_waits_before_it_touches_a_buffer(target, dependent, assembled):
    options = ScheduleOptions(target=target, dependent_launch=dependent)
    compiled = witnesses_agree(PROBLEM, 1, assembled, options)
    text = compiled.artifact.ptx
    assert plan_launch(compiled.artifact.launch, text).dependent == dependent
    places = 2 if target == "sm_100a" else 1  # the warp that loads does not wait for the others
    assert text.count("griddepcontrol") == 2 * dependent * places
    if dependent:
        wait = text.index("griddepcontrol.wait;")
        assert wait < text.index("griddepcontrol.launch_dependents;")
        assert text.rindex("griddepcontrol.wait;") < min(text.index(touch) for touch in TOUCHES if touch in text)


@pytest.mark.parametrize("role", ["start", "begin"])
@pytest.mark.parametrize(("step", "left"), [("await", "ReleaseGrid"), ("release", "AwaitGrid")])
def test_half_of_it_is_a_contradiction(step, left, role):
    options = ScheduleOptions(dependent_launch=True)
    program = compile_problem(PROBLEM, options=options).program
    assert contradictions(program) == ()
    found = ", ".join(("AwaitGrid", "ReleaseGrid")), left
    has = "; ".join(sorted(found))
    assert contradictions(rewrite(program, without(f"{role}.{step}"))) == (
        f"the set-up must wait for the kernel in front and then let the one behind begin, it has {has}",
    )
