"""How many of a test's drawn examples `make test` runs, and how many `make slow`: the same ones, and more."""

from __future__ import annotations

import pytest

PARTS = [pytest.param(3, id="a third"), pytest.param(1, id="all", marks=pytest.mark.slow)]
"""Divisors of the number of examples, for ``parametrize("part", PARTS)``."""
