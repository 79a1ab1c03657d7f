"""Host programs for the tests, built where there is a C compiler."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def programs(tmp_path_factory) -> Path:
    """A folder with the host programs."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler (cc)")
    folder = tmp_path_factory.mktemp("programs")
    for name in ("host_program", "runtime_program"):
        source = str(HERE / f"{name}.c")
        subprocess.run([compiler, "-w", "-O0", "-o", str(folder / name), source, "-ldl"], check=True)
    return folder
