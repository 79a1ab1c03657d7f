"""Collector buffers: permission to keep an operand inside the tensor core.

``fill`` keeps the operand, ``use`` and ``lastuse`` may read the kept copy, ``discard`` keeps nothing. It is a hint:
the core may load the operand again, so that memory must not change in between. The simulator always loads, and checks
the protocol: a use needs a fill of the same matrix that is still valid (PTX manual, "collector usage").
"""

from __future__ import annotations

import numpy as np


class Collectors:
    """What every buffer of every CTA holds: buffer ``a`` of plain MMAs, ``b0`` to ``b3`` of weight-stationary ones."""

    def __init__(self, ctas: int) -> None:
        self.ctas = ctas
        self.held: dict[str, np.ndarray] = {}
        self.numbers: dict[tuple, int] = {}

    def apply(self, buffer: str, usage: str, matrix: tuple, rows: np.ndarray | None) -> str | None:
        """Follow one instruction; returns what is wrong with it, or None."""
        if usage == "discard" and buffer not in self.held:
            return None
        held = self.held.setdefault(buffer, np.full(self.ctas, -1))
        number = self.numbers.setdefault(matrix, len(self.numbers))
        where = slice(None) if rows is None else rows
        problem = None
        if usage in ("use", "lastuse"):
            before = held[where]
            if (before < 0).any():
                problem = f"collector {buffer}::{usage} comes without a fill that is still valid"
            elif (before != number).any():
                problem = f"collector {buffer}::{usage} names another matrix than the one that was filled"
        if usage in ("lastuse", "discard"):
            held[where] = -1
        elif usage == "fill":
            held[where] = number
        return problem
