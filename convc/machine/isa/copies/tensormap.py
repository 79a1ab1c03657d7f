"""Tensor maps made by the kernel: tensormap.replace and tensormap.cp_fenceproxy (PTX manual).

The bytes of a map in memory are in the simulator's own encoding, see `convc.machine.tma.tensormap_bytes`.
"""

from __future__ import annotations

import numpy as np

from convc.errors import MachineFault
from convc.machine.isa.copies.issue import issue_groups, own_address, shared_span
from convc.machine.isa.operands import address_of, modifier, number
from convc.machine.isa.registry import ORDINARY, Run, op
from convc.machine.memory.global_memory import Buffer
from convc.machine.state.cohort import Cohort
from convc.machine.state.slots import SlotTable
from convc.machine.state.strand import Strand
from convc.machine.tma.tensormap_bytes import SIZE, replace
from convc.ptx import Instr


@op("tensormap.replace", traits=ORDINARY, result=False)
def tensormap_replace(instr: Instr, table: SlotTable) -> Run:
    """tensormap.replace.tile.field [a] {, ord}, value: change one field of the map at ``a``."""
    args = instr.args
    field = modifier(instr, "field")
    space = instr.slots["space"]
    target = address_of(args["a"], table)
    new = table.slot(args["value"], 64 if instr.slots["type"] == "b64" else 32)
    index = 0 if args.get("ord") is None else number(args["ord"])

    def run(strand: Strand) -> None:
        cohort = strand.cohort
        regs = strand.regs
        cohort.core.seal()
        for group in issue_groups(strand, [target(regs)]):
            value = group.pick(strand, regs[new])
            if space == "shared::cta":
                where = _map_in_shared(cohort, group.rows, group.values[0])
                rows = slice(None) if group.rows is None else group.rows
                raw = np.ascontiguousarray(cohort.shared.bytes[rows, where])
                replace(raw, field, index, value)
                cohort.shared.bytes[rows, where] = raw
            else:
                where, buffer = _map_in_global(cohort, group.values[0])
                cohort.launch.about_to_change(buffer.name)
                for each in np.unique(value).tolist():
                    replace(buffer.data[where].reshape(1, SIZE), field, index, each)

    return run


@op("tensormap.cp_fenceproxy", traits=ORDINARY, result=False)
def copy_map(instr: Instr, table: SlotTable) -> Run:
    """tensormap.cp_fenceproxy [dst], [src], 128: copy a map from shared to global memory, and fence."""
    target = address_of(instr.args["dst"], table)
    source = address_of(instr.args["src"], table)

    def run(strand: Strand) -> None:
        cohort = strand.cohort
        regs = strand.regs
        cohort.core.seal()
        done: set[tuple] = set()
        for group in issue_groups(strand, [target(regs), source(regs)]):
            key = (group.thread[0], group.values, None if group.rows is None else group.rows.tobytes())
            if key in done:  # the lanes of a warp do this together, once
                continue
            done.add(key)
            into, buffer = _map_in_global(cohort, group.values[0])
            where = _map_in_shared(cohort, group.rows, group.values[1])
            cohort.launch.about_to_change(buffer.name)
            for row in cohort.rows_or_all(group.rows):
                buffer.data[into] = cohort.shared.bytes[row, where]

    return run


def _map_in_shared(cohort: Cohort, rows: np.ndarray | None, address: int) -> slice:
    return shared_span(cohort, "a tensor map", own_address(cohort, rows, address, "a tensor map"), SIZE)


def _map_in_global(cohort: Cohort, address: int) -> tuple[slice, Buffer]:
    buffer = cohort.launch.memory.at(address)
    if buffer is None or address - buffer.base + SIZE > buffer.size:
        raise MachineFault(f"a tensor map: the 128 bytes at global address {address:#x} are not all inside a buffer")
    start = address - buffer.base
    return slice(start, start + SIZE), buffer
