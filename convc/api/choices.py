"""The values that fields of `convc.ScheduleOptions` take, as the records of the schedules have them."""

from __future__ import annotations

from convc.compiler.schedules.all import choices as schedule_choices

__all__ = ["schedule_choices"]
