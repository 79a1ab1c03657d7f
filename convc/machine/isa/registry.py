"""The table from form names to semantics builders."""

from __future__ import annotations

from collections.abc import Callable

from convc.machine.base.switches import CHOICES
from convc.machine.state.slots import SlotTable
from convc.machine.state.strand import Strand
from convc.ptx import Instr

Run = Callable[[Strand], int | None]
"""An instruction ready to run: returns None to go on, a program counter to jump, or `BLOCK` or `DONE` of `strand`."""

Builder = Callable[[Instr, SlotTable], Run]
"""Makes what an instruction does: looks up slots, constants and modifiers once, before anything runs."""

OPS: dict[str, Builder] = {}
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


def op(*names: str, result: bool = True) -> Callable[[Builder], Builder]:
    """Register a builder for form names; ``result=False`` when the first operand is not written."""

    def register(builder: Builder) -> Builder:
        for name in names:
            if name in OPS:
                raise ValueError(f"two builders for form {name}")
            OPS[name] = builder
            if not result:
                NO_RESULT.add(name)
        return builder

    return register
