"""The values that fields of `convc.ScheduleOptions` take."""

from __future__ import annotations

from convc.compiler.planner.conflicts import choices as schedule_choices

__all__ = ["schedule_choices"]
