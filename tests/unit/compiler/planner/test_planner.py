"""Plans keep the limits of the hardware, say why not otherwise, and are plain data."""

from __future__ import annotations

import dataclasses
import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import some
from support.schedules import RELOAD_ONLY

from convc.compiler.options import ScheduleOptions
from convc.compiler.plan import constraints
from convc.compiler.plan.candidates import WIDTHS, tilings
from convc.compiler.plan.choice import SLACK, choose
from convc.compiler.plan.constraints import TiledProblem, check_problem, check_tiling
from convc.compiler.plan.issue_cycles import LOAD_STAGE_UNROLLED, MMA, MULTIPLY_STAGE
from convc.compiler.plan.records import Tiling, to_json
from convc.compiler.plan.storage import Storage
from convc.compiler.planner.search import plan
from convc.compiler.schedules.all import RELOAD
from convc.compiler.schedules.program import build
from convc.compiler.schedules.reload import Reload
from convc.compiler.tile.verify import contradictions
from convc.errors import PlanError
from convc.explain.estimate import estimate_lines
from convc.host_layout.device_layout import device_layout
from convc.ir.arch import SM_100A, Arch
from convc.ir.problem import ConvProblem


def problem(**changes) -> ConvProblem:
    base = {
        "in_channels": 64,
        "out_channels": 64,
        "in_extent": (14, 14),
        "kernel": (3, 3),
        "pad_lo": (1, 1),
        "pad_hi": (1, 1),
    }
    return ConvProblem(**{**base, **changes})


def storage_of(tiling: Tiling, arch: Arch) -> Storage:
    """The storage of a tiling with schedule reload, operands without scale factors."""
    return Reload(RELOAD).storage(device_layout(problem()), tiling, arch)


def form_of(device: ConvProblem):
    """A device form of the problem as it is, folded or not, to reach the rules behind the folding."""
    layout = device_layout(problem())
    return msgspec.structs.replace(layout, model=device, problem=device)


@st.composite
def problems(draw) -> ConvProblem:
    kernel = draw(st.tuples(st.integers(1, 7), st.integers(1, 7)))
    dilation = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    pads = st.tuples(st.integers(0, 4), st.integers(0, 4))
    span = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    return ConvProblem(
        batch=draw(st.integers(1, 5)),
        in_channels=draw(st.integers(1, 700)),
        out_channels=draw(st.integers(1, 700)),
        in_extent=tuple(draw(st.integers(s, s + 40)) for s in span),
        kernel=kernel,
        stride=draw(st.tuples(st.integers(1, 10), st.integers(1, 10))),
        dilation=dilation,
        pad_lo=draw(pads),
        pad_hi=draw(pads),
        operand=draw(st.sampled_from(["f16", "bf16", "tf32"])),
        out=draw(st.sampled_from(["f16", "bf16", "f32"])),
    )


@settings(max_examples=some(40))
@given(problems())
def test_every_problem_gets_a_plan_within_the_limits(conv):
    made = plan(device_layout(conv), options=RELOAD_ONLY)
    limits, device = SM_100A.limits, made.problem
    assert made.storage.smem_bytes <= limits.shared_bytes
    assert made.tiling.block_n <= made.storage.tmem_columns <= limits.tmem_columns
    assert made.storage.tmem_columns.bit_count() == 1
    assert made.tiling.block_n % limits.mma_n_step == 0
    assert made.launch.grid[0] * made.tiling.block_m >= device.gemm_m > (made.launch.grid[0] - 1) * made.tiling.block_m
    assert made.launch.grid[1] * made.tiling.block_n >= device.out_channels
    assert made.launch.grid[1] * made.tiling.block_n <= made.layout.bias.shape[0]
    assert made.pipeline.channels * made.pipeline.blocks >= made.layout.c_pitch
    assert made.tiling.b_stages <= made.pipeline.steps
    assert max(made.indexing.loads.b.box) <= limits.tma_box
    low, high = limits.im2col_corner
    assert all(low <= corner <= high for corner in made.indexing.loads.a.lower + made.indexing.loads.a.upper)
    assert contradictions(build(made)) == ()


