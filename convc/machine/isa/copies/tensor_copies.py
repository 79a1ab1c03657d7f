"""Tensor copies from global to shared memory: cp.async.bulk.tensor (PTX manual); `tensor_stores` has the other way.

When the data moves (and, for a load, the barrier gets its complete_tx) is up to the completion policy (see
`completion`). L2 cache hints and prefetches change nothing that the simulator computes.

Tensor maps made by the kernel: tensormap.replace and tensormap.cp_fenceproxy (PTX manual).

The bytes of a map in memory are in the simulator's own encoding, see `convc.machine.tma.tensormap_bytes`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from convc.errors import LaunchError, MachineFault
from convc.ir.tensormap import check
from convc.machine.base.cluster_ranks import OFFSET
from convc.machine.base.values import Value, plain
from convc.machine.isa.copies.issue import (
    CopyTarget,
    IssueGroup,
    complete,
    copy_target,
    issue_groups,
    own_address,
    own_target,
    shared_span,
)
from convc.machine.isa.copies.lines import tensor_reach
from convc.machine.isa.copies.perform import perform_load, places
from convc.machine.isa.copies.tensor_deferred import Issued, Signals, defer_in_clusters, note_load, own_places
from convc.machine.isa.observe import notify_copy
from convc.machine.isa.operands import address_of, expect, modifier, number
from convc.machine.isa.registry import BLIND, ORDINARY, Run, op
from convc.machine.lazy.regions import region
from convc.machine.memory.global_memory import CONST_WINDOW, PARAM_WINDOW, WINDOW_SHIFT, Buffer
from convc.machine.state.cohort import Cohort
from convc.machine.state.counters import copies_of
from convc.machine.state.launch import Launch
from convc.machine.state.slots import SlotTable
from convc.machine.state.strand import Strand
from convc.machine.tma.cache import Coordinate, LoadResult
from convc.machine.tma.load import TensorLoader
from convc.machine.tma.tensormap_bytes import SIZE, map_at, replace
from convc.ptx import Instr, Operand, TensorAddress

MODES: dict[str | None, str] = {
    None: "tile",
    "tile": "tile",
    "tile::gather4": "rows4",
    "tile::scatter4": "rows4",
    "im2col": "im2col",
    "im2col_no_offs": "im2col",
    "im2col::w": "im2col_w",
    "im2col::w::128": "im2col_w128",
}
"""Modes of the instructions, as `TensorLoader.load` calls them."""


@dataclass(slots=True)
class TensorBox:
    """The box of a tensor that a copy moves.

    Attributes:
        name: the buffer that the tensor is in.
        loader: of its map.
        coords, offsets, mode: as for `TensorLoader.load`.
    """

    name: str
    loader: TensorLoader
    coords: tuple[Coordinate, ...]
    offsets: tuple[int, ...]
    mode: str


def _at_once(strand: Strand, instr: Instr, scalars: list[Value], coords: list[int], mode: str, pair: bool) -> bool:
    """One thread of each CTA copies into its CTA's own memory: all CTAs as one. False where it is not so.

    Args:
        strand, instr: who copies, and where in the text.
        scalars: destination, barrier, address of the tensor map, and offsets.
        coords, mode, pair: registers of the coordinates, the mode, and whether a pair's barrier is signalled.
    """
    cohort = strand.cohort
    thread = strand.active
    if thread is None:
        return False
    if plain(scalars):  # the usual case: no CTA has a neighbour
        where, signal, address, *shift = scalars
        if cohort.cluster_size > 1 or where > OFFSET or signal > OFFSET:
            return False
        issued = Issued(*tensor_at(cohort, address), coords, tuple(shift), mode)
        _copy_own(strand, instr, thread, issued, (where, signal))
        return True
    rest = scalars[2:]
    if not plain(rest):
        return False
    issued = Issued(*tensor_at(cohort, rest[0]), coords, tuple(rest[1:]), mode)
    if cohort.unobserved_deferral is not None:
        return defer_in_clusters(strand, issued, scalars[0], scalars[1], pair)
    own = own_places(strand, scalars[0], scalars[1])
    if own is not None:
        _copy_own(strand, instr, thread, issued, own)
    return own is not None


def _copy_own(strand: Strand, instr: Instr, thread: tuple[int, int], issued: Issued, own: tuple[int, int]) -> None:
    """A copy into each CTA's own memory, to a place and with a barrier that are those of all."""
    picked = (strand.regs[slot] for slot in issued.coords)
    at = tuple([c if type(c) is int else strand.pick(c, thread) for c in picked])
    group = IssueGroup(thread, (), None, strand.rows, strand.row_count)
    box = TensorBox(issued.name, issued.loader, at, issued.offsets, issued.mode)
    perform_load(strand, instr, group, _load, box, CopyTarget(*own, strand.rows, 1, strand.rows))


