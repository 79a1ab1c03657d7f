"""mbarrier objects: phases, arrivals and transaction counts of a whole cohort.

State per barrier (PTX manual, "Parallel synchronization: mbarrier"): the number of completed phases, the expected
and the pending arrival count, and the signed transaction count. A phase completes exactly when the pending count and
the transaction count are both zero; then the pending count returns to the expected one.

The CTAs of a cohort normally do the same things, so each of the four numbers is a Python int for all of them, and
becomes an int64 array of shape (ctas,) only while CTAs differ.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from convc.errors import MachineFault

Count = int | np.ndarray
MAX_COUNT = (1 << 20) - 1
"""Largest arrival count and magnitude of the transaction count (PTX manual, mbarrier object contents)."""


class Arrival(NamedTuple):
    """The act of a thread at an mbarrier.

    Attributes:
        arrivals: how many, an int or one for each CTA.
        tx: added to the transaction count before that.
        drop: later phases expect so many fewer.
    """

    arrivals: Count = 1
    tx: Count | None = None
    drop: bool = False


class MBarrier:
    """One mbarrier at one shared address, in every CTA of a cohort."""

    __slots__ = ("address", "expected", "gone", "pending", "phase", "tx")

    def __init__(self, address: int, count: int, gone: Iterable[int] = ()) -> None:
        self.address = address
        self.expected: Count = count
        self.pending: Count = count
        self.tx: Count = 0
        self.phase: Count = 0
        self.gone = set(gone)  # CTAs in which it was invalidated, or never initialised

    def among(self, rows: np.ndarray | None) -> bool:
        """Whether one of the CTAs ``rows`` (None = all) has it."""
        return rows is None or not self.gone.issuperset(rows.tolist())

    def reset(self, ctas: int, rows: np.ndarray, count: Count) -> None:
        """Initialise again in the CTAs ``rows``; the others keep their state."""
        for name, value in (("expected", count), ("pending", count), ("tx", 0), ("phase", 0)):
            self._wide(name, ctas)[rows] = value
        self.gone.difference_update(rows.tolist())
        self._collapse()

    def arrive(self, ctas: int, rows: np.ndarray | None, count: Count) -> None:
        """Take ``count`` arrivals in the CTAs ``rows`` (None = all)."""
        if rows is None and type(self.pending) is int and type(count) is int:
            self.pending -= count
            if self.pending < 0:
                raise self._overflow("arrivals", 0)
            if self.pending == 0 and type(self.tx) is int and self.tx == 0:
                self._complete()
            elif type(self.tx) is not int:
                self._settle(ctas)
            return
        pending = self._wide("pending", ctas)
        np.subtract.at(pending, np.arange(ctas) if rows is None else rows, count)
        if (pending < 0).any():
            raise self._overflow("arrivals", int((pending < 0).argmax()))
        self._settle(ctas)

    def add_tx(self, ctas: int, rows: np.ndarray | None, amount: Count) -> None:
        """Add to the transaction count: positive for expect_tx, negative for complete_tx."""
        if rows is None and type(self.tx) is int and type(amount) is int:
            self.tx += amount
            if not -MAX_COUNT <= self.tx <= MAX_COUNT:
                raise self._overflow("transaction bytes", 0)
            if self.tx == 0 and type(self.pending) is int:
                if self.pending == 0:
                    self._complete()
            elif type(self.pending) is not int:
                self._settle(ctas)
            return
        tx = self._wide("tx", ctas)
        np.add.at(tx, np.arange(ctas) if rows is None else rows, amount)
        if (abs(tx) > MAX_COUNT).any():
            raise self._overflow("transaction bytes", int((abs(tx) > MAX_COUNT).argmax()))
        self._settle(ctas)

    def drop(self, ctas: int, rows: np.ndarray | None, count: Count) -> None:
        """arrive_drop: lower the expected count of later phases, then arrive."""
        if rows is None and type(self.expected) is int and type(count) is int:
            self.expected -= count
        else:
            np.subtract.at(self._wide("expected", ctas), np.arange(ctas) if rows is None else rows, count)
        self.arrive(ctas, rows, count)

    # ---- several threads -------------------------------------------------------------------------------------------

    def arrive_each(self, ctas: int, rows: np.ndarray | None, threads: Count, arrival: Arrival) -> int:
        """Threads arrive one after the other; returns how many phases of one barrier they fall into at most.

        Args:
            ctas: of the cohort.
            rows: the CTAs whose barrier it is, one for each CTA that threads belong to, with repeats; None for all.
            threads: how many arrive, for each of ``rows``.
            arrival: what each of them does.
        """
        if not self._fits(ctas, rows, threads, arrival.arrivals):
            return max(2, self._one_by_one(ctas, rows, threads, arrival))
        if arrival.tx is not None:
            self.add_tx(ctas, rows, arrival.tx * threads)
        (self.drop if arrival.drop else self.arrive)(ctas, rows, arrival.arrivals * threads)
        return 1

    def add_tx_each(self, ctas: int, rows: np.ndarray | None, threads: Count, amount: Count) -> None:
        """Threads add to the transaction count one after the other, ``threads`` of them for each of ``rows``."""
        one = type(threads) is int and threads == 1
        if one or np.min(self.pending) > 0 or self._counts_down(ctas, rows, amount * threads):
            self.add_tx(ctas, rows, amount * threads)
        else:  # a phase may complete on the way, and what follows belong to the next
            self._one_by_one(ctas, rows, threads, Arrival(0, amount))

    def _counts_down(self, ctas: int, rows: np.ndarray | None, amounts: Count) -> bool:
        """Whether no amount adds bytes and none takes more than are outstanding: no phase completes on the way."""
        if np.max(amounts) > 0:
            return False
        left = np.zeros(ctas, np.int64)
        np.add.at(left, np.arange(ctas) if rows is None else rows, amounts)
        return bool((left + self.tx >= 0).all())

    def takes_together(self, rows: np.ndarray | None, amount: int) -> bool:
        """Whether threads that complete ``amount`` bytes for each of ``rows`` leave the same behind as one that does.

        They do where no phase can complete before the last of them, and the count stays in its range.
        """
        tx, pending = (
            value if isinstance(value, int) or rows is None else value[rows] for value in (self.tx, self.pending)
        )
        left = np.asarray(tx) - amount
        return bool(((left >= 0) | ((np.asarray(pending) > 0) & (left >= -MAX_COUNT))).all())

    def found_by_each(self, rows: np.ndarray | None, threads: Count, count: Count) -> Count:
        """The states in which threads will find the barrier that arrive one after the other.

        Returns:
            An int where it is the same for all, else uint64 (rows | 1, threads); what belongs to no thread means
            nothing.
        """
        most = int(np.max(threads))
        phase, pending, expected = (
            v if isinstance(v, int) else np.reshape(v if rows is None else v[rows], (-1, 1))
            for v in (self.phase, self.pending, self.expected)
        )
        if most == 1 and type(phase) is int and type(pending) is int:
            return (phase << 32) | pending
        taken = np.arange(most) * np.reshape(count, (-1, 1))
        behind = np.maximum(taken - pending, 0)  # arrivals past the running phase
        over = np.where(taken < pending, 0, 1 + behind // expected)
        left = np.where(taken < pending, pending - taken, expected - behind % expected)
        return ((phase + over) << 32 | left).astype(np.uint64)

    def _fits(self, ctas: int, rows: np.ndarray | None, threads: Count, count: Count) -> bool:
        """Whether all arrivals belong to the running phase of each barrier."""
        if rows is None and type(self.pending) is int and type(threads) is int and type(count) is int:
            return threads * count <= self.pending
        total = np.zeros(ctas, np.int64)
        np.add.at(total, np.arange(ctas) if rows is None else rows, np.asarray(threads * count))
        return bool((total <= self.pending).all())

    def _one_by_one(self, ctas: int, rows: np.ndarray | None, threads: Count, arrival: Arrival) -> int:
        """Threads that complete phases on the way; returns how many phases one barrier completed at most."""
        everyone = np.arange(ctas) if rows is None else rows
        before = np.array(np.broadcast_to(self.phase, ctas))
        times, count, tx = (
            np.broadcast_to(v, everyone.shape).tolist()
            for v in (threads, arrival.arrivals, 0 if arrival.tx is None else arrival.tx)
        )
        for at in range(len(everyone)):
            one = everyone[at : at + 1]
            for _ in range(times[at]):
                if tx[at]:
                    self.add_tx(ctas, one, tx[at])
                if count[at]:
                    (self.drop if arrival.drop else self.arrive)(ctas, one, count[at])
        return int((np.broadcast_to(self.phase, ctas) - before).max())

    # ---- what is known ---------------------------------------------------------------------------------------------

    def completed(self, rows: np.ndarray | None, parity: Count) -> bool | np.ndarray:
        """Whether the phase with this parity has completed: True when the current phase's parity differs."""
        phase = self.phase if rows is None or isinstance(self.phase, int) else self.phase[rows]
        return (phase & 1) != (parity & 1)

    def passed(self, rows: np.ndarray | None, number: Count) -> bool | np.ndarray:
        """Whether the phase with this number has completed: the upper 32 bits of a state (`found_by_each`)."""
        phase = self.phase if rows is None or isinstance(self.phase, int) else self.phase[rows]
        return phase > number

    def describe(self, row: int) -> str:
        """State in one CTA, for reports."""
        phase, pending, expected, tx = (
            int(v if isinstance(v, int) else v[row]) for v in (self.phase, self.pending, self.expected, self.tx)
        )
        return f"phase {phase} (parity {phase & 1}), {pending} of {expected} arrivals pending, {tx} bytes outstanding"

    def _wide(self, name: str, ctas: int) -> np.ndarray:
        value = getattr(self, name)
        if type(value) is int:
            value = np.full(ctas, value, np.int64)
            setattr(self, name, value)
        return value

    def _complete(self) -> None:
        self.phase += 1
        self.pending = self.expected if isinstance(self.expected, int) else self.expected.copy()

    def _settle(self, ctas: int) -> None:
        """Complete phases where both counts are zero."""
        pending = self._wide("pending", ctas)
        done = (pending == 0) & (self._wide("tx", ctas) == 0)
        phase = self._wide("phase", ctas)
        phase[done] += 1
        pending[done] = self.expected if isinstance(self.expected, int) else self.expected[done]
        self._collapse()

    def _collapse(self) -> None:
        """Back to ints where all CTAs agree."""
        for name in ("pending", "tx", "phase", "expected"):
            value = getattr(self, name)
            if type(value) is not int and (value == value[0]).all():
                setattr(self, name, int(value[0]))

    def _overflow(self, what: str, row: int) -> MachineFault:
        return MachineFault(
            f"mbarrier at shared address {self.address:#x}: more {what} than the phase allows ({self.describe(row)})",
            hint="the count of mbarrier.init, or the bytes of expect_tx, do not match what arrives",
        ).of(row)
