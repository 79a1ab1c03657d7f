"""Names that plans and tile programs give to things: a type for each kind, so that a type checker keeps them apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, NewType


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleName:
    """A schedule and its variant, as users name them; the schedules themselves are in `convc.compiler.schedules`."""

    name: str
    variant: str = ""

    @property
    def title(self) -> str:
        """Both in one, for people."""
        return f"{self.name} {self.variant}".strip()


class LaunchForm(NamedTuple):
    """A schedule, and what its CTAs do together.

    They are persistent or multiply in pairs; several share the K loop of a tile; a cluster of tiles of pixels and of
    channels shares loads.
    """

    schedule: ScheduleName
    persistent: bool
    pairs: bool
    parts: int = 1
    multicast: tuple[int, int] = (1, 1)


Number = NewType("Number", str)
"""An integer that a kernel computes while it runs, a coordinate or a loop counter; also the name of its register."""

RANK = Number("rank")
"""Which CTA of its cluster a CTA is."""

PART = Number("part")
"""Which part of a tile's K loop a CTA has, where several share it."""

PEERS = Number("peers")
"""The CTAs of a cluster that load for a CTA, a bit for each rank."""

NewNumber = NewType("NewNumber", Number)
"""A number that the step makes in which it stands; everywhere else it is read."""

RingName = NewType("RingName", str)
"""A ring of mbarriers (`convc.compiler.plan.storage.BarrierRing`)."""

SmemName = NewType("SmemName", str)
"""A tile in shared memory (`convc.compiler.plan.storage.SmemTile`)."""

TmemName = NewType("TmemName", str)
"""A tile in tensor memory, an accumulator or an operand (`convc.compiler.plan.storage.TmemTile`)."""

Priority = Literal["evict_first", "evict_last"]
"""The order in which L2 gives up lines, as PTX names it (``createpolicy``)."""
EVICT_FIRST: Priority = "evict_first"
EVICT_LAST: Priority = "evict_last"

MapName = NewType("MapName", str)
"""A kernel parameter that is a tensor map."""

PointerName = NewType("PointerName", str)
"""A kernel parameter that points at a buffer in global memory."""

A = SmemName("a")
B = SmemName("b")
"""Tiles of activations and of filter rows in shared memory."""

C = SmemName("c")
"""The tile of results in shared memory, where they leave through tensor copies."""

R = SmemName("r")
"""The tile of the residual in shared memory, where it arrives through tensor copies."""

NUMBERS = SmemName("numbers")
"""What the epilogue adds to each channel and multiplies it with, brought to shared memory ahead of need."""

SUMS = SmemName("sums")
"""Sums of a part of the K loop, which another CTA of the cluster reads."""

ACC = TmemName("acc")
"""The accumulator."""

DONE = RingName("done")
"""The ring that says that the accumulator is complete."""

FULL_R = RingName("full_r")
EMPTY_R = RingName("empty_r")
"""The rings that say that a slab of the residual has landed, and that it has been added."""

DRAINED = RingName("drained")
"""The ring that says that it has been read, where the next tile is multiplied into it, and that this one's masks are
there, if lanes are masked."""

ANSWERS = SmemName("answers")
"""Answers to the requests for tiles whose CTAs have not begun, one a stage."""

ANSWERED = RingName("answered")
HEARD = RingName("heard")
"""The rings that say that an answer has come, and that every role has read it."""
