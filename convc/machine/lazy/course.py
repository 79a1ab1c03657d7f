"""A note of everything that a cohort does to data, in order (see `convc.machine.state.course`)."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Course:
    """Everything that a cohort has done to data so far.

    Attributes:
        events: its products (`convc.machine.lazy.evaluate`), its passages through segments
            (`convc.machine.execute.segments`), its tensor stores (`convc.machine.isa.copies.tensor_copies`), in order.
        spoiled: whether it did anything else to data.
        changed: the buffers that it has written.
    """

    events: list[object] = field(default_factory=list)
    spoiled: bool = False
    changed: set[str] = field(default_factory=set)
