"""mbarrier objects: phases, arrivals and transaction counts of a whole cohort.

State per barrier (PTX manual, "Parallel synchronization: mbarrier"): the number of completed phases, the expected
and the pending arrival count, and the signed transaction count. A phase completes exactly when the pending count and
the transaction count are both zero; then the pending count returns to the expected one.

The CTAs of a cohort normally do the same things, so each of the four numbers is a Python int for all of them, and
becomes an int64 array of shape (ctas,) only while CTAs differ.
"""

from __future__ import annotations

import numpy as np

from convc.errors import MachineFault

Count = int | np.ndarray
MAX_COUNT = (1 << 20) - 1
"""Largest arrival count and magnitude of the transaction count (PTX manual, mbarrier object contents)."""


class MBarrier:
    """One mbarrier at one shared address, in every CTA of a cohort."""

    __slots__ = ("address", "expected", "gone", "pending", "phase", "tx")

    def __init__(self, address: int, count: int) -> None:
        self.address = address
        self.expected: Count = count
        self.pending: Count = count
        self.tx: Count = 0
        self.phase: Count = 0
        self.gone: set[int] = set()  # CTAs in which it was invalidated

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
                raise self._overflow("arrivals")
            if self.pending == 0 and type(self.tx) is int and self.tx == 0:
                self._complete()
            elif type(self.tx) is not int:
                self._settle(ctas)
            return
        pending = self._wide("pending", ctas)
        np.subtract.at(pending, np.arange(ctas) if rows is None else rows, count)
        if (pending < 0).any():
            raise self._overflow("arrivals")
        self._settle(ctas)

    def add_tx(self, ctas: int, rows: np.ndarray | None, amount: Count) -> None:
        """Add to the transaction count: positive for expect_tx, negative for complete_tx."""
        if rows is None and type(self.tx) is int and type(amount) is int:
            self.tx += amount
            if not -MAX_COUNT <= self.tx <= MAX_COUNT:
                raise self._overflow("transaction bytes")
            if self.tx == 0 and type(self.pending) is int:
                if self.pending == 0:
                    self._complete()
            elif type(self.pending) is not int:
                self._settle(ctas)
            return
        tx = self._wide("tx", ctas)
        np.add.at(tx, np.arange(ctas) if rows is None else rows, amount)
        if (abs(tx) > MAX_COUNT).any():
            raise self._overflow("transaction bytes")
        self._settle(ctas)

    def drop(self, ctas: int, rows: np.ndarray | None, count: Count) -> None:
        """arrive_drop: lower the expected count of later phases, then arrive."""
        if rows is None and type(self.expected) is int and type(count) is int:
            self.expected -= count
        else:
            self._wide("expected", ctas)[slice(None) if rows is None else rows] -= count
        self.arrive(ctas, rows, count)

    def completed(self, rows: np.ndarray | None, parity: Count) -> bool | np.ndarray:
        """Whether the phase with this parity has completed: True when the current phase's parity differs."""
        phase = self.phase if rows is None or isinstance(self.phase, int) else self.phase[rows]
        return (phase & 1) != (parity & 1)

    def state(self, rows: np.ndarray | None) -> Count:
        """The opaque state that an arrival returns: completed phases above 32 bits of pending arrivals."""
        phase, pending = (v if rows is None or isinstance(v, int) else v[rows] for v in (self.phase, self.pending))
        return (phase << 32) | pending

    def passed(self, rows: np.ndarray | None, state: Count) -> bool | np.ndarray:
        """Whether the phase in which `state` was taken has completed."""
        phase = self.phase if rows is None or isinstance(self.phase, int) else self.phase[rows]
        return phase > (state >> 32)

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
        """Every CTA begins the next phase."""
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

    def _overflow(self, what: str) -> MachineFault:
        return MachineFault(
            f"mbarrier at shared address {self.address:#x}: more {what} than the phase allows ({self.describe(0)})",
            hint="the count given to mbarrier.init, or the bytes given to expect_tx, do not match what arrives",
        )
