"""Steps that bring operand tiles: copies through tensor maps, and prefetches ahead of them."""

from __future__ import annotations

import math

from convc.compiler.plan.names import MapName, NewNumber, Number, PointerName, Priority, RingName, SmemName
from convc.compiler.plan.storage import BarrierRing
from convc.compiler.tile.steps.base import Step
from convc.compiler.tile.steps.spelling import Names, RoleContext, barriers, braces, stage
from convc.ir.element_types import ELEMENT_TYPES
from convc.ir.tensormap import TensorMap

WORD_BYTES = 4


class MakePolicy(Step, frozen=True, kw_only=True):
    """Set the number `dst` to a cache policy: the priority with which L2 gives up what copies with it bring.

    Attributes:
        priority: as PTX names it, of every line of a copy (PTX manual, ``createpolicy.fractional``).
    """

    dst: NewNumber
    priority: Priority

    def describe(self) -> str:
        return f"{self.dst} = policy {self.priority} of L2"


class PrefetchTiles(Step, frozen=True, kw_only=True):
    """Have boxes of tensor maps brought to L2, by one lane of the warp; changes nothing.

    `tiles`: the map of each, and its start coordinates, innermost dimension first.
    """

    tiles: tuple[tuple[MapName, tuple[Number, ...]], ...]

    def describe(self) -> str:
        tiles = (f"{source}[{', '.join(coords)}]" for source, coords in self.tiles)
        return f"prefetch {', '.join(tiles)} to L2"

    def spelling(self, context: RoleContext) -> Names:
        return {"tiles": [(name, len(at), braces(f"%{number}" for number in at)) for name, at in self.tiles]}


class PrefetchNumbers(Step, frozen=True, kw_only=True):
    """Have numbers of channels, from `channel` on, brought to L2, by one lane of the warp; changes nothing.

    Attributes:
        buffer: with a row of 32-bit numbers for each use, `pitch` numbers behind each other.
        columns: channels; the bytes are whole pieces of 16.
    """

    buffer: PointerName
    channel: Number
    columns: int
    rows: int
    pitch: int

    def describe(self) -> str:
        return f"prefetch {self.columns} numbers of {self.buffer} from {self.channel} to L2"

    def spelling(self, context: RoleContext) -> Names:
        starts = [WORD_BYTES * row * self.pitch for row in range(self.rows)]
        return {"buffer": self.buffer, "channel": self.channel, "starts": starts, "bytes": WORD_BYTES * self.columns}


class TensorCopy(Step, frozen=True, kw_only=True):
    """A copy through a tensor map into the current stage of a tile; its bytes count on `ring`.

    Attributes:
        coords: the start coordinates, innermost dimension first.
        policy: number with the cache policy of what it brings (`MakePolicy`); None: no hint.
    """

    map: MapName
    tile: SmemName
    ring: RingName
    coords: tuple[Number, ...]
    policy: Number | None = None

    @property
    def hint(self) -> str:
        """The cache policy, for people; empty where there is none."""
        return f", {self.policy}" if self.policy else ""

    @property
    def map_mode(self) -> str:
        """Mode of the tensor maps that the copy goes through."""
        raise TypeError(f"{type(self).__name__} does not say which maps it takes")

    def bytes_through(self, source: TensorMap) -> int:
        """Bytes that the copy brings through a tensor map, zero-filled ones included."""
        each = math.prod(source.box) if source.mode == "tile" else source.rows * source.channels
        return each * ELEMENT_TYPES[source.dtype].bytes

    def _hint(self) -> Names:
        """How a copy names its cache policy, behind all else."""
        if self.policy is None:
            return {"hint": "", "policy": ""}
        return {"hint": ".L2::cache_hint", "policy": f", %{self.policy}"}


