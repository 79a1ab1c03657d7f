"""The schedules that a layer could have, as bars: cycles by what the critical path of each goes through.

A schedule whose kernel was timed has a bar of the causes that the timing engine finds, which add up to its time. One
that was not has a plain bar of the planner's estimate. Causes that take least share a colour.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from convc.compiler.plan.records import Plan, ScheduleSummary
from convc.compiler.schedules.all import schedule_of
from convc.draw.svg import MARGIN, SHADES, TITLE, Picture, group, legend_lines, rect, text, titled, width_of
from convc.explain.schedules import illegal_lines, legal_choices, why_lines
from convc.report.format import convolution, human_bytes
from convc.timing.kernel import KernelTime

WIDTH = 640
"""Pixels of the longest bar."""

ROW = 30
"""Pixels from one bar to the next."""

LEFT = 150


def schedules_picture(plan: Plan, timed: Mapping[str, KernelTime]) -> Picture:
    """Draw the schedules of a plan.

    Args:
        plan: which schedules are legal, what each moves, and which was taken.
        timed: the kernels of schedules by their titles, such as ``shift windows``.
    """
    choices = legal_choices(plan)
    spent: Counter[str] = Counter()
    for kernel in timed.values():
        spent.update({cause: share * kernel.cycles for cause, share in kernel.waits.items()})
    kinds = dict(zip((cause for cause, _ in spent.most_common()), SHADES[:-1], strict=False))
    cycles = {choice.schedule.title: _cycles(choice, timed) for choice in choices}
    longest = max(cycles.values())
    own = cycles[plan.schedule.title]
    parts, y = legend_lines(MARGIN, TITLE - 4, [*kinds.items(), ("the rest, or an estimate", SHADES[-1])], WIDTH + LEFT)
    y += 10
    width = 0.0
    for choice in sorted(choices, key=lambda choice: cycles[choice.schedule.title]):
        title = choice.schedule.title
        kernel = timed.get(title)
        chosen = choice.schedule == plan.schedule
        parts.append(text(MARGIN, y + 14, f"{title}{' *' if chosen else ''}", "strong" if chosen else ""))
        bars = [
            rect(LEFT, y, cycles[title] / longest * WIDTH, 20, SHADES[-1], f"{title}: estimate {choice.cycles:.0f}")
        ]
        if kernel is not None:
            bars = [*_stacked(kernel, kinds, y, WIDTH / longest)]
        said = _said(choice, cycles[title], own, kernel is not None)
        bars.append(text(LEFT + cycles[title] / longest * WIDTH + 8, y + 14, said))
        width = max(width, LEFT + cycles[title] / longest * WIDTH + 8 + width_of(said))
        parts.append(
            group(bars, schedule=title, cycles=f"{cycles[title]:.1f}", bytes=choice.traffic_bytes, chosen=int(chosen))
        )
        y += ROW
    lines = [*illegal_lines(plan), *why_lines(plan), "*: the schedule of the plan; assumed: rules that nobody tested"]
    for words in lines:
        parts.append(text(MARGIN, y + 10, words, "soft"))
        width = max(width, MARGIN + width_of(words))
        y += 15
    return titled(f"schedules of {convolution(plan.problem)}", width + MARGIN, y + MARGIN, parts)


def _cycles(choice: ScheduleSummary, timed: Mapping[str, KernelTime]) -> float:
    """Cycles of a schedule's launch: timed, or estimated where it was not."""
    kernel = timed.get(choice.schedule.title)
    return choice.cycles if kernel is None else kernel.cycles


def _stacked(kernel: KernelTime, kinds: Mapping[str, str], y: float, scale: float) -> Iterator[str]:
    """Boxes of the causes, side by side."""
    x = float(LEFT)
    for cause, share in kernel.waits.items():
        width = share * kernel.cycles * scale
        tip = f"{cause}: {share * kernel.cycles:.0f} cycles, {share:.0%}"
        yield rect(
            x, y, width, 20, kinds.get(cause, SHADES[-1]), tip, cause=cause, cycles=f"{share * kernel.cycles:.1f}"
        )
        x += width


def _said(choice: ScheduleSummary, cycles: float, own: float, timed: bool) -> str:
    """A bar in words: cycles, how far from the chosen schedule's, bytes and assumed rules."""
    against = "" if cycles == own else f" ({cycles / own - 1:+.0%})"
    moved = f"{human_bytes(choice.traffic_bytes)} moved"
    assumed = f"{schedule_of(choice.schedule).assumed} assumed"
    return f"{cycles:.0f} cycles{against}{'' if timed else ', estimated'}; {moved}, {assumed}"
