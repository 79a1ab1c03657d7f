"""Instructions as a trace has them: all that is the same each time that one is executed."""

from __future__ import annotations

import re
from dataclasses import dataclass

from convc.machine.isa.operands import modifier
from convc.ptx import Imm, Instr
from convc.timing.loops import Unrolled
from convc.timing.tensor_core import MmaShape
from convc.timing.trace import Item

WAIT = "mbarrier.try_wait"
"""An instruction that comes again while it is blocked."""

POLL = "mbarrier.test_wait"
"""One that tells whether a phase is over. One that says so is a wait; of a loop that polls one round is kept."""

IDLE = ("bra", "setp", "selp", "mov", "int.", "logic.", "nanosleep")
"""Instructions, by the beginnings of their names, that a loop may have which only polls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """An instruction as all of its items have it.

    ``waits``: it comes again while it is blocked. ``polls``: it may come again in a loop that does nothing else.
    """

    name: str
    step: str
    line: int
    index: int
    unrolled: bool
    waits: bool
    polls: bool

    def item(self, needs: tuple[int, ...], repeats: bool) -> Item:
        """A new item."""
        return Item(
            name=self.name,
            step=self.step,
            line=self.line,
            index=self.index,
            needs=needs,
            unrolled=self.unrolled,
            repeats=repeats,
        )


def form_of(instr: Instr, unrolled: Unrolled) -> Form:
    """Take an instruction apart."""
    name = instr.form.name
    return Form(
        name=_class(instr),
        step=instr.step or "",
        line=instr.span.line,
        index=instr.index,
        unrolled=instr.index in unrolled.bodies,
        waits=name.startswith(WAIT),
        polls=name.startswith(POLL),
    )


def _class(instr: Instr) -> str:
    """The form's name; of a division by a constant another one, which multiplies."""
    name = instr.form.name
    if name in ("int.div", "int.rem") and isinstance(instr.operands[2], Imm):
        return f"{name}.constant"
    return name.replace(POLL, WAIT)  # it takes as long


def warpgroup_shape(instr: Instr) -> MmaShape:
    """Give the shape of a wgmma."""
    rows, columns, _ = map(int, re.findall(r"\d+", modifier(instr, "shape")))
    return MmaShape(m=rows, n=columns)


def mode_of(instr: Instr) -> str:
    """The way in which a copy walks through memory: tile, im2col or bulk."""
    mode = instr.slots.get("mode") or "tile"
    if "tensor" not in instr.form.name:
        return "bulk"
    return "im2col" if mode.startswith("im2col") else "tile"
