"""Gradients of weights that sum over pixels as they lie: exact, free of findings, and refused where they cannot be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.gradient_cases import UNEVEN

from convc import machine
from convc.compiler.compile import compile_problem
from convc.compiler.options import ScheduleOptions
from convc.compiler.planner.columns import plan_problem
from convc.errors import InputError, PlanError
from convc.explain.tiles import plan_tiles
from convc.explain.why import why_lines
from convc.host_layout.device_layout import device_layout, output_index
from convc.host_layout.repack import pack_activation, pack_bias, pack_filter, unpack_output
from convc.host_layout.summed import why_not_summed
from convc.ir import dtypes
from convc.ir.gradients import weight_gradient
from convc.ir.problem import ConvProblem
from convc.page.render import tile_parts
from convc.verification.reference import conv_sums

POINTWISE = ConvProblem(in_channels=136, out_channels=264, in_extent=(5, 3), kernel=(1, 1), operand="bf16", out="f32")

CASES = {
    "several filter columns": (UNEVEN, {}),
    "on Hopper": (UNEVEN, {"target": "sm_90a"}),
    "fewer pixels than a step": (POINTWISE, {}),
    "results from registers": (UNEVEN, {"target": "sm_90a", "store": "direct"}),
    "shared steps": (UNEVEN, {"split_k": "2"}),
    "shared blocks": (replace(UNEVEN, batch=4), {"split_k": "2", "target": "sm_90a"}),
    "persistent": (UNEVEN, {"persistent": "on"}),
    "a workspace": (replace(UNEVEN, batch=30, out_channels=64), {"split_k": "16"}),
}


@pytest.mark.parametrize("name", CASES)
def test_whole_numbers_are_exact(name):
    forward, chosen = CASES[name]
    gradient = weight_gradient(forward)
    made = compile_problem(gradient, options=ScheduleOptions(columns="summed", **chosen))
    rng = np.random.default_rng(0)
    x, dy = (rng.integers(-2, 3, shape).astype(np.float32) for shape in (gradient.x_shape, gradient.w_shape))
    layout = made.layout
    buffers = {
        "activation": pack_activation(layout, x),
        "filter": pack_filter(layout, dy),
        "bias": pack_bias(layout, None),
    }
    y = machine.run(made.artifact.ptx, made.artifact.launch, buffers).buffers["output"]
    out = layout.problem.out_dtype
    found = unpack_output(layout, y.view(out.storage).reshape(layout.output.shape))
    assert np.array_equal(dtypes.decode(out, found), conv_sums(gradient, x, dy))
    assert (
        dtypes.decode(out, y.view(out.storage).reshape(-1)[[output_index(layout, (3, 4, 0, 0))]]) == found[3, 4, 0, 0]
    )


def test_operands_stay_as_forward_kernels_have_them():
    layout = device_layout(weight_gradient(POINTWISE), "summed")
    forward = device_layout(POINTWISE)
    assert layout.activation == forward.activation
    assert layout.filter.shape == (15, 264)
    assert layout.output.shape == (1, 1, 192, 264)


REFUSED = {
    "tf32": ({"operand": "tf32", "out": "f32"}, "MN-major of f16 and bf16, these are tf32"),
    "e4m3": ({"operand": "e4m3"}, "MN-major of f16 and bf16, these are e4m3"),
    "groups": ({"groups": 2}, "its 2 groups share the channels of a row"),
    "three axes": (
        {"in_extent": (3, 9, 10), "kernel": (1, 3, 2)}
        | dict.fromkeys(("stride", "dilation", "pad_lo", "pad_hi", "output_padding"), ()),
        "it has 3 spatial axes",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_summed_is_transposed_and_says_why(name):
    changes, why = REFUSED[name]
    gradient = weight_gradient(replace(UNEVEN, **changes))
    with pytest.raises(PlanError, match=why):
        device_layout(gradient, "summed")
    made = compile_problem(gradient)
    assert not made.layout.summed
    assert why in next(why_lines(made.plan))


def test_lanes_have_weights_and_no_pixels():
    tiles = plan_tiles(plan_problem(weight_gradient(POINTWISE), options=ScheduleOptions(), refused={}))
    assert not tiles.pixels
    with pytest.raises(InputError, match="lanes of this layer are weights"):
        tiles.lanes(0)
    parts = tile_parts(tiles)  # of the page of a report
    assert parts["lanes"] == ""
    assert "pixels are summed" in parts["nests"]


def test_a_forward_convolution_sums_channels():
    assert why_not_summed(UNEVEN) == "it is no gradient of weights"
    with pytest.raises(PlanError, match="no gradient of weights"):
        compile_problem(UNEVEN, options=ScheduleOptions(columns="summed"))


def test_the_faster_way_is_taken():
    # Of 64 rows of a span 61 would be empty.
    few = replace(UNEVEN, batch=64, in_channels=3, in_extent=(32, 32), kernel=(7, 7), dilation=(1, 1))
    for forward, summed in ((UNEVEN, True), (few, False)):
        plan = plan_problem(weight_gradient(forward), options=ScheduleOptions(), refused={})
        assert plan.layout.summed == summed
        assert {each.columns for each in plan.columns} == {"off", "summed"}
