"""How many random examples `make test` runs: an eighth of those of `make slow`.

``make slow`` selects the tests of hypothesis besides the slow ones, and the root ``conftest`` calls `run_all`.
"""

from __future__ import annotations

import pytest

SHARE, FEWEST = 8, 4

PARTS = [pytest.param(SHARE, id="an eighth"), pytest.param(1, id="all", marks=pytest.mark.slow)]
"""Divisors of the number of examples, for ``parametrize("part", PARTS)`` of tests that make their examples inside."""

_all = False


def run_all() -> None:
    """From now on, `some` leaves nothing out."""
    global _all
    _all = True


def some(count: int) -> int:
    """The examples to run of a test that has ``count`` in the slow suite."""
    return count if _all else min(count, max(FEWEST, count // SHARE))