class TmaLoad(TensorCopy, frozen=True, kw_only=True):
    """Copy a box of a tensor map.

    Attributes:
        offsets: of im2col maps: what moves every pixel by a filter tap, W first.
        at: number with the byte in the tile where the box begins; None: its start, and the box fills the tile.
        ctas: number with the CTAs of the cluster that get the copy, a bit for each rank, in each of which its bytes
            count on the barrier at this place; None: the CTA itself.
        bringers: CTAs that each bring a part of the tile in this way.
    """

    offsets: tuple[Number, ...] = ()
    at: Number | None = None
    ctas: Number | None = None
    bringers: int = 1

    @property
    def map_mode(self) -> str:
        """``im2col`` where a filter tap moves the pixels, else ``tile``."""
        return "im2col" if self.offsets else "tile"

    def describe(self) -> str:
        moved = f" + ({', '.join(self.offsets)})" if self.offsets else ""
        place = f"{self.tile} + {self.at}" if self.at else self.tile
        whose = f" of the CTAs {self.ctas}" if self.ctas else ""
        return f"copy {self.map}[{', '.join(self.coords)}]{moved} to {place}{whose}, counted on {self.ring}{self.hint}"

    def spelling(self, context: RoleContext) -> Names:
        registers = [f"%o{i}" for i in range(len(self.offsets))]
        tile = context.storage.smem_tile(self.tile)
        ring = context.storage.ring(self.ring)
        return {
            "map": self.map,
            "rank": len(self.coords),
            "coords": braces(f"%{name}" for name in self.coords),
            "im2col": bool(self.offsets),
            "offsets": [(register, f"%{name}") for register, name in zip(registers, self.offsets, strict=True)],
            "offset_registers": braces(registers),
            "offset_declaration": ", ".join(registers),
            "stage": stage(ring.state),
            "ring_offset": ring.offset,
            "stage_bytes": tile.stage_bytes,
            "tile_offset": tile.offset,
            "placed": self.at is not None,
            "at": self.at or "",
            **_told(ring),
            **self._sent(),
            **self._hint(),
        }

    def _sent(self) -> Names:
        """The CTAs that get a copy, where these are several: their barriers count at the place of this CTA's."""
        if self.ctas is None:
            return {"ctas": "", "mask": ""}
        return {"ctas": self.ctas, "mask": ", %mask", "space": "shared::cluster", "told": ".multicast::cluster"}


class TmaWideLoad(TensorCopy, frozen=True, kw_only=True):
    """Copy pixels of an image row, and a halo behind them; the map is im2col_w or im2col_w128.

    Attributes:
        halo, offset: wHalo and wOffset.
        halo_each_window: whether every 32 pixels have a halo of their own (im2col_w128).
        at: number with the byte in the tile where the copy begins; None: its start.
    """

    halo: int
    offset: int
    halo_each_window: bool = False
    at: Number | None = None

    @property
    def map_mode(self) -> str:
        """``im2col_w128`` where every 32 pixels have a halo, else ``im2col_w``."""
        return "im2col_w128" if self.halo_each_window else "im2col_w"

    def bytes_through(self, source: TensorMap) -> int:
        """Bytes that the copy brings, those of the halo included."""
        halo = 4 * self.halo if source.mode == "im2col_w128" else self.halo
        return (source.rows + halo) * source.channels * ELEMENT_TYPES[source.dtype].bytes

    def describe(self) -> str:
        place = f"{self.tile} + {self.at}" if self.at else self.tile
        source = f"{self.map}[{', '.join(self.coords)}] + {self.offset}"
        return f"copy {source}, halo {self.halo}, to {place}, counted on {self.ring}{self.hint}"

    def spelling(self, context: RoleContext) -> Names:
        tile = context.storage.smem_tile(self.tile)
        ring = context.storage.ring(self.ring)
        return {
            "map": self.map,
            "rank": len(self.coords),
            "coords": braces(f"%{name}" for name in self.coords),
            "mode": "im2col::w::128" if self.halo_each_window else "im2col::w",
            "halo": self.halo,
            "offset": self.offset,
            "stage": stage(ring.state),
            "stage_bytes": tile.stage_bytes,
            "tile_offset": tile.offset,
            "ring_offset": ring.offset,
            "placed": self.at is not None,
            "at": self.at or "",
            **_told(ring),
            **self._hint(),
        }


def _told(ring: BarrierRing) -> Names:
    """How a copy into the CTA's own memory names the barrier that its bytes count on, of this CTA or of the first."""
    paired = ring.at == "leader"
    return {
        "barriers": barriers(ring),
        "space": "shared::cluster" if paired else "shared::cta",
        "told": ".cta_group::2" if paired else "",
    }
