"""Every rasterization order (``--rasterization-order``): right in every form of kernel, or refused."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel.test_random_problems import problems
from support.cache import missed_bytes
from support.oracles import oracles_agree

from convc.api.options import ChipOptions
from convc.api.timer import EngineTimer
from convc.compiler.compile import compile_problem, compile_timed
from convc.compiler.index.order_names import COLUMNS, GROUPED, HILBERT, ORDERS, ROWS
from convc.compiler.index.tile_order import order_of
from convc.compiler.index.traffic import Bytes, traffic_of
from convc.compiler.options import ScheduleOptions
from convc.compiler.planner.search import plan
from convc.errors import InputError, PlanError
from convc.host_layout.device_layout import device_layout
from convc.ir.problem import ConvProblem
from convc.ir.tile_order import OrderTraffic
from convc.timing.kernel import time_kernel
from convc.timing.parameters import read_chip

SMALL = ConvProblem(
    batch=5, in_channels=64, out_channels=96, in_extent=(8, 8), kernel=(1, 3), pad_lo=(0, 1), pad_hi=(0, 1)
)
TURNED = tuple(name for name in ORDERS if name != ROWS)
FORMS: tuple[dict[str, object], ...] = (
    {},
    {"persistent": "on", "ctas": 2},
    {"cta_group": "2"},
    {"cta_group": "2", "persistent": "on", "ctas": 4, "store": "tma"},
    {"split_k": "2"},
    {"target": "sm_90a"},
    {"schedule": "slide", "border": "mask"},
)


def cases():
    """Each form with each order; with one of them in every run."""
    for number, form in enumerate(FORMS):
        for index, order in enumerate(TURNED):
            marks = () if index == number % len(TURNED) else (pytest.mark.slow,)
            yield pytest.param(form, order, marks=marks, id=f"{' '.join(form) or 'alone'}-{order}")


@pytest.mark.parametrize(("form", "order"), list(cases()))
def test_oracles_agree(form, order, assembled):
    options = ScheduleOptions(**{"schedule": "reload", "rasterization_order": order, **form})
    compiled = oracles_agree(SMALL, 7, assembled, options, block_n=32)
    launch = compiled.plan.launch
    assert launch.order.name == order
    assert launch.tiles[1] == 3
    assert launch.grid[1] == 1


@settings(max_examples=8, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(problems("f16"), st.sampled_from(TURNED), st.integers(0, 2**32 - 1))
def test_random_problems(assembled, problem, order, seed):
    oracles_agree(problem, seed, assembled, ScheduleOptions(schedule="reload", rasterization_order=order), block_n=16)


def test_the_order_of_least_traffic_is_taken_where_l2_does_not_hold_all():
    wide = ConvProblem(batch=256, in_channels=256, out_channels=512, in_extent=(56, 56), kernel=(1, 1), stride=(2, 2))
    launch = plan(device_layout(wide), options=ScheduleOptions(schedule="reload")).launch
    assert launch.order.name == COLUMNS
    moved = {one.order: one.memory_bytes for one in launch.order.traffic}
    assert moved[COLUMNS] < 0.8 * moved[ROWS]
    held = plan(device_layout(SMALL), options=ScheduleOptions(schedule="reload"), block_n=32).launch
    assert (held.order.name, held.order.places) == (ROWS, None)
    assert "L2 holds all" in held.order.why


@pytest.mark.parametrize("order", [ROWS, COLUMNS, GROUPED, HILBERT])
def test_what_l2_is_said_to_miss_is_what_a_cache_misses(order):
    """Its accesses go through a cache of lines; L2 holds half of the launch, twelve CTAs run at once."""
    problem = ConvProblem(batch=12, in_channels=64, out_channels=512, in_extent=(16, 8), kernel=(1, 1))
    options = ScheduleOptions(
        schedule="reload", store="tma", rasterization_order=order, persistent="off", cta_group="1"
    )
    compiled = compile_problem(problem, options=options, block_n=64)
    launch = compiled.artifact.launch
    activation, filters, out = (launch.buffers[name].size_bytes for name in ("activation", "filter", "output"))
    size = Bytes(activation=activation, filter=filters, residual=0, output=out, l2=163840)
    planned = compiled.plan.launch
    said = traffic_of(order_of(order, planned.tiles, groups=planned.order.groups), 12, size)
    missed = missed_bytes(launch, compiled.artifact.ptx, 12, size.l2)
    assert said.fetched == pytest.approx(missed, rel=0.01)


def test_the_timing_engine_takes_longer_for_what_is_fetched_again():
    compiled = compile_problem(SMALL, options=ScheduleOptions(schedule="reload"))
    artifact = compiled.artifact
    chip = read_chip("b200").changed({"chip.l2_bytes": 1024.0, "chip.memory": 0.05})
    times = [
        time_kernel(artifact.ptx, artifact.launch, {}, chip, order=order).cycles
        for order in (None, OrderTraffic(fetched=100_000), OrderTraffic(fetched=200_000))
    ]
    assert times[2] > 1.2 * times[1]
    assert times[1] > 0.5 * times[0]


def test_who_decides_among_timed_kernels_is_told_what_their_order_fetches():
    asked = []

    def timer(artifact, order):
        asked.append(order)
        return 1000.0

    large = ConvProblem(in_channels=16384, out_channels=4096, in_extent=(64, 64), kernel=(1, 1))
    options = ScheduleOptions(schedule="reload", persistent="off", cta_group="1", split_k="off", multicast="off")
    made = compile_timed(large, options, timer)
    assert made.plan.launch.order.timed is not None
    assert asked[0] == made.plan.launch.order.timed
    artifact = compile_problem(SMALL, options=ScheduleOptions(schedule="reload")).artifact
    timed = EngineTimer(ChipOptions(settings=("chip.l2_bytes=1024", "chip.memory=0.05")))
    few, many = (timed(artifact, OrderTraffic(fetched=number)) for number in (100_000, 200_000))
    assert many > 1.2 * few


def test_one_column_of_tiles_has_one_order():
    launch = plan(
        device_layout(SMALL), options=ScheduleOptions(schedule="reload", rasterization_order=HILBERT), block_n=96
    ).launch
    assert launch.tiles[1] == 1
    assert launch.order.places is None


def test_what_cannot_be_is_refused():
    large = ConvProblem(batch=64, in_channels=16, out_channels=64, in_extent=(112, 112), kernel=(1, 1))
    options = ScheduleOptions(schedule="reload", rasterization_order=HILBERT)
    with pytest.raises(PlanError, match="hilbert needs a table of 12544 tiles, and the largest has 4096"):
        plan(device_layout(large), options=options, block_n=16)
    assert plan(device_layout(large), options=ScheduleOptions(schedule="reload", rasterization_order=GROUPED)).launch
    with pytest.raises(InputError, match="rasterization_order must be one of auto, rows, columns"):
        plan(device_layout(SMALL), options=ScheduleOptions(rasterization_order="spiral"))
