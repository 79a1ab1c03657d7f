"""The browser that pages are opened in."""

from __future__ import annotations

import pytest
from support.browser import MISSING, Browser, browser_program


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """A browser; the test is skipped on a machine without one, because no Python package brings it."""
    program = browser_program()
    if program is None:
        pytest.skip(MISSING)
    return Browser(program, tmp_path_factory.mktemp("browser"))
