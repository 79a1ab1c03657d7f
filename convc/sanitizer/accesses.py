"""Accesses and their order: the shadow memory of one cluster, and when two accesses of a place race.

Matrices whose descriptor has another swizzle than the copies that brought them.

The copy engine writes a tile in the order that its tensor map says, the tensor core reads one in the order that its
descriptor says (PTX manual, "Swizzling modes", "Shared memory descriptor"). No sentence makes the two one: data that a
host has laid out so may come without a swizzle and be read with one. So it is a matter for review, and only where the
last writers of all bytes of a matrix are tensor copies, none of which has its swizzle, and these bytes change places.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TypedDict, Unpack

import numpy as np

from convc.ir.findings import Finding, Verdict
from convc.machine.base.swizzle import swizzle
from convc.machine.base.values import fixed
from convc.machine.state.observed import ObservedCohort
from convc.machine.tensor_core.footprints import Operand
from convc.machine.tensor_core.tensor_memory import COLUMNS, LANES
from convc.ptx import Instr
from convc.sanitizer.allocations import Allocations
from convc.sanitizer.causes import TWO_LANES, UNFENCED, cause_of
from convc.sanitizer.clocks import GENERIC, GLOBAL, SHARED, TENSOR, AsyncStream, WarpClocks
from convc.sanitizer.grids import FRONT, Grids
from convc.sanitizer.happens_before import HappensBefore, Home
from convc.sanitizer.lifetimes import Exits
from convc.sanitizer.parts import Cuts, Parts
from convc.sanitizer.shadow import Access, AccessSet, Shadow, Sparse
from convc.sanitizer.sites import COLLECTIVE, finding, region_of, site_of
from convc.sanitizer.strength import Strength, apart
from convc.sanitizer.tcgen05_order import Pipeline, Stream

FENCED = {"shared": SHARED, "global": GLOBAL}
"""The views of what the asynchronous proxy sees of each memory."""

ONE_LANE = tuple([fixed(np.array([lane])) for lane in range(32)])
"""Each lane alone, as the lanes of an access."""

DISORDERED = "; its descriptor has another swizzle"
"""What is to say of a copy that has brought a matrix in another order."""


class AccessFields(TypedDict, total=False):
    """Fields by which an access differs from an ordinary read; the attributes of `Access` say what they mean."""

    component: int
    time: int
    actor: str
    write: bool
    generic: bool
    lane: int | None
    home: int
    stream: Stream | None
    after: Mapping[Stream, int]
    strength: Strength | None
    nth: int
    swizzle: str | None
    operands: tuple[Operand, ...]


class Accesses(HappensBefore):
    """Compares every access with those before it; the first racing pair of instructions is reported.

    `dependent`: buffers that the preceding kernel may still use (`convc.sanitizer.grids`).
    """

    def __init__(self, dependent: Iterable[str] = ()) -> None:
        super().__init__()
        self.dependent = frozenset(dependent)

    def begin(self, cohort: ObservedCohort) -> None:
        """Start afresh for every cohort."""
        super().begin(cohort)
        self.log: list[Access] = []
        self.shadows: dict[tuple[str, int | str], Shadow] = {}
        sizes = {"shared": cohort.shared.padded, "tensor": LANES * COLUMNS}
        self.cuts = {space: Cuts(places, cohort.watched) for space, places in sizes.items()}
        self.counts: dict[tuple[int, ...], int] = {}
        self.actors: dict[tuple[str, int, int], str] = {}
        self.pipelines: dict[int, Pipeline] = {}
        self.exits = Exits(cohort)
        self.allocated: dict[tuple[int, int], int] = {}
        self.allocations = Allocations(cohort)
        self.grids = Grids(cohort, self.dependent, self.component(FRONT))

    def end(self, cohort: ObservedCohort) -> None:
        """Work that an exiting CTA knows nothing of may still touch its memory."""
        for key, late in (
            *self.exits.findings(self.warps),
            *self.allocations.findings(),
            *self.grids.findings(self.allocations.got),
        ):
            self.found.setdefault(key, late)

    def shadow(self, space: str, home: int | str) -> Shadow:
        """The shadow of the shared or tensor memory of a CTA, or of a buffer."""
        found = self.shadows.get((space, home))
        if found is None:
            cuts = self.cuts.get(space)
            found = self.shadows[space, home] = Shadow(Sparse() if cuts is None else Parts(cuts))
        return found

    def entry(
        self, instr: Instr, kind: str, row: int, warp: int, clocks: WarpClocks, **more: Unpack[AccessFields]
    ) -> Access:
        """An entry of the log: by default an ordinary read by a whole warp, now, of its own CTA."""
        more["actor"] = self.actor(more.get("actor", ""), row, warp)
        more.setdefault("component", clocks.component)
        more.setdefault("time", clocks.now)
        more.setdefault("home", row)
        return Access(kind=kind, row=row, warp=warp, instr=instr, **more)

    def actor(self, what: str, row: int, warp: int) -> str:
        """A warp for people, or ``what`` of it acts; with the CTA, where there are several."""
        known = self.actors.get((what, row, warp))
        if known is None:
            of = f"{what} of warp {warp}" if what else f"warp {warp}"
            several = f" of CTA {self.cohort.number(row)}" if self.cohort.watched > 1 else ""
            known = self.actors[what, row, warp] = of + several
        return known

    def nth(self, instr: Instr, *thread: int) -> int:
        """Count how often a warp or a thread has come here, and give the number of times before this one."""
        key = (instr.index, *thread)
        count = self.counts[key] = self.counts.get(key, -1) + 1
        return count

    def access(
        self, space: str, home: int, places: np.ndarray, lanes: np.ndarray, access: Access, clocks: WarpClocks
    ) -> None:
        """Lanes (n,) access places (n, m) of a CTA's memory, or a lane flat ones.

        What reaches outside the storage is left out: the simulator faults on it.
        """
        access_set = self.within(space, home, places, lanes)
        if access_set is not None:
            self.perform(access_set, access, clocks)
            self.visit(access, lanes, clocks)

    def within(self, space: str, home: int, places: np.ndarray, lanes: np.ndarray) -> AccessSet | None:
        """The parts of a CTA's memory that lanes (n,) access; None where they reach outside, or nothing."""
        self.shadow(space, home)  # it has parts of its own from its first access on
        parts = self.cuts[space].find(lanes, places)
        return None if parts is None else AccessSet(space, home, lanes, places, parts[0], parts[1])

    def perform(self, access_set: AccessSet, access: Access, clocks: WarpClocks) -> None:
        """Compare with the last accesses of the places, then become the last access."""
        number = len(self.log)
        self.log.append(access)
        shadow = self.compare(access_set, access, clocks)
        shadow.record(access_set.places, number, access_set.owners, access)

    def compare(self, access_set: AccessSet, access: Access, clocks: WarpClocks) -> Shadow:
        """Report what an access races with; the shadow of the memory that it is in."""
        shadow = self.shadow(access_set.space, access_set.home)
        for index, why in self._races(shadow, access_set, access, clocks):
            copy = self.log[index]
            operand = disordered(shadow, self.log, access, copy) if why == DISORDERED else None
            if operand is not None:
                self.report(mismatch(self.cohort, access, copy, operand))
            else:
                self._report(access_set, index, access, clocks, why)
        return shadow

    def _races(
        self, shadow: Shadow, access_set: AccessSet, access: Access, clocks: WarpClocks
    ) -> Iterator[tuple[int, str]]:
        """Log numbers of what an access races with, and what to do where the two are of one warp."""
        space = access_set.space
        places = access_set.places
        for index in shadow.before(places, access.write):
            first = self.log[index]
            if not _ordered(space, first, access, clocks):
                yield index, ""
            elif (
                clocks.between_lanes(first.component, first.time)
                and not _as_one(first, access)
                and shadow.by_another(places, access_set.owners, index)
            ):
                yield index, TWO_LANES
            elif space == "shared" and _unfenced(first, access, clocks):
                yield index, UNFENCED
            elif access.operands and disordered(shadow, self.log, access, first) is not None:
                yield index, DISORDERED

    def written_in_order(
        self, space: str, home: int, places: np.ndarray, lanes: np.ndarray, access: Access, clocks: WarpClocks
    ) -> bool:
        """Perform the write of a lane to flat places, if it races with nothing; else do nothing."""
        access_set = self.within(space, home, places, lanes)
        if access_set is None:
            return False
        shadow = self.shadow(space, home)
        if any(self._races(shadow, access_set, access, clocks)):
            return False
        shadow.record(access_set.places, len(self.log), access_set.owners, access)
        self.log.append(access)
        self.visit(access, lanes, clocks)
        return True

    def touch(
        self, instr: Instr, row: int, thread: tuple[int, int], barrier: Home, work: AsyncStream | None = None
    ) -> None:
        """A barrier operation comes after the barrier's initialisation."""
        home, address = barrier
        clocks = self.clocks(row, thread[0])
        lanes = ONE_LANE[thread[1]]
        access_set = self.within("shared", home, _object(address), lanes)
        if home == row and access_set is not None:
            earlier = self.shadow("shared", home).before(access_set.places, False)
            if all(_known(self.log[index], work is None, clocks) for index in earlier):
                return
        more: AccessFields = {"home": home, "generic": work is None}
        if work is not None:
            more |= {"component": work.component, "time": work.time, "lane": thread[1]}
        access = self.entry(instr, "mbarrier", row, thread[0], clocks, **more)
        if access_set is not None:
            self.compare(access_set, access, clocks)
        if home != row:
            self.visit(access, lanes, clocks)
            copies = self.barrier(barrier).copies
            if work is not None and work is not copies:
                more |= {"component": copies.component, "time": copies.time}
                self.exits.arrive(self.entry(instr, "mbarrier", row, thread[0], clocks, **more), lanes)

    def visit(self, access: Access, lanes: np.ndarray, clocks: WarpClocks) -> None:
        """An access of a peer's memory comes after the peer's start, and before its exit."""
        own = access.row == access.home
        if not own or access.kind == "copy" or access.stream is not None:
            self.exits.visit(access, lanes)
        if own or self.started(access.row, access.home, clocks):
            return
        peer = self.cohort.number(access.home)
        message = f"{access} accesses the memory of CTA {peer} before that CTA is known to run"
        site = site_of(self.cohort, access, lanes, None)
        key = ("start", access.instr.span.line)
        self.found.setdefault(key, finding(Verdict.error, "peer-not-started", message, site))

    def _report(self, access_set: AccessSet, index: int, second: Access, clocks: WarpClocks, known: str = "") -> None:
        """An error, or a matter for review where ordinary synchronisation orders the two or they are the same store."""
        first = self.log[index]
        space = access_set.space
        lines = (first.instr.span.line, second.instr.span.line)
        key = ("unfenced", *lines) if known == UNFENCED else (space, *lines, first.write, second.write)
        cause = cause_of(space, first, second, clocks, known, self.locations, self.fences.values())
        before = self.found.get(key)
        if before is not None and (cause.verdict is Verdict.review or before.verdict is Verdict.error):
            return
        shadow = self.shadow(space, access_set.home)
        here, lanes = shadow.entries(shadow.tables.number(access_set.by_lane()), index)
        region = region_of(access_set, here, shadow.tables.unit, self.allocated)
        self.found[key] = finding(
            cause.verdict,
            cause.rule,
            f"{second} is not ordered after {first}{cause.why}",
            site_of(self.cohort, second, access_set.lanes[here.any(axis=1)], region),
            site_of(self.cohort, first, lanes, region),
        )


