"""The browser that pages are opened in."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from support.browser import MISSING, Browser, browser_program


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """A browser; the test is skipped on a machine without one, because no Python package brings it."""
    program = browser_program()
    if program is None:
        pytest.skip(MISSING)
    return Browser(program, tmp_path_factory.mktemp("browser"))


@pytest.fixture(scope="module")
def axe():
    """The script that checks whether everybody can use a page, from a package that carries it."""
    package = find_spec("axe_core_python")
    if package is None:
        pytest.skip("accessibility is checked with the package axe-core-python: pip install -e '.[test]'")
    return (Path(str(package.origin)).parent / "axe.min.js").read_text()
