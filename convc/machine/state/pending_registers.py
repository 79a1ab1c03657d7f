"""tcgen05.ld and st that a warp has issued and not waited for.

A tcgen05.st fills its cells at some time before ``tcgen05.wait::st`` of the warp returns, and a tcgen05.ld reads its
cells at some time before ``tcgen05.wait::ld`` does. A register that a load fills may be used without the wait: the
instruction that uses it comes after the load, and the register then has its value. Nothing else is ordered by that, so
that who overwrites the cells must have been told by a wait (PTX manual, "tcgen05.wait"; "Register dependencies, same
thread").

Where the completion policy puts a move off, it is performed as late as that allows: at the wait; a load also before an
instruction that names one of its registers; a store that no wait covers when its warp exits.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from convc.machine.base.completion import named
from convc.machine.state.strand import RegisterMove, Strand


def finish(strand: Strand, moves: list[RegisterMove], names: frozenset[int] | None = None) -> list[RegisterMove]:
    """Perform moves for the active warps of a strand.

    Args:
        strand: only its active warps perform their part; what other warps issued stays to be done.
        moves: of this strand.
        names: slots: perform only moves that fill one of them; None: all.

    Returns:
        What is left to be performed.
    """
    warps = None if strand.mask is None else np.asarray(strand.mask.any(axis=2, keepdims=True))
    left: list[RegisterMove] = []
    for move in moves:
        if names is not None and not names & move.fills:
            left.append(move)
        elif warps is None:
            _perform(strand, move, move.mask)
        else:
            _perform(strand, move, warps if move.mask is None else move.mask & warps)
            rest = ~warps if move.mask is None else move.mask & ~warps
            if rest.any():
                left.append(replace(move, mask=rest))
    return left


def _perform(strand: Strand, move: RegisterMove, mask: np.ndarray | None) -> None:
    """Let the lanes of ``mask`` (None: all) do it; a fault names the instruction."""

    def act(strand: Strand) -> None:
        named(move.instr, lambda: move.act(strand, move.operands))()

    if mask is None:
        act(strand)
    elif mask.any():
        strand.only(mask, act)
