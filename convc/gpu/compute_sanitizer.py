"""NVIDIA's compute-sanitizer over a launch: four tools, each of which runs it once more.

It comes with the CUDA toolkit. It is looked for in this order: the file named by the environment variable
``CONVC_COMPUTE_SANITIZER``, NVIDIA's packages next to convc, the ``PATH``, ``/usr/local/cuda/bin``.

What it prints is as of version 2025.3: lines that begin with ``=========``, the last of which is a summary.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from convc.errors import ToolError
from convc.support.programs import find_program, run_program

NAME = "compute-sanitizer"
VARIABLE = "CONVC_COMPUTE_SANITIZER"
USUAL = Path("/usr/local/cuda/bin") / NAME

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
"""Its tools: accesses out of bounds; races in shared memory; reads of unwritten memory; misuse of barriers."""

MOST_LINES = 12
"""Lines of a tool that are kept."""

_MARKED = re.compile(r"^=========\s?(?P<text>.*)$", re.MULTILINE)
_SUMMARY = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: (?P<count>\d+)")


class ToolRun(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a tool.

    Attributes:
        tool: which.
        count: errors or hazards; None where it came to no summary.
        lines: what it said, the first of it.
        code: exit code of the launch.
    """

    tool: str
    count: int | None
    lines: tuple[str, ...]
    code: int

    @property
    def ok(self) -> bool:
        """It found nothing, and the launch came to its end."""
        return self.count == 0 and self.code == 0


def require_compute_sanitizer() -> Path:
    """The program to use; `ToolError` that says how to get one where there is none."""
    found = find_program(NAME, VARIABLE) or (USUAL if os.access(USUAL, os.X_OK) else None)
    if found is None:
        raise ToolError(
            f"{NAME} was not found",
            hint=f"it comes with the CUDA toolkit (cuda-sanitizer): put it on the PATH, or name it in {VARIABLE}",
        )
    return found


def run_tool(program: Path, tool: str, command: Sequence[str], seconds: float) -> ToolRun:
    """Run a launch under a tool.

    Args:
        program: compute-sanitizer.
        tool: one of `TOOLS`.
        command: launches the kernel, in a process of its own.
        seconds: after which it is stopped.

    Raises:
        ToolError: it cannot be started, or does not end in time.
    """
    done = run_program([str(program), "--tool", tool, *command], seconds, tool)
    said = [found["text"].strip() for found in _MARKED.finditer(done.stdout + done.stderr)]
    summary = _SUMMARY.search("\n".join(said))
    lines = [line for line in said if line and line != "COMPUTE-SANITIZER"]
    if done.returncode and not lines[1:]:
        lines += [line for line in done.stderr.splitlines() if line and not line.startswith("=====")]
    count = None if summary is None else int(summary["count"])
    return ToolRun(tool=tool, count=count, lines=tuple(lines[:MOST_LINES]), code=done.returncode)
