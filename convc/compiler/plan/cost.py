"""How long a candidate should take: a small model of one launch, in cycles, read aloud as sentences.

The K loop of a CTA goes at the pace of its slowest supplier: the tensor core, the port through which it reads shared
memory, the port through which TMA fills it, the SM's share of L2, or the turns of the stages, each of which holds one
copy on its way. Around the loop every CTA pays for its start, the first copy, the last MMA and the epilogue. CTAs go
over the SMs in waves, one per SM at a time. Rates and their sources are in `convc.ir.arch`; the model ranks
candidates against each other and promises nothing about absolute time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from convc.compiler.plan.constraints import TiledProblem
from convc.compiler.plan.records import Estimate
from convc.compiler.plan.work import ATOM_BYTES, FACTOR_ROW_BYTES, CtaWork
from convc.ir import dtypes
from convc.ir.epilogue import describe
from convc.ir.problem import ConvProblem

SLACK = 1.18
"""Estimates closer than this are taken as equal: each may be off by 9 percent, as the published rates are at worst."""


def estimate(candidate: TiledProblem, work: CtaWork) -> Estimate:
    """Cycles of the launch and what they come from."""
    arch, tiling, problem = candidate.arch, candidate.tiling, candidate.layout.problem
    rates = arch.rates
    ctas = math.prod(candidate.grid)
    busy = min(ctas, rates.sms)
    waves = -(-ctas // rates.sms)
    last = ctas - (waves - 1) * rates.sms
    padded = ctas * work.m * work.n * work.mmas * (ATOM_BYTES // _bytes(problem.operand))

    each = work.n / 2
    mma = (
        work.mmas * each
        + work.shifts * rates.shift_cycles
        + work.moving * rates.ashift_cycles
        + work.drains * rates.mma_latency
    )
    read = work.read_bytes / rates.read_bytes
    fill_rate, factor_rate = (rates.fill_bytes * min(1.0, size / 128) for size in (work.row_bytes, FACTOR_ROW_BYTES))
    fill = (work.loaded_bytes - work.factor_bytes) / fill_rate + work.factor_bytes / factor_rate
    l2_rate = min(rates.fill_bytes, rates.l2_bytes * rates.sms / busy)
    l2 = work.loaded_bytes / l2_rate
    pace = max(mma, read)
    turns = max(
        (-(-ring.steps // ring.stages) - 1)
        * (rates.copy_latency + rates.mma_latency + (pace + max(fill, l2)) / ring.steps)
        for ring in work.rings
    )
    paces = {"tensor core": mma, "shared memory": read, "TMA fill": fill, "L2": l2, "copy latency": turns}
    bound_by = max(paces, key=paces.__getitem__)

    stored = tiling.block_m * tiling.block_n * _bytes(problem.out) * (1 + problem.residual)
    epilogue = max(stored / rates.store_bytes, work.stores * rates.store_cycles)
    around = rates.cta_start + rates.copy_latency + rates.mma_latency + epilogue
    cycles = waves * (paces[bound_by] + around)
    moves = _moves(work, candidate)
    sentences = (
        f"{ctas} CTAs ({candidate.grid[0]} x {candidate.grid[1]}) on {rates.sms} SMs: {waves} wave{'s' * (waves > 1)}, "
        f"the last one {last / rates.sms:.0%} full.",
        f"{problem.macs / padded:.1%} of the multiplications are the convolution's own; the rest pads tiles.",
        *_own(candidate, work, padded),
        f"Tensor core: {work.mmas} MMAs of {work.m} x {work.n}, {each:g} cycles each{moves}: {mma:.0f}.",
        f"Shared memory: they read {work.read_bytes} bytes at {rates.read_bytes:g} bytes a cycle: {read:.0f} cycles.",
        f"TMA fill: {work.loaded_bytes} bytes at {fill_rate:g} bytes a cycle ({work.row_bytes}-byte rows): "
        f"{fill:.0f} cycles{_factors(work, factor_rate)}; {work.activation_bytes} of them are activations.",
        f"L2: the same bytes at {l2_rate:.0f} bytes a cycle for each of {busy} busy SMs: {l2:.0f} cycles.",
        f"Copies in flight: {_rings(work)}; a stage is used again after copy, multiply and give back, so the loop "
        f"takes at least {turns:.0f} cycles.",
        f"Start, first copy, last MMA and epilogue{_finish(problem)}: {around:.0f} cycles a CTA.",
        f"All CTAs together read {ctas * work.loaded_bytes} bytes through L2.",
        f"The K loop waits for {bound_by}; the launch takes about {cycles:.0f} cycles.",
    )
    return Estimate(
        waves=waves,
        last_wave_fill=last / rates.sms,
        useful=problem.macs / padded,
        traffic_bytes=ctas * work.loaded_bytes,
        mma_cycles=mma,
        read_cycles=read,
        fill_cycles=fill,
        l2_cycles=l2,
        copy_cycles=turns,
        around_cycles=around,
        cycles=cycles,
        bound_by=bound_by,
        sentences=sentences,
    )


def choose(costs: Sequence[Estimate]) -> int:
    """Which of several candidates to take: of those about as fast as the fastest, the one that moves fewest bytes."""
    limit = SLACK * min(cost.cycles for cost in costs)
    near = (index for index, cost in enumerate(costs) if cost.cycles <= limit)
    return min(near, key=lambda index: (costs[index].traffic_bytes, costs[index].cycles, index))


def _own(candidate: TiledProblem, work: CtaWork, padded: int) -> tuple[str, ...]:
    """Of groups that are joined: what is left of the tensor core's speed, beside a kernel that does without it."""
    layout, rates = candidate.layout, candidate.arch.rates
    if layout.packing is None:
        return ()
    elements = 1 if layout.blocks is None else layout.blocks.packed
    share = layout.ordinary.macs / (padded * elements)
    speed = share * work.m * work.n * (ATOM_BYTES // _bytes(layout.problem.operand)) * elements / (work.n / 2)
    return (
        f"{share:.1%} are the model's own, groups being joined: {speed:.0f} a cycle while the tensor core multiplies; "
        f"without it an SM makes {rates.fmas} a cycle.",
    )


def _finish(problem: ConvProblem) -> str:
    """What the epilogue does besides adding a bias and storing; its arithmetic hides behind the stores."""
    read = "; it reads as many bytes of the residual as it stores" if problem.residual else ""
    return f" ({describe(problem.epilogue)}{read})" if problem.epilogue else ""


def _factors(work: CtaWork, rate: float) -> str:
    """What it costs that scale factors come in short rows."""
    if not work.factor_bytes:
        return ""
    return f", with {work.factor_bytes} bytes of scale factors at {rate:g} bytes a cycle ({FACTOR_ROW_BYTES}-byte rows)"


def _moves(work: CtaWork, candidate: TiledProblem) -> str:
    """What the tensor core does besides multiplying."""
    rates, parts = candidate.arch.rates, []
    if work.shifts:
        parts.append(f"{work.shifts} shifts of {rates.shift_cycles} cycles")
    if work.moving:
        parts.append(f"{work.moving} .ashift of {rates.ashift_cycles} more")
    if work.drains:
        parts.append(f"{work.drains} waits of {rates.mma_latency}")
    return f", {', '.join(parts)}" if parts else ""


def _rings(work: CtaWork) -> str:
    return ", ".join(f"{ring.steps} tiles through {ring.stages} stages" for ring in work.rings)


def _bytes(dtype: str) -> int:
    return dtypes.BY_NAME[dtype].bytes
