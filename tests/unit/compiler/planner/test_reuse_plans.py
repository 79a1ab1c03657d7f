"""Plans that share activations keep the limits of the hardware, and say why not otherwise."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from support.examples import some
from support.schedules import only

from convc.compiler.options import ScheduleOptions
from convc.compiler.plan.issue_cycles import LINE_COPY
from convc.compiler.plan.records import Plan
from convc.compiler.plan.result_tile import LINES
from convc.compiler.plan.terms import epilogue_own_cycles
from convc.compiler.planner.search import plan
from convc.compiler.schedules.all import schedule_of, sharing
from convc.compiler.schedules.base import ROWS
from convc.compiler.schedules.program import build
from convc.compiler.tile.verify import contradictions
from convc.errors import InputError, PlanError
from convc.host_layout.device_layout import device_layout
from convc.ir.arch import SM_100A
from convc.ir.problem import ConvProblem


def problem(**changes) -> ConvProblem:
    base = {"in_channels": 64, "out_channels": 64, "in_extent": (14, 14), "kernel": (3, 3)}
    return ConvProblem(**{**base, "pad_lo": (1, 1), "pad_hi": (1, 1), **changes})


def made(conv: ConvProblem, schedule: str, shift: str = "auto", **options) -> Plan:
    return plan(device_layout(conv), options=ScheduleOptions(schedule=schedule, shift=shift, **options))


@st.composite
def problems(draw) -> ConvProblem:
    kernel = (draw(st.integers(1, 5)), draw(st.integers(1, 11)))
    dilation = (draw(st.integers(1, 3)), draw(st.integers(1, 4)))
    span = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    pads = st.tuples(*(st.integers(0, s) for s in span))
    return ConvProblem(
        batch=draw(st.integers(1, 40)),
        in_channels=draw(st.integers(1, 700)),
        out_channels=draw(st.integers(1, 700)),
        in_extent=(draw(st.integers(span[0], span[0] + 60)), draw(st.integers(span[1], span[1] + 300))),
        kernel=kernel,
        stride=draw(st.tuples(st.integers(1, 4), st.integers(1, 8))),
        dilation=dilation,
        pad_lo=draw(pads),
        pad_hi=draw(pads),
        operand=draw(st.sampled_from(["f16", "bf16", "tf32"])),
        out=draw(st.sampled_from(["f16", "bf16", "f32"])),
    )


@settings(max_examples=some(60))
@given(
    problems(), st.sampled_from(sharing()), st.sampled_from(["auto", "mask", "zero"]), st.sampled_from(["auto", *ROWS])
)
def test_a_plan_keeps_the_limits_or_says_why_there_is_none(conv, schedule, border, rows):
    try:
        found = plan(device_layout(conv), options=only(schedule, border, rows))
    except PlanError as error:
        refused = error
        found = None
    if found is None:
        assert "no kernel can be planned: " in str(refused)
        return
    storage, limits = found.storage, SM_100A.limits
    assert found.schedule == schedule.id
    assert storage.smem_bytes <= limits.shared_bytes
    assert storage.tmem[-1].end <= storage.tmem_columns <= limits.tmem_columns
    assert storage.tmem_columns.bit_count() == 1
    assert contradictions(build(found)) == ()
    assert found.indexing.loads.a.swizzle in ("64B", "128B")
    assert found.launch.tiles[1] * found.tiling.block_n >= conv.out_channels
    lanes = found.reuse.stream.streams * found.reuse.tiles * found.reuse.tile.outputs
    assert lanes >= conv.gemm_m
    assert 0 < found.estimate.useful <= 1


@pytest.mark.parametrize("batch", [1, 2, 3, 8])
@pytest.mark.parametrize(("extent", "tiles_at_1"), [((56, 56), 25), ((28, 28), 7), ((14, 14), 2), ((7, 7), 1)])
def test_merged_rows_waste_no_lane_at_stride_1_with_same_padding(batch, extent, tiles_at_1):
    found = made(problem(batch=batch, in_extent=extent), "slide", border="mask", rows="merged")
    tiles = -(-batch * extent[0] * extent[1] // 128)
    assert found.launch.grid[0] == tiles
    assert batch > 1 or tiles == tiles_at_1
    assert found.reuse.walk.waste == 0


@pytest.mark.parametrize("schedule", sharing(), ids=lambda schedule: schedule.id.title)
def test_a_plan_names_the_rules_it_rests_on(schedule):
    found = plan(device_layout(problem(pad_lo=(0, 1))), options=only(schedule))
    assert schedule_of(found.schedule) is schedule
    assert found.reuse.assumes == schedule.assumes


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"schedule": "reuse"}, "schedule must be one of auto, reload, slide, shift, stationary, got 'reuse'"),
        ({"schedule": "shift", "shift": "up"}, "shift must be one of auto, chain, ashift, windows, got 'up'"),
        ({"border": "none"}, "border must be one of auto, mask, zero, got 'none'"),
        ({"rows": "inner"}, "rows must be one of auto, outer, merged, got 'inner'"),
        ({"shift": "chain"}, "shift chain needs schedule shift, and schedule is auto: it is a variant of shift"),
        ({"schedule": "slide", "shift": "chain"}, "shift chain needs schedule shift, and schedule is slide"),
        (
            {"schedule": "reload", "border": "mask"},
            "border mask and schedule reload exclude each other: the option is about activations",
        ),
        ({"schedule": "reload", "rows": "outer"}, "rows outer and schedule reload exclude each other"),
    ],
)
def test_an_option_that_is_unknown_or_of_no_use_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        plan(device_layout(problem()), options=ScheduleOptions(**options))


@pytest.mark.parametrize(
    ("conv", "options", "reason"),
    [
        (problem(dilation=(1, 2)), {"schedule": "shift", "shift": "ashift"}, "2 lanes apart, and .ashift moves by one"),
        (
            problem(kernel=(1, 11), dilation=(1, 4), in_extent=(9, 60)), {"schedule": "shift", "shift": "chain"},
            "the last filter column is 40 lanes from the first of its buffer, at most 31",
        ),
        (
            problem(batch=2, stride=(3, 1)), {"schedule": "slide", "rows": "merged"},
            "stride 3 does not divide the 14 rows",
        ),
        (
            problem(batch=2, pad_lo=(3, 1)), {"schedule": "slide", "rows": "merged"},
            "an image has 16 output rows, but only 14 steps of 1 rows in its 14 rows",
        ),
        (
            problem(batch=2), {"schedule": "stationary", "rows": "merged"},
            "need whole rows masked, which no zero-column mask can say",
        ),
        (
            problem(in_extent=(4, 400)), {"schedule": "stationary", "border": "mask"},
            "rows of 1 columns of padding and 399 pixels; zero-column masks count to 256",
        ),
        (
            problem(stride=(1, 8), dilation=(1, 5), kernel=(1, 8), in_extent=(9, 90)), {"schedule": "slide"},
            "a buffer starts 35 pixels on, the copy takes offsets up to 31",
        ),
    ],
)  # fmt: skip
def test_the_condition_that_fails_is_named(conv, options, reason):
    with pytest.raises(PlanError, match=reason):
        plan(device_layout(conv), options=ScheduleOptions(**options))


def test_lines_that_find_their_own_pixel_are_priced():
    """A warp's rows are a box where lanes are pixels one behind the other, and eight copies of four rows elsewhere."""
    layer = ConvProblem(
        in_channels=64, out_channels=64, in_extent=(28, 28), kernel=(3, 3), pad_lo=(1, 1), pad_hi=(1, 1), bias=True
    )
    box, lines = (
        plan(device_layout(layer), options=ScheduleOptions(schedule="slide", rows=rows, border="mask"), block_n=64)
        for rows in ("merged", "outer")
    )
    assert box.storage.results is not None
    assert box.work.line_copies == 0
    assert lines.storage.results is not None, "auto takes them where they are faster than direct stores"
    assert lines.work.line_copies * LINES == lines.arch.limits.warp_rows
    alone = epilogue_own_cycles(lines.work, False, lines.arch.rates)
    boxed = epilogue_own_cycles(replace(lines.work, line_copies=0), False, lines.arch.rates)
    assert alone - boxed == pytest.approx(lines.work.slabs * lines.work.line_copies * LINE_COPY)
