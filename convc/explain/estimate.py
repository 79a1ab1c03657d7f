"""The estimate of a plan, read aloud: where its cycles come from, one sentence each."""

from __future__ import annotations

from collections.abc import Iterator

from convc.compiler.plan.records import LaunchPlan, Plan
from convc.compiler.plan.residency import limits
from convc.compiler.plan.terms import mma_times, port_bytes
from convc.compiler.plan.work import ATOM_BYTES, FACTOR_ROW_BYTES
from convc.ir.epilogue import describe


def estimate_lines(plan: Plan) -> Iterator[str]:
    """Every sentence, from the grid to the launch as a whole."""
    cost = plan.estimate
    work = plan.work
    rates = plan.arch.rates
    word = "round" if plan.launch.persistent else "wave"
    waves = f"{cost.waves} {word}{'s' if cost.waves > 1 else ''}"
    parts = f" x {plan.launch.parts}" if plan.launch.parts > 1 else ""
    grid = f"{plan.launch.grid[0]} x {plan.launch.grid[1]}{parts}"
    held = f", {cost.beside} per SM at a time" if cost.beside > 1 else ""
    grid = f"{grid}, assigned by the dynamic tile scheduler" if plan.launch.dynamic else grid
    yield f"{cost.ctas} CTAs ({grid}) on {rates.sms} SMs{held}: {waves}, the last one {cost.last_wave_fill:.0%} full."
    yield from _resident(plan)
    yield f"{cost.useful:.1%} of the multiplications are useful; the rest is padding of tiles."
    yield from _joined_groups(plan)
    # What the K loop can wait for, one sentence each: the one that takes longest is the bottleneck below.
    yield (
        f"Tensor core: {work.mmas} MMAs of {work.m} x {work.n}, {mma_times(work, rates).interval:g} cycles each"
        f"{_moves(plan)}: {cost.mma_cycles:.0f}."
    )
    yield (
        f"Shared memory: MMAs read {port_bytes(work)} bytes at {rates.read_bytes:g} bytes a cycle: "
        f"{cost.read_cycles:.0f} cycles."
    )
    yield (
        f"TMA fill: {work.loaded_bytes} bytes at {cost.fill_rate:.4g} bytes a cycle ({work.row_bytes}-byte rows): "
        f"{cost.fill_cycles:.0f} cycles{_factors(plan)}; {work.activation_bytes} of them are activations."
    )
    if work.residual_bytes:
        yield f"Then {work.residual_bytes} bytes of the residual are loaded, for the epilogue."
    memory = f" and memory, with {cost.memory_bytes} bytes of traffic in total," if cost.memory_bytes else ""
    yield (
        f"L2{memory}: the same bytes at {cost.l2_rate:.0f} bytes a cycle for each of {cost.busy_sms} busy SMs: "
        f"{cost.l2_cycles:.0f} cycles per CTA."
    )
    yield (
        f"Issue: {cost.load_cycles:.0f} cycles of the thread that issues {work.loads} copies, "
        f"{cost.multiply_cycles:.0f} of the one that issues MMAs{_waits(plan)}."
    )
    rings = ", ".join(f"{ring.steps} tiles through {ring.stages} stages" for ring in work.rings)
    yield (
        f"Copies in flight: {rings}; a stage is reused after its copy, MMA and release, so the loop takes at "
        f"least {cost.latency_cycles:.0f} cycles."
    )
    yield (
        f"Start, first copy and last MMA: {cost.around_cycles:.0f} cycles per CTA; epilogue{_epilogue(plan)}: "
        f"{cost.epilogue_cycles:.0f}."
    )
    yield f"L2-to-SMEM traffic of all CTAs: {cost.traffic_bytes} bytes."
    yield f"The mainloop is bound by {cost.bottleneck}; the launch takes about {cost.cycles:.0f} cycles."


def order_lines(launch: LaunchPlan) -> Iterator[str]:
    """Say in which order tiles are made and why, and what a wave of CTAs and the launch move in it, and in others."""
    order = launch.order
    if not order.why:
        return
    yield order.why
    if order.proof:
        yield order.proof
    if order.traffic:
        taken, *others = order.traffic
        yield f"a wave of CTAs reads {taken.round_bytes} distinct bytes of operands"
        for one in others:
            name = f"{one.order}, {one.groups} groups" if one.groups > 1 else one.order
            yield f"  order {name}: {one.round_bytes} bytes per wave, {one.memory_bytes} from and to memory"


def _resident(plan: Plan) -> Iterator[str]:
    """What lets CTAs onto an SM, and that tensor memory, which does not, is enough for them."""
    need = plan.storage.need
    if not need.tmem_columns:
        return
    counted = ", ".join(f"{held} by {what}" for what, held in limits(need, plan.arch).items())
    most = min(limits(need, plan.arch).values())
    unused = need.smem_bytes - plan.storage.end
    asked = f", {unused} of them unused" if unused else ""
    yield (
        f"CTAs per SM: {counted}. Tensor memory sets no limit: a CTA whose allocation fails waits, and clusters may "
        f"deadlock. So a CTA requests {need.smem_bytes} bytes of shared memory{asked}, and all CTAs of an SM allocate "
        f"{most * need.tmem_columns} of {plan.arch.limits.tmem_columns} columns."
    )


def _joined_groups(plan: Plan) -> Iterator[str]:
    """Of joined groups and filled pixels: what is left of the tensor core's speed, beside a kernel without it."""
    share = plan.estimate.model_share
    if share is None:
        return
    work = plan.work
    blocks = plan.layout.blocks
    elements = ATOM_BYTES // plan.problem.operand_dtype.bytes
    if blocks is not None:
        elements *= blocks.packed  # fp4: two elements a byte
    speed = share * work.m * work.n * elements / mma_times(work, plan.arch.rates).interval
    cause = "as groups are packed" if plan.layout.overlap is None else "as pixels are padded"
    yield (
        f"{share:.1%} are the model's own, {cause}: {speed:.0f} per cycle while the tensor core multiplies; the FMA "
        f"units of an SM do {plan.arch.rates.fmas} per cycle."
    )


def _epilogue(plan: Plan) -> str:
    """What the epilogue does besides adding a bias and storing; its arithmetic hides behind the stores."""
    problem = plan.problem
    if not problem.epilogue:
        return ""
    read = "; it loads as many bytes of the residual as it stores" if problem.residual else ""
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
    if work.copies or work.refreshes:
        parts.append(f"{work.copies + work.refreshes} copies to tensor memory")
    if work.shifts:
        parts.append(f"{work.shifts} shifts of {rates.shift_cycles:g} cycles")
    if work.moving:
        parts.append(f"{work.moving} .ashift of {rates.ashift_cycles:g} more")
    return f", {', '.join(parts)}" if parts else ""


def _waits(plan: Plan) -> str:
    """How often the issuing thread waits for its own operations."""
    drains = plan.work.drains
    return f", including {drains} waits for its own operations" if drains else ""
