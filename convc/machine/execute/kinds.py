"""Tell what an instruction may be in a segment (`convc.machine.execute.slp`)."""

from __future__ import annotations

from convc.machine.base.values import width
from convc.machine.isa.all import forms_with
from convc.machine.isa.memory.ld_st import space_of
from convc.machine.isa.registry import Traits
from convc.machine.state.slots import SlotTable
from convc.ptx import Address, Imm, Instr, Reg, Special, Symbol, Vector

STORES = forms_with(Traits.STORES)
LOADS = forms_with(Traits.LOADS)
EARLY = forms_with(Traits.EARLY)

_STORED = {"global": "store", "shared": "st.shared"}
_LOADED = {"global": "load", "shared": "ld.shared", "cluster": "ld.cluster"}
"""Kinds of accesses by their state space."""


def kind_of(instr: Instr, table: SlotTable) -> str:
    """Tell what an instruction may be in a segment: a kind of pack, ``scalar``, or "" where it ends one."""
    key = instr.named, instr.guard is None, instr.index in table.applied
    kind = _kinds.get(key)
    if kind is None:
        if len(_kinds) >= MAX_KINDS:
            _kinds.clear()
        kind = _kinds[key] = _new_kind(instr, table)
    return kind


_kinds: dict[tuple[object, bool, bool], str] = {}
"""By `Instr.named`, whether there is no guard, and whether it works element by element."""

MAX_KINDS = 1 << 12
"""Entries after which the memory of them is emptied."""


def _new_kind(instr: Instr, table: SlotTable) -> str:
    name = instr.form.name
    if name in STORES:
        return _moves_words(instr, instr.operands[1], instr.operands[0], _STORED)
    if name in LOADS and name != "tcgen05.ld":
        kind = _moves_words(instr, instr.operands[0], instr.operands[1], _LOADED)
        return kind if instr.guard is None or kind in ("load", "ld.cluster") else ""
    applied = table.applied.get(instr.index)
    if applied is not None and _NUMBERS.issuperset(map(type, instr.operands)):
        floats = name != "cvt" or any("f" in mod for mod in instr.mods[-2:])
        if instr.guard is None:
            return "apply" if floats else "scalar"
        if floats and table.widths[applied.target] == 32:
            return "apply"
    if instr.guard is None and name == "tcgen05.ld":
        plain = instr.slots["shape"] == "32x32b" and not instr.slots.get("pack")
        return "tensor" if plain and all(isinstance(r, Reg) for r in _items(instr.args["r"])) else ""
    if name not in EARLY or "wait::st" in instr.mods:
        return ""
    return "scalar" if _PLAIN.issuperset(map(type, instr.operands)) else ""


_NUMBERS = frozenset((Reg, Imm))
_PLAIN = _NUMBERS | {Special, Symbol}
"""Operands of arithmetic, and of scalar instructions."""


def _moves_words(instr: Instr, data: object, address: object, kinds: dict[str, str]) -> str:
    """The kind of an access by its state space, where it moves words of 32 bits; else ""."""
    kind = kinds.get(space_of(instr) or "", "")
    if not kind or width(instr.mods[-1]) != 32 or not isinstance(address, Address) or type(address.base) is not Reg:
        return ""
    words = all(isinstance(item, Reg) and width(item.type) == 32 for item in _items(data))
    return kind if words else ""


def _items(operand: object) -> tuple[object, ...]:
    """The elements of a vector; of anything else, itself."""
    return operand.items if isinstance(operand, Vector) else (operand,)


def slots_in(operand: object) -> list[int]:
    """List the slots of the registers that an operand is, or has as elements."""
    if type(operand) is Reg:  # nearly always
        return [operand.slot]
    return [item.slot for item in _items(operand) if isinstance(item, Reg)]
