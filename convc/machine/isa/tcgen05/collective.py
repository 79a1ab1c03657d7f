"""Instructions that whole warps, or whole pairs of CTAs, execute together (``.sync.aligned``, ``.cta_group::2``)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from convc.errors import MachineFault
from convc.machine.base.values import Value
from convc.machine.state.cohort import Cohort
from convc.machine.state.strand import Strand
from convc.ptx import Instr


@dataclass(frozen=True, slots=True)
class WarpGroups:
    """Warps of some CTAs of a strand that execute with the same operand values.

    Attributes:
        rows: the CTAs in the cohort (None = all). part: the same, as positions in the strand.
        warps: positions of the warps in the strand. values: (warps,) operand value of each.
    """

    rows: np.ndarray | None
    part: slice | np.ndarray
    warps: np.ndarray
    values: np.ndarray


def whole_warps(strand: Strand, what: str) -> np.ndarray:
    """bool (ctas or 1, warps): the warps that execute; a fault where some lanes of one do and others do not."""
    count = len(strand.warps)
    mask = strand.mask
    if mask is None:
        return np.ones((1, count), bool)
    full = np.broadcast_to(mask, (mask.shape[0], count, 32))
    active = np.asarray(full.all(axis=2))
    if (full.any(axis=2) != active).any():
        raise MachineFault(f"{what} must be executed by all 32 lanes of a warp", hint="it is .sync.aligned")
    return active


def warp_groups(strand: Strand, value: Value, what: str) -> Iterator[WarpGroups]:
    """Groups of the active warps by operand value, which must be the same in all lanes of a warp."""
    if strand.mask is None and not isinstance(value, np.ndarray):  # all warps do the same
        warps = np.arange(len(strand.warps))
        yield WarpGroups(strand.rows, slice(None), warps, np.full(len(warps), value))
        return
    active = whole_warps(strand, what)
    if isinstance(value, np.ndarray):
        if value.shape[2] > 1 and ((value != value[:, :, :1]).any(axis=2) & active).any():
            raise MachineFault(f"{what} needs the same operands in all lanes of a warp")
        value = value[:, :, 0].astype(np.int64)
    table = np.where(active, value, -1)
    table = np.broadcast_to(table, (table.shape[0], len(strand.warps)))
    lines = table[:1]
    member = None
    if len(table) > 1 and (table != lines).any():
        lines, member = np.unique(table, axis=0, return_inverse=True)
    for number, line in enumerate(lines):
        warps = np.flatnonzero(line >= 0)
        if not warps.size:
            continue
        if member is None:
            yield WarpGroups(strand.rows, slice(None), warps, line[warps])
        else:
            part = np.flatnonzero(member.reshape(-1) == number)
            yield WarpGroups(part if strand.rows is None else strand.rows[part], part, warps, line[warps])


def is_pair(instr: Instr) -> bool:
    """Whether an instruction is one of a CTA pair."""
    return instr.slots.get("cta_group") == "cta_group::2"


def check_pair(cohort: Cohort) -> None:
    """cta_group::2 needs CTAs whose ranks differ in the last bit."""
    if cohort.cluster_size % 2:
        raise MachineFault(
            f"cta_group::2 in a cluster of {cohort.cluster_size} CTA(s)",
            hint="a pair is two CTAs of one cluster whose ranks differ in the last bit: launch clusters of even size",
        )
