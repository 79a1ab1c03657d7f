"""Block-scaled kernels under both ways of adding and all completion policies, and in forms that random ones lack."""

from __future__ import annotations

import numpy as np
import pytest
from support.oracles import oracles_agree
from support.schedules import RELOAD_ONLY

from convc.build.writer import layer_of
from convc.compiler.compile import compile_problem
from convc.compiler.kernels import kernel_of
from convc.ir import dtypes
from convc.ir.epilogue import AddResidual, Relu
from convc.ir.findings import Verdict
from convc.ir.problem import ConvProblem
from convc.machine import RunOptions, Switches
from convc.runtime.layer import input_buffers, run_layer
from convc.sanitizer.run import check_kernel
from convc.verification.bound import error_bound, expected_result
from convc.verification.compare import compare
from convc.verification.data import integer_data, normal_data

FORMS = {
    "one channel": {"in_channels": 1, "out_channels": 20, "in_extent": (9, 9), "kernel": (3, 3)},
    "a block and one": {"in_channels": 33, "out_channels": 272, "in_extent": (5, 5), "kernel": (1, 1), "bias": True},
    "depthwise": {
        "in_channels": 8, "out_channels": 16, "groups": 8, "in_extent": (6, 6), "kernel": (3, 3), "pad_lo": (1, 1),
    },
    "wide groups": {"in_channels": 640, "out_channels": 64, "groups": 2, "in_extent": (4, 4), "kernel": (2, 1)},
    "a row": {"in_channels": 70, "out_channels": 12, "in_extent": (50,), "kernel": (3,)},
    "a volume": {"in_channels": 20, "out_channels": 12, "in_extent": (4, 5, 4), "kernel": (3, 2, 2), "bias": True},
    "transposed, phases": {
        "in_channels": 40, "out_channels": 24, "in_extent": (5, 4), "kernel": (4, 4), "stride": (2, 2),
        "transposed": True,
    },
    "transposed, groups": {
        "in_channels": 80, "out_channels": 24, "in_extent": (5, 4), "kernel": (3, 2), "groups": 4, "transposed": True,
    },
    "a folded axis": {
        "in_channels": 20, "out_channels": 300, "in_extent": (20, 31), "kernel": (1, 2), "stride": (10, 9),
    },
    "an epilogue": {
        "in_channels": 96, "out_channels": 80, "in_extent": (9, 9), "kernel": (1, 1), "bias": True,
        "epilogue": (AddResidual(), Relu()),
    },
}  # fmt: skip


@pytest.mark.one_of(3)
@pytest.mark.parametrize("operand", dtypes.SCALED_OPERANDS)
@pytest.mark.parametrize("name", FORMS)
def test_three_oracles_agree(operand, name, assembled):
    oracles_agree(ConvProblem(operand=operand, out="f32", **FORMS[name]), 1, assembled)


@pytest.mark.parametrize("operand", dtypes.SCALED_OPERANDS)
def test_one_truncated_sum_an_instruction_gives_the_same_where_sums_are_exact(operand):
    """And stays within the bound where they are not: elements of 8 bits make sums whose last bits are lost."""
    problem = ConvProblem(
        operand=operand, out="f32", in_channels=300, out_channels=24, in_extent=(9, 9), kernel=(3, 3), bias=True
    )
    compiled = compile_problem(problem, options=RELOAD_ONLY)
    exact = RunOptions(switches=Switches(numerics="exact"))
    x, w, b = integer_data(problem, 3)
    layer = layer_of(problem, kernel_of(compiled), w, b)
    assert np.array_equal(run_layer(layer, x, exact).y, run_layer(layer, x).y)
    x, w, b = normal_data(problem, 3)
    layer = layer_of(problem, kernel_of(compiled), w, b)
    plain, cut = run_layer(layer, x).y, run_layer(layer, x, exact).y
    assert operand != "mxfp8" or not np.array_equal(plain, cut)
    for y in (plain, cut):
        assert compare(y, expected_result(problem, x, w, b), error_bound(problem, x, w, b)).ok


@pytest.mark.parametrize("operand", dtypes.SCALED_OPERANDS)
def test_small_and_large_numbers_stay_inside_the_bound(operand):
    """Blocks of many sizes, subnormal elements and factors among them."""
    problem = ConvProblem(
        operand=operand, out="f32", in_channels=96, out_channels=16, in_extent=(9, 9), kernel=(2, 2), bias=True
    )
    rng = np.random.default_rng(4)
    x, w, b = normal_data(problem, 4)
    for array in (x, w):
        array *= np.exp2(rng.integers(-12, 13, array.shape)).astype(np.float32)
    expected, bound = expected_result(problem, x, w, b), error_bound(problem, x, w, b)
    layer = layer_of(problem, kernel_of(compile_problem(problem, options=RELOAD_ONLY)), w, b)
    for numerics in ("float32", "exact"):
        compared = compare(run_layer(layer, x, RunOptions(switches=Switches(numerics=numerics))).y, expected, bound)
        assert compared.ok
        assert compared.worst_ratio < 1


@pytest.mark.parametrize("operand", dtypes.SCALED_OPERANDS)
def test_nothing_is_found_in_the_kernels(operand):
    problem = ConvProblem(operand=operand, out="f16", in_channels=700, out_channels=40, in_extent=(9, 9), kernel=(1, 3))
    x, w, b = integer_data(problem, 5)
    layer = layer_of(problem, kernel_of(compile_problem(problem, options=RELOAD_ONLY, stages=3)), w, b)
    checked = check_kernel(layer.ptx, layer.launch, input_buffers(layer, x))
    assert checked.verdict is Verdict.clean, checked.findings


def test_a_number_that_is_none_spreads_to_the_results_of_its_block():
    problem = ConvProblem(operand="nvfp4", out="f32", in_channels=48, out_channels=8, in_extent=(4, 4), kernel=(1, 1))
    x, w, b = integer_data(problem, 6)
    x[0, 20, 1, 2] = np.nan
    y = run_layer(layer_of(problem, kernel_of(compile_problem(problem, options=RELOAD_ONLY)), w, b), x).y
    assert np.isnan(y[0, :, 1, 2]).all()
    assert np.count_nonzero(np.isnan(y)) == 8


def test_pixels_that_no_output_reads_have_a_part_in_the_scale_of_the_tensor():
    """A transposed convolution crops its input where pads cover it; the scale of the sums is that of all pixels."""
    problem = ConvProblem(
        operand="nvfp4", out="f32", in_channels=32, out_channels=8, in_extent=(5, 6), kernel=(1, 3), pad_lo=(2, 0),
        pad_hi=(2, 0), transposed=True,
    )  # fmt: skip
    x, w, b = normal_data(problem, 7)
    x[0, 3, 0, 1] = 4 * np.abs(x).max()
    expected, bound = expected_result(problem, x, w, b), error_bound(problem, x, w, b)
    layer = layer_of(problem, kernel_of(compile_problem(problem, options=RELOAD_ONLY)), w, b)
    assert layer.layout.ordinary.in_extent == (1, 6)
    assert compare(run_layer(layer, x).y, expected, bound).ok
