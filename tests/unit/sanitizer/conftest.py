"""What all tests of the checkers share."""

from __future__ import annotations

import pytest
from support import plain


@pytest.fixture(autouse=True)
def every_record_is_plain(monkeypatch):
    """No numpy scalar leaves the simulator, whatever a test runs."""
    plain.watch(monkeypatch)
