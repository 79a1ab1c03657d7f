"""The time that a candidate should take: a small model of one launch, in SM clock cycles.

The K loop of a CTA goes at the pace of its slowest supplier: the tensor core, the port through which it reads shared
memory, the port through which TMA fills it, the SM's share of L2, or the latency of copies, of which as many are under
way as there are stages. Around the loop every CTA pays for its start, the first copy, the last MMA and the epilogue.
CTAs go over the SMs in waves, one per SM at a time. Rates and their sources are in `convc.ir.arch`; the model
ranks candidates against each other and promises nothing about absolute time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from convc.compiler.plan.constraints import TiledProblem
from convc.compiler.plan.records import Estimate
from convc.compiler.plan.work import ATOM_BYTES, FACTOR_ROW_BYTES, CtaWork
from convc.ir.arch import SM_100A, Rates

SLACK = 1.18
"""Estimates closer than this are taken as equal: each may be off by 9 percent, as the published rates are at worst."""

FULL_ROW_BYTES = max(SM_100A.limits.swizzle_spans)
"""Rows of this length TMA writes at its full rate."""


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """The part of an estimate that does not depend on the number of stages.

    Attributes:
        ctas, waves, last_wave: CTAs of the launch, rounds of them over the SMs, CTAs of the last round.
        busy_sms, fill_rate, factor_rate, l2_rate, around_cycles: see `convc.compiler.plan.records.Estimate`.
        suppliers: cycles of the K loop if only this limited it, by what it is, but for the latency of copies.
        slowest: cycles of the slowest supplier.
        each_stage: cycles of all tiles of the K loop together, copied and multiplied.
    """

    ctas: int
    busy_sms: int
    waves: int
    last_wave: int
    fill_rate: float
    factor_rate: float
    l2_rate: float
    suppliers: dict[str, float]
    slowest: float
    each_stage: float
    around_cycles: float

    def cycles(self, latency: float) -> float:
        """Cycles of the launch where the latency of copies makes the K loop take at least so many."""
        return self.waves * (max(self.slowest, latency) + self.around_cycles)


def pace_of(tiled: TiledProblem, work: CtaWork) -> Pace:
    """Find what a tiling takes whatever its stages; `work` may be that of any that differs in nothing else."""
    rates = tiled.arch.rates
    ctas = math.prod(tiled.grid)
    busy = min(ctas, rates.sms)
    waves = -(-ctas // rates.sms)
    fill_rate = _fill_rate(rates, work.row_bytes)
    factor_rate = _fill_rate(rates, FACTOR_ROW_BYTES)
    l2_rate = min(rates.fill_bytes, rates.l2_bytes * rates.sms / busy)
    mma = mma_cycles(work, rates)
    read = work.read_bytes / rates.read_bytes
    fill = (work.loaded_bytes - work.factor_bytes) / fill_rate + work.factor_bytes / factor_rate
    l2 = work.loaded_bytes / l2_rate
    suppliers = {"tensor core": mma, "shared memory": read, "TMA fill": fill, "L2": l2}
    return Pace(
        ctas=ctas,
        busy_sms=busy,
        waves=waves,
        last_wave=ctas - (waves - 1) * rates.sms,
        fill_rate=fill_rate,
        factor_rate=factor_rate,
        l2_rate=l2_rate,
        suppliers=suppliers,
        slowest=max(suppliers.values()),
        each_stage=max(mma, read) + max(fill, l2),
        around_cycles=rates.cta_start + rates.copy_latency + rates.mma_latency + _epilogue_cycles(tiled, work),
    )


def latency_of(steps: int, stages: int, pace: Pace, rates: Rates) -> float:
    """The least that the K loop takes because a stage is used again only after copy, multiply and give back.

    Args:
        steps, stages: tiles that go through a ring, and its places; without any it never ends.
        pace, rates: of the launch, and of the target.
    """
    if stages < 1:
        return math.inf
    rounds = -(-steps // stages) - 1
    return rounds * (rates.copy_latency + rates.mma_latency + pace.each_stage / steps)


def estimate(tiled: TiledProblem, work: CtaWork) -> Estimate:
    """Cycles of the launch and what they come from."""
    pace = pace_of(tiled, work)
    latency = max(latency_of(ring.steps, ring.stages, pace, tiled.arch.rates) for ring in work.rings)
    suppliers = {**pace.suppliers, "copy latency": latency}
    problem = tiled.layout.problem
    products = pace.ctas * work.m * work.n * work.mmas * (ATOM_BYTES // problem.operand_dtype.bytes)
    cycles = pace.cycles(latency)
    return Estimate(
        ctas=pace.ctas,
        busy_sms=pace.busy_sms,
        waves=pace.waves,
        last_wave_fill=pace.last_wave / tiled.arch.rates.sms,
        useful=problem.macs / products,
        model_share=_model_share(tiled, products),
        traffic_bytes=pace.ctas * work.loaded_bytes,
        fill_rate=pace.fill_rate,
        factor_rate=pace.factor_rate,
        l2_rate=pace.l2_rate,
        mma_cycles=suppliers["tensor core"],
        read_cycles=suppliers["shared memory"],
        fill_cycles=suppliers["TMA fill"],
        l2_cycles=suppliers["L2"],
        latency_cycles=latency,
        around_cycles=pace.around_cycles,
        cycles=cycles,
        microseconds=cycles / tiled.arch.rates.clock_mhz,
        peak_share=_peak_share(tiled, work, cycles),
        bottleneck=max(suppliers, key=suppliers.__getitem__),
    )


def choose(costs: Sequence[Estimate]) -> int:
    """Choose among candidates: of those about as fast as the fastest, the index of the one that moves fewest bytes."""
    limit = SLACK * min(cost.cycles for cost in costs)
    near = (index for index, cost in enumerate(costs) if cost.cycles <= limit)
    return min(near, key=lambda index: (costs[index].traffic_bytes, costs[index].cycles, index))


def cycles_of_mma(work: CtaWork) -> float:
    """Cycles of one MMA: two columns a cycle, whatever the type (published rates of a B200)."""
    return work.n / 2


def mma_cycles(work: CtaWork, rates: Rates) -> float:
    """Time of the tensor core: MMAs, and moving rows, and waiting for itself."""
    return (
        work.mmas * cycles_of_mma(work)
        + work.shifts * rates.shift_cycles
        + work.moving * rates.ashift_cycles
        + work.drains * rates.mma_latency
    )


def _fill_rate(rates: Rates, row_bytes: int) -> float:
    """Bytes a cycle that TMA writes, with rows of some length."""
    return rates.fill_bytes * min(1.0, row_bytes / FULL_ROW_BYTES)


def _epilogue_cycles(tiled: TiledProblem, work: CtaWork) -> float:
    """Time of the epilogue: its arithmetic hides behind what it stores, and reads of a residual."""
    problem = tiled.layout.problem
    rates = tiled.arch.rates
    moved = tiled.tiling.block_m * tiled.tiling.block_n * problem.out_dtype.bytes * (1 + problem.residual)
    return max(moved / rates.store_bytes, work.stores * rates.store_cycles)


def _peak_share(tiled: TiledProblem, work: CtaWork, cycles: float) -> float:
    """The model's own multiplications, of those that all tensor cores do in so many cycles."""
    layout = tiled.layout
    packed = 1 if layout.blocks is None else layout.blocks.packed  # fp4: two elements a byte
    elements = packed * ATOM_BYTES // layout.problem.operand_dtype.bytes
    peak = tiled.arch.limits.mma_m * work.n * elements / cycles_of_mma(work)
    return layout.ordinary.macs / (cycles * tiled.arch.rates.sms * peak)


def _model_share(tiled: TiledProblem, products: int) -> float | None:
    """Of joined groups: the part of the multiplications that is the model's own; None where no groups are joined."""
    layout = tiled.layout
    if layout.packing is None:
        return None
    elements = 1 if layout.blocks is None else layout.blocks.packed
    return layout.ordinary.macs / (products * elements)
