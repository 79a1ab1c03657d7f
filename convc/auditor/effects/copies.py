"""Bulk copies, tensor copies, their groups, requests for the work of others (PTX manual, 9.7.9.25, 9.7.13.17)."""

from __future__ import annotations

import math
from typing import NamedTuple

from convc.auditor.barriers import Mbarrier
from convc.auditor.effects.mbarriers import barrier_in, bring, signalled
from convc.auditor.effects.registry import Run, effect
from convc.auditor.lanes import Value, at, lanes_of
from convc.auditor.operands import Reader, reader
from convc.auditor.shadow import Access
from convc.auditor.state import Cta, Warp, place_of
from convc.ir.element_types import ELEMENT_TYPES
from convc.ir.tensormap import TensorMap
from convc.ptx import Instr, TensorAddress, Vector

ANSWER_BYTES = 16
PADDED = {"b4x16_p64", "b6x16_p32"}
"""Types whose elements take a byte each in shared memory."""
SPANS = {"32B": 32, "64B": 64}
"""Bytes of a swizzled row; 128 of all others."""


class Route(NamedTuple):
    """The way of a copy: target, barrier, and the mask of CTAs, None without multicast."""

    target: Reader
    signal: Reader
    mask: Reader | None


class Brought(NamedTuple):
    """The load of a copy: bytes, those from the first to the last in shared memory, the swizzle; None: not known."""

    size: int | None
    extent: int | None
    swizzle: str


UNKNOWN = Brought(None, None, "")


def _route(instr: Instr) -> Route:
    """Where a copy goes."""
    mask = reader(instr.args.get("mask")) if instr.slots.get("multicast") else None
    return Route(reader(instr.args["dst"]), reader(instr.args["mbar"]), mask)


def element_bits(tmap: TensorMap) -> int:
    """Bits of an element in shared memory."""
    return 8 if tmap.dtype in PADDED else ELEMENT_TYPES[tmap.dtype].bits


