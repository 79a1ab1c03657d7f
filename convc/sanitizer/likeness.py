"""Clusters that do otherwise than the first of their cohort, which alone is watched lane by lane.

Clusters run together, and what is the same in all of them stands once in registers. Where they part at a branch, or an
address, a descriptor or a guard differs between them, each warp gets a digest of what it executed: the instructions, in
order, with the places in shared and tensor memory, the barriers and the lanes. Two clusters with the same digests do
alike, whatever their data. Where threads of a cluster meet in global memory their places there count as well, in each
buffer from the cluster's first one on. A cluster like which none was watched is run again, alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from convc.machine.isa.all import forms_with
from convc.machine.isa.registry import Traits
from convc.machine.state.observed import ObservedCohort, ObservedStrand
from convc.machine.state.observer import Observer
from convc.ptx import Instr
from convc.ptx.syntax import Address, Operand, Reg

POLLING = forms_with(Traits.POLLING)
WHOLE_WARPS = forms_with(Traits.WHOLE_WARPS)
BARRIERS = forms_with(Traits.BARRIER)

WINDOW = 32
"""Upper bits of an address: 0 in shared and tensor memory."""

GENERIC_SHARED = 0x7C << 24
"""Those of a generic address in shared memory."""

DESCRIPTORS = ("a", "b", "idesc", "sdesc", "a_desc", "b_desc")
"""Operands of the tensor core that say where matrices are."""

NOWHERE = np.iinfo(np.int64).max
"""Where a cluster that has not come to a buffer was first."""

PRIME = 0x9E3779B97F4A7C15
MASK = (1 << 64) - 1
WEIGHTS = np.random.default_rng(1).integers(1, 1 << 63, 32, np.uint64) * np.uint64(2) + np.uint64(1)


class AddressRegisters(NamedTuple):
    """Registers of an instruction that say where it acts: addresses, and words that are taken as they are."""

    addresses: tuple[int, ...]
    words: tuple[int, ...]


class Likeness(Observer):
    """Tells of the clusters that are to be looked at besides those that are watched.

    Attributes:
        others: number of the first CTA of a cluster of each kind, by its digests; the second kind has those of its
            places in global memory, too.
        known: digests of those that were watched.
    """

    wants = frozenset[str]()

    def __init__(self) -> None:
        self.others: tuple[dict[bytes, int], dict[bytes, int]] = ({}, {})
        self.known: set[bytes] = set()
        self.plans: list[AddressRegisters] = []

    def begin(self, cohort: ObservedCohort) -> None:
        """Nothing was done yet."""
        self.cohort = cohort
        if not self.plans:
            self.plans = [_places(instr) for instr in cohort.launch.program.kernel.body]
        warps = -(-int(np.prod(cohort.launch.block)) // 32)
        self.digest = np.zeros((cohort.ctas, warps), np.uint64)
        self.reached = np.zeros((cohort.ctas, warps), np.uint64)
        self.first: dict[str, np.ndarray] = {}
        self.open: dict[int, _Part] = {}
        self.last: dict[int, int] = {}

    def step(self, strand: ObservedStrand, instr: Instr) -> None:
        """Note an instruction that not all CTAs execute, or not all alike."""
        plan = self.plans[instr.index]
        differs = strand.mask is not None and len(strand.mask) > 1
        if strand.rows is None and not differs and not self._varies(strand, instr, plan):
            return
        if instr.form.name in POLLING:
            return
        again = self.last.get(id(strand)) == instr.index
        self.last[id(strand)] = instr.index
        if again and instr.form.name in WHOLE_WARPS:
            return  # it has blocked, and is tried again
        if not differs and not plan.addresses and not plan.words:
            self._count(strand, instr)
            return
        self._close(id(strand))
        lanes = self._lanes(strand, instr)
        code = lanes @ WEIGHTS + np.uint64(instr.index + 1)
        for values in self._values(strand, plan):
            own = np.asarray(values).astype(np.uint64) + np.uint64(1)
            code = code * np.uint64(PRIME) + np.where(lanes, own, 0) @ WEIGHTS
        rows = np.arange(self.cohort.ctas) if strand.rows is None else strand.rows
        here = np.ix_(rows, strand.warps)
        self.digest[here] = self.digest[here] * np.uint64(PRIME) + code

    def global_access(
        self,
        strand: ObservedStrand,
        instr: Instr,
        kind: str,
        buffer: str,
        offset: int | np.ndarray,
        size: int,
        mask: np.ndarray | None,
    ) -> None:
        """Note the places in global memory of all CTAs, from where their cluster first came to that buffer."""
        rows = np.arange(self.cohort.ctas) if strand.rows is None else strand.rows
        shape = (len(rows), len(strand.warps), 32)
        active = np.broadcast_to(np.True_ if mask is None else mask, shape)
        starts = np.broadcast_to(np.asarray(offset, np.int64), shape)
        cluster = rows // self.cohort.watched
        first = self.first.setdefault(buffer, np.full(self.cohort.ctas // self.cohort.watched, NOWHERE))
        fresh = first[cluster] == NOWHERE
        if fresh.any():
            lowest = np.where(active[fresh], starts[fresh], NOWHERE).min(axis=(1, 2))
            np.minimum.at(first, cluster[fresh], lowest)
        apart = np.where(active, starts - first[cluster][:, None, None] + 1, 0)
        here = np.ix_(rows, strand.warps)
        code = apart.astype(np.uint64) @ WEIGHTS + np.uint64(instr.index + 1)
        self.reached[here] = self.reached[here] * np.uint64(PRIME) + code

    def end(self, cohort: ObservedCohort) -> None:
        """Compare the clusters of a cohort: the first of them was watched."""
        for key in list(self.open):
            self._close(key)
        size = cohort.watched
        for kinds, tables in zip(self.others, ((self.digest,), (self.digest, self.reached)), strict=True):
            clusters = np.stack([table.reshape(cohort.ctas // size, -1) for table in tables], axis=1)
            self.known.add(clusters[0].tobytes())
            if (clusters != clusters[0]).any():
                for index, cluster in enumerate(clusters):
                    kinds.setdefault(cluster.tobytes(), _first_cta(cohort, index * size))

    def unwatched(self, inside: bool) -> list[int]:
        """First CTAs, counted cluster by cluster, of clusters of kinds that were not watched.

        ``inside``: threads of a cluster meet in global memory.
        """
        return sorted(first for kind, first in self.others[inside].items() if kind not in self.known)

    def _count(self, strand: ObservedStrand, instr: Instr) -> None:
        """An instruction that some CTAs execute, and that acts nowhere: noted for all of them when they part."""
        part = self.open.get(id(strand))
        if part is None or part.rows is not strand.rows or part.warps is not strand.warps:
            self._close(id(strand))
            assert strand.rows is not None, "some CTAs only"
            part = self.open[id(strand)] = _Part(strand, strand.rows, strand.warps)
        lanes = 0 if strand.mask is None else hash(strand.mask.tobytes())
        part.power = part.power * PRIME & MASK
        part.code = part.code * PRIME + instr.index + 1 + lanes & MASK

    def _close(self, key: int) -> None:
        """Note what a strand has executed since it was the same CTAs and warps."""
        part = self.open.pop(key, None)
        if part is not None:
            here = np.ix_(part.rows, part.warps)
            self.digest[here] = self.digest[here] * np.uint64(part.power) + np.uint64(part.code)

    def _values(self, strand: ObservedStrand, plan: AddressRegisters) -> list[int | np.ndarray]:
        """Where an instruction acts: each address in shared and tensor memory, and each word; 0 for others."""
        found: list[int | np.ndarray] = [strand.regs[slot] for slot in plan.words]
        for slot in plan.addresses:
            value = strand.regs[slot]
            if isinstance(value, np.ndarray) and value.itemsize == 8:
                top = value >> np.uint64(WINDOW)
                value = np.where((top == 0) | (top == GENERIC_SHARED), value, 0)
            elif not isinstance(value, np.ndarray) and value >> WINDOW not in (0, GENERIC_SHARED):
                value = 0
            found.append(value)
        return found

    def _varies(self, strand: ObservedStrand, instr: Instr, plan: AddressRegisters) -> bool:
        """Whether clusters that go on together act at different places of their memories, or in different lanes."""
        slots = (*plan.addresses, *plan.words)
        guard = () if instr.guard is None or not slots else (instr.guard.slot,)
        if not any(isinstance(value := strand.regs[slot], np.ndarray) and len(value) > 1 for slot in (*slots, *guard)):
            return False
        for value in (*self._values(strand, plan), *(strand.regs[slot] for slot in guard)):
            if isinstance(value, np.ndarray) and len(value) > 1:
                by_cluster = value.reshape(-1, self.cohort.watched, *value.shape[1:])
                if (by_cluster != by_cluster[:1]).any():
                    return True
        return False

    def _lanes(self, strand: ObservedStrand, instr: Instr) -> np.ndarray:
        """bool (rows, warps, 32): who executes."""
        shape = (strand.row_count, len(strand.warps), 32)
        active = np.broadcast_to(np.True_ if strand.mask is None else strand.mask, shape)
        if instr.guard is None or not (self.plans[instr.index].addresses or self.plans[instr.index].words):
            return active
        value = np.broadcast_to(np.asarray(strand.regs[instr.guard.slot], bool), shape)
        return active & (value != instr.guard.negate)


class _Part:
    """What some CTAs have executed alike: the digest of it, and the power of the prime by which earlier ones move on.

    The strand is kept, so that no other has its identity.
    """

    __slots__ = ("code", "power", "rows", "strand", "warps")

    def __init__(self, strand: ObservedStrand, rows: np.ndarray, warps: np.ndarray) -> None:
        self.strand = strand
        self.rows = rows
        self.warps = warps
        self.code = 0
        self.power = 1


def _places(instr: Instr) -> AddressRegisters:
    """The registers that say where an instruction acts in shared and tensor memory, or on which barriers."""
    if instr.slots.get("space") in ("global", "local", "const", "param"):
        return AddressRegisters((), ())
    addresses = tuple(slot for operand in instr.operands for slot in _base(operand))
    names: tuple[str, ...] = ()
    if instr.form.opcode in ("tcgen05", "wgmma"):
        names = DESCRIPTORS
    if instr.slots.get("multicast"):
        names = ("mask",)
    words = tuple(arg.slot for name in names if isinstance(arg := instr.args.get(name), Reg))
    if instr.form.name in BARRIERS:
        words = tuple(operand.slot for operand in instr.operands if isinstance(operand, Reg))
    return AddressRegisters(addresses, words)


def _base(operand: Operand) -> tuple[int, ...]:
    return (operand.base.slot,) if isinstance(operand, Address) and isinstance(operand.base, Reg) else ()


def _first_cta(cohort: ObservedCohort, row: int) -> int:
    """The number of the CTA in a row, the first of its cluster, where they are counted cluster by cluster."""
    x, y, z = (int(axis[row]) for axis in cohort.place.clusterid)
    across, down, _ = (ctas // size for ctas, size in zip(cohort.launch.grid, cohort.launch.cluster, strict=True))
    return (x + across * (y + down * z)) * cohort.watched
