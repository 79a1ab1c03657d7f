"""Tensor copies from shared to global memory: cp.async.bulk.tensor, cp.reduce.async.bulk.tensor (PTX manual).

Where lanes of a warp copy a tile each, all of these tiles are one copy, unless their writers are asked for.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from convc.errors import MachineFault
from convc.machine.base.completion import PartialWork, named
from convc.machine.isa.copies.issue import IssueGroup, issue_groups, own_address
from convc.machine.isa.copies.lines import all_of, tensor_reach
from convc.machine.isa.copies.perform import check_written, note_writer, once, perform_store, places
from convc.machine.isa.copies.tensor_copies import MODES, TensorBox, tensor_at, tensor_slots
from convc.machine.isa.observe import notify_copies, notify_copy
from convc.machine.isa.operands import address_of
from convc.machine.isa.registry import BLIND, ORDINARY, Run, op
from convc.machine.memory.shared_memory import same_rows
from convc.machine.state.cohort import Cohort
from convc.machine.state.counters import copies_of
from convc.machine.state.replay import Event
from convc.machine.state.slots import SlotTable
from convc.machine.state.strand import Strand
from convc.machine.tma.aim import Moves
from convc.machine.tma.cache import Coordinate
from convc.machine.tma.store import joinable, span, store
from convc.ptx import Instr

_Tile = tuple[IssueGroup, TensorBox, int]
"""What threads store, and its shared address."""


@op("cp.async.bulk.tensor.store", traits=BLIND, result=False)
@op("cp.reduce.async.bulk.tensor", traits=ORDINARY, result=False)
def tensor_store(instr: Instr, table: SlotTable) -> Run:
    """[map, {coords}], [src]: write the box, or combine it with what is there; completes in the thread's bulk group."""
    slots = instr.slots
    args = instr.args
    mode = MODES[slots.get("mode")]
    operation = slots.get("op")
    source = address_of(args["src"], table)
    tensor_map, coords = tensor_slots(args["map"], table)

    def run(strand: Strand) -> None:
        cohort = strand.cohort
        regs = strand.regs
        cohort.core.seal()
        groups = list(issue_groups(strand, [source(regs), regs[tensor_map]]))
        several = operation is None and len(groups) > 1
        if several and cohort.pending.eager and _together(strand, instr, groups, coords, mode):
            for group in groups:
                cohort.bulk_groups.issue(_thread(strand, group), group.rows, instr)
            return
        tiles: list[_Tile] = []
        for group in groups:
            where = own_address(cohort, group.rows, group.values[0], "the source of a tensor copy")
            name, loader = tensor_at(cohort, group.values[1])
            at = tuple(group.pick(strand, regs[c]) for c in coords)
            box = TensorBox(name, loader, at, (), mode)
            if several and not cohort.pending.eager:
                tiles.append((group, box, where))
            else:
                perform_store(strand, instr, group, _store, box, where, operation)
        if tiles:
            _defer(strand, instr, tiles, coords)

    if operation is not None:
        return run
    return once(run, lambda strand: [source(strand.regs), *(strand.regs[slot] for slot in (tensor_map, *coords))])


@dataclass(frozen=True, slots=True)
class _Stored(Event):
    """A tile that threads have staged in shared memory was copied to a tensor.

    Attributes:
        map: address of the tensor map.
        coords, mode: as for `TensorBox`.
        where: shared address of the tile, of each CTA where they differ. span: as of `span`, of all tiles.
        rows: of the CTAs; None for all.
        moves: as of `StoreResult`.
    """

    map: int
    coords: tuple[Coordinate, ...]
    mode: str
    where: int | np.ndarray
    span: tuple[int, int]
    rows: np.ndarray | None
    moves: Moves | None

    def replay(self, cohort: Cohort) -> bool:
        """Copy the tile of another cohort."""
        launch = cohort.launch
        name, loader = tensor_at(cohort, self.map)
        launch.about_to_change(name)
        room = cohort.shared.part(*self.span)
        if self.moves is not None:
            self.moves.again(room, loader.memory)
        else:
            store(loader, room, self.where, self.coords, self.rows, self.mode, None, launch.switches)
        launch.contents_changed(name)
        return True


def _thread(strand: Strand, group: IssueGroup) -> tuple[int, int]:
    """Warp number and lane of the thread that issues a copy."""
    warp, lane = group.thread
    return int(strand.warps[warp]), lane


