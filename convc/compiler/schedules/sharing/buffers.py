"""A buffer of the walk as the roles see it: one activation tile, and the filter columns that share it."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from convc.compiler.index.row_walk import Buffer
from convc.compiler.plan.names import NewNumber
from convc.compiler.plan.records import Plan
from convc.compiler.schedules.sharing.indexing import shared
from convc.compiler.schedules.sharing.storage import TileRing, activation_ring
from convc.compiler.schedules.skeleton import TURN, number, shares_blocks
from convc.ir.expr import Const, IntExpr, Var


class SharedTile(msgspec.Struct, frozen=True, kw_only=True):
    """One activation tile of the K loop.

    Attributes:
        plan: the plan.
        index: number of its buffer.
        buffer: offset, and the filter columns.
    """

    plan: Plan
    index: int
    buffer: Buffer

    @property
    def mark(self) -> str:
        """The end of the names of the buffer's steps and numbers, where there are several buffers."""
        return f"_{self.index}" if len(shared(self.plan).walk.buffers) > 1 else ""

    @property
    def name(self) -> str:
        """The buffer, for people."""
        return f"buffer {self.index}" if self.mark else "the buffer"

    @property
    def position(self) -> NewNumber:
        """The loop variable that counts its filter columns."""
        return number(f"i{self.mark}")

    @property
    def with_filters(self) -> bool:
        """Whether the filter tiles of all its columns are in its stage."""
        return self.plan.tiling.b_columns > 1

    @property
    def ring(self) -> TileRing:
        """The ring that it goes through."""
        return activation_ring(self.plan.tiling)

    @property
    def only_column(self) -> IntExpr | None:
        """The filter column that the tile is for; None where it is for several."""
        return Const(self.buffer.taps[0].s) if len(self.buffer.taps) == 1 else None

    def turn(self, position: IntExpr) -> IntExpr:
        """Index of the filter column that comes at a position: the one that writes every lane comes first."""
        first = shared(self.plan).first
        return (position + first) % len(self.buffer.taps) if first else position

    def column(self, position: IntExpr) -> IntExpr:
        """The filter column that comes at a position: the columns of a buffer are evenly spaced."""
        taps = self.buffer.taps
        first = taps[0].s
        stride = taps[1].s - first if len(taps) > 1 else 0
        return self.turn(position) * stride + first

    def counter(self, position: IntExpr, which: str = "") -> NewNumber | None:
        """The number that is 0 at the first multiplication; None where another tile is first, or all was cleared."""
        later = isinstance(position, Const) and position != Const(0)
        return None if shared(self.plan).clear or self.index or later else number(f"k_step{which}")

    def step_number(self, position: IntExpr) -> IntExpr:
        """Number of a multiplication with the tile, counted through all filter rows and channel blocks."""
        return self.round * len(self.buffer.taps) + position

    @property
    def round(self) -> IntExpr:
        """Number of a filter row and channel block, of those that the CTA has."""
        parts = self.plan.launch.parts
        if parts > 1 and not shares_blocks(self.plan):
            return Var(TURN)
        return Var("r") * (self.plan.pipeline.blocks // parts) + Var("block") // parts


def shared_tiles(plan: Plan) -> Iterator[SharedTile]:
    """The activation tiles of a filter row and channel block."""
    for index, buffer in enumerate(shared(plan).walk.buffers):
        yield SharedTile(plan=plan, index=index, buffer=buffer)
