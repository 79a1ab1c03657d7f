"""No test stands where pytest does not look: a folder called `build`, `dist` or `venv` would hide it in silence."""

from __future__ import annotations

import fnmatch
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]


def test_no_folder_of_tests_is_passed_by(pytestconfig):
    passed_by = pytestconfig.getini("norecursedirs")
    folders = {folder for path in TESTS.rglob("test_*.py") for folder in path.relative_to(TESTS).parents}
    names = {folder.name for folder in folders if folder.name}
    assert "build" in names
    hidden = {(name, pattern) for name in names for pattern in passed_by if fnmatch.fnmatch(name, pattern)}
    assert not hidden


def test_files_of_tests_are_called_as_pytest_calls_them(pytestconfig):
    """A file with functions called ``test_`` is collected only by its name."""
    patterns = pytestconfig.getini("python_files")
    missed = [
        str(path.relative_to(TESTS))
        for path in TESTS.rglob("*.py")
        if not any(fnmatch.fnmatch(path.name, pattern) for pattern in patterns)
        and any(line.startswith("def test_") for line in path.read_text("utf-8").splitlines())
    ]
    assert not missed
