"""The schedules that a layer could have, as bars: cycles by what the critical path of each goes through.

A schedule whose kernel was timed has a bar of the causes that the timing engine finds, which add up to its time. One
that was not has a plain bar of the planner's estimate. Causes that take least share a colour.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from convc.compiler.plan.records import Plan, ScheduleSummary
from convc.draw.svg import (
    LETTER,
    MARGIN,
    SHADES,
    TITLE,
    Picture,
    group,
    legend_lines,
    rect,
    text,
    titled,
    width_of,
    wrapped,
)
from convc.explain.schedules import illegal_lines
from convc.explain.taken import all_choices, assumed_of, taken_choice, title_of
from convc.explain.why import two_times, why_lines
from convc.report.format import convolution, human_bytes
from convc.timing.kernel import KernelTime

WIDTH = 560
"""Pixels of the longest bar."""

ROW = 30
"""Pixels from one bar to the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedSchedule:
    """The kernel of a schedule that was timed.

    Attributes:
        choice: the candidate that was compiled, with the planner's numbers.
        kernel: its time.
    """

    choice: ScheduleSummary
    kernel: KernelTime


def timed_schedule(plan: Plan, kernel: KernelTime) -> TimedSchedule:
    """A plan whose kernel was timed."""
    return TimedSchedule(choice=taken_choice(plan), kernel=kernel)


@dataclass(frozen=True, slots=True)
class _Bar:
    """A candidate, with its time where that is known."""

    choice: ScheduleSummary
    kernel: KernelTime | None

    @property
    def cycles(self) -> float:
        """Cycles of the launch: timed, or estimated where it was not."""
        return self.choice.cycles if self.kernel is None else self.kernel.cycles

    @property
    def words(self) -> str:
        """Bytes, and the rules that it assumes, for people."""
        assumed = f", {assumed_of(self.choice)} assumed" if assumed_of(self.choice) else ""
        estimated = ", estimated" if self.kernel is None else ""
        return f"{estimated}; {human_bytes(self.choice.traffic_bytes)} from L2{assumed}"


def schedules_picture(plan: Plan, timed: Mapping[str, TimedSchedule]) -> Picture:
    """Draw the schedules of a plan.

    Args:
        plan: which schedules are legal, what each moves, and which was taken.
        timed: the kernels of schedules by their titles, such as ``shift windows``.
    """
    bars = [_Bar(one.choice, one.kernel) for one in timed.values()]
    bars += [_Bar(one, None) for one in all_choices(plan) if one.schedule.title not in timed]
    bars.sort(key=lambda bar: bar.cycles)
    spent: Counter[str] = Counter()
    for one in timed.values():
        spent.update({cause: share * one.kernel.cycles for cause, share in one.kernel.waits.items()})
    kinds = dict(zip((cause for cause, _ in spent.most_common()), SHADES[:-1], strict=False))
    taken = taken_choice(plan)
    own = next(bar.cycles for bar in bars if bar.choice == taken)
    left = MARGIN + max(width_of(title_of(bar.choice)) for bar in bars) + width_of(" * ")
    scale = WIDTH / bars[-1].cycles
    parts, y = legend_lines(MARGIN, TITLE - 4, [*kinds.items(), ("the rest, or an estimate", SHADES[-1])], WIDTH + left)
    y += 10
    width = 0.0
    for bar in bars:
        chosen = bar.choice == taken
        said = f"{bar.cycles:.0f} cycles{'' if bar.cycles == own else f' ({bar.cycles / own - 1:+.0%})'}{bar.words}"
        parts.append(
            text(MARGIN, y + 14, f"{title_of(bar.choice)}{' *' if chosen else ''}", "strong" if chosen else "")
        )
        end = left + bar.cycles * scale + 8
        width = max(width, end + width_of(said))
        boxes = [*_boxes(bar, kinds, left, y, scale), text(end, y + 14, said)]
        parts.append(
            group(
                boxes,
                schedule=bar.choice.schedule.title,
                cycles=f"{bar.cycles:.1f}",
                bytes=bar.choice.traffic_bytes,
                chosen=int(chosen),
            )
        )
        y += ROW
    lines = [*illegal_lines(plan), *why_lines(plan)]
    kernel = timed.get(plan.schedule.title)
    if kernel is not None:
        lines.append(two_times(plan, kernel.kernel.cycles))
    for words in (*lines, "*: the plan's schedule; assumed: rules of the hardware that are untested"):
        for one in wrapped(words, int((width - MARGIN) / LETTER)):
            parts.append(text(MARGIN, y + 10, one, "soft"))
            y += 15
    return titled(f"schedules of {convolution(plan.problem)}", width + MARGIN, y + MARGIN, parts)


def _boxes(bar: _Bar, kinds: Mapping[str, str], left: float, y: float, scale: float) -> Iterator[str]:
    """The causes of a timed kernel side by side, or one box for an estimate."""
    if bar.kernel is None:
        tip = f"{title_of(bar.choice)}: estimate {bar.choice.cycles:.0f}"
        yield rect(left, y, bar.cycles * scale, 20, SHADES[-1], tip)
        return
    x = left
    for cause, share in bar.kernel.waits.items():
        cycles = share * bar.cycles
        tip = f"{cause}: {cycles:.0f} cycles, {share:.0%}"
        yield rect(x, y, cycles * scale, 20, kinds.get(cause, SHADES[-1]), tip, cause=cause, cycles=f"{cycles:.1f}")
        x += cycles * scale