@op("cp.async.bulk.tensor.load", traits=BLIND, result=False)
def tensor_load(instr: Instr, table: SlotTable) -> Run:
    """[dst], [map, {coords}], [mbar] {, info} {, mask}: copy, then complete_tx of the bytes on the mbarrier."""
    slots = instr.slots
    args = instr.args
    mode = MODES[slots.get("mode")]
    destination = address_of(args["dst"], table)
    barrier_at = address_of(args["mbar"], table)
    tensor_map, coords = tensor_slots(args["map"], table)
    offsets = [] if args.get("info") is None else table.slots(args["info"], 16)
    mask = [table.slot(args["mask"], 16)] if slots.get("multicast") else []
    local = slots["dst"] == "shared::cta"
    pair = slots.get("cta_group") == "cta_group::2"

    def run(strand: Strand) -> None:
        cohort = strand.cohort
        regs = strand.regs
        cohort.core.seal()
        scalars = [destination(regs), barrier_at(regs), regs[tensor_map], *[regs[slot] for slot in offsets]]
        if not mask and _at_once(strand, instr, scalars, coords, mode, pair):
            return
        groups = list(issue_groups(strand, scalars + [regs[slot] for slot in mask]))
        for group in groups:
            where, signal, address, *shift = group.values
            ranks = shift.pop() if mask else None
            if local and not pair:
                target = own_target(cohort, group.rows, where, signal)
            else:
                target = copy_target(cohort, group.rows, where, signal, ranks, pair)
            name, loader = tensor_at(cohort, address)
            at = tuple(target.spread(group.pick(strand, regs[slot])) for slot in coords)
            box = TensorBox(name, loader, at, tuple(shift), mode)
            perform_load(strand, instr, group, _load, box, target)

    return run


def tensor_slots(operand: Operand | None, table: SlotTable) -> tuple[int, list[int]]:
    """Slots of the map's address and of the coordinates of ``[map, {coords}]``."""
    tensor = expect(operand, TensorAddress)
    return table.slot(tensor.map), table.slots(tensor.coords, 32)


def _load(strand: Strand, instr: Instr, group: IssueGroup, box: TensorBox, target: CopyTarget) -> None:
    """One copy into every destination, its complete_tx, and the books."""
    cohort = strand.cohort
    where = target.address
    if cohort.lazy is not None and target.rows is target.signals:
        count = cohort.ctas if target.rows is None else len(target.rows)
        limit = cohort.shared.padded
        deferred = region(box.loader, limit, where, box.coords, box.offsets, box.mode, count)
        if deferred is not None:
            deferred.rows = target.rows
            cohort.lazy.load(box.name, deferred)
            note_load(cohort, box.name, target.barrier, deferred, Signals(target.rows))
            _tell(strand, instr, group, box, target, deferred.result)
            return
    result = box.loader.load(cohort.shared.bytes, where, box.coords, box.offsets, target.rows, box.mode)
    for low, high in result.written:
        cohort.shared.written.mark(slice(where + low, where + high), target.rows)
    complete(cohort, target, result.bytes, "cp.async.bulk.tensor")
    _tell(strand, instr, group, box, target, result)
    count = cohort.ctas if target.rows is None else len(target.rows)
    copies_of(cohort.counters.tma_loads, box.name).add(count, result.bytes, result.filled)


def _tell(
    strand: Strand, instr: Instr, group: IssueGroup, box: TensorBox, target: CopyTarget, result: LoadResult
) -> None:
    if strand.cohort.observer is not None:
        memory = tensor_reach(box.loader, box.name, "ld", box.coords, box.offsets, box.mode, target.repeat)
        writes = places(target.address, result.written)
        swizzle = box.loader.tmap.swizzle
        notify_copy(strand, instr, group, target, writes=writes, memory=memory, swizzle=swizzle)


@op("cp.async.bulk.prefetch.tensor", "cp.async.bulk.prefetch", traits=ORDINARY, result=False)
def prefetch(instr: Instr, table: SlotTable) -> Run:
    """Prefetches into L2: no effect that the simulator computes."""
    return lambda strand: None


def _bytes_at(launch: Launch, address: int) -> bytes:
    """The 128 bytes at a generic address in parameter space, constant or global memory."""
    fixed = {PARAM_WINDOW: launch.params, CONST_WINDOW: launch.program.constants}
    window = address >> WINDOW_SHIFT << WINDOW_SHIFT
    if window in fixed:
        room = fixed[window]
        start = address - window
    else:
        buffer = launch.memory.at(address)
        room = np.empty(0, np.uint8) if buffer is None else buffer.data[: buffer.size]
        start = 0 if buffer is None else address - buffer.base
    if address % 64 or start + SIZE > room.size:
        raise MachineFault(
            f"address {address:#x} does not hold a tensor map",
            hint="pass the address of a 128-byte .param that the launch file describes as a tensor map, or of a "
            "tensor map in global or constant memory (64-byte aligned) that a driver or tensormap.replace wrote",
        )
    return room[start : start + SIZE].tobytes()


def tensor_at(cohort: Cohort, address: int) -> tuple[str, TensorLoader]:
    """The tensor whose map is at a generic address: in parameter space, or made by the kernel in memory."""
    launch = cohort.launch
    found = launch.tensor_maps.get(address - PARAM_WINDOW)
    if found is not None:
        return found
    raw = _bytes_at(launch, address)
    found = launch.tensor_maps.get(raw)
    if found is None:
        tmap, home = map_at(raw, launch.memory, address)
        try:
            check(tmap, home.size, f"the tensor map at global address {address:#x}")
        except LaunchError as error:
            raise MachineFault(error.message, where=error.where, hint=error.hint) from None
        found = launch.tensor_maps[raw] = (home.name, TensorLoader(tmap, home.data))
    return found


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
        done: set[tuple[object, ...]] = set()
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
