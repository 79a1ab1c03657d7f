"""A strand: some warps of some CTAs that share one program counter.

A strand starts as all warps of all CTAs of a cohort and splits when a branch goes different ways in different warps
or CTAs. Lanes of one warp that part stay in the strand and run one side after the other under a mask, meeting at the
branch's post-dominator (see `flow`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from convc.machine.base.values import Value, array, narrow
from convc.machine.state.barriers import Ticket
from convc.machine.state.cohort import Cohort
from convc.machine.state.parts import mask_part, part, value_part
from convc.machine.state.program import Program
from convc.machine.state.warpgroups import WarpgroupMultiply
from convc.ptx import Instr

BLOCK = -1
DONE = -2
"""What an instruction may return besides None (go on) and a program counter (jump)."""


class _EverySlot(frozenset[int]):
    """The set of all register slots."""

    def __contains__(self, slot: object) -> bool:
        return True


EVERY_SLOT = _EverySlot()


@dataclass(slots=True)
class Frame:
    """One divergence.

    Attributes:
        join: instruction where the lanes meet again; None: at the exit.
        other: instruction at which the side that is still to run begins; None when none is.
        other_mask: bool, the lanes of that side.
        mask, keep: those of the strand before its lanes parted.
    """

    join: int | None
    other: int | None
    other_mask: np.ndarray | None
    mask: np.ndarray | None
    keep: frozenset[int] | None

    def part(self, axis: int, index: np.ndarray) -> Frame:
        """The divergence in some CTAs (axis 0) or warps (axis 1) of the strand."""
        other_mask = mask_part(self.other_mask, axis, index)
        return replace(self, other_mask=other_mask, mask=mask_part(self.mask, axis, index))


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterMove:
    """A tcgen05.ld or st that warps of a strand have issued (see `convc.machine.state.pending_registers`).

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

    def part(self, axis: int, index: np.ndarray) -> RegisterMove:
        """The move in some CTAs (axis 0) or warps (axis 1) of the strand."""
        operands = [value_part(value, axis, index) for value in self.operands]
        return replace(self, operands=operands, mask=mask_part(self.mask, axis, index))


