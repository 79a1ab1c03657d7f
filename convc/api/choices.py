"""The values that fields of `convc.ScheduleOptions` take; bringing the planner, it is imported where they are asked."""

from __future__ import annotations

from convc.compiler.schedules.all import choices as schedule_choices

__all__ = ["schedule_choices"]