@settings(max_examples=some(60))
@given(st.sampled_from([16, 48, 64, 224, 256]), st.sampled_from([32, 64, 128]), st.integers(1, 8))
def test_storage_never_overlaps(block_n, row_bytes, stages):
    storage = storage_of(Tiling(block_m=128, block_n=block_n, row_bytes=row_bytes, b_stages=stages), SM_100A)
    used: set[int] = set()
    pieces = [
        range(t.offset + i * t.stage_bytes, t.offset + i * t.stage_bytes + t.bytes)
        for t in storage.smem
        for i in range(stages)
    ]
    pieces += [range(ring.offset, ring.end) for ring in storage.rings]
    pieces.append(range(storage.slot_offset, storage.slot_offset + 4))
    for piece in pieces:
        assert used.isdisjoint(piece)
        used |= set(piece)
    assert max(used) < storage.smem_bytes
    assert all(t.offset % 1024 == 0 == t.stage_bytes % 1024 for t in storage.smem)
    assert all(ring.offset % 8 == 0 for ring in storage.rings)


@pytest.mark.parametrize(
    ("costs", "chosen"),
    [
        ([(100, 10, 90), (80, 50, 90), (200, 1, 90)], 1),  # the fastest
        ([(100, 10, 90), (96, 50, 90), (200, 1, 90)], 0),  # about as fast, and fewer bytes
        ([(100, 10, 90), (96, 50, 90), (100, 20, 120)], 0),  # more SMs than the fastest are worth nothing
        ([(100, 10, 90), (96, 50, 120), (97, 30, 120)], 2),  # fewer bytes, but other SMs would be idle
        ([(100, 10, 128), (96, 50, 132), (97, 30, 132)], 0),  # four more of 132 are no difference
        ([(100, 10, 90), (99, 10, 90)], 1),  # as many bytes: the faster
        ([(100, 10, 90), (100, 10, 90)], 0),  # no difference: the first
    ],
)
def test_the_choice_among_estimates(costs, chosen):
    base = plan(device_layout(problem()), options=RELOAD_ONLY).estimate
    names = ("cycles", "traffic_bytes", "busy_sms")
    estimates = [msgspec.structs.replace(base, **dict(zip(names, cost, strict=True))) for cost in costs]
    assert choose(estimates) == chosen


def test_alternatives_are_the_other_widths_best_first():
    made = plan(device_layout(problem(out_channels=512, in_extent=(56, 56), batch=8)), options=RELOAD_ONLY)
    widths = [other.tiling.block_n for other in made.alternatives]
    assert made.tiling.block_n not in widths
    assert len(set(widths)) == len(widths) > 1
    cycles = [other.cycles for other in made.alternatives]
    assert cycles == sorted(cycles)
    assert made.estimate.cycles <= SLACK * cycles[0]


def test_candidates_have_no_more_stages_than_steps_and_no_wider_tiles_than_channels():
    pointwise = device_layout(problem(kernel=(1, 1), in_channels=192, out_channels=40))
    assert {tiling.b_stages for each in tilings(pointwise, 128) for tiling in each.tilings} == {1, 2, 3}
    assert {each.first.block_n for each in tilings(pointwise, 128)} == {16, 32, 48}


def test_a_large_layer_takes_a_wide_tile_and_keeps_the_rejected_ones():
    made = plan(
        device_layout(problem(in_channels=512, out_channels=512, in_extent=(56, 56), batch=32)), options=RELOAD_ONLY
    )
    assert made.tiling.block_n == 256
    rules = {rejection.rule for rejection in made.rejected}
    assert rules == {"shared_memory"}
    reasons = [rejection.reason for rejection in made.rejected]
    eight_stages = 8 * (128 + 256) * 128 + 17 * 8 + 4
    assert f"needs {eight_stages} bytes of shared memory, a CTA has 232448" in reasons
    assert {each.first.block_n for each in tilings(made.layout, 128)} == set(WIDTHS)


def test_the_estimate_says_where_its_numbers_come_from():
    """128 x 128 tiles of 1024 rows: 8 x 1 CTAs, 9 steps of 4 MMAs of 64 cycles, 32 KiB a step.

    Nine steps are two more turns of four stages: latency, fill, MMAs, their latency, the next copy.
    """
    made = plan(
        device_layout(problem(out_channels=128, in_extent=(32, 32))), options=RELOAD_ONLY, block_n=128, stages=4
    )
    cost = made.estimate
    assert (cost.waves, made.launch.grid) == (1, (8, 1, 1))
    assert cost.mma_cycles == 36 * 64
    assert cost.fill_cycles == pytest.approx(9 * 32768 / 125.5)
    assert cost.traffic_bytes == 8 * 9 * 32768
    busy = max(9 * 256, 9 * MULTIPLY_STAGE + 36 * MMA) / 9
    assert cost.latency_cycles == pytest.approx(2 * (600 + 62 + 32768 / 125.5 + busy + 104 + 32 + LOAD_STAGE_UNROLLED))
    assert cost.bottleneck == "copy latency"
    assert cost.useful == 1.0
    text = " ".join(estimate_lines(made))
    assert "8 CTAs (8 x 1) on 148 SMs: 1 wave, the last one 5% full." in text
    assert "Tensor core: 36 MMAs of 128 x 128, 64 cycles each: 2304." in text
    assert "The mainloop is bound by copy latency" in text


