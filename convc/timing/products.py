"""Products of a warp in a kernel's text: wmma.mma and mma.sync, by their spelling."""

from __future__ import annotations

from collections.abc import Iterable

from convc.ptx import Instr

NAMES = ("mma", "mma.sp", "wmma.mma")


def warp_products(body: Iterable[Instr]) -> tuple[str, ...]:
    """Opcode and modifiers of each instruction that multiplies matrices of a warp, each spelling once."""
    found = (instr for instr in body if instr.form.name in NAMES)
    return tuple(dict.fromkeys(".".join((instr.form.opcode, *instr.mods)) for instr in found))
