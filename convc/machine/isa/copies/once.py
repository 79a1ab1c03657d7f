"""Copies that a warp issues once for all lanes that ask for the same.

Of a copy into global memory by a whole warp, ptxas makes machine code that goes through the *distinct* operands of the
lanes, one copy for each; where the lanes have the same, there is one. To do it twice would leave the same bytes. What
signals, reduces or multiplies is done lane by lane instead (docs/fidelity.md has the table, made from machine code).
The copy is that of the lane that `elect.sync` would elect among those that ask for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from convc.machine.base.values import Value
from convc.machine.isa.registry import Run
from convc.machine.isa.threads import active_lanes
from convc.machine.state.strand import Strand

LANES = np.arange(32)


def once(run: Run, operands: Callable[[Strand], Sequence[Value]]) -> Run:
    """An operation that of the lanes of a warp with the same ``operands`` one performs for all."""

    def elected(strand: Strand) -> int | None:
        if strand.active is not None:  # nearly always
            return run(strand)
        mask = _issuers(strand, operands(strand))
        return run(strand) if mask is None else strand.only(mask, run)

    return elected


def _issuers(strand: Strand, operands: Sequence[Value]) -> np.ndarray | None:
    """bool (rows | 1, warps, 32): the lanes that issue; None where no two lanes of a warp ask for the same."""
    apart = [value for value in operands if isinstance(value, np.ndarray) and value.shape[2] > 1]
    lanes = active_lanes(strand)
    if any(_all_differ(value, lanes) for value in apart):
        return None
    shape = np.broadcast_shapes(lanes.shape, *(value.shape for value in apart), (1, len(strand.warps), 32))
    active = np.broadcast_to(lanes, shape)
    order = LANES if strand.cohort.launch.switches.elect == "lowest" else LANES[::-1]
    if not apart:
        first = order[active[:, :, order].argmax(axis=2)]
        return active & (first[:, :, None] == LANES)
    copying = np.flatnonzero(active.any(axis=(0, 2)))
    before = order.argsort()[None, :] < order.argsort()[:, None]  # which lane comes before which
    same = active[:, copying, None, :] & before
    for value in apart:
        own = np.broadcast_to(value, shape)[:, copying]
        same &= own[..., None, :] == own[..., :, None]
    issuing = active.copy()
    issuing[:, copying] &= ~same.any(axis=3)
    return None if (issuing == active).all() else issuing


def _all_differ(value: np.ndarray, active: np.ndarray) -> bool:
    """Whether no two active lanes of a warp have the same."""
    if not active.all():
        value = np.where(active, value.astype(np.int64), -1 - LANES)  # addresses and coordinates have fewer bits
    ordered = np.sort(value, axis=2)
    return bool((ordered[:, :, 1:] != ordered[:, :, :-1]).all())
