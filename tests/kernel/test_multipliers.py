"""A scale per channel in the epilogue of float sums: every schedule with every option that it goes with.

By default a part of the sets is drawn, which the name decides; `make slow` has all.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
from support.option_sets import OPTION_SETS
from support.oracles import oracles_agree
from support.schedules import RELOAD_ONLY

from convc.auditor.run import audit_kernel
from convc.build.writer import layer_of
from convc.compiler.compile import compile_problem
from convc.compiler.kernels import kernel_of
from convc.compiler.options import ScheduleOptions
from convc.errors import InputError, ProblemError
from convc.ir import dtypes
from convc.ir.findings import Verdict
from convc.ir.problem import ConvProblem
from convc.runtime.layer import input_buffers, run_layer
from convc.sanitizer.run import check_kernel
from convc.verification.bound import error_bound, expected_result
from convc.verification.compare import compare
from convc.verification.data import integer_data, multipliers, normal_data, residual_data

AGREED, CHECKED = 16, 24
"""One set of so many is compared by three oracles, or checked, by default."""

SETS = {
    name: dataclasses.replace(chosen, problem=dataclasses.replace(chosen.problem, multiplier=True))
    for name, chosen in OPTION_SETS.items()
    if chosen.problem.operand not in (*dtypes.SCALED_OPERANDS, *dtypes.INTEGER_OPERANDS)
    and not chosen.problem.late_filter  # a gradient has no multiplier
}
FORMS = {
    "split": {"operand": "bf16x3", "out": "f32", "in_channels": 24, "out_channels": 20, "bias": True},
    "depthwise": {"operand": "f16", "in_channels": 32, "out_channels": 32, "groups": 32},
    "groups": {"operand": "tf32", "out": "f32", "in_channels": 48, "out_channels": 24, "groups": 3, "bias": True},
    "transposed": {
        "in_channels": 24, "out_channels": 20, "groups": 2, "stride": (2, 2), "transposed": True, "bias": True,
    },
    "bytes": {"operand": "e4m3", "filter_operand": "e5m2", "out": "f16", "in_channels": 64, "out_channels": 40},
}  # fmt: skip


def of(**fields) -> ConvProblem:
    return ConvProblem(**({"in_extent": (9, 7), "kernel": (3, 3), "multiplier": True} | fields))


@pytest.mark.one_of(AGREED)
@pytest.mark.parametrize("name", SETS)
def test_three_oracles_agree(name: str, assembled: Callable):
    chosen = SETS[name]
    choice = {key: value for key in ("block_n", "stages") if (value := getattr(chosen, key)) is not None}
    made = oracles_agree(chosen.problem, 2, assembled, chosen.options, **choice)
    assert "one multiplier per channel" in made.artifact.ptx


@pytest.mark.one_of(CHECKED)
@pytest.mark.parametrize("name", SETS)
def test_the_checkers_find_nothing(name: str):
    chosen = SETS[name]
    made = kernel_of(
        compile_problem(chosen.problem, options=chosen.options, block_n=chosen.block_n, stages=chosen.stages)
    )
    x, w, b = integer_data(chosen.problem, 1)
    layer = layer_of(chosen.problem, made, w, b, multipliers(chosen.problem, 1))
    buffers = input_buffers(layer, x, residual_data(chosen.problem, 1, integer=True))
    found = check_kernel(layer.ptx, layer.launch, buffers)
    assert ([str(finding) for finding in found.findings], found.verdict) == ([], Verdict.clean)
    audited = audit_kernel(made.artifact.ptx, made.artifact.launch, name)
    assert ([str(finding) for finding in audited.findings], audited.unclear) == ([], ())


@pytest.mark.parametrize("name", FORMS)
def test_layouts_carry_the_multipliers_along(name: str, assembled: Callable):
    oracles_agree(of(**FORMS[name]), 3, assembled)


def test_one_rounding_more_is_inside_the_bound():
    """Scales of any size, zero among them, behind sums whose bound they scale."""
    problem = of(operand="f16", out="f32", in_channels=96, out_channels=24, bias=True)
    x, w, b = normal_data(problem, 4)
    scale = multipliers(problem, 4, integer=False) * np.exp2(np.arange(-60, 60, 5)).astype(np.float32)
    scale[3] = 0
    kernel = kernel_of(compile_problem(problem, options=RELOAD_ONLY))
    y = run_layer(layer_of(problem, kernel, w, b, scale), x).y
    expected, bound = expected_result(problem, x, w, b, scale), error_bound(problem, x, w, b, multiplier=scale)
    found = compare(y, expected, bound)
    assert found.ok, found
    assert (bound[:, 20] < 1e-3 * np.abs(expected[:, 20]).max()).all()
    swapped = expected_result(problem, x, w, b, np.roll(scale, 1))
    assert not compare(y, swapped, bound).ok


def test_infinities_take_the_sign_of_their_multiplier():
    """Groups that share a pack: the marks of what is not finite are not scaled, the sums are."""
    problem = of(operand="f16", out="f32", in_channels=8, out_channels=8, groups=8, bias=True)
    x, w, b = normal_data(problem, 5)
    x[0, 2, 4, 4], x[0, 5, 1, 1] = np.inf, np.nan
    w[2] = np.abs(w[2])
    scale = np.array([1, 2, -3, 4, 5, 6, 0, 1], np.float32)
    kernel = kernel_of(compile_problem(problem, options=RELOAD_ONLY))
    y = run_layer(layer_of(problem, kernel, w, b, scale), x).y
    expected = expected_result(problem, x, w, b, scale)
    assert np.isneginf(expected[0, 2]).any()
    assert compare(y, expected, error_bound(problem, x, w, b, multiplier=scale)).ok


def test_who_has_no_multipliers_says_so():
    problem = of(in_channels=8, out_channels=8)
    kernel = kernel_of(compile_problem(problem, options=RELOAD_ONLY))
    with pytest.raises(InputError, match="needs a multiplier per channel"):
        layer_of(problem, kernel, np.ones(problem.w_shape), None)
    for operand, out in (("s8", "s32"), ("mxfp8", "f32")):
        with pytest.raises(ProblemError, match=f"multiplier of {operand} must be False"):
            of(operand=operand, out=out, in_channels=32, out_channels=8)
    assert "scale per channel" in problem.describe()


@pytest.mark.parametrize("schedule", ["reload", "stationary"])
def test_the_step_that_scales_is_named_in_the_text(schedule):
    """Where lanes are pixels, and where they are channels."""
    problem = of(in_channels=16, out_channels=16)
    text = compile_problem(problem, options=ScheduleOptions(schedule=schedule)).artifact.ptx
    assert "//@ step=epilogue.scale role=epilogue one multiplier per channel" in text
