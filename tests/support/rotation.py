"""The slow tests a part at a time: in an order that a seed gives, and none begun when the time is over.

All of them take hours. With the date as seed each day has others.
"""

from __future__ import annotations

import hashlib
import math
import time

import pytest

TOGETHER = 16
"""Tests of a file that stay together: they share what their module has made, and the next file has its turn soon."""


def rotated(names: list[str], seed: str) -> list[int]:
    """Numbers of tests (``file::test``) in the order in which a seed has them, pieces of a file whole."""
    counts: dict[str, int] = {}
    keys: list[tuple[str, int]] = []
    for number, name in enumerate(names):
        file = name.partition("::")[0]
        piece = counts.get(file, 0) // TOGETHER
        counts[file] = counts.get(file, 0) + 1
        keys.append((hashlib.sha256(f"{seed} {file} {piece}".encode()).hexdigest(), number))
    return [number for _, number in sorted(keys)]


class Rotation:
    """Pytest's part of it.

    Args:
        seed: of the order; None: as they were collected.
        seconds: after the tests were collected, when no more of them are begun; None: all are.
    """

    def __init__(self, seed: str | None, seconds: float | None) -> None:
        self.seed = seed
        self.seconds = seconds
        self.end = math.inf

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Bring the tests that were chosen into their order."""
        if self.seed is not None:
            items[:] = [items[number] for number in rotated([item.nodeid for item in items], self.seed)]

    def pytest_collection_finish(self) -> None:
        """Begin to count."""
        if self.seconds is not None:
            self.end = time.monotonic() + self.seconds

    def pytest_runtest_setup(self) -> None:
        """Skip what there is no time for."""
        if time.monotonic() > self.end:
            pytest.skip("no time is left (--for)")