@lru_cache(maxsize=256)
def _object(address: int) -> np.ndarray:
    return fixed(np.arange(address, address + 8))


def _as_one(first: Access, second: Access) -> bool:
    """Whether two accesses of a warp are atomic, or made by all its lanes together."""
    return apart(first.strength, second.strength, True) or first.kind in COLLECTIVE or second.kind in COLLECTIVE


def _known(first: Access, generic: bool, clocks: WarpClocks) -> bool:
    """Whether every lane of a warp knows of an access of shared memory, as a generic operation of its needs or not."""
    view = SHARED if first.generic and first.write and not generic else GENERIC
    return clocks.time(view, first.component) >= first.time and not clocks.between_lanes(first.component, first.time)


def _unfenced(first: Access, second: Access, clocks: WarpClocks) -> bool:
    """Whether an asynchronous write comes after an ordinary read of which the asynchronous proxy has not been told.

    Accesses by different proxies need a proxy fence, a read and the write behind it too (PTX manual, "Proxies");
    CUTLASS has one (``fence_view_async_shared``) before the arrival that lets a copy come again.
    """
    if second.generic or not second.write or first.write or not first.generic or first.kind == "mbarrier":
        return False
    return clocks.time(SHARED, first.component) < first.time


def _ordered(space: str, first: Access, second: Access, clocks: WarpClocks) -> bool:
    """Whether ``first`` happened before ``second``, whose issuer has these clocks, or both may meet."""
    view = GENERIC
    if space == "tensor":
        view = TENSOR
    elif not second.generic and first.generic and first.write:
        view = FENCED[space]
    if clocks.time(view, first.component) >= first.time:
        return True
    if apart(first.strength, second.strength, first.row == second.row):
        return True
    if first.stream is None or first.component != second.component:
        return False
    return first.time == second.time or second.after.get(first.stream, -1) >= first.time


