"""The step of a kernel whose tiles are made in an order that is looked up."""

from __future__ import annotations

from convc.compiler.plan.names import NewNumber, Number
from convc.compiler.tile.steps.base import Step


class LookUp(Step, frozen=True, kw_only=True):
    """Set the number `dst` to the entry `index` of the program's table, which lies in constant memory."""

    dst: NewNumber
    index: Number

    def describe(self) -> str:
        return f"{self.dst} = the table's entry {self.index}"
