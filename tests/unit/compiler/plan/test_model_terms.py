"""The planner's model against the timing engine: the same rates, and terms and orders that agree.

The rows here set no constant. All of them, and those that do, are in ``tests/docs/planner_errors.py``.
"""

from __future__ import annotations

import math

from support.planned_times import TERMS, all_compared, spearman

from convc.ir.arch import SM_90A, SM_100A, Rates
from convc.ir.problem import ConvProblem
from convc.timing.parameters import read_chip

PER_MICROSECOND = {"l2_rate": "chip.l2", "store_rate": "chip.stores", "memory_rate": "chip.memory"}
SAME = {
    "sms": "chip.sms", "l2_bytes": "chip.l2_bytes", "sm_shared_bytes": "chip.shared", "sm_threads": "chip.threads",
    "gpcs": "gpc.count", "gpc_bytes": "gpc.port", "together": "gpc.together",
    "together_in_step": "gpc.together_in_step", "mma_floor": "tensor_core.floor",
    "mma_depth": "tensor_core.depth", "mma_chain": "tensor_core.chain", "read_bytes": "shared_memory.read_port",
    "beside_bytes": "shared_memory.beside",
    "fill_bytes": "tma.fill", "fill_rows": "tma.row", "copy_latency": "tma.latency",
    "im2col_latency": "tma.im2col", "launch_spread": "launch.spread", "launch_slowest": "launch.slowest",
    "tensor_copy_bytes": "tensor_memory.copy", "refresh_cycles": "tensor_memory.copy_small",
    "shift_cycles": "tensor_memory.shift", "ashift_cycles": "tensor_memory.ashift", "sector_cycles": "threads.sector",
    "load_latency": "threads.global_latency", "store_bytes": "shared_memory.store_port",
    "cta_start": "launch.replace", "pair_depth": "tensor_core.pair_depth", "pair_port": "tensor_core.pair_port",
    "cluster_barrier": "threads.cluster_barrier",
    "remote_bytes": "shared_memory.remote", "remote_latency": "shared_memory.remote_latency",
}  # fmt: skip
OTHERS = {"clock_mhz", "mma_columns", "fmas", "half_sector_cycles"}
PRICED = {"cpcs": "gpc.cpcs", "cpc_bytes": "gpc.cpc_port", "same_place": "tma.same_place", "meeting": "gpc.meeting"}
"""What was measured on Hopper alone, and is priced there alone."""

WORST = {
    "tensor core": 0.001, "TMA fill": 0.001, "issue of copies": 0.37, "issue of MMAs": 0.2, "first MMA": 0.2,
    "K loop": 0.3, "epilogue": 0.25, "launch": 0.15,
}  # fmt: skip
"""Largest errors, of rows of whole lines: those that are filled in part are several requests to the engine alone."""


def test_the_rates_are_those_of_the_engines_chip():
    chip = read_chip("b200")
    rates = SM_100A.rates
    assert {*SAME, *PER_MICROSECOND, *OTHERS, *PRICED} == set(Rates.__dataclass_fields__)
    for field, name in SAME.items():
        assert getattr(rates, field) == chip[name], field
    for field, name in PER_MICROSECOND.items():
        assert math.isclose(getattr(rates, field), chip[name] * 1e6), field
    assert math.isclose(rates.clock_mhz, chip["chip.clock"] * 1e3)
    assert rates.half_sector_cycles == chip["threads.sector"] + chip["threads.part_line"]
    assert rates.mma_columns == chip["tensor_core.strip_columns"] / chip["tensor_core.strip_cycles"]


def test_what_hopper_has_of_its_own_is_of_its_chip():
    """L2, memory, GPCs and CPCs of an H100; the rest is what the kernels were chosen with that an H200 timed."""
    chip, rates, usual = read_chip("h100"), SM_90A.rates, SM_100A.rates
    fitted = {"clock_mhz", "fill_bytes", "cta_start", "launch_spread", "launch_slowest"}
    own = {field for field in Rates.__dataclass_fields__ if getattr(rates, field) != getattr(usual, field)} - fitted
    shared = {"l2_rate", "store_rate", "memory_rate", "l2_bytes", "gpc_bytes", "together", "together_in_step"}
    assert own == {"sms", "cpc_bytes", "same_place", "meeting"} | shared
    for field, name in (SAME | PRICED).items():
        assert field not in own or getattr(rates, field) == chip[name], field
    for field, name in PER_MICROSECOND.items():
        assert field not in own or math.isclose(getattr(rates, field), chip[name] * 1e6), field


def test_a_layer_in_every_schedule():
    problem = ConvProblem(
        in_channels=128, out_channels=80, in_extent=(24, 24), kernel=(3, 3), pad_lo=(1, 1), pad_hi=(1, 1), bias=True
    )
    rows = list(all_compared("a layer", problem))
    assert len({row.schedule for row in rows}) == 6
    for term in TERMS:
        assert max(abs(row.error(term)) for row in rows) < WORST[term], term
    assert spearman([row.model["launch"] for row in rows], [row.engine["launch"] for row in rows]) > 0.94


def test_rank_correlation():
    assert math.isclose(spearman([1, 2, 3], [10, 20, 21]), 1)
    assert math.isclose(spearman([1, 2, 3], [3, 2, 1]), -1)
    assert math.isclose(spearman([1, 1, 2, 3], [5, 5, 7, 6]), 0.7777777777777778)
