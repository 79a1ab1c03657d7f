"""The candidates that a plan compares, each in one line: of every schedule the best, and the one that was taken.

What was taken may be no schedule's line: the planner looks at each schedule by itself first, and decides afterwards
whether CTAs are persistent, pair or share a tile. So the line of what was taken is made of the plan's own estimate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from convc.compiler.plan.records import Plan, ScheduleSummary
from convc.compiler.schedules.all import schedule_of


def taken_choice(plan: Plan) -> ScheduleSummary:
    """The line of the kernel itself: its schedule, tiles and launch, with its own estimate."""
    cost = plan.estimate
    return ScheduleSummary(
        schedule=plan.schedule,
        tiling=plan.tiling,
        persistent=plan.launch.persistent,
        parts=plan.launch.parts,
        cycles=cost.cycles,
        mma_cycles=cost.mma_cycles,
        read_cycles=cost.read_cycles,
        multiply_cycles=cost.multiply_cycles,
        traffic_bytes=cost.traffic_bytes,
        bottleneck=cost.bottleneck,
    )


def legal_choices(plan: Plan) -> list[ScheduleSummary]:
    """The schedules that have a kernel, the fastest first."""
    return sorted((choice for choice in plan.choices if choice.tiling), key=lambda choice: choice.cycles)


def all_choices(plan: Plan) -> list[ScheduleSummary]:
    """The schedules that have a kernel, and what was taken where it is none of these, the fastest first."""
    taken = taken_choice(plan)
    legal = legal_choices(plan)
    return legal if taken in legal else sorted((taken, *legal), key=lambda choice: choice.cycles)


def launch_words(choice: ScheduleSummary) -> Iterator[str]:
    """Words for what the CTAs of a candidate do together; none where each makes one tile by itself."""
    if choice.persistent:
        yield "persistent"
    if choice.tiling is not None and choice.tiling.ctas > 1:
        yield "2-CTA MMA"
    if choice.parts > 1:
        yield f"split K {choice.parts}"
    if choice.tiling is not None and choice.tiling.multicast != (1, 1):
        yield f"multicast {'x'.join(map(str, choice.tiling.multicast))}"


def title_of(choice: ScheduleSummary) -> str:
    """A candidate for people: its schedule, and how it is launched, such as ``slide, persistent``."""
    return ", ".join((choice.schedule.title, *launch_words(choice)))


def titles_of(choices: Sequence[ScheduleSummary]) -> str:
    """Several candidates; what all of them do together is said once."""
    if len({tuple(launch_words(choice)) for choice in choices}) > 1:
        return "; ".join(map(title_of, choices))
    return ", ".join((*(choice.schedule.title for choice in choices), *launch_words(choices[0])))


def numbers_of(choice: ScheduleSummary) -> tuple[object, ...]:
    """Everything that is estimated of a candidate, and its launch: where two have the same, they do the same."""
    numbers = (choice.cycles, choice.traffic_bytes, choice.mma_cycles, choice.read_cycles, choice.bottleneck)
    return *numbers, *launch_words(choice)


def assumed_of(choice: ScheduleSummary) -> int:
    """Rules that a schedule assumes."""
    return schedule_of(choice.schedule).assumed
