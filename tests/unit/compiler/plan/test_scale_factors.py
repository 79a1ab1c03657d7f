"""Where scale factors lie and how they travel: plans, buffers, and what is refused."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from support.schedules import RELOAD_ONLY

from convc.compiler.compile import compile_problem
from convc.compiler.index.maps import Counterexample, Proof
from convc.compiler.options import ScheduleOptions
from convc.compiler.plan.requests import row_cycles
from convc.compiler.plan.scale_factors import columns_of, factor_coordinates, prove_factors
from convc.compiler.planner.search import plan
from convc.errors import LimitError, PlanError
from convc.explain.estimate import estimate_lines
from convc.host_layout.block_scaled import FORMATS, dequantise, quantise
from convc.host_layout.device_layout import device_layout, has_tensor_scale
from convc.host_layout.repack import (
    pack_activation,
    pack_filter,
    pack_weights,
    scaled_bias,
)
from convc.ir import dtypes
from convc.ir.problem import ConvProblem
from convc.report.layout_notes import layout_notes
from convc.support import memory as limits

NAMES = dtypes.SCALED_OPERANDS


def problem(operand: str, **fields) -> ConvProblem:
    fields = {"in_channels": 200, "out_channels": 40, "in_extent": (6, 7), "kernel": (3, 2)} | fields
    return ConvProblem(operand=operand, out="f32", **fields)


@pytest.mark.parametrize("operand", NAMES)
@pytest.mark.parametrize("fields", [{}, {"in_channels": 3}, {"in_channels": 2400}, {"groups": 2, "in_channels": 1280}])
def test_every_step_finds_its_factors(operand, fields):
    decided = plan(device_layout(problem(operand, **fields)), options=RELOAD_ONLY)
    factors = decided.indexing.coordinates.factors
    outcome = prove_factors(factors, decided.layout.blocks, decided.layout, decided.tiling, decided.pipeline)
    assert isinstance(outcome, Proof)
    assert any("factors of a step" in line for line in decided.indexing.derivation)


def test_a_wrong_place_is_refuted():
    decided = plan(device_layout(problem("mxfp8", in_channels=2400)), options=RELOAD_ONLY)
    wrong = msgspec.structs.replace(decided.pipeline, channels=decided.pipeline.channels + 32)
    blocks = decided.layout.blocks
    factors = factor_coordinates(blocks, decided.layout, decided.tiling, wrong)
    outcome = prove_factors(factors, blocks, decided.layout, decided.tiling, wrong)
    assert isinstance(outcome, Counterexample)
    assert outcome.point == (("group", 0), ("block", 1))
    assert outcome.value == "factor_a = 0, byte 4"


@pytest.mark.parametrize("operand", NAMES)
@pytest.mark.parametrize("groups", [1, 2])
def test_buffers_hold_elements_and_behind_them_factors(operand, groups):
    """What lies in a pixel and in a tap, taken apart again, is the quantised tensor."""
    asked = problem(operand, in_channels=64 * groups, groups=groups, out_channels=128 * groups)
    layout, blocks = device_layout(asked), FORMATS[operand]
    rng = np.random.default_rng(2)
    x, w = rng.standard_normal(asked.x_shape), rng.standard_normal(asked.w_shape)
    pixels, taps = pack_activation(layout, x), pack_filter(layout, w)
    assert pixels.dtype == taps.dtype == np.uint8
    assert layout.activation.shape[-1] == layout.pixel_pitch + groups * layout.factor_pitch
    wanted = quantise(blocks, x, groups)
    codes = pixels[..., : layout.pixel_pitch]
    if blocks.packed == 2:
        codes = np.stack((codes & 15, codes >> 4), axis=-1).reshape(*codes.shape[:-1], -1)
    assert np.array_equal(np.moveaxis(codes, -1, 1), wanted.elements)
    count = 64 // blocks.block
    factors = pixels[..., layout.pixel_pitch :].reshape(*pixels.shape[:-1], groups, -1)
    assert np.array_equal(np.moveaxis(factors[..., :count].reshape(*pixels.shape[:-1], -1), -1, 1), wanted.factors)
    assert not factors[..., count:].any()
    assert taps.shape[-1] == layout.c_pitch + layout.factor_pitch


@pytest.mark.parametrize("operand", NAMES)
def test_schedules_that_mask_or_move_lanes_are_refused(operand):
    for schedule in ("slide", "shift", "stationary"):
        with pytest.raises(PlanError, match=f"{operand} has scale factors, and an MMA with them can neither leave out"):
            compile_problem(problem(operand), options=ScheduleOptions(schedule=schedule))
    chosen = compile_problem(problem(operand), options=ScheduleOptions()).plan
    assert chosen.schedule.name == "reload"
    assert [bool(choice.reason) for choice in chosen.choices] == [False, *[True] * (len(chosen.choices) - 1)]


def test_the_scales_of_tensors_are_multipliers_behind_the_bias():
    asked = problem("nvfp4", bias=True)
    layout = device_layout(asked)
    x, w, bias = np.full(asked.x_shape, 6.0), np.full(asked.w_shape, 1.5), np.ones(40)
    assert has_tensor_scale(layout)
    _, packed = pack_weights(layout, w, bias)
    assert packed.shape == (2, 256)
    assert set(packed[1, :40]) == {2.0**-10}  # 1.5 / 6 / 448 is between 2^-11 and 2^-10
    assert set(scaled_bias(layout, packed, x)[1, :40]) == {2.0**-10 * 2.0**-8}
    assert set(packed[1, :40]) == {2.0**-10}, "the layer's own bias is not changed"
    assert not has_tensor_scale(device_layout(problem("mxfp4")))
    restored = dequantise(FORMATS["nvfp4"], quantise(FORMATS["nvfp4"], x), 200)
    assert np.array_equal(restored, x)


@pytest.mark.parametrize(("rows", "columns"), [(16, 4), (128, 4), (144, 8), (256, 8)])
def test_a_word_of_factors_starts_at_a_multiple_of_four_columns(rows, columns):
    assert columns_of(rows) == columns
    assert columns >= -(-rows // 32)


@pytest.mark.parametrize("operand", NAMES)
def test_short_rows_of_factors_cost_time(operand):
    decided = plan(device_layout(problem(operand)), options=RELOAD_ONLY)
    work = decided.work
    assert work.factor_bytes == decided.pipeline.steps * 16 * (128 + -(-decided.tiling.block_n // 32) * 32)
    rows = [decided.pipeline.steps * count for count in (128, decided.tiling.block_n)]
    cycles = row_cycles(decided.layout, decided.tiling.row_bytes, decided.arch.rates)  # factors lie behind each pixel
    elements = float(np.dot(rows, cycles))
    assert decided.estimate.fill_cycles == pytest.approx(elements + work.factor_bytes / 16)
    assert any(f"{work.factor_bytes} bytes of scale factors" in line for line in estimate_lines(decided))


def test_memory_is_asked_for_before_numbers_are_quantised(monkeypatch):
    asked = problem("mxfp4")
    layout = device_layout(asked)
    monkeypatch.setattr(limits, "available_memory", lambda: 50_000)
    with pytest.raises(LimitError, match="quantising x"):
        pack_activation(layout, np.zeros(asked.x_shape))


def test_the_note_compares_with_the_models_float32():
    layout = device_layout(problem("mxfp4", in_channels=64, in_extent=(8, 8)))
    assert any("16 KiB become 3 KiB" in note for note in layout_notes(layout))
