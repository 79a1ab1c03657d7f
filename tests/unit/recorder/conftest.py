"""Host programs for the tests, built where there is a C compiler."""

from __future__ import annotations

import platform
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
    for version, places in ((13, ["-DEDGES", "-DSMS=384"]), (12, ["-DSMS=388"])):
        for name in ("runtime_program", "graph_program"):
            words = [f'-DRUNTIME="libcudart.so.{version}"', *places, "-o", str(folder / f"{name}.{version}")]
            subprocess.run([compiler, "-w", "-O0", *words, str(HERE / f"{name}.c"), "-ldl"], check=True)
    words = ["-o", str(folder / "host_program"), str(HERE / "host_program.c")]
    subprocess.run([compiler, "-w", "-O0", *words, "-ldl"], check=True)
    runtime = folder / "cudart_global.cpp"  # a source file of NVIDIA's runtime, by which it is recognised
    shutil.copy(HERE / "linked_runtime.c", runtime)
    linked = ["-DRUNTIME=0", "-DSMS=384", "-rdynamic", "-falign-functions=16", "-o", str(folder / "linked_program")]
    sources = ["-x", "c", str(runtime), str(HERE / "runtime_program.c")]
    subprocess.run([compiler, "-w", "-O0", *linked, *sources, "-ldl"], check=True)
    return folder


@pytest.fixture
def linked_program(programs) -> Path:
    """A program that has a runtime linked into it, where that is redirected."""
    if platform.machine() != "x86_64":
        pytest.skip("a runtime in the program is redirected on x86-64 alone")
    return programs / "linked_program"


@pytest.fixture
def nvcc() -> str:
    """NVIDIA's compiler."""
    found = shutil.which("nvcc")
    if found is None:
        pytest.skip("there is no nvcc")
    return found
