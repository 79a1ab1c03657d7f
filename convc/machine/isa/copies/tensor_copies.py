"""Tensor copies between global and shared memory: cp.async.bulk.tensor, cp.reduce.async.bulk.tensor (PTX manual).

When the data moves (and, for a load, the barrier gets its complete_tx) is up to the completion policy, see `pending`.
L2 cache hints and prefetches change nothing that the machine computes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from convc.errors import LaunchError, MachineFault
from convc.ir.tensormap import check
from convc.machine.base.cluster_ranks import OFFSET
from convc.machine.base.completion import named
from convc.machine.base.findings import Who
from convc.machine.isa.copies.issue import (
    CopyTarget,
    IssueGroup,
    complete,
    copy_target,
    issue_groups,
    own_address,
    own_target,
)
from convc.machine.isa.copies.lines import tensor_reach
from convc.machine.isa.observe import notify_copy
from convc.machine.isa.operands import address_of
from convc.machine.isa.registry import Run, op
from convc.machine.memory.global_memory import PARAM_WINDOW
from convc.machine.state.cohort import Cohort
from convc.machine.state.counters import copies_of
from convc.machine.state.slots import SlotTable
from convc.machine.state.strand import Strand
from convc.machine.tma.load import TensorLoader
from convc.machine.tma.store import store
from convc.machine.tma.tensormap_bytes import SIZE, map_at
from convc.ptx import Instr

MODES = {
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


@op("cp.async.bulk.tensor.load", result=False)
def tensor_load(instr: Instr, table: SlotTable) -> Run:
    """[dst], [map, {coords}], [mbar] {, info} {, mask}: copy, then complete_tx of the bytes on the mbarrier."""
    slots = instr.slots
    args = instr.args
    mode = MODES[slots.get("mode")]
    destination = address_of(args["dst"], table)
    barrier_at = address_of(args["mbar"], table)
    tensor_map = table.slot(args["map"].map)
    coords = [table.slot(c, 32) for c in args["map"].coords.items]
    offsets = [table.slot(o, 16) for o in args["info"].items] if args.get("info") is not None else []
    mask = [table.slot(args["mask"], 16)] if slots.get("multicast") else []
    local = slots["dst"] == "shared::cta"
    pair = slots.get("cta_group") == "cta_group::2"

    def run(strand: Strand) -> None:
        cohort = strand.cohort
        regs = strand.regs
        cohort.core.seal()
        scalars = [destination(regs), barrier_at(regs), regs[tensor_map], *[regs[slot] for slot in offsets]]
        thread = strand.active
        if thread is not None and not mask and all(type(value) is int for value in scalars):
            where, signal, address, *shift = scalars
            # the usual case: one thread, and the CTA's own memory
            if cohort.cluster_size == 1 and where <= OFFSET and signal <= OFFSET:
                name, loader = _tensor(cohort, address)
                at = tuple([c if type(c := regs[slot]) is int else strand.pick(c, thread) for slot in coords])
                target = CopyTarget(where, signal, strand.rows, 1, strand.rows)
                group = IssueGroup(thread, (), None, strand.rows, strand.row_count)
                perform_load(strand, instr, group, _load, loader, name, target, at, tuple(shift), mode)
                return
        for group in issue_groups(strand, scalars + [regs[slot] for slot in mask]):
            where, signal, address, *shift = group.values
            ranks = shift.pop() if mask else None
            if local and not pair:
                target = own_target(cohort, group.rows, where, signal)
            else:
                target = copy_target(cohort, group.rows, where, signal, ranks, pair)
            name, loader = _tensor(cohort, address)
            at = tuple(target.spread(group.pick(strand, regs[slot])) for slot in coords)
            perform_load(strand, instr, group, _load, loader, name, target, at, tuple(shift), mode)

    return run


def perform_load(strand: Strand, instr: Instr, group: IssueGroup, copy: Callable[..., None], *operands) -> None:
    """Perform a copy that completes on an mbarrier, now or when the completion policy says so."""
    if strand.cohort.pending.eager:
        copy(strand, instr, group, *operands)
    else:
        strand.cohort.pending.copy(named(instr, functools.partial(copy, strand.frozen(), instr, group, *operands)))


def perform_store(strand: Strand, instr: Instr, group: IssueGroup, copy: Callable[..., None], *operands) -> None:
    """Perform a copy that completes by bulk_group, now or when the completion policy says so."""
    cohort = strand.cohort
    (warp, lane) = group.thread
    thread = int(strand.warps[warp]), lane
    number = cohort.bulk_groups.issue(thread, group.rows, instr)
    if cohort.pending.eager:
        copy(strand, instr, group, *operands)
    else:
        action = named(instr, functools.partial(copy, strand.frozen(), instr, group, *operands))
        cohort.pending.store(thread, number, action)


def _load(
    strand: Strand,
    instr: Instr,
    group: IssueGroup,
    loader: TensorLoader,
    name: str,
    target: CopyTarget,
    coords: tuple,
    offsets: tuple,
    mode: str,
) -> None:
    """One copy into every destination, its complete_tx, and the books."""
    cohort = strand.cohort
    where = target.address
    result = loader.load(cohort.shared.bytes, where, coords, offsets, target.rows, mode)
    for low, high in result.written:
        cohort.shared.written.mark(slice(where + low, where + high), target.rows)
    complete(cohort, target, result.bytes, "cp.async.bulk.tensor")
    if cohort.observer is not None:
        memory = tensor_reach(loader, name, "ld", coords, offsets, mode, target.repeat)
        notify_copy(strand, instr, group, target, writes=_places(where, result.written), memory=memory)
    count = cohort.ctas if target.rows is None else len(target.rows)
    copies_of(cohort.counters.tma_loads, name).add(count, result.bytes, result.filled)


@op("cp.async.bulk.tensor.store", "cp.reduce.async.bulk.tensor", result=False)
def tensor_store(instr: Instr, table: SlotTable) -> Run:
    """[map, {coords}], [src]: write the box, or combine it with what is there; completes in the thread's bulk group."""
    slots = instr.slots
    args = instr.args
    mode = MODES[slots.get("mode")]
    operation = slots.get("op")
    source = address_of(args["src"], table)
    tensor_map = table.slot(args["map"].map)
    coords = [table.slot(c, 32) for c in args["map"].coords.items]

    def run(strand: Strand) -> None:
        cohort = strand.cohort
        regs = strand.regs
        cohort.core.seal()
        for group in issue_groups(strand, [source(regs), regs[tensor_map]]):
            where = own_address(cohort, group.rows, group.values[0], "the source of a tensor copy")
            name, tensor = _tensor(cohort, group.values[1])
            at = tuple(group.pick(strand, regs[c]) for c in coords)
            perform_store(strand, instr, group, _store, name, tensor, where, at, mode, operation)

    return run