def test_block_n_and_stages_can_be_fixed():
    made = plan(device_layout(problem()), options=RELOAD_ONLY, block_n=32, stages=3)
    assert (made.tiling.block_n, made.tiling.b_stages) == (32, 3)
    assert made.alternatives == ()


def test_a_plan_is_json():
    made = plan(device_layout(problem()), options=RELOAD_ONLY)
    data = json.loads(to_json(made))
    assert data["tiling"]["block_m"] == 128
    start = next(entry for entry in data["indexing"]["coordinates"] if entry["name"] == "start_n")
    assert (start["value"], start["text"]) == (0, "0")
    assert any(line.startswith("proved: ") for line in data["indexing"]["derivation"])


def test_short_rows_for_few_channels():
    rows = {
        channels: plan(device_layout(problem(in_channels=channels)), options=RELOAD_ONLY).tiling.row_bytes
        for channels in (3, 16, 17, 64, 65)
    }
    assert rows == {3: 32, 16: 32, 17: 64, 64: 128, 65: 128}


@pytest.mark.parametrize(
    ("schedule", "channels", "row_bytes", "atoms"),
    [("reload", 3, 32, 1), ("reload", 40, 128, 3), ("reload", 96, 128, 4), ("slide", 3, 64, 1), ("shift", 40, 128, 3)],
)
def test_nobody_multiplies_the_fill_behind_the_last_channel(schedule, channels, row_bytes, atoms):
    """40 channels of 2 bytes are 3 instructions of 32 bytes; with several blocks all are whole."""
    found = plan(device_layout(problem(in_channels=channels)), options=ScheduleOptions(schedule=schedule))
    assert (found.tiling.row_bytes, found.pipeline.atoms) == (row_bytes, atoms)


@pytest.mark.parametrize(
    ("changes", "rule", "message"),
    [
        (
            {"pad_lo": (1, 200)},
            "tensor_map_corners",
            "pad 200 on W: the lower corner -200 is outside -128..127, the limit of a 4-D im2col tensor map",
        ),
        (
            {"pad_hi": (200, 1)},
            "tensor_map_corners",
            "pad 200 and a filter of 3 pixels on H: the upper corner 198 is outside -128..127, "
            "the limit of a 4-D im2col tensor map",
        ),
        (
            {"dilation": (1, 150), "in_extent": (9, 400), "pad_hi": (1, 200)},
            "tensor_map_offsets",
            "a filter of 301 pixels (dilation included) on W: the offset 300 of its last tap is above 255, "
            "the limit of a 4-D im2col copy",
        ),
        ({"stride": (9, 1)}, "tensor_map_steps", "stride 9 on H is above 8, the largest step of a tensor map"),
    ],
)
def test_a_problem_beyond_the_limits_is_refused(changes, rule, message):
    layout = form_of(problem(**changes))
    assert [(r.rule, r.reason) for r in check_problem(layout, SM_100A)] == [(rule, message)]
    with pytest.raises(PlanError) as caught:
        plan(layout, options=RELOAD_ONLY)
    assert str(caught.value).startswith(f"error[C200]: no kernel can be planned: {message}")
    assert caught.value.exit_code == 2


def test_three_spatial_axes_are_refused():
    deep = ConvProblem(
        in_channels=8,
        out_channels=8,
        in_extent=(4, 4, 4),
        kernel=(1, 1, 1),
        stride=(1, 1, 1),
        dilation=(1, 1, 1),
        pad_lo=(0, 0, 0),
        pad_hi=(0, 0, 0),
    )
    with pytest.raises(PlanError, match="3 spatial axes; a kernel is planned for two, H and W"):
        plan(form_of(deep), options=RELOAD_ONLY)


