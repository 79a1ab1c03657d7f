"""tcgen05.ld and st that a warp has issued and not waited for.

A tcgen05.st fills its cells at some time before ``tcgen05.wait::st`` of the warp returns, and a tcgen05.ld reads its
cells at some time before ``tcgen05.wait::ld`` does. A register that a load fills may be used without the wait: the
instruction that uses it comes after the load, and the register then has its value. Nothing else is ordered by that, so
that who overwrites the cells must have been told by a wait (PTX manual, "tcgen05.wait"; "Register dependencies, same
thread").

Where the completion policy puts a move off, it is performed as late as that allows: at the wait; a load also before an
instruction that names one of its registers; a store that nobody waits for when its warp exits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from convc.machine.base.completion import named
from convc.machine.base.values import Value

if TYPE_CHECKING:
    from convc.machine.state.strand import Strand
    from convc.ptx import Instr


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterMove:
    """A load or store of a strand's warps.

    Attributes:
        instr: the instruction.
        act: ``act(strand, operands)`` performs it for the active warps.
        operands: register values at issue.
        mask: bool (rows | 1, warps | 1, 32 | 1), the lanes that issued it; None for all.
        fills: slots of the registers that it writes.
    """

    instr: Instr
    act: Callable[[Strand, list[Value]], None]
    operands: list[Value]
    mask: np.ndarray | None
    fills: frozenset[int] = frozenset()

    def part(self, cut: Callable[[Value], Value]) -> RegisterMove:
        """The move of some of the warps or CTAs, which ``cut`` takes out of a value."""
        return replace(self, operands=[cut(value) for value in self.operands], mask=cut(self.mask))

    def perform(self, strand: Strand) -> None:
        """Let the active warps of a strand do it."""
        named(self.instr, lambda: self.act(strand, self.operands))()


def finish(strand: Strand, moves: list[RegisterMove], names: frozenset[int] | None = None) -> list[RegisterMove]:
    """Perform moves for the active warps of a strand; returns what is left.

    With ``names``, only those that fill one of these registers.
    """
    warps = None if strand.mask is None else strand.mask.any(axis=2, keepdims=True)
    left = []
    for move in moves:
        if names is not None and not names & move.fills:
            left.append(move)
            continue
        mask = _both(move.mask, warps)
        if mask is None:
            move.perform(strand)
        elif mask.any():
            strand.only(mask, move.perform)
        if warps is not None and (rest := _both(move.mask, ~warps)).any():
            left.append(replace(move, mask=rest))
    return left


def _both(one: np.ndarray | None, other: np.ndarray | None) -> np.ndarray | None:
    return other if one is None else one if other is None else one & other
