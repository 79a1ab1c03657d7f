"""CTA pairs (``--cta-group 2``): right, or refused."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel.test_random_problems import problems
from support.examples import PARTS
from support.oracles import oracles_agree

from convc.compiler.options import ScheduleOptions
from convc.compiler.plan.choice import SLACK
from convc.compiler.planner.search import plan
from convc.errors import PlanError
from convc.host_layout.device_layout import device_layout
from convc.ir.epilogue import AddResidual, Relu
from convc.ir.problem import ConvProblem

SMALL = ConvProblem(
    batch=3, in_channels=64, out_channels=96, in_extent=(12, 12), kernel=(3, 3), pad_lo=(1, 1), pad_hi=(1, 1)
)


def paired(schedule: str = "reload", **more: object) -> ScheduleOptions:
    """Options for a kernel whose CTAs multiply two at a time."""
    return ScheduleOptions(**{"schedule": schedule, "cta_group": "2", "persistent": "off", **more})


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("operand", ["f16", "s8", "tf32"])
def test_oracles_agree(operand, part, assembled):
    @settings(max_examples=12 // part, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(problems(operand), st.integers(0, 2**32 - 1), st.sampled_from([None, 2, 4]), st.booleans())
    def check(problem, seed, ctas, copied):
        own = problem.out_channels // problem.groups
        narrow = own <= 16 and (problem.operand_dtype.integer or (copied and problem.out_dtype.bytes == 1))
        if narrow or (problem.groups > 1 and own % 32):
            return  # no width is legal
        walks = {} if ctas is None else {"persistent": "on", "ctas": ctas}
        oracles_agree(problem, seed, assembled, paired(store="tma" if copied else "direct", **walks))

    check()


@pytest.mark.parametrize(("batch", "persistent", "store"), [(3, "off", "direct"), (4, "on", "tma")])
def test_whole_and_empty_tiles(persistent, store, batch, assembled):
    """Four tiles of pixels, or five and an empty one."""
    problem = dataclasses.replace(SMALL, batch=batch, epilogue=(AddResidual(), Relu()))
    options = paired(store=store, persistent=persistent, ctas=2 if persistent == "on" else "auto")
    compiled = oracles_agree(problem, batch, assembled, options, block_n=96)
    assert compiled.plan.launch.cluster == (2, 1, 1)
    assert compiled.plan.launch.tiles == (4 if batch == 3 else 6, 1)
    assert compiled.plan.storage.smem_tile("b").rows == 48


@pytest.mark.parametrize(
    ("extent", "rows", "filters", "tiles"),
    [
        ((3, 140), "outer", "apart", (6, 2)),
        ((3, 100), "outer", "together", (4, 2)),  # three tiles, one a row, and a spare one
        ((5, 140), "merged", "apart", (6, 2)),
    ],
)
def test_shared_activations(extent, rows, filters, tiles, assembled):
    problem = dataclasses.replace(SMALL, batch=1, in_extent=extent, epilogue=(AddResidual(), Relu()))
    options = paired("slide", border="zero", rows=rows, filters=filters)
    compiled = oracles_agree(problem, 5, assembled, options, block_n=48)
    assert compiled.plan.launch.tiles == tiles
    assert compiled.plan.storage.smem_tile("b").rows == (72 if filters == "together" else 24)


def test_shared_activations_of_pairs_that_walk(assembled):
    problem = dataclasses.replace(SMALL, in_extent=(4, 140))
    options = paired("slide", border="zero", rows="outer", persistent="on", ctas=4)
    assert oracles_agree(problem, 5, assembled, options, block_n=48).program.visits > 3


@pytest.mark.parametrize(("shift", "walks"), [("chain", "off"), ("ashift", "on"), ("windows", "off")])
def test_rows_that_move_in_both_ctas(shift, walks, assembled):
    problem = dataclasses.replace(SMALL, batch=2, in_extent=(3, 60))
    walk = {"persistent": "on", "ctas": 2} if walks == "on" else {}
    options = paired("shift", shift=shift, border="zero", rows="outer", **walk)
    compiled = oracles_agree(problem, 5, assembled, options, block_n=48)
    assert "tcgen05.cp.cta_group::2" in compiled.artifact.ptx
    assert ("tcgen05.shift.cta_group::2" in compiled.artifact.ptx) is (shift == "chain")


@pytest.mark.parametrize(
    ("schedule", "extent", "rows"),
    [({"schedule": "slide"}, (3, 60), "outer"), ({"schedule": "shift", "shift": "windows"}, (7, 14), "merged")],
)
def test_lanes_that_are_masked_in_both_ctas(schedule, extent, rows, assembled):
    """Masks of columns, and of rows too: four tiles, and three with a spare one."""
    problem = dataclasses.replace(SMALL, in_extent=extent)
    options = paired(**schedule, border="mask", rows=rows)
    compiled = oracles_agree(problem, 5, assembled, options, block_n=48)
    assert compiled.plan.storage.masks == (6 if rows == "outer" else 12)
    assert "%m7}" in compiled.artifact.ptx


def test_the_planner_takes_what_it_finds_faster_and_says_why():
    layer = ConvProblem(batch=256, in_channels=256, out_channels=256, in_extent=(14, 14), kernel=(1, 1))
    plans = {
        choice: plan(device_layout(layer), options=ScheduleOptions(schedule="reload", cta_group=choice))
        for choice in ("auto", "1", "2")
    }
    auto, off, on = (plans[choice].estimate for choice in ("auto", "1", "2"))
    assert auto.cycles <= SLACK * min(off.cycles, on.cycles)
    assert auto.traffic_bytes <= off.traffic_bytes
    assert plans["1"].launch.why.pairs == "1-CTA MMA, as requested"
    many = plan(device_layout(dataclasses.replace(layer, in_channels=1024, out_channels=1024)))
    assert many.launch.cluster == (2, 1, 1)
    assert many.launch.why.pairs.split(" (")[0].endswith("cycles with 2-CTA MMA")
    few = plan(device_layout(SMALL), options=ScheduleOptions(schedule="reload"))
    assert few.launch.why.pairs.split(" (")[0].endswith("cycles with 1-CTA MMA")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"target": "sm_90a"}, "2-CTA MMA needs tcgen05, and sm_90a has wgmma"),
        ({"schedule": "stationary"}, "schedule stationary does not support 2-CTA MMA"),
    ],
)
def test_what_cannot_be_is_refused(options, words):
    with pytest.raises(PlanError, match=words):
        plan(device_layout(SMALL), options=paired(**options))


def test_widths_that_do_not_split_are_refused():
    with pytest.raises(PlanError, match="an MMA of a CTA pair takes multiples of 32"):
        plan(device_layout(dataclasses.replace(SMALL, operand="s8", out="s8")), options=paired(), block_n=48)
