"""cp.async copies under way, and the groups of each thread (PTX manual, "cp.async.commit_group", "wait_group").

A thread closes a group around the copies it has issued since the last one; an empty group counts. ``wait_group n``
waits for all groups of the thread but the latest ``n``, and not for copies in no group yet. Only used where copies are
not performed at once, see `convc.machine.base.completion`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from convc.machine.base.completion import Action, Pending


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
        """Put off a copy of each of ``threads`` (int64 numbers); ``act(chosen)`` performs some."""
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
