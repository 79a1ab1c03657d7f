"""Steps of an epilogue whose results, and residuals, lie in shared memory for tensor copies."""

from __future__ import annotations

from convc.compiler.plan.names import MapName, Number, SmemName
from convc.compiler.tile.steps.base import Step
from convc.compiler.tile.steps.epilogue import ValueStep
from convc.compiler.tile.steps.spelling import Names, RoleContext, braces
from convc.compiler.tile.steps.stores import MASK, PIECE_BYTES, Use, joined
from convc.ir import dtypes


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

    def _words(self) -> int:
        """32-bit words of a chunk of a lane's row."""
        return self.columns * dtypes.BY_NAME[self.out].bytes // 4

    def _row(self, context: RoleContext, address: str, words: list[str]) -> Names:
        """Sixteen bytes a piece: the register of its address, its distance in an unswizzled row, those that hold it.

        The tile and its rows lie at multiples of their size, so that a distance can be added by XOR, before and after
        the swizzle (PTX manual, swizzling modes).
        """
        tile = context.storage.smem_tile(self.tile)
        element = dtypes.BY_NAME[self.out].bytes
        pieces = [
            (f"%{address}{piece}", piece * PIECE_BYTES, braces(words[4 * piece : 4 * piece + 4]))
            for piece in range(len(words) // 4)
        ]
        return {
            "row_bytes": tile.row_bytes,
            "stage_bytes": tile.stage_bytes,
            "offset": tile.offset,
            "slab": self.slab,
            "chunked": self.chunk is not None,
            "chunk": self.chunk or "",
            "chunk_bytes": self.chunk_columns * element,
            "lane": self.lane,
            "count": len(pieces),
            "line_shift": tile.row_bytes.bit_length() - 4,  # a line of 128 bytes counts in 16 bytes
            "line_mask": tile.row_bytes - PIECE_BYTES,
            "pieces": pieces,
        }


class SlabResidual(SlabAccess, frozen=True, kw_only=True):
    """Join the residual of this lane's output pixel, which copies have brought; zero where it is none of the output."""

    use: Use

    def describe(self) -> str:
        return f"{self.use} {self.columns} values of {self.place}"

    def spelling(self, context: RoleContext) -> Names:
        """The place of the row, the registers that take what is there, and what is done with those."""
        words = [f"%res{word}" for word in range(self._words())]
        return self._row(context, "from", words) | {
            "packed": self.out != "f32",
            "masks": self.use == MASK,
            "words": len(words),
            "lines": joined(self.use, self.out, words, 0),
        }


class StageRow(SlabAccess, frozen=True, kw_only=True):
    """Write the packed values of this lane's row into its row of a slab of the tile of results."""

    def describe(self) -> str:
        return f"write {self.columns} values to {self.place}"

    def spelling(self, context: RoleContext) -> Names:
        """The place of the row, and the registers that are written there."""
        element = dtypes.BY_NAME[self.out].bytes
        register = "v" if element == 4 else "h"
        return self._row(context, "to", [f"%{register}{word}" for word in range(self._words())]) | {
            "halved": self.half is not None,
            "half": self.half or "",
            "half_bytes": self.columns * element,
        }


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

    def spelling(self, context: RoleContext) -> Names:
        tile = context.storage.smem_tile(self.tile)
        return {
            "map": self.map,
            "coords": braces([f"%{self.channel}", "%m0", "%m1", "%m2", "%m3"]),
            "pixel": self.pixel,
            "take": "cvt.u32.u64" if context.numbers[self.pixel].bits == 64 else "mov.b32",
            "lane": self.lane,
            "slab": self.slab,
            "stage_bytes": tile.stage_bytes,
            "row_bytes": tile.row_bytes,
            "offset": tile.offset,
        }


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

    def spelling(self, context: RoleContext) -> Names:
        tile = context.storage.smem_tile(self.tile)
        return {
            "map": self.map,
            "coords": braces(f"%{name}" for name in self.coords),
            "slab": self.slab,
            "stage_bytes": tile.stage_bytes,
            "warp_bytes": self.rows * tile.row_bytes,
            "offset": tile.offset,
        }


class StoreWait(Step, frozen=True, kw_only=True):
    """Wait until the copies to global memory have read shared memory, which goes away with the CTA."""

    def describe(self) -> str:
        return "wait until the copies have read their tiles"