def disordered(shadow: Shadow, log: Sequence[Access], access: Access, copy: Access) -> Operand | None:
    """The matrix of an access that was brought in another order, by such a copy; None where there is none."""
    for operand in access.operands:
        order = operand.descriptor.swizzle
        if copy.swizzle is None or order == copy.swizzle:
            continue
        writers = [log[number] for number in shadow.before(shadow.tables.number(operand.places), False)]
        if copy not in writers or any(writer.swizzle in (None, order) for writer in writers):
            continue
        read = swizzle(order, operand.places, operand.descriptor.base_offset)
        if not np.array_equal(read, swizzle(copy.swizzle, operand.places)):
            return operand
    return None


def mismatch(
    cohort: ObservedCohort, access: Access, copy: Access, operand: Operand
) -> tuple[tuple[str, int, int], Finding]:
    """The finding about a matrix that is read in another order than the one in which a copy has brought it."""
    lines = access.instr.span.line, copy.instr.span.line
    message = (
        f"the descriptor of {operand.name} has swizzle {operand.descriptor.swizzle}, but its bytes were written "
        f"with swizzle {copy.swizzle} of the tensor map ({copy}): elements are permuted unless global memory is "
        "laid out accordingly"
    )
    sites = (site_of(cohort, each, np.array([each.lane or 0]), None) for each in (access, copy))
    return ("swizzle", *lines), finding(Verdict.review, "swizzle-mismatch", message, *sites)
