"""Steps: each one act of one role on whole tiles; here numbers and loops, which every kernel needs.

A CTA of Blackwell is a small factory. One warp fetches operand tiles (``load``), one feeds the tensor core (``mma``),
four store results (``epilogue``); rings of mbarriers keep them apart. A tile program
(`convc.compiler.tile.program`) writes that down: who does what, in which order, on which tile, and nothing about
registers or opcodes.

A step is a class. Its fields say by their types what they name (`convc.compiler.plan.names`): numbers that it reads or
makes, rings, tiles, maps. What it uses is read off these types (`convc.compiler.tile.uses`), `describe` says what it
does, `spelling` fills in the template of its name, which writes it as text, and `tests/support/interpret` says what it
means.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from convc.compiler.plan.names import NewNumber, Number
from convc.compiler.tile.exprs import lower
from convc.compiler.tile.steps.spelling import Names, RoleContext
from convc.ir.expr import IntExpr

TABLE = "places"
"""Variable in constant memory: the table of a program."""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One act of one role.

    Attributes:
        id: unique in the program; the text carries it in its ``//@`` marks.
        note: what the step is for, one line for people.
        column: the filter column that it is about, of the loop variables around it; None: of none, or of several.
    """

    id: str
    note: str
    column: IntExpr | None = None

    def describe(self) -> str:
        """Say what the step does, in a few words."""
        raise TypeError(f"{type(self).__name__} does not say what it does")

    def spelling(self, context: RoleContext) -> Names:
        """The names and numbers of its template, besides those that all templates take: its fields as they are."""
        return {name: getattr(self, name) for name in self.__struct_fields__ if name not in Step.__struct_fields__}

    @property
    def label(self) -> str:
        """A label that is the step's own."""
        return self.id.replace(".", "_")


def template_name(step_type: type[Step]) -> str:
    """Template of a kind of step: ``TmaLoad`` -> ``steps/tma_load``; all strided loops have one."""
    kind = Strided if issubclass(step_type, Strided) else step_type
    return "steps/" + re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()


class Compute(Step, frozen=True, kw_only=True):
    """Set the number `dst` to the value of `expr`; `bits` is 32, or 64 where the value may be large.

    `below`: the value is proved to be one of 0 .. `below` - 1; None: nothing is known but what the expression shows.
    """

    dst: NewNumber
    expr: IntExpr
    bits: Literal[32, 64] = 32
    below: int | None = None

    def describe(self) -> str:
        return f"{self.dst} = {self.expr}"

    def spelling(self, context: RoleContext) -> Names:
        code = lower(self.expr, self.dst, self.bits, context.numbers)
        return {"declarations": code.declarations, "lines": code.lines}


class LookUp(Step, frozen=True, kw_only=True):
    """Set the number `dst` to the entry `index` of the program's table, which lies in constant memory."""

    dst: NewNumber
    index: Number

    def describe(self) -> str:
        return f"{self.dst} = the table's entry {self.index}"

    def spelling(self, context: RoleContext) -> Names:
        return {"dst": self.dst, "index": self.index, "table": TABLE}


class Repeat(Step, frozen=True, kw_only=True):
    """Do `body` `count` times at most, each time with another `var`."""

    var: NewNumber
    count: int
    body: tuple[Step, ...]


class Loop(Repeat, frozen=True, kw_only=True):
    """Do `body` for `var` = 0 .. `count` - 1.

    `written_out`: the text has the body as often, since its steps name registers by `var`.
    `copies`: how often the text has the body for one jump back, so that the stages that it uses are known in each; what
    is left of `count` follows behind.
    `leads`: of a pair of CTAs the first one does it alone.
    """

    written_out: bool = False
    copies: int = 1
    leads: bool = False

    @property
    def all_written(self) -> bool:
        """Whether the text has every turn of the loop, and jumps nowhere."""
        return self.written_out or 1 < self.count < 2 * self.copies

    def describe(self) -> str:
        copies = f", {self.copies} a turn" if self.copies > 1 else ""
        first = ", in the first CTA" if self.leads else ""
        return f"for {self.var} in 0..{self.count - 1}{', written out' if self.written_out else copies}{first}:"

    def spelling(self, context: RoleContext) -> Names:
        """All but what is in the loop, which the kernel writes (`convc.compiler.emit.kernel`)."""
        return {
            "var": self.var,
            "count": self.count - self.count % self.copies,
            "label": f"{self.label}_next",
            "counted": not self.all_written,
            "leads": self.leads,
            "end": f"{self.label}_end",
        }


class Strided(Repeat, frozen=True, kw_only=True):
    """Do `body` for `var` = `first`, `first` + `stride` and so on, as long as it is below `limit`.

    The first time always is. `count` is how often it is at most: of the CTA whose `first` is 0.
    """

    first: Number
    stride: int
    limit: int

    def describe(self) -> str:
        return f"for {self.var} in {self.first}, {self.first} + {self.stride}, .. below {self.limit}:"

    def spelling(self, context: RoleContext) -> Names:
        """All but what is in the loop, which the kernel writes (`convc.compiler.emit.kernel`)."""
        return {
            "var": self.var,
            "first": self.first,
            "stride": self.stride,
            "limit": self.limit,
            "label": f"{self.label}_next",
        }