def test_a_tensor_too_large_for_a_map_is_refused():
    layout = device_layout(problem())
    huge = msgspec.structs.replace(
        layout, activation=msgspec.structs.replace(layout.activation, shape=(2**33, 1, 1, 8))
    )
    assert "an extent of 8589934592; a tensor map takes up to 4294967296" in constraints.tensor_map_extents(
        huge, SM_100A
    )
    wide = msgspec.structs.replace(
        layout, activation=msgspec.structs.replace(layout.activation, shape=(2, 2**20, 2**19, 8))
    )
    assert "activation buffer has a stride of 8796093022208 bytes" in constraints.tensor_map_extents(wide, SM_100A)


@pytest.mark.parametrize(
    ("tiling", "rule", "reason"),
    [
        ({"block_n": 24}, "mma_shape", "24 columns: an MMA with 128 rows takes multiples of 16 up to 256"),
        ({"block_n": 272}, "mma_shape", "272 columns: an MMA with 128 rows takes multiples of 16 up to 256"),
        ({"block_n": 0}, "mma_shape", "0 columns: an MMA with 128 rows takes multiples of 16 up to 256"),
        ({"b_stages": 0}, "ring_stages", "0 stages: the operand tiles need at least one"),
        ({"row_bytes": 1024}, "tensor_map_box", "a box of 512 channels; a tensor map takes up to 256"),
        ({"b_stages": 15}, "shared_memory", "needs 368892 bytes of shared memory, a CTA has 232448"),
    ],
)
def test_an_illegal_tiling_is_rejected(tiling, rule, reason):
    made = Tiling(**{"block_m": 128, "block_n": 64, "row_bytes": 128, "b_stages": 2, **tiling})
    layout = device_layout(problem(out_channels=256))
    grid = (7, -(-256 // (made.block_n or 1)))
    rejection = check_tiling(
        TiledProblem(layout=layout, arch=SM_100A, tiling=made, need=storage_of(made, SM_100A).need, grid=grid)
    )
    assert rejection is not None
    assert rejection.rule == rule
    assert rejection.reason == reason
    assert rejection.tiling == made


def test_limits_that_no_tiling_of_today_reaches():
    """Tensor memory and the grid: reached by shrinking the target."""
    tiling = Tiling(block_m=128, block_n=64, row_bytes=128, b_stages=2)
    small = dataclasses.replace(SM_100A, limits=dataclasses.replace(SM_100A.limits, tmem_columns=32, grid_y=1))
    candidate = TiledProblem(
        layout=device_layout(problem(out_channels=256)),
        arch=small,
        tiling=tiling,
        need=storage_of(tiling, small).need,
        grid=(2, 4),
    )
    assert constraints.tensor_memory(candidate) == "needs 64 columns of tensor memory, a CTA has 32"
    assert constraints.grid(candidate) == "4 tiles along grid axis y, a launch takes up to 1"


def test_when_every_tiling_is_illegal_the_error_lists_them():
    with pytest.raises(PlanError) as caught:
        plan(device_layout(problem(out_channels=256)), options=RELOAD_ONLY, block_n=24)
    text = str(caught.value)
    assert "128x24 tile, 128-byte rows, 1 stages: 24 columns: an MMA with 128 rows takes" in text
    assert "(and 5 more)" in text
    assert "where: conv: 1x64x14x14 * 256x64x3x3" in text


@pytest.mark.parametrize(
    ("operand", "share", "speed"), [("f16", "6.2%", 53), ("tf32", "6.2%", 26), ("e4m3", "3.1%", 53)]
)
def test_a_depthwise_plan_says_what_is_left_of_the_tensor_core(operand, share, speed):
    """Full tiles: 16 or 8 groups a pack of one instruction's channels, 16 output channels at least.

    An MMA of 16 columns takes as long as one of 77: that is the tensor core's floor.
    """
    layout = device_layout(
        ConvProblem(
            in_channels=256, out_channels=256, groups=256, in_extent=(16, 16), kernel=(1, 1), operand=operand, out="f32"
        )
    )
    said = [line for line in estimate_lines(plan(layout, options=RELOAD_ONLY)) if "model's own" in line]
    assert said == [
        f"{share} are the model's own, as groups are packed: {speed} per cycle while the tensor core multiplies; "
        "the FMA units of an SM do 128 per cycle."
    ]
    assert not [
        line for line in estimate_lines(plan(device_layout(problem()), options=RELOAD_ONLY)) if "model's own" in line
    ]