def _store(
    strand: Strand,
    instr: Instr,
    group: IssueGroup,
    name: str,
    tensor: TensorLoader,
    where: int,
    at: tuple,
    mode: str,
    operation,
) -> None:
    """One copy out of the shared memory of the group's CTAs, and the books."""
    cohort = strand.cohort
    memory = strand.cohort.launch.memory
    probe = memory.watch - memory.by_name[name].base if memory.watch is not None else -1
    result = store(tensor, cohort.shared.bytes, where, at, group.rows, mode, operation, probe, cohort.launch.switches)
    contents_changed(cohort, name)
    check_written(cohort, instr, where, result.read, group.rows)
    if cohort.observer is not None:
        memory = tensor_reach(tensor, name, "st" if operation is None else "atom", at, None, mode)
        notify_copy(strand, instr, group, None, reads=_places(where, result.read), memory=memory)
    for hit in result.hits:
        note_writer(strand, instr, group, int(hit))
    copies_of(cohort.counters.tma_stores, name).add(group.count, result.bytes)


@op("cp.async.bulk.prefetch.tensor", "cp.async.bulk.prefetch", result=False)
def prefetch(instr: Instr, table: SlotTable) -> Run:
    """Prefetches into L2: no effect that the machine computes."""
    return lambda strand: None


