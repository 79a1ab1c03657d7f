"""A strand: some warps of some CTAs that share one program counter.

A strand starts as all warps of all CTAs of a cohort and splits when a branch goes different ways in different warps
or CTAs. Lanes of one warp that part stay in the strand and run one side after the other under a mask, meeting at the
branch's post-dominator (see `flow`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from convc.machine.base.values import Value, array, narrow
from convc.machine.state.pending_registers import RegisterMove, finish

if TYPE_CHECKING:
    from convc.machine.execute.decode import Program
    from convc.machine.state.cohort import Cohort

BLOCK = -1
YIELD = -2
DONE = -3
"""What an instruction may return besides None (go on) and a program counter (jump)."""


class _EverySlot(frozenset):
    """The set of all register slots."""

    def __contains__(self, slot: object) -> bool:
        return True


EVERY_SLOT = _EverySlot()


@dataclass(slots=True)
class Frame:
    """One divergence: where the lanes meet, the side still to run, and what held before."""

    join: int | None
    other: int | None
    other_mask: np.ndarray | None
    mask: np.ndarray | None
    keep: frozenset[int] | None


class Strand:
    """Registers and position of a group of warps.

    Attributes:
        rows: indices of its CTAs in the cohort, or None for all of them.
        warps: warp numbers inside the CTA, ascending.
        regs: one value per register slot, followed by constants and special registers.
        mask: bool array broadcastable to (rows, warps, 32) of the active lanes, or None when all are.
        keep: while lanes are parted, the slots whose values must be merged on a write; else None.
        outer: while one predicated instruction runs, the mask around it.
        waiting: what it waits for when blocked (text for a deadlock report).
        loads, stores: tcgen05.ld and st that its warps issued and did not wait for, see `register_moves`.
    """

    __slots__ = (
        "active", "cohort", "count", "done", "frames", "keep", "loads", "mask", "outer", "pc", "program", "regs",
        "row_count", "rows", "stores", "ticket", "waiting", "warps",
    )  # fmt: skip

    def __init__(
        self, cohort: Cohort, program: Program, rows: np.ndarray | None, warps: np.ndarray, regs: list[Value]
    ) -> None:
        self.cohort = cohort
        self.program = program
        self.rows = rows
        self.row_count = cohort.ctas if rows is None else len(rows)
        self.warps = warps
        self.regs = regs
        self.pc = 0
        self.mask: np.ndarray | None = None
        self.outer: np.ndarray | None = None
        self.keep: frozenset[int] | None = None
        self.frames: list[Frame] = []
        self.waiting = ""
        self.ticket: tuple | None = None
        self.done = False
        self.loads: list[RegisterMove] = []
        self.stores: list[RegisterMove] = []
        self._new_mask()

    # ---- lanes -------------------------------------------------------------------------------------------------

    def _new_mask(self) -> None:
        """Recompute what depends on the mask: ``count`` of active lanes per CTA and the single ``active`` thread."""
        if self.mask is None:
            self.count: int | np.ndarray = 32 * len(self.warps)
            self.active: tuple[int, int] | None = None
            return
        full = np.broadcast_to(self.mask, (self.mask.shape[0], len(self.warps), 32))
        per_row = full.sum(axis=(1, 2))
        self.count = int(per_row[0]) if (per_row == per_row[0]).all() else np.broadcast_to(per_row, (self.row_count,))
        self.active = None
        if type(self.count) is int and self.count == 1 and full.shape[0] == 1:
            _, warp, lane = np.argwhere(full)[0]
            self.active = (int(warp), int(lane))

    def set_mask(self, mask: np.ndarray | None) -> None:
        """Change the active lanes."""
        self.mask = mask
        self._new_mask()

    def threads(self) -> list[tuple[int, int]]:
        """(warp position, lane) of every active thread; these must be the same in all CTAs of the strand."""
        if self.active is not None:
            return [self.active]
        shape = (1, len(self.warps), 32)
        if self.mask is None:
            full = np.ones(shape, bool)
        else:
            full = np.broadcast_to(self.mask[:1], shape)
            if self.mask.shape[0] > 1 and (self.mask != self.mask[:1]).any():
                full = np.broadcast_to(self.mask.any(axis=0, keepdims=True), shape)
        return [(int(w), int(lane)) for _, w, lane in np.argwhere(full)]

    def pick(self, value: Value, thread: tuple[int, int]) -> int | np.ndarray:
        """The value of one thread: an int, or int64 array of shape (rows,) where CTAs differ."""
        if not isinstance(value, np.ndarray):
            return int(value)
        warp, lane = thread
        column = value[:, warp if value.shape[1] > 1 else 0, lane if value.shape[2] > 1 else 0]
        if column.size == 1:
            return int(column[0])
        return column.astype(np.int64)

    def alive(self) -> np.ndarray | None:
        """Mask of the lanes that have not exited, those that wait for a join included; None for all."""
        if self.frames:
            return self.frames[0].mask
        return self.outer if self.keep is EVERY_SLOT else self.mask

    def frozen(self) -> Strand:
        """A copy that keeps lanes and registers as they are, for work that is performed later."""
        copy = Strand(self.cohort, self.program, self.rows, self.warps, self.regs.copy())
        copy.set_mask(self.mask)
        return copy

    # ---- registers ---------------------------------------------------------------------------------------------

    def write(self, slot: int, value: Value) -> None:
        """Write a register, merging with the lanes that wait where somebody still reads them."""
        keep = self.keep
        if keep is None or slot not in keep:
            self.regs[slot] = value
            return
        old = self.regs[slot]
        if not isinstance(value, np.ndarray) and not isinstance(old, np.ndarray) and value == old:
            return
        bits = self.program.widths[slot]
        self.regs[slot] = np.where(self.mask, array(value, bits), array(old, bits))

    # ---- splitting ---------------------------------------------------------------------------------------------

    def split_warps(self, chosen: np.ndarray) -> Strand:
        """Move the warps where ``chosen`` (bool per warp) is False into a new strand, which is returned."""
        return self._split(1, chosen)

    def split_rows(self, chosen: np.ndarray) -> Strand:
        """Move the CTAs where ``chosen`` (bool per row) is False into a new strand, which is returned."""
        self.cohort.counters.splits += 1
        return self._split(0, chosen)

    def _split(self, axis: int, chosen: np.ndarray) -> Strand:
        def part(value, index):
            if not isinstance(value, np.ndarray) or value.shape[axis] == 1:
                return value
            return value[index] if axis == 0 else value[:, index]

        def moves(index):
            return ([m.part(lambda v: part(v, index)) for m in ms] for ms in (self.loads, self.stores))

        wide = [i for i, value in enumerate(self.regs) if isinstance(value, np.ndarray) and value.shape[axis] > 1]

        def parts(index):
            regs = self.regs.copy()
            for i in wide:
                regs[i] = narrow(regs[i][index] if axis == 0 else regs[i][:, index])
            return regs

        stay, go = np.flatnonzero(chosen), np.flatnonzero(~chosen)
        rows, warps = self.rows, self.warps
        if axis == 0:
            all_rows = np.arange(self.cohort.ctas) if rows is None else rows
            other = Strand(self.cohort, self.program, all_rows[go], warps, parts(go))
            self.rows, self.row_count = all_rows[stay], len(stay)
        else:
            other = Strand(self.cohort, self.program, rows, warps[go], parts(go))
            self.warps = warps[stay]
        other.pc = self.pc
        other.keep = self.keep
        other.frames = [Frame(f.join, f.other, part(f.other_mask, go), part(f.mask, go), f.keep) for f in self.frames]
        for f in self.frames:
            f.other_mask, f.mask = part(f.other_mask, stay), part(f.mask, stay)
        other.loads, other.stores = moves(go)
        self.loads, self.stores = moves(stay)
        other.set_mask(part(self.mask, go))
        self.regs = parts(stay)
        self.set_mask(part(self.mask, stay))
        self.cohort.strands.append(other)
        return other

    # ---- divergence inside a warp --------------------------------------------------------------------------------

    def diverge(self, branch: int, target: int, taken: np.ndarray) -> int:
        """Part the lanes at a branch; returns where the first side (the one that does not lead to the join) goes on."""
        flow = self.program.flow
        join = flow.join(branch)
        self.program.watch_join(join)
        shape = np.broadcast_shapes(taken.shape, (1, 1, 1) if self.mask is None else self.mask.shape)
        base = np.ones((1, 1, 1), bool) if self.mask is None else self.mask
        taken = np.broadcast_to(taken, shape) & base
        stay = ~taken & base
        first, second = (target, branch + 1), (taken, stay)
        if target == join:
            first, second = (branch + 1, target), (stay, taken)
        run, other = first
        run_mask, other_mask = second
        if other == join:
            top = self.frames[-1] if self.frames else None
            if top is not None and top.join == join and top.other is None:
                self.set_mask(run_mask)
                return run
            other, other_mask = None, None
        elif self.cohort.launch.switches.divergence == "next":
            run, other, run_mask, other_mask = other, run, other_mask, run_mask
        self.frames.append(Frame(join, other, other_mask, self.mask, self.keep))
        keep = flow.live_in(join) | (flow.live_in(other) if other is not None else frozenset())
        self.keep = keep | (self.keep or frozenset())
        self.set_mask(run_mask)
        return run

    def meet(self, pc: int) -> int:
        """Arrive at a join: run the side that waits, or go on with all lanes. Returns the next program counter."""
        while self.frames and self.frames[-1].join == pc:
            frame = self.frames[-1]
            if frame.other is not None:
                return self._other_side(frame)
            self.frames.pop()
            self.keep = frame.keep
            self.set_mask(frame.mask)
        return pc

    def _other_side(self, frame: Frame) -> int:
        """Begin the side of a branch that has waited."""
        pc, frame.other = frame.other, None
        self.keep = self.program.flow.live_in(frame.join) | (frame.keep or frozenset())
        self.set_mask(frame.other_mask)
        return pc

    def retire(self) -> int:
        """The active lanes exit. Returns where the remaining lanes go on, or DONE."""
        for frame in self.frames:
            base = np.ones((1, 1, 1), bool) if frame.mask is None else frame.mask
            frame.mask = base & ~self.mask
        while self.frames:
            frame = self.frames[-1]
            if frame.other is not None:
                return self._other_side(frame)
            self.frames.pop()
            self.keep = frame.keep
            if frame.join is not None and frame.mask.any():
                self.set_mask(frame.mask)
                return frame.join
        self.done = True
        if self.stores:
            self.set_mask(None)
            self.stores = finish(self, self.stores)
        self.cohort.exited[slice(None) if self.rows is None else self.rows] += len(self.warps)
        return DONE

    # ---- predicated instructions -----------------------------------------------------------------------------------

    def under(self, predicate: np.ndarray, run: Callable[[Strand], int | None]) -> int | None:
        """Run one instruction in the lanes where ``predicate`` holds, merging everything it writes."""
        mask = predicate if self.mask is None else predicate & self.mask
        return self.only(mask, run) if mask.any() else None

    def only(self, mask: np.ndarray, run: Callable[[Strand], int | None]) -> int | None:
        """Run one instruction in just these lanes, merging everything it writes."""
        saved_mask, saved_keep = self.mask, self.keep
        self.outer = saved_mask
        self.set_mask(mask)
        self.keep = EVERY_SLOT
        try:
            return run(self)
        finally:
            self.keep = saved_keep
            self.set_mask(saved_mask)
