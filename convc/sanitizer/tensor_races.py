"""The race checker's part about tensor memory: operations of the tensor core, loads, stores and allocations."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from convc.machine.base.values import fixed
from convc.machine.isa.observe import actors
from convc.machine.state.observed import ObservedStrand
from convc.machine.state.observer import LaneAccess, Operation
from convc.machine.tensor_core.tensor_memory import COLUMNS, LANES
from convc.ptx import Instr
from convc.sanitizer.accesses import ONE_LANE, Accesses, AccessFields
from convc.sanitizer.allocations import of_pair
from convc.sanitizer.clocks import AsyncStream, WarpClocks
from convc.sanitizer.shadow import Access
from convc.sanitizer.tcgen05_order import Pipeline


class TensorRaces(Accesses):
    """Accesses of the tensor core, and of the warps that move tensor memory."""

    def tensor_op(self, strand: ObservedStrand, instr: Instr, operation: Operation) -> None:
        """mma, cp, shift: ordered after what the issuing thread's tcgen05 instructions know, or by the pipeline."""
        warp, lane = operation.thread
        watched = self.cohort.watched
        rows = operation.rows
        made: list[tuple[Access, Access, WarpClocks]] = []
        for row in rows[:watched] if isinstance(rows, range) else [row for row in rows if row < watched]:
            clocks = self.clocks(row, warp)
            work = self.stream("tensor", row, warp, lane)
            clocks.tick()
            stream = (operation.kind, operation.target)
            time = work.next()
            fields: AccessFields = {
                "component": work.component,
                "time": time,
                "actor": operation.kind,
                "generic": False,
                "lane": lane,
                "nth": self.nth(instr, row, warp, lane),
                "stream": stream,
                "operands": operation.operands,
                "after": self.pipeline(work).issue(stream, time),
            }
            for home in (row & ~1, row | 1) if operation.pair else (row,):
                fields["home"] = home
                read = self.entry(instr, operation.kind, row, warp, clocks, **fields)
                writing: AccessFields = {**fields, "write": True}
                made.append((read, self.entry(instr, operation.kind, row, warp, clocks, **writing), clocks))
        self._operated(operation, made)

    def _operated(self, operation: Operation, made: list[tuple[Access, Access, WarpClocks]]) -> None:
        """A tensor operation reads and writes, in each CTA with these entries."""
        lanes = ONE_LANE[operation.thread[1]]
        both = operation.reads is operation.writes
        steps = [("shared", operation.shared, False), ("tensor", operation.reads, False)][: 1 if both else 2]
        steps += [("tensor", operation.writes, True)]
        steps = [step for step in steps if step[1].size]
        for reading, writing, clocks in made:
            for space, places, write in steps:
                home = reading.home
                # A write comes after all that a read of its cells does, and takes the place of that read.
                if write and both:
                    if self.written_in_order(space, home, places, lanes, writing, clocks):
                        continue
                    self.access(space, home, places, lanes, reading, clocks)
                self.access(space, home, places, lanes, writing if write else reading, clocks)

    def pipeline(self, work: AsyncStream) -> Pipeline:
        """The order that the tensor core keeps among what one thread issues."""
        if work.component not in self.pipelines:
            ordered = self.cohort.launch.switches.ashift_then_cp == "ordered"
            self.pipelines[work.component] = Pipeline(ordered)
        return self.pipelines[work.component]

    def tensor(self, strand: ObservedStrand, instr: Instr, kind: str, accesses: Sequence[LaneAccess]) -> None:
        """tcgen05.ld and st: known to others only behind their wait."""

        for access in accesses:
            clocks = self.clocks(access.row, access.warp)
            work = self.stream(f"tcgen05.{kind}", access.row, access.warp)
            clocks.tick()
            made = self.entry(
                instr,
                kind,
                access.row,
                access.warp,
                clocks,
                component=work.component,
                time=work.next(),
                generic=False,
                write=kind == "st",
                nth=self.nth(instr, access.row, access.warp),
            )
            self.access("tensor", access.home, access.places, access.lanes, made, clocks)

    def allocate(
        self, strand: ObservedStrand, instr: Instr, row: int, warp: int, column: int, columns: int, free: bool
    ) -> None:
        """dealloc must come after everything that used the columns; a pair has met before, and has met then."""
        cells = _cells(column, columns)
        clocks = self.clocks(row, warp)
        clocks.tick()
        if of_pair(instr):
            self._paired(instr, row, warp)
            clocks.learn(self.life(row ^ 1))
        if free:
            self.allocations.freed(instr, (row, warp), columns, clocks)
            entry = self.entry(instr, "dealloc", row, warp, clocks, write=True, nth=self.nth(instr, row, warp))
            self.access("tensor", row, cells, np.array([0]), entry, clocks)
        else:
            self.allocations.allocated(row, columns, clocks.component, clocks.now)
        self.allocated[row, column] = columns
        reached = self.within("tensor", row, cells, np.array([0]))
        if reached is not None:
            self.shadow("tensor", row).forget(reached.places)

    def control(self, strand: ObservedStrand, instr: Instr) -> None:
        """A pair gives up its permit; or a warp waits for the preceding kernel, or lets the dependent one begin."""
        for _, row, _, warp, _ in actors(strand):
            if instr.form.opcode == "griddepcontrol":
                clocks = self.clocks(row, warp)
                clocks.tick()
                self.grids.control(instr, (row, warp), clocks)
            elif of_pair(instr):
                self._paired(instr, row, warp)

    def _paired(self, instr: Instr, row: int, warp: int) -> None:
        """A warp acts for both CTAs of its pair."""
        if not self.started(row, row ^ 1, self.clocks(row, warp)):
            self.found.setdefault(*self.allocations.alone(instr, (row, warp)))


@lru_cache(maxsize=64)
def _cells(column: int, columns: int) -> np.ndarray:
    return fixed((np.arange(LANES)[:, None] * COLUMNS + np.arange(column, column + columns)).reshape(-1))
