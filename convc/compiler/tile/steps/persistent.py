"""Steps of a CTA that makes several tiles of the output, one after the other."""

from __future__ import annotations

from convc.compiler.plan.names import Number, RingName, SmemName
from convc.compiler.tile.steps.base import Repeat, Signal, Step, Strided


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


class AskTile(Step, frozen=True, kw_only=True):
    """Ask for the tile of a CTA that has not begun; the answer comes to a stage of `tile`, its bytes to `ring`."""

    ring: RingName
    tile: SmemName

    def describe(self) -> str:
        return f"ask for a tile, the answer goes to {self.tile}"


class TakeTile(Step, frozen=True, kw_only=True):
    """Read an answer: the number of the next tile becomes that of the loop around it, or the loop ends here."""

    tile: SmemName
    var: Number

    def describe(self) -> str:
        return f"{self.var} = the next one, if {self.tile} has one"


class AnswerRead(Signal, frozen=True, kw_only=True):
    """Every thread that does the role's work signals that it has read an answer, which the next may be put over."""

    def describe(self) -> str:
        return f"signal {self.ring}, the answer has been read"


class Release(Signal, frozen=True, kw_only=True):
    """Every thread of the role arrives at the ring's barrier, when it has read what it wants of tensor memory."""

    def describe(self) -> str:
        return f"every thread signals {self.ring}, its reads done"


class ReleaseRead(Signal, frozen=True, kw_only=True):
    """As `Release`, right behind a read of the accumulator: of those of a tile, the one from column `last` on.

    `first`: number of the first column that was read. What is done with the columns goes on beside the next MMAs.
    """

    first: Number
    last: int

    def describe(self) -> str:
        return f"every thread signals {self.ring} once {self.first} is {self.last}, its reads done"


class ReleaseLast(Step, frozen=True, kw_only=True):
    """Every warp gives back the last stage of a ring that it has multiplied for a tile, all of its MMAs waited for.

    `ring`: whose stages are otherwise given back one stage later (`convc.compiler.tile.steps.base.WarpCommit`).
    `ctas`: number with the CTAs of the cluster that are told, as there.
    """

    ring: RingName
    ctas: Number | None = None

    def describe(self) -> str:
        return f"every warp signals the last stage of {self.ring}"


class StoresRead(Step, frozen=True, kw_only=True):
    """Wait until the copies of this warp have read their tiles in shared memory, so that its lanes may write again."""

    def describe(self) -> str:
        return "wait until the copies have read their tiles"


class RoleSync(Step, frozen=True, kw_only=True):
    """All threads of the role meet; `threads` is how many these are."""

    threads: int

    def describe(self) -> str:
        return f"{self.threads} threads meet"
