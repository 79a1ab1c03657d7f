"""How long a candidate should take: a small model of one launch, in cycles, read aloud as sentences.

The K loop of a CTA goes at the pace of its slowest supplier: the tensor core, the port through which TMA fills shared
memory, the SM's share of L2, or the turns of the stages, each of which holds one copy on its way. Around the loop every
CTA pays for its start, the first copy, the last MMA and the epilogue. CTAs go over the SMs in waves, one per SM at a
time. Rates and their sources are in `convc.arch`; the model ranks candidates against each other and promises nothing
about absolute time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from convc import dtypes
from convc.plan.constraints import Candidate
from convc.plan.records import Estimate, Pipeline

SLACK = 1.18
"""Estimates closer than this are taken as equal: each may be off by 9 percent, as the published rates are at worst."""


def estimate(candidate: Candidate, pipeline: Pipeline) -> Estimate:
    """Cycles of the launch and what they come from."""
    arch, tiling, problem = candidate.arch, candidate.tiling, candidate.form.problem
    rates = arch.rates
    ctas = math.prod(candidate.grid)
    busy = min(ctas, rates.sms)
    waves = -(-ctas // rates.sms)
    last = ctas - (waves - 1) * rates.sms
    atoms = pipeline.steps * pipeline.atoms
    padded = ctas * tiling.block_m * tiling.block_n * atoms * (arch.limits.mma_atom_bytes // _bytes(problem.operand))
    loop_bytes = pipeline.steps * pipeline.step_bytes

    each = arch.mma_cycles(tiling.block_n)
    mma = atoms * each
    fill_rate = rates.fill_bytes * min(1.0, tiling.row_bytes / 128)
    fill = loop_bytes / fill_rate
    l2_rate = min(rates.fill_bytes, rates.l2_bytes * rates.sms / busy)
    l2 = loop_bytes / l2_rate
    turn = rates.copy_latency + rates.mma_latency + (mma + max(fill, l2)) / pipeline.steps
    turns = (-(-pipeline.steps // tiling.stages) - 1) * turn
    paces = {"tensor core": mma, "TMA fill": fill, "L2": l2, "copy latency": turns}
    bound_by = max(paces, key=paces.__getitem__)

    epilogue = tiling.block_m * tiling.block_n * _bytes(problem.out) / rates.store_bytes
    around = rates.cta_start + rates.copy_latency + rates.mma_latency + epilogue
    cycles = waves * (paces[bound_by] + around)
    sentences = (
        f"{ctas} CTAs ({candidate.grid[0]} x {candidate.grid[1]}) on {rates.sms} SMs: {waves} wave{'s' * (waves > 1)}, "
        f"the last one {last / rates.sms:.0%} full.",
        f"{problem.macs / padded:.1%} of the multiplications are the convolution's own; the rest pads tiles.",
        f"Tensor core: {atoms} MMAs of 128 x {tiling.block_n}, {each:g} cycles each: {mma:.0f}.",
        f"TMA fill: {loop_bytes} bytes at {fill_rate:g} bytes a cycle ({tiling.row_bytes}-byte rows): "
        f"{fill:.0f} cycles.",
        f"L2: the same bytes at {l2_rate:.0f} bytes a cycle for each of {busy} busy SMs: {l2:.0f} cycles.",
        f"Copies in flight: {tiling.stages} stages of {pipeline.step_bytes} bytes; a stage is used again after "
        f"{turn:.0f} cycles (copy, multiply, give back), so {pipeline.steps} steps take at least {turns:.0f} cycles.",
        f"Start, first copy, last MMA and epilogue: {around:.0f} cycles a CTA.",
        f"All CTAs together read {ctas * loop_bytes} bytes through L2.",
        f"The K loop waits for {bound_by}; the launch takes about {cycles:.0f} cycles.",
    )
    return Estimate(
        waves=waves,
        last_wave_fill=last / rates.sms,
        useful=problem.macs / padded,
        traffic_bytes=ctas * loop_bytes,
        mma_cycles=mma,
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


def _bytes(dtype: str) -> int:
    return dtypes.BY_NAME[dtype].bytes
