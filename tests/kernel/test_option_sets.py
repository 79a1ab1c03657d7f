"""Every schedule with every option that it goes with: the auditor and the checkers have nothing to say.

By default a part of them is drawn, which the name of the set decides; `make slow` has all.
"""

from __future__ import annotations

import re
from functools import cache

import pytest
from msgspec import structs
from support.option_sets import OPTION_SETS

from convc.auditor.run import Audited, audit_kernel
from convc.build.folder import Layer
from convc.build.writer import layer_of
from convc.compiler.compile import Compiled, compile_problem
from convc.compiler.kernels import kernel_of
from convc.ir.findings import Verdict
from convc.runtime.layer import input_buffers
from convc.sanitizer.run import check_kernel
from convc.verification.data import integer_data, multipliers, residual_data

AUDITED, CHECKED = 8, 24
"""One set of so many is audited, or checked, by default."""


@cache
def compiled(name: str) -> Compiled:
    chosen = OPTION_SETS[name]
    return compile_problem(chosen.problem, options=chosen.options, block_n=chosen.block_n, stages=chosen.stages)


def audited(name: str) -> Audited:
    artifact = compiled(name).artifact
    return audit_kernel(artifact.ptx, artifact.launch, name)


def layer(name: str) -> tuple[Layer, dict]:
    """The kernel with data: small whole numbers."""
    problem = OPTION_SETS[name].problem
    x, w, b = integer_data(problem, 1)
    made = layer_of(problem, kernel_of(compiled(name)), w, b, multipliers(problem, 1))
    return made, input_buffers(made, x, residual_data(problem, 1, integer=True))


@pytest.mark.one_of(AUDITED)
@pytest.mark.parametrize("name", OPTION_SETS)
def test_the_audit_accuses_nobody_and_understands_all(name):
    found = audited(name)
    assert [str(finding) for finding in found.findings] == []
    assert found.unclear == ()


@pytest.mark.one_of(CHECKED)
@pytest.mark.parametrize("name", OPTION_SETS)
def test_the_checkers_find_nothing(name):
    made, buffers = layer(name)
    found = check_kernel(made.ptx, made.launch, buffers)
    assert [str(finding) for finding in found.findings] == []
    assert found.verdict is Verdict.clean


GRID = r"griddepcontrol\.wait;"
DEPENDENT = {
    "a constant that is none": (
        r"ld\.global\.v4\.b32 \{%res", "ld.global.nc.v4.b32 {%res", "read-only-load", "dependent-constant"
    ),
    "the next kernel begins too early": (
        rf"(//@ step=begin\.await .*\n\s*\{{\s*){GRID}", r"\1griddepcontrol.wait; griddepcontrol.launch_dependents;",
        "dependent-launch", "launch-before-allocation",
    ),
    "the preceding kernel is not waited for": (
        rf"(//@ step=begin\.await .*\n\s*\{{\s*){GRID}", r"\1", "dependent-copy", "dependent-access"
    ),
    "activations are copied ahead of the wait": (
        rf"(?s)(//@ step=begin\.await .*?){GRID}(.*?)(//@ step=load\.b )", r"\1\2griddepcontrol.wait;\n\3",
        "dependent-copy", "dependent-access",
    ),
}  # fmt: skip
"""Mistakes of a kernel that overlaps others: pattern, what takes its place, the rules of audit and of check."""


def test_a_wait_behind_the_filters_alone_is_as_good():
    """Weights are not among what the preceding kernel may use, so they may be copied while it runs."""
    made, buffers = layer("reload dependent")
    whole = re.search(r"//@ step=load\.a .*?(?=//@ step=load\.b )", made.ptx, re.DOTALL)
    assert whole
    text = made.ptx.replace(whole[0], "")
    text, count = re.subn(rf"(//@ step=begin\.await .*\n\s*\{{\s*){GRID}", r"\1", text)
    assert count == 1
    text, count = re.subn(r"(?=//@ step=load\.next )", lambda _: f"griddepcontrol.wait;\n{whole[0]}", text)
    assert count == 1
    assert audit_kernel(text, made.launch).findings == ()
    assert check_kernel(text, made.launch, buffers).findings == ()


@pytest.mark.parametrize("name", DEPENDENT)
def test_a_mistake_about_other_kernels_is_found_by_both(name):
    pattern, wrong, audit_rule, check_rule = DEPENDENT[name]
    made, buffers = layer("reload dependent")
    text, count = re.subn(pattern, wrong, made.ptx)
    assert count
    assert audit_rule in {finding.rule for finding in audit_kernel(text, made.launch).findings}
    assert check_rule in {finding.rule for finding in check_kernel(text, made.launch, buffers).findings}


def test_too_many_ctas_for_their_columns_are_found_by_both():
    made, buffers = layer("reload multicast 2x1")
    (used,) = re.findall(r"//   (\d+): address of the tensor memory", made.ptx)
    launch = structs.replace(made.launch, shared_bytes=int(used) + 4)
    assert {finding.rule for finding in audit_kernel(made.ptx, launch).findings} == {"residency"}
    assert "tensor-memory-residency" in {finding.rule for finding in check_kernel(made.ptx, launch, buffers).findings}


def test_every_choice_is_in_some_set():
    """Each value of an option that there is, but for those that leave it to the planner, or to no tuning record."""
    from convc.api.choices import schedule_choices

    used = {(name, str(getattr(each.options, name))) for each in OPTION_SETS.values() for name in schedule_choices()}
    missing = [
        (name, value)
        for name, values in schedule_choices().items()
        if name != "tuned"
        for value in values
        if value not in ("auto", "estimate") and (name, str(value)) not in used
    ]
    assert missing == []
    assert len(OPTION_SETS) >= 61
