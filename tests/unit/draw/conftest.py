"""LaTeX, where there is one."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def pdflatex() -> Callable[[Path], str]:
    """Make a PDF of a document beside it, and give what pdflatex says: apt-get install texlive-pictures."""
    found = shutil.which("pdflatex")
    if found is None:
        pytest.skip("there is no pdflatex")

    def made(document: Path) -> str:
        command = [found, "-interaction=nonstopmode", "-halt-on-error", document.name]
        done = subprocess.run(
            command, cwd=document.parent, capture_output=True, text=True, errors="replace", timeout=300, check=False
        )
        assert done.returncode == 0, done.stdout[-2000:]
        return done.stdout

    return made
