"""What a caller may fix about how a convolution is scheduled; the rest is for the planner to choose."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleOptions:
    """What a user fixes about a schedule; None leaves it to the planner.

    Attributes:
        schedule: a name in `convc.compiler.schedules.all.SCHEDULES`; ``auto`` estimates every legal one and takes the
            best.
        shift: variant of the schedule: chain, ashift or windows.
        border: how lanes whose pixel is padding get their zero: mask or zero.
        rows: whether a stream of output pixels is one output row (outer) or all of them (merged).
    """

    schedule: str = "auto"
    shift: str | None = None
    border: str | None = None
    rows: str | None = None
