"""Which schedule a plan took, what the others would cost, and whether moving rows in tensor memory is worth it."""

from __future__ import annotations

from collections.abc import Iterator

from convc.compiler.plan.cost import SLACK
from convc.compiler.plan.records import Plan, ScheduleSummary


def choice_lines(plan: Plan) -> Iterator[str]:
    """Every schedule that was considered, best first, then those that are illegal here, then the verdict on shift."""
    legal = sorted((choice for choice in plan.choices if choice.tiling), key=lambda choice: choice.cycles)
    for choice in legal:
        mark = "*" if choice.title == plan.title else " "
        cost = f"about {choice.cycles:.0f} cycles, waits for {choice.bound_by}"
        yield f"{mark} {choice.title:<15} {cost}: {choice.tiling}"
    for choice in plan.choices:
        if choice.tiling is None:
            yield f"  {choice.title:<15} not here: {choice.reason}"
    if len(legal) > 1:
        yield (
            f"of those within {SLACK - 1:.0%} of the fastest the plan takes one that rests on no assumed rule of the "
            "hardware, and of these the one that moves fewest bytes"
        )
    slide, shift = _best(legal, "slide"), _best(legal, "shift")
    if slide and shift:
        yield verdict_on_shift(slide, shift)


def verdict_on_shift(slide: ScheduleSummary, shift: ScheduleSummary) -> str:
    """Whether activations in tensor memory gain anything over the same activations in shared memory, and why.

    Tensor memory saves reads of shared memory, and costs copies and moves: it pays where those reads are what takes
    longest (N up to about 96, with published rates of a B200), and by more than the estimates may be off.
    """
    reads = f"{shift.read_cycles:.0f} cycles of reading shared memory instead of {slide.read_cycles:.0f}"
    if slide.cycles >= SLACK * shift.cycles:
        return f"shift pays: about {shift.cycles:.0f} cycles instead of slide's {slide.cycles:.0f}, for {reads}"
    start = f"shift is not worth it here (about {shift.cycles:.0f} cycles, slide {slide.cycles:.0f}): {reads} "
    if slide.bound_by != "shared memory":
        return f"{start}gains nothing, since slide waits for {slide.bound_by}"
    if shift.mma_cycles > slide.mma_cycles:
        return (
            f"{start}is paid for by {shift.mma_cycles - slide.mma_cycles:.0f} more of the tensor core, which moves rows"
        )
    return f"{start}is less than the estimates may be off"


def _best(legal: list[ScheduleSummary], schedule: str) -> ScheduleSummary | None:
    """The fastest variant of a schedule."""
    return next((choice for choice in legal if choice.schedule == schedule), None)
