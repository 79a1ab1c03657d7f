"""Activations in tensor memory against the same in shared memory: whether moving rows there pays, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from convc.compiler.plan.choice import ASSUMED_SLACK, SLACK, slack
from convc.compiler.plan.records import ScheduleSummary
from convc.compiler.schedules.all import schedule_of
from convc.explain.taken import assumed_of, numbers_of


def moving_lines(legal: Sequence[ScheduleSummary], chosen: ScheduleSummary) -> Iterator[str]:
    """The verdict on the best schedule of either kind, where both are there and differ."""
    still = _best(legal, "shared memory")
    moved = _best(legal, "tensor memory")
    if still and moved and numbers_of(still) != numbers_of(moved):
        yield verdict_on_moving(still, moved, chosen)


def verdict_on_moving(still: ScheduleSummary, moved: ScheduleSummary, chosen: ScheduleSummary) -> str:
    """Whether activations in tensor memory gain anything over the same activations in shared memory, and why.

    Tensor memory saves reads of shared memory, and costs the tensor core copies and moves, and the issuing thread their
    issue: it pays where those reads are what takes longest, and by more than the estimates may be off.

    Args:
        still, moved: the best schedule of either kind.
        chosen: the one that was taken.
    """
    if moved.schedule != chosen.schedule and schedule_of(chosen.schedule).activations == "tensor memory":
        moved = chosen
    slide = still.schedule.title
    shift = moved.schedule.title
    times = f"about {moved.cycles:.0f} cycles, {slide} {still.cycles:.0f}"
    saved = f"it saves {still.read_cycles - moved.read_cycles:.0f} cycles of SMEM reads"
    if still.cycles >= slack(assumed_of(still), assumed_of(moved)) * moved.cycles:
        return f"{shift} is faster ({times}): {saved}"
    if moved is chosen:
        gain = "it has less traffic" if moved.traffic_bytes < still.traffic_bytes else "no criterion prefers the other"
        return f"{shift} and {slide} differ by less than the error of the estimate ({times}); {gain}"
    if still.cycles >= SLACK * moved.cycles:
        gained = still.cycles / moved.cycles - 1
        return (
            f"{shift} is not chosen ({times}): it is {gained:.0%} faster, but assumes unrecorded hardware rules, and "
            f"must be {ASSUMED_SLACK - 1:.0%} faster"
        )
    start = f"{shift} is {'slower' if moved.cycles > still.cycles else 'not faster'} here ({times}): {saved}"
    spent = " and ".join(_spent_on_moving(still, moved))
    adds = f"it adds {spent}" if spent else ""
    if still.bottleneck != "shared memory":
        adds = f", and {adds}" if adds else ""
        return f"{start}, but the mainloop of {slide} is bound by {still.bottleneck}{adds}"
    return f"{start}, but {adds or 'that is less than the error of the estimate'}"


def _spent_on_moving(still: ScheduleSummary, moved: ScheduleSummary) -> Iterator[str]:
    """What activations in tensor memory cost beyond those in shared memory."""
    multiplied = moved.mma_cycles - still.mma_cycles
    issued = moved.multiply_cycles - still.multiply_cycles
    if multiplied > 0:
        yield f"{multiplied:.0f} cycles of tensor-core time (copies, shifts)"
    if issued > 0:
        yield f"{issued:.0f} cycles of issue"


def _best(legal: Sequence[ScheduleSummary], activations: str) -> ScheduleSummary | None:
    """The fastest schedule that shares activations, pixels being rows, from shared or from tensor memory."""
    for choice in legal:
        schedule = schedule_of(choice.schedule)
        if schedule.shares and not schedule.transposed and schedule.activations == activations:
            return choice
    return None
