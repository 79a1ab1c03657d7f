"""CTAs of a cluster that load for each other (``--multicast``): right, or refused."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel.test_random_problems import problems
from support.examples import PARTS
from support.oracles import oracles_agree

from convc.compiler.compile import compile_problem
from convc.compiler.options import ScheduleOptions
from convc.compiler.plan.multicast import sharers_of
from convc.compiler.plan.storage import SHARERS
from convc.compiler.planner.search import plan
from convc.errors import InputError, PlanError
from convc.host_layout.device_layout import device_layout
from convc.ir.epilogue import AddResidual, Relu
from convc.ir.problem import ConvProblem

SMALL = ConvProblem(
    batch=3, in_channels=64, out_channels=96, in_extent=(12, 12), kernel=(3, 3), pad_lo=(1, 1), pad_hi=(1, 1)
)


def loading(shape: str, **more: object) -> ScheduleOptions:
    """Options for a kernel whose CTAs load for each other."""
    return ScheduleOptions(**{"schedule": "reload", "multicast": shape, "persistent": "off", "cta_group": "1", **more})


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("operand", ["f16", "s8", "tf32"])
def test_oracles_agree(operand, part, assembled):
    shapes = st.sampled_from(["2x1", "1x2", "2x2"])

    @settings(max_examples=12 // part, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(problems(operand), st.integers(0, 2**32 - 1), shapes, st.sampled_from([None, 2, 4]), st.booleans())
    def check(problem, seed, shape, ctas, copied):
        more = {} if ctas is None or shape != "2x1" else {"persistent": "on", "ctas": ctas}
        more |= {"schedule": "slide"} if copied and shape == "2x1" else {"store": "tma" if copied else "direct"}
        try:
            oracles_agree(problem, seed, assembled, loading(shape, **more))
        except PlanError:
            return  # one tile of channels, groups, no width for copies of results, or the schedule cannot be

    check()


@pytest.mark.parametrize(
    ("shape", "tiles", "pieces"), [("2x1", (6, 2), (128, 24)), ("1x2", (5, 2), (64, 48)), ("2x2", (6, 2), (64, 24))]
)
def test_whole_and_empty_tiles(shape, tiles, pieces, assembled):
    """Five tiles of pixels, and an empty one where clusters have two."""
    problem = dataclasses.replace(SMALL, batch=4, epilogue=(AddResidual(), Relu()))
    planned = oracles_agree(problem, 4, assembled, loading(shape), block_n=48).plan
    assert planned.launch.tiles == tiles
    assert planned.launch.cluster == (*map(int, shape.split("x")), 1)
    assert (planned.indexing.loads.a.pixels, planned.indexing.loads.b.box[2]) == pieces
    alone = plan(device_layout(problem), options=loading("off"), block_n=48)
    each = planned.estimate.traffic_bytes / planned.launch.ctas
    assert each < alone.estimate.traffic_bytes / alone.launch.ctas  # through L2: each part once


@pytest.mark.parametrize(
    ("extent", "rows", "border", "spare"), [((3, 100), "outer", "mask", 1), ((5, 140), "merged", "zero", 0)]
)
def test_filters_of_shared_activations(extent, rows, border, spare, assembled):
    """Activations stay each CTA's own, with masks of its own."""
    problem = dataclasses.replace(SMALL, batch=1, in_extent=extent, epilogue=(AddResidual(), Relu()))
    options = loading("2x1", schedule="slide", rows=rows, border=border, store="direct")
    compiled = oracles_agree(problem, 5, assembled, options, block_n=48)
    assert compiled.plan.reuse.spare == spare
    assert {ring.name: ring.arrivals for ring in compiled.plan.storage.rings} == {
        "full_a": 1, "empty_a": 1, "full_b": 1, "empty_b": 2, "done": 1,
    }  # fmt: skip


@pytest.mark.one_of(2)
@pytest.mark.parametrize("more", [{"border": "mask"}, {"border": "zero", "persistent": "on", "ctas": 2}])
@pytest.mark.parametrize("shift", ["chain", "ashift", "windows"])
def test_filters_of_activations_that_move(shift, more, assembled):
    """A stage is given back by the commit behind its MMAs, whichever memory their activations come from."""
    problem = dataclasses.replace(SMALL, batch=3, in_extent=(7, 11))
    compiled = oracles_agree(problem, 6, assembled, loading("2x1", schedule="shift", shift=shift, **more), block_n=48)
    assert compiled.plan.launch.cluster == (2, 1, 1)
    assert compiled.plan.storage.ring("empty_b").arrivals == 2


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_nobody_waits_for_all_of_his_memory_to_tell_another_cta(target):
    """ptxas puts a MEMBAR.ALL.GPU before an arrival that says .release.cluster."""
    more = {"multicast": "2x1"} if target == "sm_90a" else {"cta_group": "2"}
    options = ScheduleOptions(schedule="reload", persistent="on", ctas=2, target=target, **more)
    text = compile_problem(SMALL, options=options).artifact.ptx
    assert "mbarrier.arrive.shared::cluster.b64" in text
    assert "arrive.release.cluster" not in text


