"""A tile program as text for people: act by act, role by role, one line a step."""

from __future__ import annotations

from collections.abc import Iterator

from convc.compiler.tile.program import TileProgram
from convc.compiler.tile.steps.base import Repeat, Step

ID_WIDTH = 14


def show(program: TileProgram) -> str:
    """Write the whole program."""
    grid = program.launch.grid
    parts = f" x {grid[2]}" if grid[2] > 1 else ""
    lines = [program.title, f"schedule {program.schedule}, grid {grid[0]} x {grid[1]}{parts}, {program.warps} warps"]
    for act, roles in (("set-up", program.setup), ("main", program.roles), ("teardown", program.teardown)):
        lines += ["", act]
        for role in roles:
            lines.append(f"  {role.name} ({role.who}): {role.note}")
            lines += (f"    {line}" for line in _lines(role.steps, ""))
    return "\n".join(lines) + "\n"


def _lines(steps: tuple[Step, ...], indent: str) -> Iterator[str]:
    for step in steps:
        yield f"{step.id:<{ID_WIDTH}} {indent}{step.describe()}  -- {step.note}"
        if isinstance(step, Repeat):
            yield from _lines(step.body, indent + "  ")
