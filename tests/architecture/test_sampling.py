"""Families of tests of which some run by default (`support.sampling`)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.sampling import chosen

ROOT = Path(__file__).parents[2]

TESTS = """
import pytest

@pytest.mark.one_of(3)
@pytest.mark.parametrize("value", range(7))
def test_family(value): pass

@pytest.mark.one_of(9)
@pytest.mark.parametrize("value", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_small(value): pass
"""


@pytest.mark.parametrize(("count", "kept"), [(1, 7), (2, 4), (3, 3), (7, 1), (100, 1)])
def test_one_of_so_many_is_kept_in_any_order(count, kept):
    names = [f"test[{number}]" for number in range(7)]
    assert len(chosen(names, count)) == kept
    assert chosen(names, count) == chosen(names[::-1], count) <= set(names)


def test_the_others_are_slow(tmp_path):
    (tmp_path / "test_families.py").write_text(TESTS)
    (tmp_path / "conftest.py").write_text("from tests.conftest import pytest_collection_modifyitems\n")
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {ROOT} {ROOT}/tests\nmarkers = slow\n    one_of\n")
    command = [sys.executable, "-m", "pytest", "-m", "not slow", "-p", "no:cacheprovider", "--collect-only", "-q"]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False).stdout
    ran = {line for line in said.splitlines() if "::" in line}
    assert len(ran) == 4, "three of seven, and one of one"
    assert "test_families.py::test_small[1]" in ran