def test_clusters_that_walk(assembled):
    options = loading("2x1", persistent="on", ctas=2, store="tma")
    compiled = oracles_agree(dataclasses.replace(SMALL, batch=4), 5, assembled, options, block_n=48)
    assert (compiled.plan.launch.cluster, compiled.program.visits) == ((2, 1, 1), 6)


@pytest.mark.one_of(2)
@pytest.mark.parametrize(
    ("shape", "more"),
    [
        ("2x1", {"schedule": "slide"}),
        ("2x1", {"schedule": "slide", "persistent": "on", "ctas": 2}),
        ("1x2", {"store": "tma"}),
        ("2x2", {"store": "direct"}),
        ("2x1", {"persistent": "on", "ctas": 2, "store": "tma"}),
    ],
)
def test_warps_tell_the_ctas_that_load(shape, more, assembled):
    """On sm_90a each warp gives stages back, to every CTA that fills them; an empty tile is in the last cluster."""
    problem = dataclasses.replace(SMALL, batch=4, epilogue=(AddResidual(), Relu()))
    options = loading(shape, target="sm_90a", **more)
    planned = oracles_agree(problem, 4, assembled, options, block_n=48).plan
    assert planned.launch.cluster == (*map(int, shape.split("x")), 1)
    told = {ring.arrivals for ring in planned.storage.rings if ring.at == SHARERS}
    assert told == {planned.tiling.block_m // 16 * sharers_of(planned.tiling.multicast)}


@pytest.mark.parametrize("left_open", ["cta_group", "split_k", "persistent"])
def test_other_clusters_are_not_taken_instead(left_open):
    layer = ConvProblem(batch=256, in_channels=1024, out_channels=1024, in_extent=(14, 14), kernel=(1, 1))
    if left_open == "split_k":
        layer = dataclasses.replace(layer, batch=2, in_extent=(7, 7))
    planned = plan(device_layout(layer), options=loading("2x1", **{left_open: "auto"}))
    assert (planned.launch.cluster, planned.tiling.ctas, planned.launch.parts) == ((2, 1, 1), 1, 1)


def test_the_planner_takes_what_it_finds_faster_and_says_why(monkeypatch):
    layer = device_layout(ConvProblem(in_channels=4096, out_channels=4096, in_extent=(64, 64), kernel=(1, 1)))
    alone = plan(layer, options=loading("estimate"), block_n=256)
    assert alone.launch.cluster == (1, 1, 1)
    assert alone.launch.why.multicast.startswith("no multicast: ")
    assert not plan(layer, options=loading("off"), block_n=256).launch.why.multicast
    monkeypatch.setattr("convc.compiler.planner.search.SLACK", 1.0)
    shared = plan(layer, options=loading("estimate"), block_n=256)
    assert shared.estimate.cycles < alone.estimate.cycles
    assert shared.tiling.multicast != (1, 1)
    assert shared.launch.why.multicast.startswith("multicast of ")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"shape": "4x4"}, "multicast must be one of auto, estimate, off, 2x1, 1x2, 2x2"),
        ({"cta_group": "2"}, "multicast 2x2 and cta_group 2 exclude each other: multicast sends whole filter tiles"),
        (
            {"split_k": "2"},
            "multicast 2x2 and split_k 2 exclude each other: a multicast cluster computes several tiles",
        ),
        ({"persistent": "on"}, "multicast 2x2 and persistent on exclude each other: persistent clusters advance along"),
        ({"schedule": "stationary"}, "schedule stationary does not support multicast"),
        ({"schedule": "slide"}, "an activation tile with its halo is one copy"),
        ({"schedule": "slide", "shape": "2x1", "filters": "together"}, "are one copy each: multicast needs"),
    ],
)
def test_what_cannot_be_is_refused(options, words):
    with pytest.raises((PlanError, InputError), match=words):
        plan(device_layout(SMALL), options=loading(**{"shape": "2x2", **options}))


@pytest.mark.parametrize(
    ("change", "block_n", "words"),
    [
        ({}, 96, "1 tile of channels: clusters of 2 x 2 take multiples of 2"),
        ({"groups": 2}, 48, "with groups, neighbouring tiles of channels may read other activations"),
        ({"operand": "mxfp8"}, 48, "has scale factors, whose stages warps release too: no multicast"),
    ],
)
def test_problems_that_do_not_divide_are_refused(change, block_n, words):
    with pytest.raises(PlanError, match=words):
        plan(device_layout(dataclasses.replace(SMALL, **change)), options=loading("2x2"), block_n=block_n)
