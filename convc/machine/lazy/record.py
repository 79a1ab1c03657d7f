"""A record of everything that a cohort does to data, in order (see `convc.machine.state.replay`)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from convc.machine.base.values import Value

Name = tuple[int, int]
"""A strand and the slot of one of its registers: what segments hand on is known by these, the latest only."""


@dataclass(slots=True)
class CohortRecord:
    """Everything that a cohort has done to data so far.

    Attributes:
        events: its products (`convc.machine.lazy.evaluate`), its passages through segments
            (`convc.machine.execute.segments`) and its tensor stores (`convc.machine.isa.copies.tensor_stores`), as they
            came.
        spoiled: whether it did anything else to data.
        left: what segments have left in registers for others to compute with. Such a register is data as long as it
            holds this very array.
        parted: registers that held such data when their strand split: part of it, or a number that looks like any.
    """

    events: list[object] = field(default_factory=list)
    spoiled: bool = False
    left: dict[Name, np.ndarray] = field(default_factory=dict)
    parted: set[Name] = field(default_factory=set)

    def taken(self, name: Name, value: Value) -> bool:
        """Whether a segment computes with what another one left; else with a number that the text says.

        An array that nobody left may be part of one that somebody did.
        """
        if name in self.parted:
            self.spoiled = True
        if not isinstance(value, np.ndarray):
            return False
        if self.left.get(name) is not value:
            self.spoiled = True
        return True

    def part(self, strand: int, other: int, regs: list[Value]) -> None:
        """A strand splits, and its registers with it: nobody may compute with the data in them any more."""
        slots = [slot for (of, slot), value in self.left.items() if of == strand and regs[slot] is value]
        slots += [slot for of, slot in self.parted if of == strand]
        self.parted.update((of, slot) for of in (strand, other) for slot in slots)