def _defer(strand: Strand, instr: Instr, tiles: list[_Tile], coords: list[int]) -> None:
    """Let tiles of several threads wait: those that end to wait at once are copied as one."""
    cohort = strand.cohort
    issued = strand.frozen()

    def perform(numbers: Sequence[int]) -> None:
        groups = [tiles[number][0] for number in numbers]
        if len(groups) > 1 and _together(issued, instr, groups, coords, tiles[0][1].mode):
            return
        for number in numbers:
            named(instr, functools.partial(_store, issued, instr, *tiles[number], None))()

    for number, (group, _, _) in enumerate(tiles):
        thread = _thread(strand, group)
        cohort.pending.store(thread, cohort.bulk_groups.issue(thread, group.rows, instr), PartialWork(perform, number))


def _together(strand: Strand, instr: Instr, groups: list[IssueGroup], coords: list[int], mode: str) -> bool:
    """Copy the tiles of several threads as one; False, and no tile is copied, where these are not plain."""
    cohort = strand.cohort
    launch = cohort.launch
    first = groups[0]
    alike = all(g.values[1] == first.values[1] and same_rows(g.rows, first.rows) for g in groups)
    if not alike or cohort.lazy is None or launch.memory.watch is not None:
        return False
    # With "lowest" `store` writes chunks backwards; those of a thread still come after those of threads before it.
    turn = slice(None, None, -1 if launch.switches.colliding_stores == "lowest" else 1)
    try:
        name, loader = tensor_at(cohort, first.values[1])
        tiles = [own_address(cohort, g.rows, g.values[0], "the source of a tensor copy") for g in groups]
        if not joinable(loader, tiles, mode, cohort.shared.padded):
            return False
        spans = _joined([span(loader, where, mode, cohort.shared.padded) for where in tiles])
        launch.about_to_change(name)
        room = [cohort.shared.staging(low, high, first.rows) for low, high in spans][-1]
        at = tuple(_of_all(strand, groups[turn], slot) for slot in coords)
        rows = np.tile(cohort.rows_or_all(first.rows), len(groups))
        where = np.repeat(np.array(tiles[turn]), first.count)
        result = store(loader, room, where, at, rows, mode, None, launch.switches)
    except MachineFault:  # those who copy one by one say so
        return False
    whole = spans[0][0], spans[-1][1]
    if cohort.lazy.record is not None:
        cohort.lazy.record.events.append(_Stored(first.values[1], at, mode, where, whole, rows, result.moves))
    launch.contents_changed(name)
    if not all(cohort.shared.written.whole(low, high) for low, high in spans):
        for own, group in zip(tiles, groups, strict=True):
            check_written(cohort, instr, own, result.read, group.rows)
    if cohort.observer is not None:
        in_turn = tuple(_of_all(strand, groups, slot) for slot in coords)
        memory = all_of(tensor_reach(loader, name, "st", in_turn, None, mode), len(in_turn[0]))
        notify_copies(strand, instr, groups, [places(own, result.read) for own in tiles], memory)
    copies_of(cohort.counters.tma_stores, name).add(first.count * len(groups), result.bytes)
    return True


def _of_all(strand: Strand, groups: list[IssueGroup], slot: int) -> np.ndarray:
    """A coordinate of all CTAs of all groups, int64."""
    found = np.empty((len(groups), groups[0].count), np.int64)  # as many in each: their CTAs are the same
    value = strand.regs[slot]
    for own, group in zip(found, groups, strict=True):
        own[:] = group.pick(strand, value)
    return found.reshape(-1)


def _joined(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges of addresses in order, those that follow one another as one."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(spans):
        if found and found[-1][1] == low:
            found[-1] = found[-1][0], high
        else:
            found.append((low, high))
    return found


def _store(strand: Strand, instr: Instr, group: IssueGroup, box: TensorBox, where: int, operation: str | None) -> None:
    """One copy out of the shared memory of the group's CTAs, and the books."""
    cohort = strand.cohort
    launch = cohort.launch
    name = box.name
    launch.about_to_change(name)
    low, high = span(box.loader, where, box.mode, cohort.shared.padded)
    room = cohort.shared.staging(low, high, group.rows)
    result = store(box.loader, room, where, box.coords, group.rows, box.mode, operation, launch.switches)
    if cohort.lazy is not None and cohort.lazy.record is not None:
        stored = _Stored(group.values[1], box.coords, box.mode, where, (low, high), group.rows, result.moves)
        cohort.lazy.record.events.append(stored)
    launch.contents_changed(name)
    check_written(cohort, instr, where, result.read, group.rows)
    if cohort.observer is not None:
        kind = "st" if operation is None else "atom"
        memory = tensor_reach(box.loader, name, kind, box.coords, None, box.mode)
        notify_copy(strand, instr, group, None, reads=places(where, result.read), memory=memory)
    watch = launch.memory.watch
    if watch is not None:
        for position in result.hits(watch - launch.memory.by_name[name].base).tolist():
            note_writer(strand, instr, group, position)
    copies_of(cohort.counters.tma_stores, name).add(group.count, result.bytes)
