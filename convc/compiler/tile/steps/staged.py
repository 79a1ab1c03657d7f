"""Steps of an epilogue whose results, and residuals, lie in shared memory for tensor copies."""

from __future__ import annotations

from convc.compiler.plan.names import MapName, Number, SmemName
from convc.compiler.tile.steps.base import Step
from convc.compiler.tile.steps.epilogue import ValueStep


class SlabAccess(ValueStep, frozen=True, kw_only=True):
    """A step on this lane's row of a slab of a tile in shared memory: 16 bytes at a time.

    Attributes:
        tile, slab: the tile, and the number of the slab, a stage of the tile.
        lane: number of the lane, which is that of its row.
        chunk: number of the chunk in the slab; None: a slab is one chunk.
        half: which half of its chunk the lane has; None: it has all of it.
        out: type name of the values there.
    """

    tile: SmemName
    slab: Number
    lane: Number
    chunk: Number | None
    out: str
    half: Number | None = None

    @property
    def chunk_columns(self) -> int:
        """Columns of a chunk."""
        return self.columns if self.half is None else 2 * self.columns

    @property
    def place(self) -> str:
        """The slab and the chunk in words."""
        place = f"{self.tile}[{self.slab}]"
        place += f", chunk {self.chunk}" if self.chunk else ""
        return place + (f", half {self.half}" if self.half else "")


class AddSlabResidual(SlabAccess, frozen=True, kw_only=True):
    """Add the residual of this lane's output pixel, which copies have brought; zero where it is none of the output."""

    def describe(self) -> str:
        return f"add {self.columns} values of {self.place}"


class StageRow(SlabAccess, frozen=True, kw_only=True):
    """Write the packed values of this lane's row into its row of a slab of the tile of results."""

    def describe(self) -> str:
        return f"write {self.columns} values to {self.place}"


class ResultStore(Step, frozen=True, kw_only=True):
    """Copy the rows that each warp has of a slab to global memory, once all its lanes have written theirs.

    Attributes:
        map: the tensor map over the output.
        tile, slab: the tile in shared memory, and the number of the slab.
    """

    map: MapName
    tile: SmemName
    slab: Number


class LineStore(ResultStore, frozen=True, kw_only=True):
    """Copy each lane's row to the output pixel of its own, four rows a copy (mode tile::scatter4).

    Attributes:
        channel: of the slab's first column.
        lane: number of the lane, which is that of its row.
        pixel: number of its output pixel; past the last one where it has none, and its row is left out.
    """

    channel: Number
    lane: Number
    pixel: Number

    def describe(self) -> str:
        return f"copy each row of {self.tile}[{self.slab}] to {self.map}[{self.channel}, {self.pixel}]"


class TileStore(ResultStore, frozen=True, kw_only=True):
    """Copy rows that are consecutive output pixels, those of a warp together.

    Attributes:
        coords: the start coordinates, innermost dimension first: channel, and output pixel of the warp's first row.
        rows: of a warp.
    """

    coords: tuple[Number, Number]
    rows: int

    def describe(self) -> str:
        return f"copy {self.tile}[{self.slab}] to {self.map}[{', '.join(self.coords)}]"


class StoreWait(Step, frozen=True, kw_only=True):
    """Wait until the copies to global memory have read shared memory, which goes away with the CTA."""

    def describe(self) -> str:
        return "wait until the copies have read their tiles"