@op("cp.async.bulk.commit_group", result=False)
def commit_group(instr: Instr, table: SlotTable) -> Run:
    """cp.async.bulk.commit_group: close the thread's group of bulk copies."""
    act = _for_issuers(lambda cohort, thread, rows: cohort.bulk_groups.commit(thread, rows))

    def run(strand: Strand) -> None:
        act(strand)
        if strand.cohort.observer is not None:
            strand.cohort.observer.commit_group(strand, instr)

    return run


@op("cp.async.bulk.wait_group", result=False)
def wait_group(instr: Instr, table: SlotTable) -> Run:
    """cp.async.bulk.wait_group{.read} n: wait until at most n groups are under way."""
    groups = instr.args["n"].value

    def wait(cohort: Cohort, thread: tuple[int, int], rows: np.ndarray | None) -> None:
        cohort.pending.finish_stores(thread, cohort.bulk_groups.wait(thread, rows, groups))

    act = _for_issuers(wait)

    def run(strand: Strand) -> None:
        act(strand)
        if strand.cohort.observer is not None:
            strand.cohort.observer.wait_group(strand, instr, groups)

    return run


def _for_issuers(act):
    """An instruction that matters only to threads that have issued bulk copies."""

    def run(strand: Strand) -> None:
        cohort = strand.cohort
        for warp, lane in strand.threads():
            thread = (int(strand.warps[warp]), lane)
            if cohort.bulk_groups.known(thread):
                if strand.mask is None or strand.mask.shape[0] == 1:
                    act(cohort, thread, strand.rows)
                    continue
                for group in issue_groups(strand, []):
                    if group.thread == (warp, lane):
                        act(cohort, thread, group.rows)

    return run


def check_written(cohort: Cohort, instr: Instr, where: int, ranges: tuple, rows: np.ndarray | None) -> None:
    """A finding where a copy reads shared memory that was never written."""
    missing = sum(
        cohort.shared.written.missing(("copy", where + low, where + high), slice(where + low, where + high), rows)
        for low, high in ranges
    )
    if missing:
        text = f"an asynchronous copy reads {missing} bytes of shared memory never written"
        places = np.concatenate([np.arange(where + low, where + high) for low, high in ranges])
        who = Who(row=cohort.shared.written.lacking(places, rows))
        cohort.findings.report("shared-memory-unwritten", text, instr, who=who)


def note_writer(strand: Strand, instr: Instr, group: IssueGroup, position: int) -> None:
    """Note the thread that wrote the watched byte: that of the CTA at a position of the group."""
    row = position if group.rows is None else int(group.rows[position])
    warp, lane = group.thread
    strand.cohort.launch.memory.writers.append((instr, strand.cohort.number(row), int(strand.warps[warp]), lane))


def _places(where: int, ranges: tuple) -> np.ndarray:
    return np.concatenate([np.arange(where + low, where + high) for low, high in ranges])


def contents_changed(cohort: Cohort, name: str) -> None:
    """Tell the loaders of a buffer that its contents changed."""
    for buffer, loader in cohort.launch.tensor_maps.values():
        if buffer == name:
            loader.invalidate()


def _tensor(cohort: Cohort, address: int) -> tuple[str, TensorLoader]:
    """The tensor whose map is at a generic address: in parameter space, or made by the kernel in memory."""
    launch = cohort.launch
    found = launch.tensor_maps.get(address - PARAM_WINDOW)
    if found is not None:
        return found
    buffer = launch.memory.at(address)
    if buffer is None or address % 64 or address - buffer.base + SIZE > buffer.size:
        raise MachineFault(
            f"address {address:#x} does not hold a tensor map",
            hint="pass the address of a 128-byte .param that the launch file describes as a tensor map, or that of "
            "128 bytes of global memory, 64-byte aligned, that the kernel filled with tensormap.replace",
        )
    raw = buffer.data[address - buffer.base : address - buffer.base + SIZE].tobytes()
    found = launch.tensor_maps.get(raw)
    if found is None:
        tmap, home = map_at(raw, launch.memory, address)
        try:
            check(tmap, home.size, f"the tensor map at global address {address:#x}")
        except LaunchError as error:
            raise MachineFault(error.message, where=error.where, hint=error.hint) from None
        found = launch.tensor_maps[raw] = (home.name, TensorLoader(tmap, home.data))
    return found
