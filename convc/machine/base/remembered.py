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
        known = self.known(key, registers)
        if known is None:
            known = make(registers)
            self._put(key, registers, known)
        return known

    def known(self, key: Hashable, registers: Sequence[Value]) -> np.ndarray | None:
        """An array of registers that is kept, or None."""
        found = self._known.get((key, *map(id, registers)))
        return None if found is None else found[1]

    def keep(self, key: Hashable, registers: Sequence[Value], made: np.ndarray) -> None:
        """Keep the array that registers were made of, where each of them is one: numbers may be those of any others."""
        if all(isinstance(value, np.ndarray) for value in registers):
            self._put(key, registers, made)

    def _put(self, key: Hashable, registers: Sequence[Value], made: np.ndarray) -> None:
        if len(self._known) >= MOST:  # those before it are the older ones
            del self._known[next(iter(self._known))]
        self._known[key, *map(id, registers)] = registers, fixed(made)