def box_of(tmap: TensorMap, mode: str, halo: int | None) -> tuple[int, int] | None:
    """Rows of one copy, and bytes of each (CUDA driver API, ``cuTensorMapEncode*``); None where it is not known."""
    if tmap.mode == "tile":
        inner = tmap.box[0]
        rows = (
            4
            if "gather4" in mode or "scatter4" in mode
            else math.prod(
                -(-extent // step) for extent, step in zip(tmap.box[1:], tmap.element_strides[1:], strict=True)
            )
        )
    else:
        inner = tmap.channels
        if tmap.mode == "im2col":
            rows = tmap.pixels
        elif halo is None:
            return None
        else:
            rows = 128 + 4 * halo if tmap.mode == "im2col_w128" else tmap.pixels + halo
    return rows, inner * element_bits(tmap) // 8


def _extent(tmap: TensorMap, box: tuple[int, int]) -> int:
    """Bytes from the first to the last in shared memory: a swizzled row takes its whole span."""
    rows, inner = box
    pitch = inner if tmap.swizzle == "none" else SPANS.get(tmap.swizzle, 128)
    return rows * pitch if pitch == inner else (rows - 1) * pitch + inner


def _map_of(instr: Instr) -> Reader:
    operand = instr.args["map"]
    assert isinstance(operand, TensorAddress)
    return reader(operand.map)


def _halo(instr: Instr) -> Reader:
    """Rows that a copy in a wide im2col mode brings besides: the first of the two numbers behind its barrier."""
    info = instr.args.get("info")
    wide = (instr.slots.get("mode") or "").startswith("im2col::w")
    return reader(info.items[0]) if wide and isinstance(info, Vector) else lambda warp: 0


def _in_front(warp: Warp, instr: Instr, tmap: TensorMap) -> None:
    """Hold a copy against a preceding kernel that may still use the buffer."""
    cluster = warp.cta.cluster
    if tmap.buffer not in (cluster.in_front or ()):
        return
    cluster.ledger.look("dependent-copy", instr.index)
    if not warp.knows("waited", 0):
        what = (
            f"buffer {tmap.buffer!r} is copied before griddepcontrol.wait, while the preceding kernel may still use it"
        )
        cluster.ledger.accuse("dependent-copy", what, warp.doer(instr))


@effect("cp.async.bulk.tensor.load")
def _tensor_load(instr: Instr) -> Run:
    where = _route(instr)
    tmap_at = _map_of(instr)
    mode = instr.slots.get("mode") or "tile"
    halo = _halo(instr)

    def run(warp: Warp, lanes: int) -> None:
        for lane in lanes_of(lanes):
            one = 1 << lane
            tmap = warp.cta.cluster.layout.maps.get(at(tmap_at(warp), one) or 0)
            what = UNKNOWN
            if tmap is None:
                warp.cta.cluster.ledger.unknown(instr, "unknown tensor map of this copy")
            else:
                _in_front(warp, instr, tmap)
                box = box_of(tmap, mode, at(halo(warp), one))
                if box is None:
                    warp.cta.cluster.ledger.unknown(instr, "unknown row count of this copy")
                else:
                    what = Brought(box[0] * box[1], _extent(tmap, box), tmap.swizzle)
            _copy(warp, instr, one, where, what)
            if warp.lost:
                return

    return run


def _copy(warp: Warp, instr: Instr, lane: int, where: Route, what: Brought) -> None:
    """Bytes arrive in shared memory of one or of several CTAs, and on a barrier of each."""
    warp.tick()
    ledger = warp.cta.cluster.ledger
    place = warp.locate(at(where.target(warp), lane))
    bar = warp.locate(at(where.signal(warp), lane))
    if place is None or bar is None:
        warp.lose(instr, "unknown destination or mbarrier of this copy")
        return
    pairs = [(place[0], bar[0])]
    if where.mask is not None:
        pairs = _masked(warp, instr, at(where.mask(warp), lane), bar[0])
        if warp.lost:
            return
    elif place[0] is not bar[0]:
        _other_barrier(warp, instr, place[0], bar[0])
    for cta, owner in pairs:
        barrier = barrier_in(warp, instr, owner, bar[1], asynchronous=True)
        if barrier is None:
            return
        _arrive_in(warp, instr, cta, barrier, place[1], what)
    ledger.look("transaction-bytes", instr.index)


def _other_barrier(warp: Warp, instr: Instr, cta: Cta, owner: Cta) -> None:
    """A copy that completes on a barrier of another CTA than the one that it goes to: that of a pair may."""
    ledger = warp.cta.cluster.ledger
    ledger.look("cluster-mask", instr.index)
    if "cta_group::2" not in instr.mods or cta.rank ^ owner.rank != 1:
        what = f"a copy into CTA {cta.number} completes on an mbarrier of CTA {owner.number}"
        ledger.accuse("cluster-mask", what, warp.doer(instr))


def _masked(warp: Warp, instr: Instr, mask: int | None, owner: Cta) -> list[tuple[Cta, Cta]]:
    """The CTAs that a multicast goes to, each with the CTA whose barrier it completes on there."""
    ledger = warp.cta.cluster.ledger
    ledger.look("cluster-mask", instr.index)
    if mask is None:
        warp.lose(instr, "unknown destination CTAs of this copy")
        return []
    ctas = warp.cta.cluster.ctas
    if not mask or mask >> len(ctas):
        ledger.accuse("cluster-mask", f"mask 0x{mask:x} in a cluster of {len(ctas)}", warp.doer(instr))
    chosen = [cta for cta in ctas if mask >> cta.rank & 1]
    if "cta_group::2" not in instr.mods:
        return [(cta, cta) for cta in chosen]
    # With pairs the barrier is at the same offset in the CTA of the target's pair that has the parity of the named one.
    return [(cta, ctas[(cta.rank & ~1) | (owner.rank & 1)]) for cta in chosen]


def _arrive_in(warp: Warp, instr: Instr, cta: Cta, barrier: Mbarrier, offset: int, what: Brought) -> None:
    """Bytes arrive in one CTA, and on a barrier of it or of its pair."""
    who = warp.doer(instr)
    cluster = warp.cta.cluster
    if cta is not warp.cta and not warp.knows("runs", cta.rank):
        said = f"a copy goes to CTA {cta.number} before that CTA is known to run"
        cluster.ledger.accuse("barrier-init", said, who)
    signalled(warp, instr, cluster.ctas[barrier.cta], barrier, asynchronous=True)
    end = cluster.layout.end if what.extent is None else offset + what.extent
    cta.forget(offset, end)
    if what.size is None:
        barrier.exact = False
    if what.extent is not None and barrier.exact:
        if end > cluster.layout.end and cluster.launched:
            said = f"a copy ends at byte {end}, and shared memory at {cluster.layout.end}"
            cluster.ledger.accuse("launch-limits", said, who)
        access = Access("copy", offset, end, barrier.key, barrier.phase + 1, who, what.swizzle)
        cta.shared.write(warp.clock, access)
    bring(warp, instr, barrier, what.size)


@effect("cp.async.bulk.load", "cp.async.bulk.peer", "cp.reduce.async.bulk.peer")
def _bulk_load(instr: Instr) -> Run:
    where = _route(instr)
    size = reader(instr.args["size"])

    def run(warp: Warp, lanes: int) -> None:
        for lane in lanes_of(lanes):
            one = 1 << lane
            number = at(size(warp), one)
            if number is None:
                warp.cta.cluster.ledger.unknown(instr, "unknown byte count of this copy")
            _copy(warp, instr, one, where, Brought(number, number or None, ""))
            if warp.lost:
                return

    return run


@effect("cp.async.bulk.store", "cp.reduce.async.bulk.store", strict=False)
def _bulk_store(instr: Instr) -> Run:
    source = reader(instr.args["src"])
    size = reader(instr.args["size"])

    def run(warp: Warp, lanes: int) -> None:
        for lane in lanes_of(lanes):
            _store(warp, instr, at(source(warp), 1 << lane), at(size(warp), 1 << lane))

    return run


@effect("cp.async.bulk.tensor.store", "cp.reduce.async.bulk.tensor", strict=False)
def _tensor_store(instr: Instr) -> Run:
    source = reader(instr.args["src"])
    tmap_at = _map_of(instr)
    mode = instr.slots.get("mode") or "tile"

    def run(warp: Warp, lanes: int) -> None:
        for lane in lanes_of(lanes):
            tmap = warp.cta.cluster.layout.maps.get(at(tmap_at(warp), 1 << lane) or 0)
            if tmap is not None:
                _in_front(warp, instr, tmap)
            box = None if tmap is None else box_of(tmap, mode, 0)
            size = None if tmap is None or box is None else _extent(tmap, box)
            _store(warp, instr, at(source(warp), 1 << lane), size)

    return run


def _store(warp: Warp, instr: Instr, address: int | None, size: int | None) -> None:
    """A copy out of shared memory, in the group that is open."""
    warp.tick()
    warp.groups_open += 1
    warp.at_store = warp.doer(instr)
    ledger = warp.cta.cluster.ledger
    ledger.look("bulk-groups", instr.index)
    found = warp.locate(address)
    if found is None or not size:
        ledger.unknown(instr, "unknown source of this copy")
        return
    turn = warp.groups_closed + 1
    access = Access("store", found[1], found[1] + size, warp.id, turn, warp.doer(instr))
    found[0].shared.read(warp.clock, access)


@effect("cp.async.bulk.commit_group")
def _commit(instr: Instr) -> Run:
    def run(warp: Warp, lanes: int) -> None:
        warp.tick()
        warp.cta.cluster.ledger.look("bulk-groups", instr.index)
        warp.groups_closed += 1
        warp.groups_open = 0

    return run


@effect("cp.async.bulk.wait_group")
def _wait_group(instr: Instr) -> Run:
    left = reader(instr.args["n"])

    def run(warp: Warp, lanes: int) -> None:
        warp.tick()
        warp.cta.cluster.ledger.look("bulk-groups", instr.index)
        number = at(left(warp), lanes) or 0
        done = max(0, warp.groups_closed - number)
        warp.clock["read", warp.id] = max(done, warp.knows("read", warp.id))

    return run


@effect("clusterlaunchcontrol.try_cancel")
def _ask(instr: Instr) -> Run:
    """An answer of 16 bytes arrives, in all CTAs of the cluster with multicast."""
    target = reader(instr.args["addr"])
    signal = reader(instr.args["mbar"])
    everywhere = bool(instr.slots.get("multicast"))

    def run(warp: Warp, lanes: int) -> None:
        ledger = warp.cta.cluster.ledger
        ledger.look("launch-control", instr.index)
        warp.tick()
        place = warp.locate(at(target(warp), lanes))
        bar = warp.locate(at(signal(warp), lanes))
        if place is None or bar is None:
            warp.lose(instr, "unknown destination of the response")
            return
        if warp.answers > warp.cta.cluster.answers:
            what = "clusterlaunchcontrol.try_cancel after a declined request"
            ledger.accuse("launch-control", what, warp.doer(instr))
        for cta in warp.cta.cluster.ctas if everywhere else [place[0]]:
            barrier = barrier_in(warp, instr, cta if everywhere else bar[0], bar[1], asynchronous=True)
            if barrier is None:
                return
            _arrive_in(warp, instr, cta, barrier, place[1], Brought(ANSWER_BYTES, ANSWER_BYTES, ""))

    return run


@effect("clusterlaunchcontrol.query_cancel.is_canceled")
def _granted(instr: Instr) -> Run:
    """Each warp hears the same answers: some clusters, and then that there is none."""
    result = instr.operands[0]

    def run(warp: Warp, lanes: int) -> None:
        warp.cta.cluster.ledger.look("launch-control", instr.index)
        granted = int(warp.answers < warp.cta.cluster.answers)
        warp.answers += 1
        for slot in _slots(result):
            warp.write(slot, granted, lanes)

    return run


@effect("clusterlaunchcontrol.query_cancel.get_first_ctaid", strict=False)
def _first(instr: Instr) -> Run:
    axis = next((mod[-1] for mod in instr.mods if mod.startswith("get_first_ctaid::")), None)
    result = instr.operands[0]

    def run(warp: Warp, lanes: int) -> None:
        ledger = warp.cta.cluster.ledger
        ledger.look("launch-control", instr.index)
        cluster = warp.cta.cluster
        if warp.answers > cluster.answers:
            what = "get_first_ctaid of a declined request"
            ledger.accuse("launch-control", what, warp.doer(instr))
        place: tuple[Value, ...] = place_of(cluster.number + warp.answers, cluster.shape, cluster.launch)
        slots = _slots(result)
        values = (place["xyz".index(axis)],) if axis else (*place, None)
        for slot, value in zip(slots, values, strict=False):
            warp.write(slot, value, lanes)

    return run


def _slots(operand: object) -> list[int]:
    from convc.auditor.program import registers_in

    return list(registers_in(operand))  # type: ignore[arg-type]
