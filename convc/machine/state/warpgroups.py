"""The warpgroups of a cohort: groups of wgmma, and who has come how far.

Four warps whose first number is a multiple of four are a warpgroup (PTX manual, "Warpgroup"). They execute every
wgmma together, and wgmma.wait_group returns to one of them when the work of all four is done; a kernel relies on that
where one warp tells others, for all four, that the operands may be overwritten.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from convc.machine.base.values import Value
from convc.machine.state.parts import mask_part, part, value_part
from convc.machine.tensor_core.warpgroup import WarpgroupShape
from convc.ptx import Instr

WARPS = 4
"""Warps of a warpgroup."""

_PRIME = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True, kw_only=True)
class WarpgroupMultiply:
    """A wgmma that warps of a strand have issued; every operand is the same in all lanes of a warp.

    Attributes:
        instr, shape: the instruction.
        targets: slots of D. sources: slots of A; () where that is in shared memory.
        a: its descriptor, or 0. b: that of B. accumulate: scale-d.
        fragments: values of A's registers at the issue; None: they are read when it is performed.
        group: int64 (rows, warps, 1), groups that each warp had committed before.
        mask: bool (rows | 1, warps | 1, 32 | 1), the lanes that issued it; None for all.
    """

    instr: Instr
    shape: WarpgroupShape
    targets: tuple[int, ...]
    sources: tuple[int, ...]
    a: Value
    b: Value
    accumulate: Value
    fragments: tuple[Value, ...] | None
    group: np.ndarray
    mask: np.ndarray | None

    def part(self, axis: int, index: np.ndarray) -> WarpgroupMultiply:
        """The instruction in some CTAs (axis 0) or warps (axis 1) of the strand."""
        taken = self.fragments
        return replace(
            self,
            a=value_part(self.a, axis, index),
            b=value_part(self.b, axis, index),
            accumulate=value_part(self.accumulate, axis, index),
            fragments=None if taken is None else tuple(value_part(value, axis, index) for value in taken),
            group=part(self.group, axis, index),
            mask=mask_part(self.mask, axis, index),
        )


class Warpgroups:
    """Groups of wgmma of the warps of a cohort.

    Attributes:
        closed: int64 (ctas, warps), groups that each warp has committed.
        done: int64 (ctas, warps), groups of each whose part it has performed.
        path: uint64 (2, ctas, warps), a digest of the wgmma, and one of the setmaxnreg, that each warp has executed.
        registers: int64 (ctas, warps), the registers of a thread once setmaxnreg has been executed.
        counted: of each wgmma.fence, commit_group and wait_group, int32 (ctas, warps), how often each has executed it.
    """

    def __init__(self, ctas: int, warps: int) -> None:
        self.closed = np.zeros((ctas, warps), np.int64)
        self.done = np.zeros((ctas, warps), np.int64)
        self.path = np.zeros((2, ctas, warps), np.uint64)
        self.registers: np.ndarray | None = None
        self.counted: dict[int, tuple[Instr, np.ndarray]] = {}
        self._noted = False

    def count(self, instr: Instr, rows: np.ndarray, warps: np.ndarray, active: np.ndarray) -> None:
        """Warps (n,) of CTAs (m,) execute a wgmma.fence or the like where ``active``, bool (m | 1, n)."""
        if instr.index not in self.counted:
            self.counted[instr.index] = instr, np.zeros(self.path.shape[1:], np.int32)
        self.counted[instr.index][1][np.ix_(rows, warps)] += active

    def alone(self) -> tuple[Instr, int, int] | None:
        """(instruction, row, warp) of the first wgmma.fence or the like that a warp of a warpgroup executed less often.

        All threads of the warpgroup execute the same one (PTX manual, "wgmma.fence", ``.aligned``).
        """
        for instr, counts in self.counted.values():
            whole = _by_group(counts)
            found = np.argwhere(whole < whole.max(axis=2, keepdims=True))
            if len(found):
                row, group, warp = found[0].tolist()
                return instr, row, WARPS * group + warp
        return None

    def note(
        self, rows: np.ndarray, warps: np.ndarray, active: np.ndarray, word: int | np.ndarray, *, counts: bool = False
    ) -> None:
        """Warps (n,) of CTAs (m,) execute an instruction where ``active``, bool (m | 1, n); a ``word`` for it.

        ``counts``: it is a setmaxnreg, no wgmma.
        """
        self._noted = True
        here = np.ix_(rows, warps)
        path = self.path[int(counts)]
        old = path[here]
        path[here] = np.where(active, (old ^ np.asarray(word, np.uint64)) * _PRIME + np.uint64(1), old)

    def least_done(self, rows: np.ndarray, warps: np.ndarray) -> np.ndarray:
        """int64 (m, n): for each warp the groups that all four of its warpgroup have performed."""
        return _by_group(self.done).min(axis=2)[np.ix_(rows, warps // WARPS)]

    def parted(self, *, counts: bool = False) -> tuple[int, int] | None:
        """(row, warpgroup) of the first one whose warps executed different wgmma (``counts``: setmaxnreg), or None."""
        if not self._noted:
            return None
        whole = _by_group(self.path[int(counts)])
        found = np.argwhere((whole != whole[:, :, :1]).any(axis=2))
        return None if not len(found) else (int(found[0, 0]), int(found[0, 1]))


def _by_group(table: np.ndarray) -> np.ndarray:
    """What a table (ctas, warps) has of the warps of whole warpgroups, as (ctas, groups, warps of a group)."""
    ctas, count = table.shape
    return table[:, : count // WARPS * WARPS].reshape(ctas, -1, WARPS)
