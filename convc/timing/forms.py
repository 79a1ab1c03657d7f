"""Instructions as a trace has them: all that is the same each time that one is executed.

The names of mbarriers, as comments behind the instructions that make them say them.

``// full_a[0]`` names one. Where lanes make a barrier each, ``// full[0:4], empty[0:4]`` names those of all lanes in
order: from the first number of a ring on, the last not included.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass

from convc.machine.isa.all import forms_with
from convc.machine.isa.operands import modifier
from convc.machine.isa.registry import Traits
from convc.ptx import Imm, Instr
from convc.timing.loops import Unrolled
from convc.timing.tensor_core import MmaShape
from convc.timing.trace import Item

TRY_WAITS = forms_with(Traits.TRY_WAIT)
TEST_WAITS = forms_with(Traits.TEST_WAIT)

IDLE = forms_with(Traits.PURE | Traits.POLLING | Traits.TRY_WAIT | Traits.TEST_WAIT)
"""Instructions that a loop may have which only polls: of such a loop one round is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedForm:
    """An instruction as all of its items have it.

    ``waits``: it comes again while it is blocked. ``polls``: it may come again in a loop that does nothing else, all
    instructions of which are ``idle``.
    """

    name: str
    step: str
    line: int
    index: int
    unrolled: bool
    waits: bool
    polls: bool
    idle: bool

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


def form_of(instr: Instr, unrolled: Unrolled) -> TracedForm:
    """Take an instruction apart."""
    name = instr.form.name
    return TracedForm(
        name=_class(instr),
        step=instr.step or "",
        line=instr.span.line,
        index=instr.index,
        unrolled=instr.index in unrolled.bodies,
        waits=name in TRY_WAITS,
        polls=name in TEST_WAITS,
        idle=name in IDLE,
    )


def _class(instr: Instr) -> str:
    """The form's name; of a division by a constant another one, which multiplies."""
    name = instr.form.name
    if name in ("int.div", "int.rem") and isinstance(instr.operands[2], Imm):
        return f"{name}.constant"
    return name.replace("test_wait", "try_wait")  # it takes as long


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


ONE = re.compile(r"//\s*([A-Za-z_]\w*(?:\[\d+\])?)\s*$")

RANGE = r"[A-Za-z_]\w*\[\d{1,4}:\d{1,4}\]"
RANGES = re.compile(rf"//\s*({RANGE}(?:,\s*{RANGE})*)\s*$")

MBARRIER_BYTES = 8
"""PTX, mbarrier: an opaque object of 64 bits."""

LANES = 32


@functools.lru_cache(maxsize=256)
def names_in(line: str) -> tuple[str, ...]:
    """The names that a line gives the barriers of its lanes, as many as a warp has at most; none where it has none.

    Args:
        line: of PTX, with its comment. It may be a stranger's: what it says is never computed with beyond the lanes.
    """
    one = ONE.search(line)
    if one is not None:
        return (one[1],)
    several = RANGES.search(line)
    if several is None:
        return ()
    names: list[str] = []
    for ring in several[1].split(","):
        name, first, end = re.split(r"[\[:\]]", ring.strip())[:3]
        names += [f"{name}[{index}]" for index in range(int(first), min(int(end), int(first) + LANES))]
    return tuple(names[:LANES])


class BarrierNames:
    """Says which of an instruction's barriers lies at an address: they lie behind each other, the first one first."""

    def __init__(self) -> None:
        self._first: dict[tuple[int, int], int] = {}

    def called(self, line: str, instr: int, row: int, address: int) -> str | None:
        """The name of a barrier that an instruction makes in a CTA; None where its line says none.

        Args:
            line: of the instruction. instr: its number.
            row: the CTA. address: shared address of the barrier.
        """
        names = names_in(line)
        if len(names) == 1:
            return names[0]
        lane = (address - self._first.setdefault((instr, row), address)) // MBARRIER_BYTES
        return names[lane] if 0 <= lane < len(names) else None


def warp_products(body: Iterable[Instr]) -> tuple[str, ...]:
    """Opcode and modifiers of each instruction that multiplies matrices of a warp, each spelling once."""
    found = (instr for instr in body if instr.form.name in forms_with(Traits.WARP_MMA))
    return tuple(dict.fromkeys(".".join((instr.form.opcode, *instr.mods)) for instr in found))
