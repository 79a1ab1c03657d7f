"""Packs that load: from tensor memory, global memory, and shared memory of the own CTA or of the cluster."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from convc.machine.base.values import Value
from convc.machine.execute.pack_operands import Blocks, mask_of, merge_of
from convc.machine.execute.slp import Pack
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

Block = np.ndarray | None
"""What was loaded; None where it is not plain."""


def address_read(load: Instr, table: SlotTable) -> Read:
    """Make what reads the address of a load from the registers."""
    return address_of(load.args["taddr"] if load.form.name == "tcgen05.ld" else load.operands[1], table)


def tensor(pack: Pack, body: tuple[Instr, ...], _: SlotTable) -> Perform:
    """tcgen05.ld."""
    instr = body[pack.members[0]]
    count = len(pack.targets)
    return _kept(pack, lambda strand, address: loaded(strand, instr, address, count))


def load(pack: Pack, _: tuple[Instr, ...], __: SlotTable) -> Perform:
    """ld.global of a row of words in each thread."""
    words, size = _row(pack)
    guard = pack.guard

    def read(strand: Strand, address: Value) -> Block:
        return read_rows(strand.cohort.launch.memory, address, words, size, mask_of(guard, strand.regs))

    return _kept(pack, read)


def load_shared(pack: Pack, _: tuple[Instr, ...], __: SlotTable) -> Perform:
    """ld.shared of a row of words, the same for all threads."""
    words, size = _row(pack)
    return _kept(pack, lambda strand, address: read_shared(strand, address, words, size))


def load_cluster(pack: Pack, _: tuple[Instr, ...], table: SlotTable) -> Perform:
    """ld.shared::cluster of a row of words in each thread."""
    words, size = _row(pack)
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


def _row(pack: Pack) -> tuple[int, int]:
    """Words that all members load together, and the bytes that each does."""
    words = len(pack.targets)
    return words, 4 * words // len(pack.members)


def _kept(pack: Pack, read: Callable[[Strand, Value], Block]) -> Perform:
    """Perform a pack whose elements are what is read from an address."""

    def perform(strand: Strand, blocks: Blocks, address: Value) -> bool:
        block = read(strand, address)
        if block is None:
            return False
        blocks[pack] = block
        return True

    return perform
