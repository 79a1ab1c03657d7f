"""The tensor core: the queue of asynchronous tcgen05 operations (mma, cp, shift).

Issued operations wait in a queue that is *sealed* (executed, in issue order) before anything could tell the
difference: when the issuing thread commits, when it stops running, and before a write of shared memory or
touches tensor memory. Consecutive MMAs that continue one accumulation are executed as one product over their joint
K, which is what makes the simulator fast (see `multiply`).

Collector buffers: permission to keep an operand inside the tensor core.

``fill`` keeps the operand, ``use`` and ``lastuse`` may read the kept copy, ``discard`` keeps nothing. It is a hint:
the core may load the operand again, so that memory must not change in between. The simulator always loads, and checks
the protocol: a use needs a fill of the same matrix that is still valid (PTX manual, "collector usage").
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeGuard

import numpy as np

from convc.machine.base.completion import Pending
from convc.machine.base.findings import Who
from convc.machine.tensor_core.copy_shift import Copy, RowShift, Shift, joined
from convc.machine.tensor_core.datapath import Datapath
from convc.machine.tensor_core.execute_mma import Product
from convc.machine.tensor_core.fetch import A_COLUMNS
from convc.machine.tensor_core.footprints import Footprint, footprint
from convc.machine.tensor_core.mma import Mma

Queued = Mma | Copy | Shift
"""An issued operation."""

INTEGER_RUN = 8
"""Most MMAs of kind i8 in one product: 256 products of 16 bits stay exact in float32."""


class TensorCore:
    """Queue and execution of one cohort's asynchronous tensor operations."""

    def __init__(self, path: Datapath, pending: Pending) -> None:
        self.path = path
        self.switches = path.switches
        self.queue: list[Queued] = []
        self.collectors = Collectors(path.ctas)
        self._pending = pending

    def multiply(self, mma: Mma, collector: tuple[str, str]) -> None:
        """Queue an MMA; ``collector`` is (buffer, usage)."""
        buffer, usage = collector
        if usage == "discard" and buffer not in self.collectors.held:  # nothing is kept, and nothing is given up
            self.queue.append(mma)
            return
        shape = mma.shape
        matrix = (mma.a, mma.a_in_tensor, shape.m) if buffer == "a" else (mma.b, shape.n)
        rows = None if mma.rows is None else np.asarray(mma.rows)
        problem = self.collectors.apply(buffer, usage, (shape.kind, *matrix), rows)
        if problem is not None:
            who = Who(row=0 if mma.rows is None else mma.rows[0])
            self.path.findings.report("collector-protocol", problem, mma.instr, who=who)
        self.queue.append(mma)

    def move(self, item: Copy | Shift) -> None:
        """Queue a copy or a shift."""
        self.queue.append(item)

    def footprint(self, item: Queued) -> Footprint:
        """What an operation touches: shared bytes it reads, tensor-memory cells it reads, and cells it writes."""
        return footprint(item, self.switches)

    def seal(self) -> None:
        """Execute everything queued; where work is not performed at once (see `completion`), only a commit takes it."""
        if self.queue and self._pending.eager:
            self.perform(self.take())

    def take(self) -> list[Queued]:
        """Everything queued, which the caller will `perform`."""
        queue, self.queue = self.queue, []
        return queue

    def perform(self, queue: list[Queued]) -> None:
        """Execute operations in order."""
        with np.errstate(invalid="ignore", over="ignore"):
            self._perform(queue)

    def _perform(self, queue: list[Queued]) -> None:
        if self._is_one_run(queue):
            self._multiply(queue)
            return
        run: list[Mma] = []
        for item in joined(self._shifting(queue)):
            if run and not (isinstance(item, Mma) and self._continues(run, item)):
                self._multiply(run)
                run = []
            if isinstance(item, Mma):
                run.append(item)
            else:
                item.execute(self.path)
        if run:
            self._multiply(run)

    def _is_one_run(self, queue: list[Queued]) -> TypeGuard[list[Mma]]:
        """Whether a queue is nothing but MMAs that continue one accumulation, as nearly every one is."""
        last: list[Mma] = []
        for item in queue:
            if not isinstance(item, Mma) or item.ashift or (last and not self._continues(last, item)):
                return False
            last.append(item)
        return bool(last)

    def _multiply(self, run: list[Mma]) -> None:
        """Execute a run now, unless it may wait."""
        deferral = self.path.deferral
        if deferral is None or not deferral.product(self.path, run):
            Product(self.path, run).execute()

    def _shifting(self, queue: list[Queued]) -> Iterator[Queued | RowShift]:
        """The queue with the moves of .ashift as items of their own, as late as they may come: copies may pass them."""
        late: list[RowShift] = []
        for item in queue:
            if self._sees(item, late):
                yield from late
                late = []
            yield item
            if isinstance(item, Mma) and item.ashift:
                late.append(RowShift(item.a & 0xFFFF, item.rows))
        yield from late

    def _sees(self, item: Queued, moves: list[RowShift]) -> bool:
        """Whether the moves come before an operation that follows them."""
        if isinstance(item, Copy):
            return self.switches.ashift_then_cp != "unordered"
        if isinstance(item, Shift) or item.overlaps() or not item.a_in_tensor:
            return True
        return any(abs(move.column - (item.a & 0xFFFF)) < A_COLUMNS for move in moves)

    def _continues(self, run: list[Mma], mma: Mma) -> bool:
        """Whether an instruction may join a run without changing what the run means."""
        last = run[-1]
        shape = mma.shape
        if not mma.accumulate or mma.scale or mma.d != last.d or mma.target != last.target:
            return False
        if shape.factors or self.switches.numerics == "exact":
            return False
        if shape.kind == "i8" and (shape.saturate or len(run) == INTEGER_RUN):
            return False
        return not (mma.overlaps() or last.overlaps())


class Collectors:
    """What every buffer of every CTA holds: buffer ``a`` of plain MMAs, ``b0`` to ``b3`` of weight-stationary ones."""

    def __init__(self, ctas: int) -> None:
        self.ctas = ctas
        self.held: dict[str, np.ndarray] = {}
        self.numbers: dict[tuple[object, ...], int] = {}

    def apply(self, buffer: str, usage: str, matrix: tuple[object, ...], rows: np.ndarray | None) -> str | None:
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
                problem = f"collector {buffer}::{usage} without a valid fill"
            elif (before != number).any():
                problem = f"collector {buffer}::{usage} uses another matrix than the one that filled it"
        if usage in ("lastuse", "discard"):
            held[where] = -1
        elif usage == "fill":
            held[where] = number
        return problem
