"""Ordinary loads and stores (PTX manual, 9.7.9.8 to 9.7.9.11, 9.7.9.9)."""

from __future__ import annotations

from convc.auditor.effects.mbarriers import barrier_at, bring
from convc.auditor.effects.registry import Run, effect
from convc.auditor.lanes import Value, at, each, evaluate, lanes_of
from convc.auditor.layout import BUFFERS, GENERIC
from convc.auditor.operands import Reader, reader
from convc.auditor.shadow import Access
from convc.auditor.state import Cta, NcLoad, Warp
from convc.ptx import Imm, Instr, Operand, Reg, Symbol, Vector
from convc.ptx.syntax import TYPE_BITS

HEAVIEST = 1 << 56
"""Addresses from here on are in no buffer."""


def _space(instr: Instr, address: Operand | None) -> str:
    """The state space that an access names, or that of the variable it names."""
    named = instr.slots.get("space") or ""
    base = getattr(address, "base", None)
    if not named and isinstance(base, Symbol):
        return base.space
    return named.split("::")[0] if named else "generic"


def _size(instr: Instr) -> int:
    """Bytes of an access of one lane."""
    count = {"v2": 2, "v4": 4, "v8": 8}.get(instr.slots.get("vec") or "", 1)
    return count * TYPE_BITS.get(instr.slots.get("type") or "b32", 32) // 8


def _slots(operand: Operand) -> list[int]:
    items = operand.items if isinstance(operand, Vector) else (operand,)
    return [item.slot for item in items if isinstance(item, Reg)]


@effect("ld", strict=False)
def _load(instr: Instr) -> Run:
    operand = instr.args["a"]
    address = reader(operand)
    space = _space(instr, operand)
    size = _size(instr)
    slots = _slots(instr.operands[0])

    def run(warp: Warp, lanes: int) -> None:
        value: Value = None
        if space == "param":
            place = at(address(warp), lanes)
            if place is not None:
                value = warp.cta.cluster.layout.scalars.get((place, size))
        elif space in ("shared", "generic"):
            value = _from_shared(warp, instr, lanes, address, size, wanted=len(slots) == 1)
        for slot in slots:
            warp.write(slot, value if len(slots) == 1 else None, lanes)

    return run


def _from_shared(warp: Warp, instr: Instr, lanes: int, address: Reader, size: int, *, wanted: bool) -> Value:
    """A read of shared memory: the numbers that are known there."""
    places = address(warp)
    for cta, offset in _ends(warp, instr, places, lanes):
        cta.shared.read(warp.clock, Access("ld", offset, offset + size, warp.id, warp.time, warp.doer(instr)))
    if not wanted or not any(cta.words for cta in warp.cta.cluster.ctas):
        return None

    def known(place: int) -> int | None:
        found = warp.locate(place)
        return found[0].get(found[1], size) if found is not None else None

    return evaluate(known, places)


def _ends(warp: Warp, instr: Instr, places: Value, lanes: int) -> list[tuple[Cta, int]]:
    """Where the first and the last lane access shared memory."""
    warp.tick()
    numbers = each(places, lanes)
    found: list[tuple[Cta, int]] = []
    for number in dict.fromkeys((numbers[0], numbers[-1])):
        if number is None:
            return []
        if number >= 1 << BUFFERS and number < GENERIC:
            return []
        where = warp.locate(number)
        if where is not None:
            found.append(where)
            if where[0] is not warp.cta:
                where[0].visits.append((warp.doer(instr), warp.id, warp.time))
    return found


@effect("st", strict=False, data="b", result=False)
def _store(instr: Instr) -> Run:
    operand = instr.args["a"]
    data = instr.args["b"]
    address = reader(operand)
    space = _space(instr, operand)
    size = _size(instr)
    number = data.bits if isinstance(data, Imm) else None

    def run(warp: Warp, lanes: int) -> None:
        if space not in ("shared", "generic"):
            return
        places = address(warp)
        ends = _ends(warp, instr, places, lanes)
        for cta, offset in ends:
            cta.shared.write(warp.clock, Access("st", offset, offset + size, warp.id, warp.time, warp.doer(instr)))
        _note(warp, ends, places, lanes, size, number)

    return run


def _note(warp: Warp, ends: list[tuple[Cta, int]], places: Value, lanes: int, size: int, number: int | None) -> None:
    """What is known of shared memory after a store: the number, where it goes to one place."""
    if not ends:
        if None in each(places, lanes):
            for cta in warp.cta.cluster.ctas:
                cta.words.clear()
        return
    cta, offset = ends[0]
    if at(places, lanes) is not None:
        cta.put(offset, size, number)
        return
    found = [place for place in map(warp.locate, each(places, lanes)) if place is not None]
    for cta in {id(place[0]): place[0] for place in found}.values():
        offsets = [place[1] for place in found if place[0] is cta]
        if any(min(offsets) <= byte < max(offsets) + size for byte in cta.words):
            for offset in offsets:
                cta.forget(offset, offset + size)


@effect("ld.nc", strict=False, anyway=True)
def _read_only(instr: Instr) -> Run:
    address = reader(instr.args["a"])
    slots = _slots(instr.operands[0])

    def run(warp: Warp, lanes: int) -> None:
        warp.cta.cluster.ledger.look("read-only-load", instr.index)
        numbers = [number for number in each(address(warp), lanes) if number is not None]
        buffer = numbers[0] >> BUFFERS if numbers and numbers[0] < HEAVIEST else None
        behind = bool(warp.knows("waited", 0))
        warp.cta.nc_loads.append(NcLoad(warp.doer(instr), buffer or None, behind))
        for slot in slots:
            warp.write(slot, None, lanes)

    return run


@effect("st.async", "red.async", data="b", result=False)
def _asynchronous(instr: Instr) -> Run:
    """A store into a CTA of the cluster, which completes bytes on a barrier there."""
    signal = reader(instr.args["mbar"])
    size = _size(instr)

    def run(warp: Warp, lanes: int) -> None:
        warp.tick()
        for lane in lanes_of(lanes):
            barrier = barrier_at(warp, instr, at(signal(warp), 1 << lane), asynchronous=True)
            if barrier is None:
                return
            bring(warp, instr, barrier, size)

    return run


@effect("ldmatrix", strict=False)
def _matrix(instr: Instr) -> Run:
    address = reader(instr.args["p"])
    slots = _slots(instr.operands[0])

    def run(warp: Warp, lanes: int) -> None:
        for cta, offset in _ends(warp, instr, address(warp), lanes):
            cta.shared.read(warp.clock, Access("ld", offset, offset + 16, warp.id, warp.time, warp.doer(instr)))
        for slot in slots:
            warp.write(slot, None, lanes)

    return run
