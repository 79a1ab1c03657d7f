"""Arrays that were made of registers lately.

Tiles in a row multiply by the same fragments, held in the same registers.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np

from convc.machine.base.values import Value, fixed

MOST = 16
"""Arrays that are kept."""


class Remembered:
    """Arrays by the registers that they were made of.

    Nobody writes into the array of a register: one that is written gets another. So the same arrays make the same, as
    long as they are kept here and no others can have their identity.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[Hashable, ...], tuple[Sequence[Value], np.ndarray]] = {}

    def find(
        self, key: Hashable, registers: Sequence[Value], make: Callable[[Sequence[Value]], np.ndarray]
    ) -> np.ndarray:
        """Make an array of registers, or find it again; ``key``: all else that it depends on. It cannot be written."""
        name = (key, *map(id, registers))
        known = self._known.get(name)
        if known is None:
            if len(self._known) >= MOST:
                self._known.clear()
            known = self._known[name] = registers, fixed(make(registers))
        return known[1]
