"""tcgen05.cp and tcgen05.shift: queued on the tensor core (PTX manual, "TensorCore 5th Generation")."""

from __future__ import annotations

from convc.machine.isa.operands import address_of, modifier
from convc.machine.isa.registry import Run, op
from convc.machine.isa.tcgen05.collective import is_pair
from convc.machine.isa.tcgen05.mma import issues, notify_operation
from convc.machine.state.slots import SlotTable
from convc.machine.state.strand import Strand
from convc.machine.tensor_core.copy_shift import Copy, Shift
from convc.ptx import Instr


@op("tcgen05.cp", result=False)
def copy(instr: Instr, table: SlotTable) -> Run:
    """tcgen05.cp.shape{.multicast}{.format} [taddr], descriptor."""
    target = address_of(instr.args["taddr"], table)
    source = table.slot(instr.args["sdesc"], 64)
    shape = modifier(instr, "shape")
    multicast = instr.slots.get("multicast")
    decompress = instr.slots.get("format")
    pair = is_pair(instr)
    name = shape if multicast is None else f"{shape}.{multicast}"
    rows_read, bits = map(int, shape.removesuffix("b").split("x"))
    size = rows_read * bits // 8 * (2 if pair else 1)

    def run(strand: Strand) -> None:
        values = [target(strand.regs), strand.regs[source]]
        for thread in strand.threads():
            for (taddr, descriptor), rows, issuers in issues(strand, thread, values, pair):
                item = Copy(shape, multicast, decompress, taddr, descriptor, rows, instr)
                strand.cohort.core.move(item)
                issued = strand.row_count if issuers is None else len(issuers)
                strand.cohort.counters.copy(name, issued, issued * size)
                kind = "cp.4x256b" if item.shape == "4x256b" else "cp"
                notify_operation(strand, kind, item, thread, issuers, pair)

    return run


@op("tcgen05.shift", result=False)
def shift(instr: Instr, table: SlotTable) -> Run:
    """tcgen05.shift.down [taddr]."""
    target = address_of(instr.args["taddr"], table)
    pair = is_pair(instr)

    def run(strand: Strand) -> None:
        values = [target(strand.regs)]
        for thread in strand.threads():
            for (taddr,), rows, issuers in issues(strand, thread, values, pair):
                item = Shift(taddr, rows, instr)
                strand.cohort.core.move(item)
                strand.cohort.counters.shift += strand.row_count if issuers is None else len(issuers)
                notify_operation(strand, "shift", item, thread, issuers, pair)

    return run
