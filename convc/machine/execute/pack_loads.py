"""Packs that load: from tensor memory, global memory, and shared memory of the own CTA or of the cluster."""

from __future__ import annotations

from collections.abc import Callable

from convc.machine.base.values import Value
from convc.machine.execute.pack_operands import Blocks, mask_of, merge_of
from convc.machine.execute.straight import Pack
from convc.machine.isa.memory.rows import read_cluster, read_rows, read_shared
from convc.machine.isa.operands import Read, address_of
from convc.machine.isa.tcgen05.ld_st import loaded
from convc.machine.state.slots import SlotTable
from convc.machine.state.strand import Strand
from convc.ptx import Instr

Perform = Callable[[Strand, Blocks, Value], bool]
"""Performs a pack, a load from the address that is given; False where it is not plain."""

Places = dict[Pack, Value]
"""The addresses of loads."""


def address_read(load: Instr, table: SlotTable) -> Read:
    """Make what reads the address of a load from the registers."""
    return address_of(load.args["taddr"] if load.form.name == "tcgen05.ld" else load.operands[1], table)


def tensor(pack: Pack, body: tuple[Instr, ...], _: SlotTable) -> Perform:
    """tcgen05.ld."""
    instr = body[pack.members[0]]
    count = len(pack.targets)

    def perform(strand: Strand, blocks: Blocks, address: Value) -> bool:
        block = loaded(strand, instr, address, count)
        if block is None:
            return False
        blocks[pack] = block
        return True

    return perform


def load(pack: Pack, _: tuple[Instr, ...], __: SlotTable) -> Perform:
    """ld.global of a row of words in each thread."""
    words = len(pack.targets)
    size = 4 * words // len(pack.members)
    guard = pack.guard

    def perform(strand: Strand, blocks: Blocks, address: Value) -> bool:
        block = read_rows(strand.cohort.launch.memory, address, words, size, mask_of(guard, strand.regs))
        if block is None:
            return False
        blocks[pack] = block
        return True

    return perform


def load_shared(pack: Pack, _: tuple[Instr, ...], __: SlotTable) -> Perform:
    """ld.shared of a row of words, the same for all threads."""
    words = len(pack.targets)
    size = 4 * words // len(pack.members)

    def perform(strand: Strand, blocks: Blocks, address: Value) -> bool:
        block = read_shared(strand, address, words, size)
        if block is None:
            return False
        blocks[pack] = block
        return True

    return perform


def load_cluster(pack: Pack, _: tuple[Instr, ...], table: SlotTable) -> Perform:
    """ld.shared::cluster of a row of words in each thread."""
    words = len(pack.targets)
    size = 4 * words // len(pack.members)
    merge = merge_of(pack, table)

    def perform(strand: Strand, blocks: Blocks, address: Value) -> bool:
        regs = strand.regs
        mask = mask_of(pack.only, regs)
        block = read_cluster(strand, address, words, size, mask)
        if block is None:
            return False
        blocks[pack] = block if mask is None else merge(mask, block, blocks, regs)
        return True

    return perform
