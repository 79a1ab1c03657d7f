"""The dynamic tile scheduler (``--tile-scheduler dynamic``): right whoever gets which tile, or refused."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel.test_random_problems import problems
from support.oracles import oracles_agree

from convc.compiler.compile import compile_problem
from convc.compiler.options import ScheduleOptions
from convc.compiler.planner.search import plan
from convc.errors import InputError
from convc.host_layout.device_layout import device_layout
from convc.ir.epilogue import AddResidual, Relu
from convc.ir.problem import ConvProblem
from convc.machine import RunOptions, run
from convc.machine.state.grants import GRANTS
from convc.sanitizer.run import check_kernel

SMALL = ConvProblem(
    batch=3, in_channels=64, out_channels=96, in_extent=(12, 12), kernel=(3, 3), pad_lo=(1, 1), pad_hi=(1, 1)
)


def fetching(schedule: str = "reload", **more: str | None) -> ScheduleOptions:
    """Options for a kernel whose CTAs ask for their tiles."""
    return ScheduleOptions(schedule=schedule, persistent="on", tile_scheduler="dynamic", **more)


@settings(max_examples=5, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(["f16", "s8", "tf32"]).flatmap(problems), st.integers(0, 2**32 - 1))
def test_oracles_agree(assembled, problem, seed):
    oracles_agree(problem, seed, assembled, fetching())


@pytest.mark.one_of(2)
@pytest.mark.parametrize(
    ("schedule", "more"),
    [
        ("reload", {"store": "tma", "residual_load": "tma"}),
        ("slide", {}),
        ("shift", {"shift": "ashift"}),
        ("stationary", {}),
    ],
)
def test_schedules(schedule, more, assembled):
    epilogue = (AddResidual(), Relu()) if more.get("residual_load") else ()
    small = {"batch": 1, "out_channels": 200} if schedule == "stationary" else {"in_extent": (3, 140)}
    problem = dataclasses.replace(SMALL, epilogue=epilogue, **small)
    compiled = oracles_agree(problem, 5, assembled, fetching(schedule, **more))
    assert compiled.plan.launch.grid == (np.prod(compiled.plan.launch.tiles), 1, 1)
    assert compiled.plan.launch.ctas > 3


POINTWISE = dataclasses.replace(SMALL, kernel=(1, 1), pad_lo=(0, 0), pad_hi=(0, 0), epilogue=(AddResidual(), Relu()))
WALKED = compile_problem(POINTWISE, options=fetching(store="tma"), block_n=48, stages=2)
RNG = np.random.default_rng(5)
DATA = {
    name: RNG.integers(-3, 4, spec.shape).astype({"f16": np.float16, "f32": np.float32}[spec.dtype])
    for name, spec in WALKED.artifact.launch.buffers.items()
    if name != "output"
}


@pytest.mark.parametrize(("resident", "completion"), [(1, "eager"), (3, "seeded"), (8, "eager")])
def test_every_policy_of_grants_gives_the_same_result_by_the_same_work(resident, completion):
    """Eight tiles: one CTA makes them all, some CTAs share them, or each makes its own."""
    found = [
        run(
            WALKED.artifact.ptx,
            WALKED.artifact.launch,
            DATA,
            options=RunOptions(grants=grants, resident=resident, policy=completion, seed=resident),
        )
        for grants in GRANTS
    ]
    assert WALKED.plan.launch.ctas == 8
    for result in found:
        assert result.findings == ()
        assert np.array_equal(result.buffers["output"], found[0].buffers["output"])
        assert result.counters.mma == 8 * WALKED.plan.work.mmas  # no tile twice, and none never
        assert result.counters.tma_stores["output"].count == found[0].counters.tma_stores["output"].count
    assert [result.counters.ctas for result in found[:2]] == [resident, resident]
    assert found[3].counters.ctas == 8


TAKE = "@%granted clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %tile, %answer;"


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (TAKE, "mov.b32 %tile, %cta;", {"grant-order", "race-global-memory"}),  # its own again: twice, and others never
        ("@%granted bra load_tiles_next;", "", {"hang"}),
    ],
)
def test_a_tile_twice_or_never_is_found(before, after, said):
    assert before in WALKED.artifact.ptx
    found = check_kernel(WALKED.artifact.ptx.replace(before, after), WALKED.artifact.launch, DATA).findings
    assert {finding.rule for finding in found} == said, found


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"persistent": "auto"}, "tile_scheduler dynamic needs persistent on, and persistent is auto"),
        ({"ctas": 2}, "(?s)the grid has one CTA per tile, .* leave ctas out"),
        (
            {"cta_group": "2"},
            "tile_scheduler dynamic and cta_group 2 exclude each other: a request is for one tile and one CTA",
        ),
        (
            {"target": "sm_90a"},
            "tile_scheduler dynamic and target sm_90a exclude each other: it needs two accumulators in tensor memory",
        ),
        (
            {"multicast": "2x1"},
            "tile_scheduler dynamic and multicast 2x1 exclude each other: a request is for one tile",
        ),
        ({"tile_scheduler": "stolen"}, "tile_scheduler must be one of static, dynamic, got 'stolen'"),
    ],
)
def test_what_cannot_be_is_refused(options, words):
    with pytest.raises(InputError, match=words):
        plan(device_layout(SMALL), options=dataclasses.replace(fetching(), **options))
