"""What the fields of `convc.ScheduleOptions` may be: this brings the planner, so it is imported where it is asked."""

from __future__ import annotations

from convc.compiler.schedules.all import choices as schedule_choices

__all__ = ["schedule_choices"]