class Strand:
    """Registers and position of a group of warps.

    Attributes:
        running: the strands of the cohort that have not ended; a split adds one.
        rows: indices of its CTAs in the cohort, or None for all of them.
        warps: warp numbers inside the CTA, ascending.
        regs: one value per register slot, followed by constants and special registers.
        mask: bool array broadcastable to (rows, warps, 32) of the active lanes, or None when all are.
        count: active lanes of each CTA: an int where it is the same in all, else int (rows,).
        active: (warp position, lane) where just one thread is active, the same in all CTAs; else None.
        keep: while lanes are parted, the slots whose values must be merged on a write; else None.
        outer: while one predicated instruction runs, the mask around it.
        frames: divergences that it is inside of, the innermost last.
        waiting: what it waits for when blocked (text for a deadlock report).
        ready: while it is blocked, bool (rows | 1, warps | 1): whose wait is over; None where that is not known.
        ticket: what it holds while it waits at a CTA barrier.
        loads, stores: tcgen05.ld and st that its warps issued and did not wait for.
        multiplies: wgmma that its warps issued and that have not been performed.
        skipped: instructions executed in its turn besides those that the run loop has counted.
        executed: instructions that each of its warps executed, in all turns that it has had.
        gave_up: waits, by their place, that returned because none could go on, with the waits that had
            succeeded then.
        late: the place of a wait that is to return now, though its phase is not over; else None.
    """

    __slots__ = (
        "active", "cohort", "count", "done", "executed", "frames", "gave_up", "keep", "late", "loads", "mask",
        "multiplies", "outer", "pc", "program", "ready", "regs", "row_count", "rows", "running", "skipped", "stores",
        "ticket", "waiting", "warps",
    )  # fmt: skip

    def __init__(
        self,
        cohort: Cohort,
        program: Program,
        running: list[Strand],
        rows: np.ndarray | None,
        warps: np.ndarray,
        regs: list[Value],
    ) -> None:
        self.cohort = cohort
        self.program = program
        self.running = running
        self.rows = rows
        self.row_count = cohort.ctas if rows is None else len(rows)
        self.warps = warps
        self.regs = regs
        self.pc = 0
        self.skipped = 0
        self.executed = 0
        self.gave_up: dict[int, int] = {}
        self.late: int | None = None
        self.mask: np.ndarray | None = None
        self.outer: np.ndarray | None = None
        self.keep: frozenset[int] | None = None
        self.frames: list[Frame] = []
        self.waiting = ""
        self.ready: np.ndarray | None = None
        self.ticket: Ticket | None = None
        self.done = False
        self.loads: list[RegisterMove] = []
        self.stores: list[RegisterMove] = []
        self.multiplies: list[WarpgroupMultiply] = []
        self._new_mask()

    # ---- lanes -------------------------------------------------------------------------------------------------

    def _new_mask(self) -> None:
        """Recompute what depends on the mask: ``count`` of active lanes per CTA and the single ``active`` thread."""
        if self.mask is None:
            self.count: int | np.ndarray = 32 * len(self.warps)
            self.active: tuple[int, int] | None = None
            return
        full = self.mask
        if full.shape[1] != len(self.warps) or full.shape[2] != 32:
            full = np.broadcast_to(full, (full.shape[0], len(self.warps), 32))
        self.active = None
        if full.shape[0] == 1:
            self.count = int(np.count_nonzero(full))
            if self.count == 1:
                self.active = divmod(int(full.argmax()), 32)
            return
        per_row = full.sum(axis=(1, 2))
        self.count = int(per_row[0]) if (per_row == per_row[0]).all() else np.broadcast_to(per_row, (self.row_count,))

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
        copy = Strand(self.cohort, self.program, self.running, self.rows, self.warps, self.regs.copy())
        copy.set_mask(self.mask)
        return copy

    # ---- registers ---------------------------------------------------------------------------------------------

    def write(self, slot: int, value: Value) -> None:
        """Write a register, merging with the lanes that wait where they are still read."""
        keep = self.keep
        mask = self.mask
        if keep is None or mask is None or slot not in keep:
            self.regs[slot] = value
            return
        old = self.regs[slot]
        if not isinstance(value, np.ndarray) and not isinstance(old, np.ndarray) and value == old:
            return
        bits = self.program.widths[slot]
        self.regs[slot] = np.where(mask, array(value, bits), array(old, bits))

    # ---- splitting ---------------------------------------------------------------------------------------------

    def split_warps(self, chosen: np.ndarray) -> Strand:
        """Move the warps where ``chosen`` (bool per warp) is False into a new strand, which is returned."""
        return self._split(1, chosen)

    def split_rows(self, chosen: np.ndarray) -> Strand:
        """Move the CTAs where ``chosen`` (bool per row) is False into a new strand, which is returned."""
        self.cohort.counters.splits += 1
        return self._split(0, chosen)

    def _split(self, axis: int, chosen: np.ndarray) -> Strand:
        """Move the CTAs (axis 0) or warps (axis 1) that are not ``chosen`` into a new strand, which runs by itself.

        Both go on at the same instruction, with the divergences and the pending moves of their own part.
        """
        stay = np.flatnonzero(chosen)
        go = np.flatnonzero(~chosen)
        # Registers that are the same along the axis stay as they are, shared by both. The others may become the same
        # in a part: narrowing them here keeps what follows fast.
        everything = self.regs
        wide = [(slot, v) for slot, v in enumerate(everything) if isinstance(v, np.ndarray) and v.shape[axis] > 1]

        def registers(index: np.ndarray) -> list[Value]:
            regs = everything.copy()
            for slot, value in wide:
                regs[slot] = narrow(part(value, axis, index))
            return regs

        if axis == 0:
            rows = np.arange(self.cohort.ctas) if self.rows is None else self.rows
            other = Strand(self.cohort, self.program, self.running, rows[go], self.warps, registers(go))
            self.rows = rows[stay]
            self.row_count = len(stay)
        else:
            other = Strand(self.cohort, self.program, self.running, self.rows, self.warps[go], registers(go))
            self.warps = self.warps[stay]
        other.pc = self.pc
        other.executed = self.executed
        other.keep = self.keep
        other.frames = [frame.part(axis, go) for frame in self.frames]
        other.loads = [move.part(axis, go) for move in self.loads]
        other.stores = [move.part(axis, go) for move in self.stores]
        other.multiplies = [multiply.part(axis, go) for multiply in self.multiplies]
        if self.ticket is not None:
            other.ticket = self.ticket.part(axis, go)
            self.ticket = self.ticket.part(axis, stay)
        other.set_mask(mask_part(self.mask, axis, go))
        self.frames = [frame.part(axis, stay) for frame in self.frames]
        self.loads = [move.part(axis, stay) for move in self.loads]
        self.stores = [move.part(axis, stay) for move in self.stores]
        self.multiplies = [multiply.part(axis, stay) for multiply in self.multiplies]
        self.regs = registers(stay)
        self.set_mask(mask_part(self.mask, axis, stay))
        self.running.append(other)
        if self.cohort.lazy is not None and self.cohort.lazy.record is not None:
            self.cohort.lazy.record.part(id(self), id(other), everything)
        return other

    # ---- divergence inside a warp ------------------------------------------------------------------------------------

    def depth(self, at: int) -> int:
        """How many divergences hold at instruction ``at``; one whose lanes have all arrived at its join does not."""
        return sum(frame.join != at or frame.other is not None for frame in self.frames)

    def diverge(self, branch: int, target: int, taken: np.ndarray) -> int:
        """Part the lanes at a branch: one side runs on to the join, then the other.

        Args:
            branch: index of the branch. target: where it leads.
            taken: bool, the lanes that jump.

        Returns:
            Where the side that runs first goes on.
        """
        flow = self.program.flow
        join = flow.join(branch)
        self.program.watch_join(join)
        base = np.ones((1, 1, 1), bool) if self.mask is None else self.mask
        taken = np.broadcast_to(taken, np.broadcast_shapes(taken.shape, base.shape)) & base
        jumping = (target, taken)
        falling = (branch + 1, ~taken & base)
        next_first = target == join or (branch + 1 != join and self.cohort.launch.switches.divergence == "next")
        (run, run_mask), (other, other_mask) = (falling, jumping) if next_first else (jumping, falling)
        keep = flow.live_in(join)
        if other == join:
            # One side has nothing to do before the join (an "if" without "else"): its lanes only wait. A loop comes
            # by again with fewer and fewer lanes; the frame of its first round says what comes after all.
            top = self.frames[-1] if self.frames else None
            if top is not None and top.join == join and top.other is None:
                self.set_mask(run_mask)
                return run
            self.frames.append(Frame(join, None, None, self.mask, self.keep))
        else:
            self.frames.append(Frame(join, other, other_mask, self.mask, self.keep))
            keep |= flow.live_in(other)
        # A register that is read again after the join, or by the other side, must not lose the values of the lanes
        # that wait now; every other register may become a plain value, as if this side were all there is.
        self.keep = keep | (self.keep or frozenset())
        self.set_mask(run_mask)
        return run

    def meet(self, pc: int) -> int:
        """Arrive at a join: run the side that waits, or go on with all lanes. Returns the next program counter."""
        # Several branches may share a join, so that one arrival can end several divergences.
        while self.frames and self.frames[-1].join == pc:
            frame = self.frames[-1]
            if frame.other is not None:
                return self._run_other_side(frame, frame.other)
            self.frames.pop()
            self.keep = frame.keep
            self.set_mask(frame.mask)
        return pc

    def _run_other_side(self, frame: Frame, start: int) -> int:
        """Begin the side of a branch that has waited; returns where it does."""
        frame.other = None
        # The first side has run: only the code behind the join still needs what its lanes hold.
        self.keep = self.program.flow.live_in(frame.join) | (frame.keep or frozenset())
        self.set_mask(frame.other_mask)
        return start

    def retire(self) -> int:
        """The active lanes exit. Returns where the remaining lanes go on, or DONE."""
        everyone = np.ones((1, 1, 1), bool)
        staying = ~(everyone if self.mask is None else self.mask)
        for frame in self.frames:
            frame.mask = (everyone if frame.mask is None else frame.mask) & staying
        while self.frames:
            frame = self.frames[-1]
            if frame.other is not None:
                return self._run_other_side(frame, frame.other)
            self.frames.pop()
            self.keep = frame.keep
            if frame.join is not None and frame.mask is not None and frame.mask.any():
                self.set_mask(frame.mask)
                return frame.join
        self.done = True
        self.cohort.exited[slice(None) if self.rows is None else self.rows] += len(self.warps)
        return DONE

    # ---- predicated instructions -----------------------------------------------------------------------------------

    def under(self, predicate: np.ndarray, run: Callable[[Strand], int | None]) -> int | None:
        """Run one instruction in the lanes where ``predicate`` holds, merging everything it writes."""
        mask = predicate if self.mask is None else predicate & self.mask
        return self.only(mask, run) if np.count_nonzero(mask) else None

    def only(self, mask: np.ndarray, run: Callable[[Strand], int | None]) -> int | None:
        """Run one instruction in just these lanes, merging everything it writes."""
        saved_mask = self.mask
        saved_keep = self.keep
        if saved_keep is not EVERY_SLOT:  # else inside another such instruction, whose mask is not the outer one
            self.outer = saved_mask
        self.set_mask(mask)
        self.keep = EVERY_SLOT
        try:
            return run(self)
        finally:
            self.keep = saved_keep
            self.set_mask(saved_mask)
