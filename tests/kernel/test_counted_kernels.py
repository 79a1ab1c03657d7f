"""What the simulator counts of our kernels is what their plans say, whatever the completion policy and the cohorts."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math

import numpy as np
import pytest
from support.masks_of_tiles import tile_mask
from support.schedules import RELOAD_ONLY
from test_golden_kernels import CHOICES, PROBLEMS, SCHEDULES

from convc.build.writer import layer_of
from convc.compiler.compile import Compiled, compile_problem
from convc.compiler.index.reuse import reuse_maps
from convc.compiler.kernels import kernel_of
from convc.compiler.schedules.all import STATIONARY
from convc.ir.problem import ConvProblem
from convc.machine import Counters, RunOptions
from convc.runtime.layer import random_inputs, run_layer

SMALL = [name for name, problem in PROBLEMS.items() if problem.macs < 1e9]
RELOAD = [name for name in SMALL if CHOICES[name]["options"] is RELOAD_ONLY and "scaled" not in name]


@functools.cache
def compiled(name: str) -> Compiled:
    return compile_problem(PROBLEMS[name], **CHOICES[name])


@functools.cache
def counters(name: str, policy: str = "eager", cohort: int = 148) -> Counters:
    problem = PROBLEMS[name]
    bias = np.zeros(problem.out_channels, np.float32) if problem.bias else None
    layer = layer_of(problem, kernel_of(compiled(name)), np.ones(problem.w_shape, np.float32), bias)
    options = RunOptions(policy=policy, cohort=cohort)
    arrays = random_inputs(layer, 0)
    run = run_layer(layer, arrays["x"], options, residual=arrays.get("residual"))
    assert run.findings == ()
    return run.counters


def taps_inside(problem: ConvProblem) -> int:
    """Pairs of an output pixel and a filter tap that lies on the image, axis by axis."""
    found = problem.batch
    for axis in range(2):
        start = problem.stride[axis] * np.arange(problem.out_extent[axis])[:, None] - problem.pad_lo[axis]
        at = start + problem.dilation[axis] * np.arange(problem.kernel[axis])
        found *= int(((at >= 0) & (at < problem.in_extent[axis])).sum())
    return found


@pytest.mark.parametrize("name", RELOAD)
def test_copies_are_the_plans(name):
    found, plan = counters(name), compiled(name).plan
    steps = plan.launch.ctas * plan.pipeline.steps
    (a, b), (tiles_m, tiles_n, _) = plan.storage.smem, plan.launch.grid
    activation, filter_ = found.tma_loads["activation"], found.tma_loads["filter"]
    assert (activation.count, activation.bytes) == (steps, steps * a.bytes)
    assert (filter_.count, filter_.bytes) == (steps, steps * b.bytes)
    assert activation.bytes + filter_.bytes == plan.estimate.traffic_bytes
    size = plan.indexing.loads.a.element_bytes
    assert (
        activation.bytes - activation.filled
        == tiles_n * taps_inside(plan.problem) * plan.indexing.loads.a.dims[0] * size
    )
    assert filter_.bytes - filter_.filled == tiles_m * math.prod(plan.indexing.loads.b.dims) * size
    assert set(found.tma_loads) == {"activation", "filter"}
    assert found.tma_stores == found.bulk_loads == found.bulk_stores == {}


@pytest.mark.parametrize("name", RELOAD)
def test_products_are_the_plans(name):
    found, plan = counters(name), compiled(name).plan
    n, ctas = plan.tiling.block_n, plan.launch.ctas
    assert found.mma == ctas * plan.pipeline.steps * plan.pipeline.atoms
    assert (found.mma_a_bytes, found.mma_b_bytes) == (found.mma * 128 * 32, found.mma * n * 32)
    assert found.multiply_adds == found.mma * 128 * n * (32 // plan.indexing.loads.a.element_bytes)
    assert plan.problem.macs / found.multiply_adds == plan.estimate.useful
    assert found.mma_lanes == 128 * found.mma
    assert (found.masked_lanes, found.mma_a_in_tensor, found.mma_ws, found.cp, found.shift) == (0, 0, 0, {}, 0)
    assert found.commit == ctas * (plan.pipeline.steps + 1)
    assert found.mbarrier_waits == ctas * (2 * plan.pipeline.steps + 4)
    assert found.tensor_loads % (4 * ctas) == 0


def test_scale_factors_are_carried_once_a_stage():
    """Two copies more a step, and one multiplication of 64 channels for every 32 bytes of e2m1."""
    found, plan = counters("scaled_nvfp4"), compiled("scaled_nvfp4").plan
    steps, tiles = plan.launch.ctas * plan.pipeline.steps, {tile.name: tile for tile in plan.storage.smem}
    for buffer, names in (("activation", ("a", "scales_a")), ("filter", ("b", "scales_b"))):
        copied = sum(tiles[name].bytes for name in names)
        assert (found.tma_loads[buffer].count, found.tma_loads[buffer].bytes) == (2 * steps, steps * copied)
    assert found.multiply_adds == found.mma * 128 * plan.tiling.block_n * 64
    words, warps = 4, 4  # a store of 4 columns for 128 rows, one of 2 columns for 48
    assert found.tensor_stores == 2 * warps * words * steps
    assert found.mbarrier_waits == (1 + 2 + warps) * steps + warps * plan.launch.ctas


@pytest.mark.one_of(3)
@pytest.mark.parametrize("name", SMALL)
def test_the_machine_counts_the_work_of_the_plan(name):
    found, plan = counters(name), compiled(name).plan
    # A CTA's work is of one tile, however many it walks over, or of its part of one.
    work, ctas = plan.work, math.prod(plan.launch.tiles) * plan.launch.parts
    if plan.arch.tensor_core == "wgmma":
        warpgroups = work.m // 64
        assert found.warp_mma == 4 * warpgroups * ctas * work.mmas
        return
    assert found.mma * work.ctas == ctas * work.mmas  # one of a CTA pair counts once
    assert found.mma_a_in_tensor == work.a_in_tensor * found.mma
    assert found.tma_loads["activation"].bytes == ctas * work.activation_bytes
    assert found.tma_loads["filter"].bytes == ctas * work.filter_bytes
    assert found.operand_bytes == ctas * work.read_bytes
    assert found.cp.get("128x256b", 0) == ctas * work.copies
    assert found.cp.get("4x256b", 0) == ctas * work.refreshes
    assert (found.shift, found.mma_ashift) == (ctas * work.shifts, ctas * work.moving)


@pytest.mark.parametrize("name", SCHEDULES)
def test_lanes_are_masked_as_derived(name):
    found, plan = counters(name), compiled(name).plan
    if plan.schedule == STATIONARY.id:
        assert found.masked_lanes == 0
        return
    reuse, (taps_h, taps_w) = plan.reuse, plan.pipeline.taps
    maps = reuse_maps(plan.problem, reuse)
    tiles, taps = range(maps.all_tiles), itertools.product(range(taps_h), range(taps_w))
    masked = sum(int(tile_mask(maps, tile, r, s).sum()) for (r, s), tile in itertools.product(taps, tiles))
    each = plan.pipeline.blocks * plan.pipeline.atoms * plan.launch.grid[1]
    assert found.masked_lanes == masked * each
    assert (masked > 0) == (reuse.walk.border == "mask")


@pytest.mark.parametrize("name", SMALL)
def test_every_element_of_the_output_is_stored_once(name):
    buffers = compiled(name).artifact.launch.buffers
    output = buffers["output"]
    tile = compiled(name).plan.storage.results
    if tile is None:
        beside = 0
        if "workspace" in buffers:  # the sums of each cluster, and a count of each at its counters
            clusters = buffers["workspace"].shape[0]
            beside = buffers["workspace"].size_bytes + clusters * buffers["counters"].size_bytes
        assert counters(name).global_store_bytes == output.size_bytes + beside
    else:
        stores = counters(name).tma_stores["output"]
        plan = compiled(name).plan
        lines = plan.indexing.loads.out.box[1] == 1  # of which a copy takes four
        warps = plan.tiling.block_m // 16 if plan.arch.tensor_core == "wgmma" else 4
        each = 32 if lines else warps
        assert stores.count == math.prod(plan.launch.tiles) * each * tile.stages
        assert stores.bytes == stores.count * tile.bytes // each


def work(name: str, **options) -> Counters:
    """Counts; where the last warp at a counter does more, which may be any, without what CTAs do together."""
    found = counters(name, **options)
    last_adds = "workspace" in compiled(name).artifact.launch.buffers
    return dataclasses.replace(found, instructions=0, splits=0) if last_adds else found


@pytest.mark.one_of(4)
@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("policy", ["late", "seeded"])
def test_the_completion_policy_changes_no_count(name, policy):
    assert work(name, policy=policy) == work(name)


@pytest.mark.one_of(4)
@pytest.mark.parametrize("name", SMALL)
def test_the_size_of_cohorts_changes_no_count(name):
    assert work(name, cohort=3) == work(name)
