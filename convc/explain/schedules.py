"""The choice of a schedule: what the others would cost, and whether moving rows in tensor memory is worth it."""

from __future__ import annotations

from collections.abc import Iterator

from convc.compiler.plan.cost import SLACK
from convc.compiler.plan.records import Plan, ScheduleSummary
from convc.compiler.schedules.all import schedule_of


def choice_lines(plan: Plan) -> Iterator[str]:
    """Every schedule that was considered, best first, then those that are illegal here, then the verdict on shift."""
    legal = sorted((choice for choice in plan.choices if choice.tiling), key=lambda choice: choice.cycles)
    for choice in legal:
        mark = "*" if choice.schedule == plan.schedule else " "
        cost = f"about {choice.cycles:.0f} cycles, waits for {choice.bottleneck}"
        yield f"{mark} {choice.schedule.title:<15} {cost}: {choice.tiling}"
    for choice in plan.choices:
        if choice.tiling is None:
            yield f"  {choice.schedule.title:<15} not here: {choice.reason}"
    if len(legal) > 1:
        yield (
            f"of those within {SLACK - 1:.0%} of the fastest the plan takes one that rests on no assumed rule of the "
            "hardware, and of these the one that moves fewest bytes"
        )
    still = _best(legal, "shared memory")
    moved = _best(legal, "tensor memory")
    if still and moved:
        yield verdict_on_moving(still, moved)


def verdict_on_moving(still: ScheduleSummary, moved: ScheduleSummary) -> str:
    """Whether activations in tensor memory gain anything over the same activations in shared memory, and why.

    Tensor memory saves reads of shared memory, and costs copies and moves: it pays where those reads are what takes
    longest (N up to about 96, with published rates of a B200), and by more than the estimates may be off.
    """
    slide = still.schedule.name
    shift = moved.schedule.name
    reads = f"{moved.read_cycles:.0f} cycles of reading shared memory instead of {still.read_cycles:.0f}"
    if still.cycles >= SLACK * moved.cycles:
        return f"{shift} pays: about {moved.cycles:.0f} cycles instead of {slide}'s {still.cycles:.0f}, for {reads}"
    start = f"{shift} is not worth it here (about {moved.cycles:.0f} cycles, {slide} {still.cycles:.0f}): {reads} "
    if still.bottleneck != "shared memory":
        return f"{start}gains nothing, since {slide} waits for {still.bottleneck}"
    if moved.mma_cycles > still.mma_cycles:
        more = moved.mma_cycles - still.mma_cycles
        return f"{start}is paid for by {more:.0f} more of the tensor core, which moves rows"
    return f"{start}is less than the estimates may be off"


def _best(legal: list[ScheduleSummary], activations: str) -> ScheduleSummary | None:
    """The fastest schedule that shares activations, pixels being rows, from shared or from tensor memory."""
    for choice in legal:
        schedule = schedule_of(choice.schedule)
        if schedule.shares and not schedule.transposed and schedule.activations == activations:
            return choice
    return None
