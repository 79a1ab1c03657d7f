"""Events of a replay: something that a warp or a unit of an SM did, and the event that it had to wait for."""

from __future__ import annotations

import msgspec

from convc.timing.trace import Phase


class Event(msgspec.Struct, kw_only=True, gc=False):
    """Something that took time.

    Attributes:
        track: who: ``warp 4``, or a unit of the SM: ``tma``, ``tensor core``.
        name: the instruction, or the kind of work.
        step, line: in the text.
        start, end: cycles from the CTA's entry.
        cause: the event that it had to wait for, None where it went on by itself.
        edge: how: ``program``, ``phase``, ``queue``, ``barrier``, ``group``, ``data``.
        row, warp: the CTA and the warp that did it, or issued it.
        work: of a unit: its number. phase: of a wait: what it needs.
        unit: that a warp's instruction uses, or that limits a copy.
        busy: of a work: cycles of its unit; the rest of its time is latency. Of an access to memory: cycles for which
            it holds its warp, and of waiting for those of other warps.
        late: of an instruction that had to wait for a value: who makes it.
    """

    track: str
    name: str
    step: str
    line: int
    start: float
    end: float
    cause: int | None = None
    edge: str = "program"
    row: int = 0
    warp: int = 0
    work: int | None = None
    phase: Phase | None = None
    unit: str = ""
    busy: float = 0.0
    late: str = ""
