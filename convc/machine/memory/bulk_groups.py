"""Groups of asynchronous copies that complete by bulk_group (PTX manual, "cp.async.bulk.commit_group").

Each thread has the bulk copies it issued but has not committed, and the groups it committed but has not waited for.
Under the policy ``eager`` (see `convc.machine.base.completion`) every copy is performed at its issue and waiting
changes no data; what is kept here says whether a thread asked for completion at all. A CTA that exits while a copy is
not known to have read its shared memory may lose that memory under the copy. Groups complete in the order in which they
were committed; the copies of one group are not ordered (PTX manual, "Async-group mechanism").

cp.async copies under way, and the groups of each thread (PTX manual, "cp.async.commit_group", "wait_group").

A thread closes a group around the copies it has issued since the last one; an empty group counts. ``wait_group n``
waits for all groups of the thread but the latest ``n``, and not for copies in no group yet. Only used where copies are
not performed at once, see `convc.machine.base.completion`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from convc.ir.findings import Verdict
from convc.machine.base.completion import Action, Pending
from convc.machine.base.findings import FindingSink, Who
from convc.ptx import Instr

OPEN = 0
COMMITTED = 1


class BulkGroups:
    """Bulk copies of all threads of a cohort: for each thread that issued any, int64 (2, ctas), see below.

    Row `OPEN` counts copies in the group being built, row `COMMITTED` groups not yet waited for.
    """

    def __init__(self, ctas: int) -> None:
        self._ctas = ctas
        self._threads: dict[tuple[int, int], np.ndarray] = {}
        self._last: dict[tuple[int, int], Instr] = {}
        self._stores: dict[tuple[int, int], list[int]] = {}
        self._parted: set[tuple[int, int]] = set()
        self._closed: dict[tuple[int, int], int] = {}

    def issue(self, thread: tuple[int, int], rows: np.ndarray | None, instr: Instr) -> int:
        """Thread (warp number, lane) of the CTAs ``rows`` (None = all) issued a copy; returns the number of its group.

        A later group has a higher number; where CTAs have gone apart, so may copies of one group.
        """
        counts = self._threads.get(thread)
        if counts is None:
            counts = self._threads[thread] = np.zeros((2, self._ctas), np.int64)
        counts[OPEN, slice(None) if rows is None else rows] += 1
        self._last[thread] = instr
        self._together(thread, rows)[-1] += 1
        return self._closed.get(thread, 0)

    def _together(self, thread: tuple[int, int], rows: np.ndarray | None) -> list[int]:
        """Copies per group that may still be under way, the open group last; notes that CTAs went apart."""
        if rows is not None:
            self._parted.add(thread)
        return self._stores.setdefault(thread, [0])

    def known(self, thread: tuple[int, int]) -> bool:
        """Whether the thread ever issued a copy."""
        return thread in self._threads

    def commit(self, thread: tuple[int, int], rows: np.ndarray | None) -> None:
        """Close the group; an empty one completes at once and is not counted."""
        counts = self._threads[thread]
        where = slice(None) if rows is None else rows
        counts[COMMITTED, where] += counts[OPEN, where] > 0
        counts[OPEN, where] = 0
        self._closed[thread] = self._closed.get(thread, 0) + 1
        sizes = self._together(thread, rows)
        if sizes[-1]:
            sizes.append(0)

    def wait(self, thread: tuple[int, int], rows: np.ndarray | None, pending: int) -> int:
        """Wait until at most ``pending`` groups are under way, ``.read`` or not.

        Returns how many copies of the thread may be left; 0 where its CTAs have gone apart, whose groups differ.
        """
        counts = self._threads[thread]
        where = slice(None) if rows is None else rows
        counts[COMMITTED, where] = np.minimum(counts[COMMITTED, where], pending)
        sizes = self._together(thread, rows)
        del sizes[: -1 - pending]
        return 0 if thread in self._parted else sum(sizes)

    def report_leftovers(self, findings: FindingSink) -> None:
        """At exit: a finding for threads that left copies uncommitted, or committed and never waited for."""
        for (warp, lane), counts in self._threads.items():
            for kind, rule, text in (
                (OPEN, "bulk-group-uncommitted", "exited without cp.async.bulk.commit_group for its bulk copies"),
                (COMMITTED, "bulk-group-unwaited", "exited without cp.async.bulk.wait_group for its bulk copies"),
            ):
                left = np.flatnonzero(counts[kind])
                if left.size:
                    verdict = Verdict.error if kind == OPEN else Verdict.review
                    who = Who(row=int(left[0]), warp=warp, lanes=(lane,))
                    findings.report(rule, f"a thread {text}", self._last[warp, lane], verdict, who)


@dataclass(slots=True)
class Copies:
    """What the threads of a strand issued by one instruction; one entry per thread in each array.

    Attributes:
        threads: int64, numbers of the threads in the cohort.
        group: int64, how many groups each had closed before.
        left: bool, which copies are still to be performed.
        act: copies for the chosen threads (bool).
        number: what `Pending` knows them by.
    """

    threads: np.ndarray
    group: np.ndarray
    left: np.ndarray
    act: Callable[[np.ndarray], None]
    number: int = 0


class CopyGroups:
    """cp.async of all threads of a cohort."""

    def __init__(self, pending: Pending, threads: int) -> None:
        self._pending = pending
        self._closed = np.zeros(threads, np.int64)
        self._copies: list[Copies] = []

    def issue(self, threads: np.ndarray, act: Callable[[np.ndarray], None]) -> None:
        """Defer a copy of each of ``threads`` (int64 numbers); ``act(chosen)`` performs some."""
        copies = Copies(threads, self._closed[threads], np.ones(threads.size, bool), act)
        copies.number = self._pending.silent_copy(lambda: self._perform([(copies, copies.left)]))
        self._copies.append(copies)

    def commit(self, threads: np.ndarray) -> None:
        """Close the group of each thread."""
        self._closed[threads] += 1

    def wait(self, threads: np.ndarray, groups: int) -> None:
        """Perform the groups of each thread but the latest ``groups``."""
        self._perform([(c, self._of(c, threads) & (c.group < self._closed[c.threads] - groups)) for c in self._copies])

    def earlier(self, threads: np.ndarray) -> Action:
        """What performs all copies that these threads have issued so far."""
        chosen = [(copies, self._of(copies, threads)) for copies in self._copies]
        return lambda: self._perform(chosen)

    def _of(self, copies: Copies, threads: np.ndarray) -> np.ndarray:
        asked = np.zeros(self._closed.size, bool)
        asked[threads] = True
        return asked[copies.threads]

    def _perform(self, chosen: list[tuple[Copies, np.ndarray]]) -> None:
        for copies, which in chosen:
            now = copies.left & which
            copies.left = copies.left & ~now
            if now.any():
                copies.act(now)
            if not copies.left.any():
                self._pending.drop(copies.number)
        self._copies = [copies for copies in self._copies if copies.left.any()]
