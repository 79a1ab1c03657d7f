"""Tensor memory: allocation, loads, stores and their waits (PTX manual, 9.7.16.7, 9.7.16.8)."""

from __future__ import annotations

from convc.auditor.effects.registry import Run, effect
from convc.auditor.lanes import at
from convc.auditor.operands import reader
from convc.auditor.state import Allocation, Cta, Warp
from convc.auditor.tensor_shadow import Cells
from convc.ptx import Instr, Reg, Vector

COLUMNS = 512
LEAST = 32
QUARTER = 32
"""Lanes of tensor memory that a warp reaches."""

PER_NUMBER = {"32x32b": 1, "16x64b": 2, "16x128b": 4, "16x256b": 8}
"""Columns of one repetition of a tcgen05.ld or st, by shape."""


def inside(warp: Warp, instr: Instr, cta: Cta, first: int, columns: int) -> None:
    """Columns have to be allocated."""
    ledger = warp.cta.cluster.ledger
    ledger.look("tensor-memory-alloc", instr.index)
    held = [each for each in cta.allocations if not each.freed]
    if held and not any(each.base <= first and first + columns <= each.base + each.columns for each in held):
        what = f"columns {first} to {first + columns - 1} are used and not allocated by CTA {cta.number}"
        ledger.accuse("tensor-memory-alloc", what, warp.doer(instr))


@effect("tcgen05.alloc")
def _alloc(instr: Instr) -> Run:
    slot = reader(instr.args["dst"])
    count = reader(instr.args["columns"])
    pair = "cta_group::2" in instr.mods

    def run(warp: Warp, lanes: int) -> None:
        time = warp.tick()
        cta = warp.cta
        ledger = cta.cluster.ledger
        who = warp.doer(instr)
        ledger.look("tensor-memory-alloc", instr.index)
        columns = at(count(warp), lanes)
        found = warp.locate(at(slot(warp), lanes))
        if pair:
            _rendezvous(warp, instr)
        if columns is None or found is None:
            warp.lose(instr, "unknown column count or destination of the address")
            return
        if columns & (columns - 1) or not LEAST <= columns <= COLUMNS:
            ledger.accuse("tensor-memory-alloc", f"{columns} columns are no power of two from 32 to 512", who)
        if cta.relinquished is not None and not warp.lost:
            what = "tcgen05.alloc after tcgen05.relinquish_alloc_permit"
            ledger.accuse("tensor-memory-alloc", what, who, cta.relinquished)
        base = max((each.base + each.columns for each in cta.allocations if not each.freed), default=0)
        if base + columns > COLUMNS:
            ledger.accuse("tensor-memory-alloc", f"the CTA holds {base} columns and allocates {columns} more", who)
        group = "cta_group::2" if pair else "cta_group::1"
        cta.allocations.append(Allocation(base, columns, group, who, warp.id, time))
        found[0].put(found[1], 4, base)

    return run


def _rendezvous(warp: Warp, instr: Instr) -> None:
    ledger = warp.cta.cluster.ledger
    ledger.look("pair-rendezvous", instr.index)
    peer = warp.cta.rank ^ 1
    if peer >= len(warp.cta.cluster.ctas):
        ledger.accuse("pair-rendezvous", "cta_group::2 in a cluster without a pair", warp.doer(instr))
    elif not warp.knows("runs", peer):
        what = (
            "a cta_group::2 allocation before the peer CTA is known to run: this warp has waited for no signal from it"
        )
        ledger.accuse("pair-rendezvous", what, warp.doer(instr))


@effect("tcgen05.relinquish_alloc_permit")
def _relinquish(instr: Instr) -> Run:
    def run(warp: Warp, lanes: int) -> None:
        warp.tick()
        warp.cta.cluster.ledger.look("tensor-memory-alloc", instr.index)
        warp.cta.relinquished = warp.doer(instr)

    return run


@effect("tcgen05.dealloc", result=False)
def _dealloc(instr: Instr) -> Run:
    address = reader(instr.args["taddr"])
    count = reader(instr.args["columns"])

    def run(warp: Warp, lanes: int) -> None:
        time = warp.tick()
        cta = warp.cta
        ledger = cta.cluster.ledger
        who = warp.doer(instr)
        ledger.look("tensor-memory-alloc", instr.index)
        base = at(address(warp), lanes)
        columns = at(count(warp), lanes)
        held = [each for each in cta.allocations if not each.freed]
        if columns is None or not held:
            ledger.accuse("tensor-memory-alloc", "tcgen05.dealloc of columns that are not allocated", who)
            return
        if base is None:
            ledger.unknown(instr, "unknown columns of this tcgen05.dealloc")
            base = held[0].base if len(held) == 1 else -1
        match = next((each for each in held if each.base == base), None)
        if match is None:
            if base >= 0:
                ledger.accuse(
                    "tensor-memory-alloc", f"column {base} is not the first of an allocation of this CTA", who
                )
            return
        if match.columns != columns:
            what = f"{columns} columns are freed of an allocation of {match.columns}"
            ledger.accuse("tensor-memory-alloc", what, who, match.who)
        match.freed = True
        cells = Cells("dealloc", True, (0, 128), (base, base + match.columns), warp.id, time, who)
        cta.tensor.use(warp.clock, cells)
        cta.tensor.kept.clear()

    return run


def _moves(instr: Instr, *, writes: bool) -> Run:
    address = reader(instr.args["taddr"])
    shape = instr.slots.get("shape") or ""
    repeats = int((instr.slots.get("num") or "x1")[1:])
    packed = 2 if instr.slots.get("pack") or instr.slots.get("unpack") else 1
    columns = PER_NUMBER.get(shape, 1) * repeats * packed
    first = instr.operands[0]
    slots = [item.slot for item in first.items if isinstance(item, Reg)] if isinstance(first, Vector) else []

    def run(warp: Warp, lanes: int) -> None:
        warp.tick()
        place = at(address(warp), lanes)
        ledger = warp.cta.cluster.ledger
        ledger.look("tcgen05-wait", instr.index)
        if place is None:
            ledger.unknown(instr, "unknown columns of this access")
        else:
            lane = place >> 16 & 0xFFFF
            column = place & 0xFFFF
            quarter = warp.index % 4 * QUARTER
            if lane >= QUARTER and lane // QUARTER != warp.index % 4:
                what = f"warp {warp.index} accesses lane {lane}; its lanes are {quarter} to {quarter + QUARTER - 1}"
                ledger.accuse("tcgen05-order", what, warp.doer(instr))
            inside(warp, instr, warp.cta, column, columns)
            first_lane = quarter + lane % QUARTER
            span = (quarter, quarter + QUARTER) if shape == "32x32b" else (first_lane, first_lane + 1)
            kind = "st" if writes else "ld"
            cells = Cells(kind, writes, span, (column, column + columns), warp.id, None, warp.doer(instr))
            warp.cta.tensor.use(warp.clock, cells)
            (warp.stores if writes else warp.loads).append(cells)
        if not writes:
            for slot in slots:
                warp.registers[slot] = None

    return run


effect("tcgen05.ld")(lambda instr: _moves(instr, writes=False))
effect("tcgen05.st", result=False)(lambda instr: _moves(instr, writes=True))


@effect("tcgen05.wait")
def _wait(instr: Instr) -> Run:
    stores = any("st" in mod.split("::") for mod in instr.mods)

    def run(warp: Warp, lanes: int) -> None:
        time = warp.tick()
        warp.cta.cluster.ledger.look("tcgen05-wait", instr.index)
        for cells in warp.stores if stores else warp.loads:
            cells.time = time
        (warp.stores if stores else warp.loads).clear()

    return run
