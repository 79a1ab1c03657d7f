"""The meaning of the step that looks a tile's place up."""

from __future__ import annotations

from support.interpret.meaning import perform
from support.interpret.state import RoleState

from convc.compiler.tile.steps.base import LookUp


@perform.register
def _(step: LookUp, role: RoleState) -> None:
    role.numbers[step.dst] = role.cta.program.table[role.integer(step.index)]
