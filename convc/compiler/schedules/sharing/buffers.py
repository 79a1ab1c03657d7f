"""A buffer of pixels as the roles see it: one activation tile, and the filter columns that share it."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from convc.compiler.index.kernel_nest import KernelNest
from convc.compiler.plan.names import NewNumber
from convc.compiler.plan.records import Plan
from convc.compiler.schedules.sharing.indexing import shared
from convc.compiler.schedules.sharing.storage import TileRing, activation_ring
from convc.compiler.schedules.skeleton import TURN, number, shares_blocks
from convc.ir.expr import Const, IntExpr, Var


class SharedTile(msgspec.Struct, frozen=True, kw_only=True):
    """One activation tile of the mainloop.

    Attributes:
        plan: the plan.
        nest: the loops of its kernel, in this buffer.
        index: number of the buffer.
        several: whether there are others.
    """

    plan: Plan
    nest: KernelNest
    index: int
    several: bool

    @property
    def mark(self) -> str:
        """The end of the names of the buffer's steps and numbers, where there are several buffers."""
        return f"_{self.index}" if self.several else ""

    @property
    def name(self) -> str:
        """The buffer, for people."""
        return f"buffer {self.index}" if self.mark else "the buffer"

    @property
    def position(self) -> NewNumber:
        """The loop variable that counts its filter columns."""
        return number(f"i{self.mark}")

    @property
    def taps(self) -> int:
        """The number of its filter columns."""
        return self.nest.count("tap")

    @property
    def with_filters(self) -> bool:
        """Whether the filter tiles of all its columns are in its stage."""
        return self.plan.tiling.b_columns > 1

    @property
    def ring(self) -> TileRing:
        """The ring that it goes through."""
        return activation_ring(self.plan.tiling)

    @property
    def halo(self) -> int:
        """Pixels behind those of the tile."""
        return self.nest.number("halo", "rows")

    @property
    def offset(self) -> int:
        """Pixels that its copy begins further on."""
        return self.nest.number("offset", "w")

    @property
    def only_column(self) -> IntExpr | None:
        """The filter column that the tile is for; None where it is for several."""
        return self.column(Const(0)) if self.taps == 1 else None

    def turn(self, position: IntExpr) -> IntExpr:
        """The column of the buffer that comes at a position: the one that writes every lane comes first."""
        return Const(0) if self.taps == 1 else self.nest.value("turn", "tap", position=position)

    def column(self, position: IntExpr) -> IntExpr:
        """The filter column that comes at a position."""
        return self.nest.value("s", "s", tap=self.turn(position))

    def further_on(self, position: IntExpr) -> IntExpr:
        """Rows from those that the buffer's first column reads to those of the column at a position."""
        return self.nest.value("read", "row", tap=self.turn(position))

    def counter(self, position: IntExpr, which: str = "") -> NewNumber | None:
        """The number that is 0 at the first multiplication; None where another tile is first, or all was cleared."""
        later = isinstance(position, Const) and position != Const(0)
        return None if shared(self.plan).clear or self.index or later else number(f"k_step{which}")

    def step_number(self, position: IntExpr) -> IntExpr:
        """Number of a multiplication with the tile, counted through all filter rows and channel blocks."""
        return self.nest.value("step", "number", round=self.round, position=position)

    @property
    def round(self) -> IntExpr:
        """Number of a filter row and channel block, of those that the CTA has."""
        if self.plan.launch.parts > 1 and not shares_blocks(self.plan):
            return Var(TURN)
        return self.nest.value("round", "number")


def shared_tiles(plan: Plan, nest: KernelNest) -> Iterator[SharedTile]:
    """The activation tiles in an iteration of the loops around the buffers."""
    buffers = tuple(nest.buffers())
    for index, one in enumerate(buffers):
        yield SharedTile(plan=plan, nest=one, index=index, several=len(buffers) > 1)
