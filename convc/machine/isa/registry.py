"""The table from form names to semantics builders."""

from __future__ import annotations

from collections.abc import Callable
from enum import Flag, auto

from convc.machine.base.switches import CHOICES
from convc.machine.state.slots import SlotTable
from convc.machine.state.strand import Strand
from convc.ptx import Instr

Run = Callable[[Strand], int | None]
"""An instruction ready to run: returns None to go on, a program counter to jump, or `BLOCK` or `DONE` of `strand`."""

Builder = Callable[[Instr, SlotTable], Run]
"""Makes what an instruction does: looks up slots, constants and modifiers once, before anything runs."""


class Traits(Flag):
    """Flags of a form, declared where its builder is: all that decoder, engine, sanitizer and clock ask of its kind.

    No list of form names stands outside of this package: ``op`` requires the traits, so that a new form cannot be slow,
    untimed or unchecked because a list elsewhere lacks it.

    Attributes:
        PURE: it computes the results of each lane from the operands of that lane, the carry included, and does no more.
        CROSS_LANE: it computes them from registers of several lanes of the warp, and does no more.
        WARP_MMA: it multiplies matrices held in the registers of a warp.
        BITWISE: each bit of its result depends on the same bit of its operands.
        PACKS: it moves elements between a register and a vector of registers.
        ZERO_IDIOM: its result is zero where both sources are the same register.
        CARRY: it may write the carry. CARRY_IN: it reads it.
        JUMP: it transfers control; its guard chooses the lanes that jump.
        BLIND: it looks at no data, so that a launch with other data does the same
            (`convc.machine.execute.repeat`). Copies and products among such tell the cohort whether theirs may wait,
            and stores of tensors what they did.
        EARLY: it only writes registers, of registers, and never faults: in a segment it may run before the packs
            (`convc.machine.execute.slp`).
        MEMORY_LOAD: it loads registers from global or shared memory.
        LOADS, STORES: a load or a store that may be in a segment; one that loads may begin it.
        WHOLE_WARPS: it counts whole warps or may block, so that a warp whose guard is false must not take part. It is
            executed again until it succeeds.
        ONCE: the first try of it decides about the next, so that a fault cannot be reproduced lane by lane.
        TRY_WAIT, TEST_WAIT: its predicate tells whether a phase of an mbarrier is complete; the first may block.
        POLLING: how often a loop that polls executes it depends on time.
        BARRIER: threads of a CTA or a cluster meet at a barrier.
        FENCE: it orders the memory accesses of its thread, with .acquire, .release or both.
        STRONG: an access of memory that is strong if it names an order. ATOMIC: one that is strong without.
        ASYNC_REGISTERS: it reads and writes registers after it was issued, until its group has been waited for.
    """

    PURE = auto()
    CROSS_LANE = auto()
    WARP_MMA = auto()
    BITWISE = auto()
    PACKS = auto()
    ZERO_IDIOM = auto()
    CARRY = auto()
    CARRY_IN = auto()
    JUMP = auto()
    BLIND = auto()
    EARLY = auto()
    MEMORY_LOAD = auto()
    LOADS = auto()
    STORES = auto()
    WHOLE_WARPS = auto()
    ONCE = auto()
    TRY_WAIT = auto()
    TEST_WAIT = auto()
    POLLING = auto()
    BARRIER = auto()
    FENCE = auto()
    STRONG = auto()
    ATOMIC = auto()
    ASYNC_REGISTERS = auto()


ORDINARY = Traits(0)
"""Of a form of which nothing may be taken for granted: it is executed by itself, and no launch is repeated past it."""

PURE = Traits.PURE
BLIND = Traits.BLIND
SCALAR = Traits.PURE | Traits.BLIND | Traits.EARLY
CROSS_LANE = Traits.CROSS_LANE
WHOLE_WARPS = Traits.WHOLE_WARPS

OPS: dict[str, Builder] = {}
TRAITS: dict[str, int] = {}
"""The traits of each form, as the bits of a number."""

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


def op(*names: str, traits: Traits, result: bool = True) -> Callable[[Builder], Builder]:
    """Register a builder for form names; ``result=False`` when the first operand is not written."""

    def register(builder: Builder) -> Builder:
        for name in names:
            if name in OPS:
                raise ValueError(f"two builders for form {name}")
            OPS[name] = builder
            TRAITS[name] = traits.value
            if not result:
                NO_RESULT.add(name)
        return builder

    return register
