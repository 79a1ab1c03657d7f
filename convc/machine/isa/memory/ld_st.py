"""ld and st (PTX manual, "Data Movement and Conversion Instructions"); the spaces themselves are in `spaces`."""

from __future__ import annotations

from convc.machine.base.values import width
from convc.machine.isa.memory import spaces
from convc.machine.isa.operands import address_of, type_of
from convc.machine.isa.registry import ORDINARY, Run, Traits, op
from convc.machine.isa.scalar.integer import cut, extend
from convc.machine.state.slots import SlotTable
from convc.machine.state.strand import Strand
from convc.ptx import Instr

SPACES = ("param", "shared", "global", "local", "const")


def space_of(instr: Instr) -> str | None:
    """State space of an access: param, shared, cluster (shared::cluster), global, local, const; None for generic.

    What several GPUs share (multimem) is in global memory, and one GPU has one copy of it.
    """
    if instr.form.opcode == "multimem":
        return "global"
    for mod in instr.mods:
        space, _, part = mod.partition("::")
        if space in SPACES:
            return "cluster" if part == "cluster" else space
    return None


@op("ld", traits=Traits.MEMORY_LOAD | Traits.LOADS | Traits.STRONG)
@op("ld.nc", traits=Traits.MEMORY_LOAD | Traits.LOADS)
@op("ld.mmio", traits=Traits.MEMORY_LOAD | Traits.STRONG)
@op("multimem.ld_reduce", traits=Traits.MEMORY_LOAD | Traits.ATOMIC)
def load(instr: Instr, table: SlotTable) -> Run:
    """ld{.vec}.type d, [a]; a register that is wider than the type is extended (PTX manual, 9.4.1).

    Caching, ordering and policies change nothing: every access is performed in order. The sum of one copy is that copy.
    """
    space = space_of(instr)
    bits = width(type_of(instr))
    slots = table.targets(instr.operands[0])
    address = address_of(instr.operands[1], table)
    count = len(slots)
    is_signed = type_of(instr).startswith("s")

    def run(strand: Strand) -> None:
        values = spaces.load(strand, instr, space, address(strand.regs), bits, count)
        for slot, value in zip(slots, values, strict=True):
            if slot is not None:
                register = table.widths[slot]
                strand.write(slot, value if register == bits else extend(value, bits, register, is_signed))

    return run


@op("st", "st.mmio", traits=Traits.STORES | Traits.STRONG, result=False)
@op("multimem.st", traits=Traits.ATOMIC, result=False)
def store(instr: Instr, table: SlotTable) -> Run:
    """st{.vec}.type [a], b."""
    space = space_of(instr)
    bits = width(type_of(instr))
    slots = table.slots(instr.operands[1], bits)
    address = address_of(instr.operands[0], table)
    wide = [table.widths[s] > bits for s in slots]

    def run(strand: Strand) -> None:
        regs = strand.regs
        values = [cut(regs[s], bits) if wider else regs[s] for s, wider in zip(slots, wide, strict=True)]
        spaces.store(strand, instr, space, address(regs), values, bits)

    return run


@op("applypriority", "discard", traits=ORDINARY, result=False)
def cache_hint(instr: Instr, table: SlotTable) -> Run:
    """Cache control changes nothing that the simulator computes (discard may leave the old contents)."""
    return lambda strand: None
