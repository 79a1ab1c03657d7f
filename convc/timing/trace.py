"""The trace of a kernel, without times: for each warp its instructions in order, and what each of them waits for.

A trace holds phases, not spins: a wait names the phase of the mbarrier that it needs, and a phase the contributions
that complete it. It stays true at any speed as long as control flow does not depend on time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from convc.machine.isa.all import forms_with
from convc.machine.isa.registry import Traits
from convc.timing.accesses import REQUEST, STORED_LINE
from convc.timing.tensor_core import MmaShape

Warp = tuple[int, int]
"""A warp of the recorded cluster: row of its CTA, number in the CTA."""

Phase = tuple[int, int, int]
"""A phase of an mbarrier: row of its CTA, shared address, number of the phase."""

Meeting = tuple[object, ...]
"""A CTA barrier or the cluster's barrier in one of its generations."""

LOADS = forms_with(Traits.MEMORY_LOAD)
TESTS = forms_with(Traits.TRY_WAIT | Traits.TEST_WAIT)

SHIFT = "shift"
"""Kind of a work: tcgen05.shift."""


class Work(msgspec.Struct, kw_only=True, gc=False):
    """Something that goes on while its issuer continues.

    Attributes:
        kind: ``load`` or ``store`` (through TMA), ``mma``, ``cp`` or ``shift``.
        row: the CTA that issues it.
        step, line: of the instruction that issues it.
        bytes: that it moves. filled: of those, how many are not read but filled in.
        requests: of a copy by tensor map (see `convc.timing.accesses.requests`). outside: of those, for rows of which
            nothing is in the tensor.
        mode: of a TMA copy: tile, im2col or bulk.
        mma: shape of an MMA.
        buffer: that a copy reads or writes.
        readers: CTAs of its GPC that read the same at about the same time, itself and on average.
        pair: it works on both SMs of the issuer's pair of CTAs.
        reaches: other CTAs of the cluster whose shared memory a load fills as well, as distances from the issuer's row.
        wrapped: of a shift: ptxas has put a loop over lanes around it (known with ``--sass``).
        everywhere: CTAs of the chip that read the same at about the same time, itself and on average.
        apart: rows in lines of which it reads no other row.
    """

    kind: str
    row: int
    step: str
    line: int
    bytes: int = 0
    filled: int = 0
    requests: int = 0
    outside: int = 0
    mode: str = ""
    mma: MmaShape | None = None
    buffer: str = ""
    readers: float = 1.0
    pair: bool = False
    reaches: tuple[int, ...] = ()
    wrapped: bool = False
    everywhere: float = 1.0
    apart: int = 0

    @property
    def inside(self) -> int:
        """Requests for what is in the tensor."""
        return self.requests - self.outside

    @property
    def taken(self) -> int:
        """Bytes of L2's rate that it takes if no other SM asks for the same.

        Of rows that share lines with others a request takes `REQUEST` of them at least.
        """
        return max((self.inside - self.apart) * REQUEST, self.bytes - self.filled)

    @property
    def in_parts(self) -> bool:
        """Whether its requests are for less than lines."""
        return self.bytes - self.filled < self.inside * STORED_LINE


class Slot(NamedTuple):
    """Cycles and scoreboards of an item in the machine code (`convc.timing.assembler`).

    Attributes:
        stall: cycles until the next instruction of the warp.
        after: the parameter with the cycles until its result is there, or its operands are read; "" where none waits.
        taken: it is a jump that is taken.
        reads: the parameter with the cycles until its operands are read; "" where none waits for that.
    """

    stall: int
    after: str
    taken: bool
    reads: str


class Item(msgspec.Struct, kw_only=True, gc=False):
    """An instruction of a warp.

    Attributes:
        name: of its form, as ``mbarrier.try_wait``.
        step: the mark above it, or "".
        line: in the text, from 1. index: in the kernel's body.
        works: that it issues.
        waits: phase that must be complete before the warp goes on.
        meets, leaves: barrier that it arrives at, or that must be complete before the warp goes on.
        group: it closes the warp's group of copies. left: groups that may be under way when it goes on.
        sectors: of 32 bytes of global memory, whole and in part.
        cached: lines of the SM's cache that a load of global memory needs, as buffer and number.
        wavefronts: of shared memory: cycles of its port. remote: bytes of the shared memory of other CTAs.
        cells: of tensor memory, a lane, that it loads or stores. shape: of that, as ``16x256b``.
        needs: items of the warp, by number, that computed what it reads; ``~number`` where it is enough that the item
            has read its own operands (`Slot.reads`).
        unrolled: it is in a loop that ptxas unrolls.
        repeats: it computes a value that the warp has already (see `convc.timing.values`).
        cycles: that it holds its warp, where they are known; else its class says (see `convc.timing.costs`).
        sass: what the assembler says, where it was asked.
    """

    name: str
    step: str
    line: int
    index: int
    works: list[int] = msgspec.field(default_factory=list)
    waits: Phase | None = None
    meets: Meeting | None = None
    leaves: Meeting | None = None
    group: bool = False
    left: int | None = None
    sectors: tuple[int, int] = (0, 0)
    cached: tuple[tuple[str, int], ...] = ()
    wavefronts: int = 0
    remote: int = 0
    cells: int = 0
    shape: str = ""
    needs: tuple[int, ...] = ()
    unrolled: bool = False
    repeats: bool = False
    cycles: float | None = None
    sass: Slot | None = None

    @property
    def loads(self) -> bool:
        """Whether it loads registers from memory."""
        return self.name in LOADS

    @property
    def tests(self) -> bool:
        """Whether it waits for a phase of an mbarrier, or tests whether one is complete."""
        return self.name in TESTS


@dataclass(frozen=True, slots=True)
class Contribution:
    """An arrival that an mbarrier counts: that of a warp's item, after works that it stands for.

    Attributes:
        warp, item: who arrives, and which of its items; None for a copy, which arrives by itself.
        works: that must be done before.
    """

    warp: Warp | None
    item: int
    works: tuple[int, ...]


@dataclass(slots=True, kw_only=True, eq=False)
class Trace:
    """One cluster's execution; traces are told apart by identity.

    Attributes:
        items: of each warp, in order.
        works: by number.
        phases: contributions of each phase that completed.
        arrivals: at each meeting, the items that arrive.
        ctas: of the cluster.
        prefetches: the kernel fetches its tensor maps before it needs them.
        barriers: what the text calls the mbarrier at an address of a CTA, behind the instruction that makes it.
    """

    items: dict[Warp, list[Item]]
    works: list[Work]
    phases: dict[Phase, list[Contribution]]
    arrivals: dict[Meeting, list[tuple[Warp, int]]]
    ctas: int
    prefetches: bool = False
    barriers: dict[tuple[int, int], str] = field(default_factory=dict[tuple[int, int], str])
