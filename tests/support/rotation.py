"""The slow tests a third at a time, in an order that a number gives, and none begun when the time is over.

All of them take hours. With the number of the day as seed, three days in a row have each test once, and the same third
has another order the next time.
"""

from __future__ import annotations

import hashlib
import math
import time

import pytest

TOGETHER = 16
"""Tests of a file that stay together: they share what their module has made, and the next file has its turn soon."""

TURNS = 3
"""Seeds in a row that have all tests."""


def rotated(names: list[str], seed: int) -> list[int]:
    """Numbers of the tests (``file::test``) that a seed has, in its order, pieces of a file whole."""
    counts: dict[str, int] = {}
    keys: list[tuple[int, int]] = []
    for number, name in enumerate(names):
        file = name.partition("::")[0]
        piece = counts.get(file, 0) // TOGETHER
        counts[file] = counts.get(file, 0) + 1
        if (_hashed(file) + piece - seed) % TURNS == 0:
            keys.append((_hashed(f"{seed} {file} {piece}"), number))
    return [number for _, number in sorted(keys)]


def _hashed(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest())


class Rotation:
    """Pytest's part of it.

    Args:
        seed: of the third and its order; None: all tests, as they were collected.
        seconds: after the tests were collected, when no more of them are begun; None: all are.
    """

    def __init__(self, seed: int | None, seconds: float | None) -> None:
        self.seed = seed
        self.seconds = seconds
        self.end = math.inf

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Keep the seed's third of the tests that were chosen, in its order."""
        if self.seed is None:
            return
        order = rotated([item.nodeid for item in items], self.seed)
        kept = set(order)
        config.hook.pytest_deselected(items=[item for number, item in enumerate(items) if number not in kept])
        items[:] = [items[number] for number in order]

    def pytest_collection_finish(self) -> None:
        """Begin to count."""
        if self.seconds is not None:
            self.end = time.monotonic() + self.seconds

    def pytest_runtest_setup(self) -> None:
        """Skip what there is no time for."""
        if time.monotonic() > self.end:
            pytest.skip("no time is left (--for)")
