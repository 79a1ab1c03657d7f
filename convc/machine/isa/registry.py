"""The table from form names to semantics builders."""

from __future__ import annotations

from collections.abc import Callable
from enum import Flag, auto
from functools import cache

from convc.machine.base.switches import CHOICES
from convc.machine.state.slots import SlotTable
from convc.machine.state.strand import Strand
from convc.ptx import Instr

Run = Callable[[Strand], int | None]
"""An instruction ready to run: returns None to go on, a program counter to jump, or `BLOCK` or `DONE` of `strand`."""

Builder = Callable[[Instr, SlotTable], Run]
"""Makes what an instruction does: looks up slots, constants and modifiers once, before anything runs."""


class Traits(Flag):
    """Properties of a form that others take for granted, said where its builder is: none is slow for want of a line.

    Attributes:
        BLIND: it looks at no data, so that a launch with other data does the same
            (`convc.machine.execute.repeat`). Copies and products among such tell the cohort whether theirs may wait,
            and stores of tensors what they did.
        EARLY: it only writes registers, of registers, and never faults: in a segment it may run before the packs
            (`convc.machine.execute.slp`).
        LOADS: a segment may begin with it.
        WHOLE_WARPS: it counts whole warps or may block, so that a warp whose guard is false must not take part.
    """

    BLIND = auto()
    EARLY = auto()
    LOADS = auto()
    WHOLE_WARPS = auto()


ORDINARY = Traits(0)
"""Of a form of which nothing may be taken for granted: it is executed by itself, and no launch is repeated past it."""

BLIND = Traits.BLIND
SCALAR = Traits.BLIND | Traits.EARLY
LOADS = Traits.LOADS
WHOLE_WARPS = Traits.WHOLE_WARPS

OPS: dict[str, Builder] = {}
TRAITS: dict[str, Traits] = {}
NO_RESULT: set[str] = set()
"""Forms whose first operand is read although it is written as a plain register."""

_SPARSE = "sparse A (2:4) and its metadata are not modelled"

REFUSED: dict[str, str] = {
    "tcgen05.mma.sp": _SPARSE,
    "tcgen05.mma.sp.block_scale": _SPARSE,
    "tcgen05.mma.ws.sp": _SPARSE,
}
"""Forms that are read, printed and checked but never run, each with the reason. A builder of one always raises."""


def switched(name: str, build: Callable[[str], Run]) -> Run:
    """An instruction whose meaning a switch chooses; ``build`` makes it for each of the settings."""
    runs = {setting: build(setting) for setting in CHOICES[name]}
    return lambda strand: runs[getattr(strand.cohort.launch.switches, name)](strand)


@cache
def forms_with(trait: Traits) -> frozenset[str]:
    """The forms that have a trait, once all are registered (`convc.machine.isa.all`)."""
    return frozenset(name for name, traits in TRAITS.items() if trait in traits)


def op(*names: str, traits: Traits, result: bool = True) -> Callable[[Builder], Builder]:
    """Register a builder for form names; ``result=False`` when the first operand is not written."""

    def register(builder: Builder) -> Builder:
        for name in names:
            if name in OPS:
                raise ValueError(f"two builders for form {name}")
            OPS[name] = builder
            TRAITS[name] = traits
            if not result:
                NO_RESULT.add(name)
        return builder

    return register
