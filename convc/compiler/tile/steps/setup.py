"""Steps of the set-up and the end of a kernel: barriers, tensor memory, registers, and the meetings of its threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from convc.compiler.plan.names import MapName, RingName
from convc.compiler.plan.storage import BARRIER_BYTES
from convc.compiler.tile.steps.base import Step
from convc.compiler.tile.steps.spelling import Names, RoleContext

WARP_LANES = 32


class PrefetchMaps(Step, frozen=True, kw_only=True):
    """Bring the tensor maps named in `maps` close to the copy engine; changes nothing."""

    maps: tuple[MapName, ...]

    def describe(self) -> str:
        return f"prefetch {', '.join(self.maps)}"


class InitRings(Step, frozen=True, kw_only=True):
    """Give every barrier of the rings its arrival count, and make that visible to the asynchronous engines.

    `lanes`: a barrier each, so the whole warp takes part; else one thread makes all.
    """

    rings: tuple[RingName, ...]
    lanes: bool = False

    def describe(self) -> str:
        return f"make ready {', '.join(self.rings)}{', each by another lane' if self.lanes else ''}"

    def spelling(self, context: RoleContext) -> Names:
        barriers = [
            _Barrier(offset=ring.offset + BARRIER_BYTES * index, arrivals=ring.arrivals, ring=ring.name, stage=index)
            for ring in (context.storage.ring(name) for name in self.rings)
            for index in range(ring.stages)
        ]
        return {
            "lanes": self.lanes,
            "groups": list(_by_lanes(sorted(barriers))) if self.lanes else [],
            "barriers": [(one.offset, one.arrivals, f"{one.ring}[{one.stage}]") for one in barriers],
            "size": BARRIER_BYTES,
        }


class TmemAlloc(Step, frozen=True, kw_only=True):
    """Allocate tensor memory; its address goes to the slot in shared memory. The whole warp takes part."""

    columns: int

    def describe(self) -> str:
        return f"allocate {self.columns} columns of tensor memory"

    def spelling(self, context: RoleContext) -> Names:
        return {"slot_offset": context.storage.slot_offset, "columns": self.columns, "group": context.pair}


class TmemBase(Step, frozen=True, kw_only=True):
    """Every thread reads the address of the allocation from the slot."""

    def describe(self) -> str:
        return "read the address of the tensor memory"

    def spelling(self, context: RoleContext) -> Names:
        return {"slot_offset": context.storage.slot_offset}


class TmemDealloc(Step, frozen=True, kw_only=True):
    """Give the tensor memory back. The whole warp takes part."""

    columns: int

    def describe(self) -> str:
        return f"free {self.columns} columns of tensor memory"

    def spelling(self, context: RoleContext) -> Names:
        return {"columns": self.columns, "group": context.pair}


class CtaSync(Step, frozen=True, kw_only=True):
    """All threads of the CTA meet; tensor-memory work before it is ordered before that after it."""

    def describe(self) -> str:
        return "all threads meet"

    def spelling(self, context: RoleContext) -> Names:
        return {"fence": context.storage.tmem_columns > 0}


class StartArrive(Step, frozen=True, kw_only=True):
    """Tell those who meet at `StartSync`, `threads` with this role's, what was done here, and go on without them."""

    threads: int

    def describe(self) -> str:
        return "tell the others, and go on"


class StartSync(Step, frozen=True, kw_only=True):
    """Wait for all others of `threads` that meet here or tell by `StartArrive`; tensor-memory work is ordered by it."""

    threads: int

    def describe(self) -> str:
        return "wait for the others"


class SetRegisters(Step, frozen=True, kw_only=True):
    """Each thread has `count` registers from here on: `more` than before, for which it waits, or fewer.

    All warps of a warpgroup take part (PTX, ``setmaxnreg``).
    """

    count: int
    more: bool

    def describe(self) -> str:
        return f"take registers, up to {self.count} a thread" if self.more else f"keep {self.count} registers a thread"

    def spelling(self, context: RoleContext) -> Names:
        return {"action": "inc" if self.more else "dec", "count": self.count}


class ClusterSync(Step, frozen=True, kw_only=True):
    """All threads of the CTAs of a cluster meet; what each did before is seen by all after it.

    `started`: of what was done before, they need the barriers alone, which a fence of their own makes visible
    (`InitRings`). An arrival that releases all memory takes long (``MEMBAR.ALL.GPU``).
    """

    started: bool = False

    def describe(self) -> str:
        return "all threads of the cluster meet"

    def spelling(self, context: RoleContext) -> Names:
        return {"fence": context.storage.tmem_columns > 0, "started": self.started}


class AwaitGrid(Step, frozen=True, kw_only=True):
    """Wait until the preceding kernel has ended and its results can be read (PTX, ``griddepcontrol.wait``)."""

    def describe(self) -> str:
        return "wait for the preceding kernel"


class ReleaseGrid(Step, frozen=True, kw_only=True):
    """Let the dependent kernel begin its set-up (PTX, ``griddepcontrol.launch_dependents``)."""

    def describe(self) -> str:
        return "let the dependent kernel begin"


class _Barrier(NamedTuple):
    """An mbarrier: its offset in shared memory, the arrivals of a phase, and which of its ring it is."""

    offset: int
    arrivals: int
    ring: str
    stage: int


def _by_lanes(barriers: list[_Barrier]) -> Iterator[tuple[int, int, int, str]]:
    """Barriers that one instruction makes ready, a lane each: offset of the first, how many, arrivals, which they are.

    They lie behind each other and wait for as many arrivals, and the warp has a lane for each.
    """
    run: list[_Barrier] = []
    for barrier in barriers:
        if run and (
            len(run) == WARP_LANES
            or (barrier.offset, barrier.arrivals) != (run[-1].offset + BARRIER_BYTES, run[-1].arrivals)
        ):
            yield run[0].offset, len(run), run[0].arrivals, _ranges(run)
            run = []
        run.append(barrier)
    if run:
        yield run[0].offset, len(run), run[0].arrivals, _ranges(run)


def _ranges(run: list[_Barrier]) -> str:
    """The barriers by their rings, as ``full[0:4], empty[0:4]``: from the first on, the last not included."""
    rings: dict[str, list[int]] = {}
    for barrier in run:
        rings.setdefault(barrier.ring, []).append(barrier.stage)
    return ", ".join(f"{ring}[{indices[0]}:{indices[-1] + 1}]" for ring, indices in rings.items())
