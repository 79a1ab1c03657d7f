"""Steps of a CTA that makes several tiles of the output, one after the other."""

from __future__ import annotations

from convc.compiler.plan.names import Number, RingName, SmemName
from convc.compiler.tile.steps.base import Repeat, Step, Strided
from convc.compiler.tile.steps.rings import Signal
from convc.compiler.tile.steps.spelling import Names, RoleContext, barriers, stage


class TileLoop(Strided, frozen=True, kw_only=True):
    """Do `body` for the tiles of a CTA."""


class FetchLoop(Repeat, frozen=True, kw_only=True):
    """Do `body` for the tile of the CTA's own number, and for each that `TakeTile` finds in an answer.

    Attributes:
        first: number of the CTA. `count` is the number of tiles: one CTA may get them all.
    """

    first: Number

    def describe(self) -> str:
        return f"for {self.var} in {self.first}, and those that it is given of {self.count}:"

    def spelling(self, context: RoleContext) -> Names:
        """All but what is in the loop, which the kernel writes (`convc.compiler.emit.kernel`)."""
        return {"var": self.var, "first": self.first, "label": f"{self.label}_next"}


class AskTile(Step, frozen=True, kw_only=True):
    """Ask for the tile of a CTA that has not begun; the answer comes to a stage of `tile`, its bytes to `ring`."""

    ring: RingName
    tile: SmemName

    def describe(self) -> str:
        return f"ask for a tile, the answer goes to {self.tile}"

    def spelling(self, context: RoleContext) -> Names:
        ring = context.storage.ring(self.ring)
        tile = context.storage.smem_tile(self.tile)
        return {
            "stage": stage(ring.state),
            "ring_offset": ring.offset,
            "stage_bytes": tile.stage_bytes,
            "tile_offset": tile.offset,
        }


class TakeTile(Step, frozen=True, kw_only=True):
    """Read an answer: the number of the next tile becomes that of the loop around it, or the loop ends here."""

    tile: SmemName
    var: Number

    def describe(self) -> str:
        return f"{self.var} = the next one, if {self.tile} has one"

    def spelling(self, context: RoleContext) -> Names:
        tile = context.storage.smem_tile(self.tile)
        return {
            "stage": stage(tile.state),
            "stage_bytes": tile.stage_bytes,
            "tile_offset": tile.offset,
            "var": self.var,
        }


class AnswerRead(Signal, frozen=True, kw_only=True):
    """Every thread that does the role's work signals that it has read an answer, which the next may be put over."""

    def describe(self) -> str:
        return f"signal {self.ring}, the answer has been read"

    def spelling(self, context: RoleContext) -> Names:
        ring = context.storage.ring(self.ring)
        return {"stage": stage(ring.state), "offset": ring.offset}


class Release(Signal, frozen=True, kw_only=True):
    """Every thread of the role arrives at the ring's barrier, when it has read what it wants of tensor memory."""

    def describe(self) -> str:
        return f"every thread signals {self.ring}, its reads done"

    def spelling(self, context: RoleContext) -> Names:
        ring = context.storage.ring(self.ring)
        space = ".shared::cta" if ring.at == "own" else ".shared::cluster"
        return {
            "stage": stage(ring.state),
            "offset": ring.offset,
            "barriers": barriers(ring),
            "space": space,
            "fence": context.orders_tensor_memory(ring),
        }


class ReleaseRead(Signal, frozen=True, kw_only=True):
    """As `Release`, right behind a read of the accumulator: of those of a tile, the one from column `last` on.

    `first`: number of the first column that was read. What is done with the columns goes on beside the next MMAs.
    """

    first: Number
    last: int

    def describe(self) -> str:
        return f"every thread signals {self.ring} once {self.first} is {self.last}, its reads done"

    def spelling(self, context: RoleContext) -> Names:
        ring = context.storage.ring(self.ring)
        return {
            "stage": stage(ring.state),
            "offset": ring.offset,
            "barriers": barriers(ring),
            "space": ".shared::cta" if ring.at == "own" else ".shared::cluster",
            "first": self.first,
            "last": self.last,
        }


class ReleaseLast(Step, frozen=True, kw_only=True):
    """Every warp gives back the last stage of a ring that it has multiplied for a tile, all of its MMAs waited for.

    `ring`: whose stages are otherwise given back one stage later (`convc.compiler.tile.steps.rings.WarpCommit`).
    `ctas`: number with the CTAs of the cluster that are told, as there.
    """

    ring: RingName
    ctas: Number | None = None

    def describe(self) -> str:
        return f"every warp signals the last stage of {self.ring}"

    def spelling(self, context: RoleContext) -> Names:
        ring = context.storage.ring(self.ring)
        return {"stage": stage(ring.state), "last": ring.stages - 1, "offset": ring.offset, "ctas": self.ctas or ""}


class StoresRead(Step, frozen=True, kw_only=True):
    """Wait until the copies of this warp have read their tiles in shared memory, so that its lanes may write again."""

    def describe(self) -> str:
        return "wait until the copies have read their tiles"


class RoleSync(Step, frozen=True, kw_only=True):
    """All threads of the role meet; `threads` is how many these are."""

    threads: int

    def describe(self) -> str:
        return f"{self.threads} threads meet"
