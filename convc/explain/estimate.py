"""The estimate of a plan, read aloud: where its cycles come from, one sentence each."""

from __future__ import annotations

from collections.abc import Iterator

from convc.compiler.plan.cost import cycles_of_mma
from convc.compiler.plan.records import Plan
from convc.compiler.plan.work import ATOM_BYTES, FACTOR_ROW_BYTES
from convc.ir.epilogue import describe


def estimate_lines(plan: Plan) -> Iterator[str]:
    """Every sentence, from the grid to the launch as a whole."""
    cost = plan.estimate
    work = plan.work
    rates = plan.arch.rates
    waves = f"{cost.waves} wave{'s' if cost.waves > 1 else ''}"
    grid = f"{plan.launch.grid[0]} x {plan.launch.grid[1]}"
    yield f"{cost.ctas} CTAs ({grid}) on {rates.sms} SMs: {waves}, the last one {cost.last_wave_fill:.0%} full."
    yield f"{cost.useful:.1%} of the multiplications are the convolution's own; the rest pads tiles."
    yield from _joined_groups(plan)
    # What the K loop can wait for, one sentence each: the one that takes longest is the bottleneck below.
    each = cycles_of_mma(work)
    yield (
        f"Tensor core: {work.mmas} MMAs of {work.m} x {work.n}, {each:g} cycles each{_moves(plan)}: "
        f"{cost.mma_cycles:.0f}."
    )
    yield (
        f"Shared memory: they read {work.read_bytes} bytes at {rates.read_bytes:g} bytes a cycle: "
        f"{cost.read_cycles:.0f} cycles."
    )
    yield (
        f"TMA fill: {work.loaded_bytes} bytes at {cost.fill_rate:g} bytes a cycle ({work.row_bytes}-byte rows): "
        f"{cost.fill_cycles:.0f} cycles{_factors(plan)}; {work.activation_bytes} of them are activations."
    )
    yield (
        f"L2: the same bytes at {cost.l2_rate:.0f} bytes a cycle for each of {cost.busy_sms} busy SMs: "
        f"{cost.l2_cycles:.0f} cycles."
    )
    rings = ", ".join(f"{ring.steps} tiles through {ring.stages} stages" for ring in work.rings)
    yield (
        f"Copies in flight: {rings}; a stage is used again after copy, multiply and give back, so the loop "
        f"takes at least {cost.latency_cycles:.0f} cycles."
    )
    yield f"Start, first copy, last MMA and epilogue{_epilogue(plan)}: {cost.around_cycles:.0f} cycles a CTA."
    yield f"All CTAs together read {cost.traffic_bytes} bytes through L2."
    yield f"The K loop waits for {cost.bottleneck}; the launch takes about {cost.cycles:.0f} cycles."


def _joined_groups(plan: Plan) -> Iterator[str]:
    """Of groups that are joined: what is left of the tensor core's speed, beside a kernel that does without it."""
    share = plan.estimate.model_share
    if share is None:
        return
    work = plan.work
    blocks = plan.layout.blocks
    elements = ATOM_BYTES // plan.problem.operand_dtype.bytes
    if blocks is not None:
        elements *= blocks.packed  # fp4: two elements a byte
    speed = share * work.m * work.n * elements / cycles_of_mma(work)
    yield (
        f"{share:.1%} are the model's own, groups being joined: {speed:.0f} a cycle while the tensor core multiplies; "
        f"without it an SM makes {plan.arch.rates.fmas} a cycle."
    )


def _epilogue(plan: Plan) -> str:
    """What the epilogue does besides adding a bias and storing; its arithmetic hides behind the stores."""
    problem = plan.problem
    if not problem.epilogue:
        return ""
    read = "; it reads as many bytes of the residual as it stores" if problem.residual else ""
    return f" ({describe(problem.epilogue)}{read})"


def _factors(plan: Plan) -> str:
    """What it costs that scale factors come in short rows."""
    size = plan.work.factor_bytes
    if not size:
        return ""
    rate = f"{plan.estimate.factor_rate:g} bytes a cycle ({FACTOR_ROW_BYTES}-byte rows)"
    return f", with {size} bytes of scale factors at {rate}"


def _moves(plan: Plan) -> str:
    """What the tensor core does besides multiplying."""
    work = plan.work
    rates = plan.arch.rates
    parts: list[str] = []
    if work.shifts:
        parts.append(f"{work.shifts} shifts of {rates.shift_cycles} cycles")
    if work.moving:
        parts.append(f"{work.moving} .ashift of {rates.ashift_cycles} more")
    if work.drains:
        parts.append(f"{work.drains} waits of {rates.mma_latency}")
    return f", {', '.join(parts)}" if parts else ""
