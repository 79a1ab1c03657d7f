"""A note of everything that a cohort does to data, in order (see `convc.machine.state.course`)."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Course:
    """Everything that a cohort has done to data so far.

    Attributes:
        events: its products (`convc.machine.lazy.evaluate`), its passages through segments
            (`convc.machine.execute.segments`) and its tensor stores (`convc.machine.isa.copies.tensor_copies`), as they
            came.
        spoiled: whether it did anything else to data.
    """

    events: list[object] = field(default_factory=list)
    spoiled: bool = False
