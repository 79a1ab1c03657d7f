"""Programs that nvcc builds, as a user brings them: streams, graphs, cooperative grids, translation units."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import convc

SOURCES = Path(__file__).parent / "nvcc"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sources", "words"),
    [
        (["streams"], []),
        (["streams"], ["-default-stream", "per-thread"]),
        (["cooperative"], ["-cudart", "shared"]),
        (["main", "library"], ["-rdc=true"]),
    ],
)
def test_a_program_of_nvcc_passes(nvcc, sources, words, tmp_path, capfd):
    files = [str(SOURCES / f"{name}.cu") for name in sources]
    subprocess.run([nvcc, "-arch=sm_100a", *words, "-o", str(tmp_path / "program"), *files], check=True)
    check = sources != ["cooperative"]  # CTAs that wait for one another run many instructions
    done = convc.record([str(tmp_path / "program")], check=check)
    assert capfd.readouterr().out == "passed\n"
    assert done.ok, done.findings
