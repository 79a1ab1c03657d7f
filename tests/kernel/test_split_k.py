"""CTAs of a cluster that share the K loop of a tile (``--split-k``): right, or refused."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel.test_random_problems import problems
from support.examples import PARTS
from support.oracles import oracles_agree

from convc import machine
from convc.build.writer import layer_of
from convc.compiler.compile import compile_problem
from convc.compiler.kernels import kernel_of
from convc.compiler.options import ScheduleOptions
from convc.compiler.planner.search import plan
from convc.errors import InputError, MachineFault, PlanError
from convc.host_layout.device_layout import device_layout
from convc.ir.epilogue import AddResidual, Relu
from convc.ir.findings import Verdict
from convc.ir.problem import ConvProblem
from convc.machine import RunOptions
from convc.runtime.layer import input_buffers, run_layer
from convc.sanitizer.run import check_kernel

SMALL = ConvProblem(
    batch=3, in_channels=64, out_channels=96, in_extent=(12, 12), kernel=(3, 3), pad_lo=(1, 1), pad_hi=(1, 1)
)
DEEP = dataclasses.replace(SMALL, batch=1, in_channels=256, in_extent=(7, 7))


SHIFTS = ("chain", "ashift", "windows")


def sharing(parts: int, schedule: str = "reload", **more: str) -> ScheduleOptions:
    """Options for a kernel whose tiles are shared by so many CTAs."""
    return ScheduleOptions(schedule=schedule, split_k=str(parts), **more)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("operand", ["f16", "s8", "tf32"])
def test_oracles_agree(operand, part, assembled):
    drawn = (
        problems(operand),
        st.integers(0, 2**32 - 1),
        st.sampled_from([2, 4, 8]),
        st.sampled_from(["reload", "slide", "shift"]),
        st.sampled_from(["zero", "mask"]),
    )

    @settings(max_examples=24 // part, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(*drawn)
    def check(problem, seed, parts, schedule, border):
        more = {} if schedule == "reload" else {"border": border}
        try:
            oracles_agree(problem, seed, assembled, sharing(parts, schedule, **more))
        except PlanError:
            return  # too few steps or columns for so many CTAs, or the schedule cannot be

    check()


def test_whole_numbers_are_added_in_32_bits(assembled):
    """The drawn problems of whole numbers are mostly too small to be shared."""
    whole = dataclasses.replace(SMALL, batch=1, out_channels=24, operand="s8", out="s32")
    oracles_agree(whole, 3, assembled, sharing(2))


@pytest.mark.one_of(2)
@pytest.mark.parametrize("rows", ["merged", "outer"])
@pytest.mark.parametrize("forms", [{"schedule": "slide"}, *({"schedule": "shift", "shift": each} for each in SHIFTS)])
def test_masked_lanes_of_a_part(forms, rows, assembled):
    """A part begins with any filter row, which may mask lanes that no other step of it writes first."""
    options = ScheduleOptions(split_k="2", border="mask", rows=rows, **forms)
    made = oracles_agree(dataclasses.replace(SMALL, in_channels=24), 6, assembled, options, block_n=32)
    assert made.plan.storage.masks == (6 if rows == "merged" else 3)
    assert made.plan.reuse.clear == (rows == "merged" or forms["schedule"] == "shift")


@pytest.mark.parametrize("schedule", ["reload", "slide"])
@pytest.mark.parametrize("parts", [2, 4, 8])
def test_every_number_of_parts(parts, schedule, assembled):
    """Nine steps do not divide by the parts, or three; every lane of the last tile is a pixel of no image."""
    problem = dataclasses.replace(SMALL, epilogue=(AddResidual(), Relu()))
    if schedule == "slide" and parts > 3:
        problem = DEEP  # three filter rows are too few; here every CTA has some channel blocks of each
    if schedule == "slide" and parts == 8:
        problem = dataclasses.replace(DEEP, in_channels=512)
    compiled = oracles_agree(problem, parts, assembled, sharing(parts, schedule), block_n=64)
    assert compiled.plan.launch.cluster == (1, 1, parts)
    assert compiled.artifact.launch.grid[2] == parts


@pytest.mark.parametrize(("schedule", "parts", "block_n"), [("reload", 2, 48), ("reload", 8, 64), ("slide", 2, 64)])
def test_accumulators_in_registers(schedule, parts, block_n, assembled):
    """Of one warpgroup and of two; nine steps do not divide by the parts."""
    problem = dataclasses.replace(SMALL, epilogue=(AddResidual(), Relu()))
    options = sharing(parts, schedule, target="sm_90a")
    compiled = oracles_agree(problem, parts, assembled, options, block_n=block_n)
    assert compiled.plan.launch.cluster == (1, 1, parts)


@pytest.mark.parametrize(("parts", "block_n", "target"), [(16, 64, "sm_100a"), (24, 128, "sm_90a")])
def test_clusters_that_share_a_tile(parts, block_n, target, assembled):
    """24 CTAs of 16 columns each add them in two goes; lanes of the last tile are pixels of no image."""
    problem = dataclasses.replace(DEEP, in_channels=64 * (1 + parts // 8), epilogue=(AddResidual(), Relu()))
    compiled = oracles_agree(problem, parts, assembled, sharing(parts, target=target), block_n=block_n)
    assert (compiled.plan.launch.cluster, compiled.plan.launch.clusters) == ((1, 1, 8), parts // 8)


def test_counters_are_0_again_behind_a_launch():
    """The next launch begins with what this one has left."""
    compiled = compile_problem(DEEP, options=sharing(16), block_n=64)
    x, w = np.ones(DEEP.x_shape, np.float16), np.ones(DEEP.w_shape, np.float16)
    layer = layer_of(DEEP, kernel_of(compiled), w, None)
    left = machine.run(layer.ptx, layer.launch, input_buffers(layer, x), file="", options=RunOptions()).buffers
    assert left["counters"].size == 2 * 8 * 4
    assert not left["counters"].any()
    clusters = left["workspace"].reshape(2, -1)
    assert np.isfinite(clusters).all()


def test_whole_numbers_of_clusters(assembled):
    whole = dataclasses.replace(DEEP, in_channels=512, out_channels=64, operand="s8", out="s32")
    assert oracles_agree(whole, 3, assembled, sharing(16)).artifact.launch.buffers["workspace"].dtype == "s32"


def test_groups(assembled):
    grouped = dataclasses.replace(SMALL, in_channels=128, out_channels=128, groups=2)
    assert oracles_agree(grouped, 3, assembled, sharing(2)).plan.launch.parts == 2


BARRIER = re.compile(r"barrier\.cluster\.\w+[^;]*;")
ADDS = re.compile(r"mapa\.shared::cluster\.u32 %peer, %at, (\d);")


def test_parts_are_added_in_the_order_of_their_numbers():
    """Of 2^24, 1, -2^24 and 0 the second is lost at once, and would not be if any two others came first."""
    problem = ConvProblem(in_channels=256, out_channels=32, in_extent=(8, 16), kernel=(1, 1), out="f32")
    compiled = compile_problem(problem, options=sharing(4), block_n=32)
    parts = ((4096, 4096), (1, 1), (4096, -4096), (0, 0))
    x = np.zeros((1, 256, 8, 16), np.float16)
    w = np.zeros((32, 256, 1, 1), np.float16)
    for block, (pixel, weight) in enumerate(parts):
        x[:, 64 * block] = pixel
        w[:, 64 * block] = weight
    layer = layer_of(problem, kernel_of(compiled), w, None)
    assert not run_layer(layer, x).y.any()
    text = compiled.artifact.ptx
    swapped = ADDS.sub(lambda add: add[0].replace(f"{add[1]};", f"{'0213'[int(add[1])]};"), text)
    changed = dataclasses.replace(layer, ptx=swapped)
    assert (run_layer(changed, x).y == 1).all()


def test_clusters_are_added_in_the_order_of_their_numbers():
    """As above: the sums of three clusters are 2^24, 1 and -2^24."""
    problem = ConvProblem(in_channels=24 * 64, out_channels=64, in_extent=(8, 16), kernel=(1, 1), out="f32")
    compiled = compile_problem(problem, options=sharing(24), block_n=64)
    x = np.zeros((1, 24 * 64, 8, 16), np.float16)
    w = np.zeros((64, 24 * 64, 1, 1), np.float16)
    for block, (pixel, weight) in {0: (4096, 4096), 8: (1, 1), 16: (4096, -4096)}.items():
        x[:, 64 * block] = pixel
        w[:, 64 * block] = weight
    layer = layer_of(problem, kernel_of(compiled), w, None)
    assert not run_layer(layer, x).y.any()
    added = re.compile(r"(add\.rn\.f32 %v\d, %v\d, %part)(\d+)")
    before, behind = compiled.artifact.ptx.split("//@ step=add.all")
    swapped = added.sub(lambda add: f"{add[1]}{(int(add[2]) + 8) % 16}", behind)
    assert swapped != behind
    assert (run_layer(dataclasses.replace(layer, ptx=f"{before}//@ step=add.all{swapped}"), x).y == 1).all()


@pytest.mark.parametrize("steps", ["meet.arrive meet.wait", "add.arrive leave.arrive end.wait"])
def test_a_meeting_that_is_left_out_is_found(steps):
    """Sums are read before they are there, or a CTA leaves while others read its sums."""
    kernel = compile_problem(SMALL, options=sharing(2), block_n=48).artifact
    buffers = {name: np.ones(b.shape, np.float16) for name, b in kernel.launch.buffers.items() if name != "output"}
    buffers["bias"] = buffers["bias"].astype(np.float32)
    assert check_kernel(kernel.ptx, kernel.launch, buffers).verdict is Verdict.clean
    marked = kernel.ptx.split("//@ step=")
    left = [BARRIER.sub("", part) if part.split()[0] in steps.split() else part for part in marked]
    try:
        verdict = check_kernel("//@ step=".join(left), kernel.launch, buffers).verdict
    except MachineFault:
        return  # it reads the memory of a CTA that has gone
    assert verdict > Verdict.review


ATOM = "atom.acq_rel.gpu.global.inc"
ORDERS = {
    ATOM: (ATOM, Verdict.clean),
    "@%more bra add_last_end;": ("", Verdict.review),
    "bar.warp.sync 0xffffffff;  // the sums of": ("//", Verdict.review),
    "bar.warp.sync 0xffffffff;  // those of": ("//", Verdict.review),
}
ATOMS = {
    "atom.relaxed.gpu.global.inc": Verdict.review,
    "atom.release.gpu.global.inc": Verdict.review,
    "atom.acquire.gpu.global.inc": Verdict.review,
    "atom.acq_rel.cluster.global.inc": Verdict.error,
}
OTHERS = [(ATOM, instead, verdict, "sm_100a") for instead, verdict in ATOMS.items()]
OTHERS += [(said, *instead, "sm_90a") for said, instead in ORDERS.items()]


@pytest.mark.parametrize(
    ("said", "instead", "verdict", "target"),
    [
        *((said, *instead, "sm_100a") for said, instead in ORDERS.items()),
        *(pytest.param(*other, marks=pytest.mark.slow) for other in OTHERS),
    ],
)
def test_what_orders_the_sums_of_clusters(said, instead, verdict, target):
    """Sums are there before others are told, and others are told before they read."""
    problem = dataclasses.replace(DEEP, in_channels=128, out_channels=64)
    kernel = compile_problem(problem, options=sharing(16, target=target), block_n=64, stages=1).artifact
    assert said in kernel.ptx
    buffers = {name: np.ones(b.shape, np.float16) for name, b in kernel.launch.buffers.items() if name[0] in "af"}
    buffers["bias"] = np.zeros(kernel.launch.buffers["bias"].shape, np.float32)
    checked = check_kernel(kernel.ptx.replace(said, instead), kernel.launch, buffers)
    assert checked.verdict is verdict
    assert {found.rule for found in checked.findings} <= {"race-global-memory", "scope-too-narrow"}


def test_parts_have_all_steps_and_each_has_one_at_least():
    for parts in (2, 4, 8):
        planned = plan(device_layout(SMALL), options=sharing(parts), block_n=64)
        assert planned.work.mmas == -(-9 // parts) * planned.pipeline.atoms
        assert planned.launch.ctas == parts * 8


def test_the_planner_takes_what_it_finds_faster_and_says_why():
    plans = {
        choice: plan(device_layout(DEEP), options=ScheduleOptions(split_k=choice)) for choice in ("auto", "off", "4")
    }
    assert plans["off"].launch.cluster == (1, 1, 1)
    assert plans["auto"].launch.parts > 1
    assert plans["auto"].estimate.cycles < plans["off"].estimate.cycles
    assert "SMs are used instead of" in plans["auto"].launch.why.split
    wide = ConvProblem(batch=32, in_channels=64, out_channels=64, in_extent=(56, 56), kernel=(1, 1))
    full = plan(device_layout(wide), options=ScheduleOptions(split_k="estimate"))
    assert full.launch.parts == 1
    assert "leave fewer than two of 148 SMs per tile" in full.launch.why.split
    alone = plan(device_layout(SMALL), options=ScheduleOptions(schedule="stationary"))
    assert alone.launch.why.split == "no split-K: no legal schedule supports it"
    walks = plan(device_layout(SMALL), options=ScheduleOptions(schedule="reload", persistent="on", ctas=2))
    assert walks.launch.why.split == "no split-K: its CTAs are persistent"


def test_wider_tiles_leave_sms_where_narrow_ones_do_not():
    """The last 3x3 layers of ResNet-50 at batch 8: alone they take tiles of 32 channels."""
    layer = ConvProblem(
        batch=8, in_channels=512, out_channels=512, in_extent=(7, 7), kernel=(3, 3), pad_lo=(1, 1), pad_hi=(1, 1)
    )
    alone, shared = (plan(device_layout(layer), options=ScheduleOptions(split_k=each)) for each in ("off", "auto"))
    assert (shared.launch.parts > 1, shared.tiling.block_n > alone.tiling.block_n) == (True, True)
    assert shared.estimate.cycles < 0.8 * alone.estimate.cycles


@pytest.mark.parametrize(("filters", "extent"), [(576, 14), (256, 20)])
def test_every_cta_of_the_clusters_that_auto_takes_has_an_sm(filters, extent):
    problem = ConvProblem(
        in_channels=2048, out_channels=filters, in_extent=(extent, extent), kernel=(1, 1), out="f32", bias=True
    )
    found = plan(device_layout(problem), options=ScheduleOptions(split_k="estimate"))
    assert found.launch.parts > 1
    assert found.launch.ctas <= found.arch.rates.sms


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        (
            {"split_k": "3"},
            InputError,
            "split_k must be one of auto, .* 8, 16, 24, 32, 48, 64, 96, 128, got '3'",
        ),
        (
            {"split_k": "2", "persistent": "on"},
            InputError,
            "split_k 2 and persistent on exclude each other: split-K gives each tile its own cluster",
        ),
        ({"split_k": "2", "store": "tma"}, PlanError, "store tma stores whole rows of a tile from one CTA"),
        ({"split_k": "2", "schedule": "stationary"}, PlanError, "does not support split-K"),
    ],
)
def test_what_cannot_be_is_refused(options, error, words):
    with pytest.raises(error, match=words):
        plan(device_layout(SMALL), options=ScheduleOptions(**options))
