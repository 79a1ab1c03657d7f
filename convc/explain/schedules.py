"""The choice of a schedule: what each would cost, which was taken, and the numbers that decided."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from convc.compiler.plan.records import Plan, ScheduleSummary
from convc.explain.moving import moving_lines
from convc.explain.taken import all_choices, assumed_of, legal_choices, numbers_of, taken_choice, titles_of
from convc.explain.why import timed_title, why_lines
from convc.report.console import Console, print_prose
from convc.report.format import human_bytes
from convc.report.grid import Column, Row, grid_lines, print_grid

COLUMNS = (
    Column(""),
    Column("schedule"),
    Column("cycles", "right"),
    Column("traffic", "right"),
    Column("assumed", "right"),
    Column("waits for"),
    Column("tile", below=True),
)
"""``traffic``: bytes that all CTAs copy from L2 to shared memory; ``assumed``: rules of the hardware that the schedule
assumes, which are neither published nor tested."""


def print_choices(console: Console, plan: Plan) -> None:
    """Every schedule that was considered, the fastest first, then those that are illegal here, then the reasons."""
    print_grid(console, COLUMNS, _rows(plan))
    print_prose(console, _below(plan))


def choice_lines(plan: Plan) -> list[str]:
    """The table of schedules and the reasons below it as lines, however long."""
    table = [line for line, _ in grid_lines(COLUMNS, _rows(plan), None)]
    return [*table, *_below(plan)]


def _below(plan: Plan) -> Iterator[str]:
    """The lines under the table."""
    yield from illegal_lines(plan)
    yield from timed_lines(plan)
    yield from why_lines(plan)
    legal = legal_choices(plan)
    if len(legal) > 1 and taken_choice(plan) not in legal:
        yield from (f"among the others: {line}" for line in moving_lines(legal, legal[0]))


def illegal_lines(plan: Plan) -> Iterator[str]:
    """The schedules that have no kernel here, with the reason; those with the same reason in one line."""
    names: dict[str, list[str]] = {}
    for choice in plan.choices:
        if choice.tiling is None:
            names.setdefault(choice.reason, []).append(choice.schedule.title)
    for reason, titles in names.items():
        yield f"not possible: {', '.join(titles)}: {reason}"


def timed_lines(plan: Plan) -> Iterator[str]:
    """The candidates that the timing engine chose among, the fastest first."""
    if plan.timed:
        yield "cycles in the table: the planner's estimates; the timing engine chose among these candidates:"
    for one in plan.timed:
        yield f"timed: {timed_title(one)}"


def _rows(plan: Plan) -> list[Row]:
    """A row for each candidate, or for several of the same numbers; the one that was taken is marked."""
    taken = taken_choice(plan)
    together: dict[tuple[object, ...], list[ScheduleSummary]] = {}
    for choice in all_choices(plan):
        together.setdefault(numbers_of(choice), []).append(choice)
    rows: list[Row] = []
    for choices in together.values():
        own = taken in choices
        first = taken if own else choices[0]
        cells = (
            "*" if own else "",
            titles_of([first, *(choice for choice in choices if choice != first)]),
            f"{first.cycles:.0f}",
            human_bytes(first.traffic_bytes),
            _span([assumed_of(choice) for choice in choices]),
            first.bottleneck,
            str(first.tiling),
        )
        rows.append(Row(cells, "bold" if own else None))
    return rows


def _span(counts: Sequence[int]) -> str:
    """The least and the largest of some numbers, in one where they are the same."""
    return str(min(counts)) if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
