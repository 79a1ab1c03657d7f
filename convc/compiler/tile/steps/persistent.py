"""Steps of a CTA that makes several tiles of the output, one after the other."""

from __future__ import annotations

from dataclasses import dataclass

from convc.compiler.plan.names import RingName
from convc.compiler.tile.steps.base import Signal, Step, Strided


@dataclass(frozen=True, slots=True, kw_only=True)
class TileLoop(Strided):
    """Do `body` for the tiles of a CTA."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release(Signal):
    """Every thread of the role arrives at the ring's barrier, when it has read what it wants of tensor memory."""

    def describe(self) -> str:
        return f"every thread signals {self.ring}, its reads done"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseLast(Step):
    """Every warp gives back the last stage of a ring that it has multiplied for a tile, all of its MMAs waited for.

    `ring`: whose stages are otherwise given back one stage later (`convc.compiler.tile.steps.base.WarpCommit`).
    """

    ring: RingName

    def describe(self) -> str:
        return f"every warp signals the last stage of {self.ring}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoresRead(Step):
    """Wait until the copies of this warp have read their tiles in shared memory, so that its lanes may write again."""

    def describe(self) -> str:
        return "wait until the copies have read their tiles"


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleSync(Step):
    """All threads of the role meet; `threads` is how many these are."""

    threads: int

    def describe(self) -> str:
        return f"{self.threads} threads meet"
