"""Programs of the CUDA toolkit: where they are, and how they are run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from convc.errors import ToolError


def find_program(name: str, variable: str) -> Path | None:
    """The program to use, or None; `ToolError` where the environment variable names something that is no program.

    It is looked for in this order: the file that the variable names, NVIDIA's packages next to convc, the ``PATH``.
    """
    named = os.environ.get(variable)
    if named:
        if not os.access(named, os.X_OK) or not os.path.isfile(named):
            raise ToolError(f"{variable} names {named!r}, which is not a program that can be run")
        return Path(named)
    for scheme in ("purelib", "platlib"):
        packaged = sorted(Path(sysconfig.get_path(scheme)).glob(f"nvidia/*/bin/{name}"))
        if packaged:
            return packaged[-1]
    on_path = shutil.which(name)
    return Path(on_path) if on_path else None


def run_program(command: Sequence[str], timeout_s: float, file: str) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; `ToolError` where it cannot be started, or takes more than ``timeout_s`` seconds."""
    name = Path(command[0]).name
    try:
        return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        raise ToolError(f"{name} took more than {timeout_s:g} s and was stopped", where=file) from None
    except OSError as error:
        raise ToolError(f"{name} could not be started: {error.strerror}", where=command[0]) from None
