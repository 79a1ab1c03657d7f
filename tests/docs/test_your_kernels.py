"""The page your_kernels.md is followed: with Triton where there is one, else with kernels that it compiled before."""

from __future__ import annotations

import importlib.metadata
import os
import shutil

from pages import text_of
from reader import Reader

from tests.support.triton_recorded import CACHE
from tests.support.triton_stand_in import STUB

NEWEST = "3.9"
"""The Gluon of the page is that of this release."""


def stubbed() -> bool:
    """Whether this Python has no such Triton."""
    try:
        return not importlib.metadata.version("triton").startswith(NEWEST)
    except importlib.metadata.PackageNotFoundError:
        return True


def test_a_race_is_found_in_a_gluon_kernel(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = [os.environ.get("PYTHONPATH", ""), *([str(STUB)] if stubbed() else [])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, path)))
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")  # or Triton warns that its default will change
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    if stubbed():
        shutil.copytree(CACHE, tmp_path / "cache")
    reader = Reader(tmp_path)
    reader.follow(text_of("your_kernels.md"))
    assert reader.exit_code == 0
