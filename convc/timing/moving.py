"""Tensor memory in a trace: cycles of the works that move rows, and loads whose columns meet in a bank.

What the numbers are, and why: `convc.timing.parameters`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from convc.timing.parameters import Chip
from convc.timing.trace import SHIFT, Item, Work


def moving_cycles(work: Work, chip: Chip) -> float:
    """Cycles in which the tensor core moves rows: all of a shift's, and those that ``.ashift`` adds to an MMA."""
    if work.kind == "mma.ashift":
        return chip["tensor_memory.ashift"]
    if work.kind != SHIFT:
        return 0.0
    return chip["tensor_memory.shift"] + (chip["tensor_memory.shift_loop"] if work.wrapped else 0.0)


def conflicts(item: Item, chip: Chip) -> float:
    """The factor by which conflicts of banks make a ``tcgen05.ld`` or ``st`` longer at the port."""
    return chip["tensor_memory.conflict"] if item.name == "tcgen05.ld" and item.shape == "16x256b" else 1.0


def mark_wrapped(works: Iterable[Work], lines: Collection[int]) -> None:
    """Note which shifts are inside a loop over lanes, by the lines of the text."""
    for work in works:
        work.wrapped = work.kind == SHIFT and work.line in lines
