"""Options that fix the schedule, with one CTA for each tile's K loop, for tests of what one schedule does."""

from __future__ import annotations

from convc.compiler.options import AUTO, ScheduleOptions
from convc.compiler.schedules.base import Schedule

RELOAD_ONLY = ScheduleOptions(schedule="reload", store="direct", split_k="off")


def only(schedule: Schedule, border: str = AUTO, rows: str = AUTO) -> ScheduleOptions:
    """Options that leave this schedule alone, its results stored from registers."""
    shift = schedule.variant or AUTO
    return ScheduleOptions(schedule=schedule.name, shift=shift, border=border, rows=rows, store="direct", split_k="off")
