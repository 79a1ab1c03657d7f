"""The places of operand tiles, barriers and the accumulator.

Shared memory of a CTA, from its start: operand tiles with all their stages, the barriers, the table of lane masks where
there is one, and the word that receives the address of the tensor-memory allocation. Every stage starts at a multiple
of 1024 bytes, the period of the widest swizzle pattern, so that descriptors need no base offset (PTX, shared-memory
descriptor).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from typing import Literal, TypeVar

import msgspec

from convc.compiler.plan.names import RingName, SmemName, TmemName
from convc.compiler.plan.residency import MemoryNeed, bytes_for_columns
from convc.ir.arch import SM_100A, Arch

STAGE_ALIGN = 1024
SLOT_BYTES = 4
BARRIER_BYTES = 8
NUMBERS_ALIGN = 16
SUM_BYTES = 4
"""Of a sum that CTAs of a cluster share: float32 or s32."""
ANSWER_BYTES = 16
"""Bytes of an answer to a request for a tile, and what its address is a multiple of (clusterlaunchcontrol)."""
EVERY_ROLE = "every role"
"""Who signals a ring, or waits for it, where all roles that run side by side do."""
MASK_BYTES = SM_100A.limits.tmem_lanes // 8
"""A mask has a bit for each lane."""
MASKS = "masks"
"""The state of a role that says which table of lane masks it is at, where there are several."""


class SmemTile(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An operand tile in shared memory, once per stage.

    Attributes:
        name: ``a`` (activations), ``b`` (filter) or their scale factors.
        rows, row_bytes: extent; a row is `row_bytes` of K.
        swizzle: tensor-map name of the layout of the 16-byte chunks.
        stages: number of copies.
        state: which of a role's states says the stage (see `BarrierRing`).
        stage_bytes: distance from one stage to the next.
        offset: byte offset of stage 0 in the CTA's shared memory.
    """

    name: SmemName
    rows: int
    row_bytes: int
    swizzle: str
    stages: int
    stage_bytes: int
    offset: int
    state: str = ""

    @property
    def bytes(self) -> int:
        """Bytes that one copy of the tile holds, which is also what TMA delivers for it."""
        return self.rows * self.row_bytes

    @property
    def whole(self) -> int:
        """Bytes of all stages together, where these are the pieces of one tile."""
        return self.stages * self.bytes

    @property
    def end(self) -> int:
        """First byte past the last stage."""
        return self.offset + self.stages * self.stage_bytes


class TmemTile(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A tile in tensor memory, an accumulator or an operand: `lanes` rows of `columns` 32-bit cells, once per stage.

    On a target without tensor memory the accumulator lies in registers of the warps that multiply.
    """

    name: TmemName
    lanes: int
    columns: int
    column_offset: int
    stages: int = 1
    state: str = ""

    @property
    def end(self) -> int:
        """First column past the last stage."""
        return self.column_offset + self.stages * self.columns


Where = Literal["own", "leader", "all", "sharers"]
"""Whose barrier a signal is for: the CTA's own, that of the first CTA of its pair, those of both, or those of all CTAs
of a cluster that load for it."""
SHARERS: Where = "sharers"


class BarrierRing(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A ring of mbarriers, one per stage, with one role that signals and one that waits.

    Attributes:
        name: says what it announces: ``full`` tiles, ``empty`` ones, an accumulator that is ``done``.
        stages: number of barriers (8 bytes each).
        arrivals: arrivals that complete a phase.
        producer, consumer: name of the role that signals, and of the role that waits, or `EVERY_ROLE`.
        offset: byte offset of barrier 0 in shared memory.
        state: which of a role's states says the stage and the phase; tiles and rings that move together share one.
        at: whose barriers its signals are for. Those of ``leader`` are waited for by the first CTA of a pair alone.
        ahead: whether the role that signals is a stage ahead all the time, so that no role waits for its last signals.
    """

    name: RingName
    stages: int
    arrivals: int = 1
    producer: str
    consumer: str
    offset: int = 0
    state: str = ""
    at: Where = "own"
    ahead: bool = False

    @property
    def end(self) -> int:
        """First byte past the last barrier."""
        return self.offset + BARRIER_BYTES * self.stages


class Storage(msgspec.Struct, frozen=True, kw_only=True):
    """The memory of one CTA.

    Attributes:
        smem: operand tiles.
        tmem: the accumulator, and operand tiles.
        rings: barrier rings.
        mask_offset: where the table of lane masks starts, 16 bytes a mask; None: there is none.
        masks: entries of that table.
        mask_tables: how many such tables there are, one behind the other: persistent CTAs fill that of the
            next one while that of this one is read.
        results: the tile of results on their way to global memory, one stage for each slab of columns; it lies over the
            operand tiles, which have all been multiplied by then, or behind them, where the CTA goes on to another tile
            meanwhile. None: results go straight to global memory.
        residual: the tile of the residual, one stage for each slab of columns, with a place of its own. None: the
            epilogue reads it from global memory, if there is one.
        numbers: what the epilogue adds to each channel, and what it multiplies it with: one row each, dense. None: it
            reads them from global memory.
        sums: what a CTA has added up, for those that share its tile: over the operand tiles, as `results`. None: nobody
            does.
        answers: where the answers to requests for tiles come, one a stage. None: CTAs ask for none.
        slot_offset: shared word that receives the address of the tensor-memory allocation.
        smem_bytes: dynamic shared memory of the CTA; what lies behind all things keeps others from the SM
            (`convc.compiler.plan.residency`).
        tmem_columns: columns to allocate, a power of two; 0 where the target has no tensor memory.
    """

    smem: tuple[SmemTile, ...]
    tmem: tuple[TmemTile, ...]
    rings: tuple[BarrierRing, ...]
    slot_offset: int
    smem_bytes: int
    tmem_columns: int
    mask_offset: int | None = None
    masks: int = 0
    mask_tables: int = 1
    results: SmemTile | None = None
    numbers: SmemTile | None = None
    residual: SmemTile | None = None
    sums: SmemTile | None = None
    answers: SmemTile | None = None

    @property
    def need(self) -> MemoryNeed:
        """The memory that it takes."""
        return MemoryNeed(smem_bytes=self.smem_bytes, tmem_columns=self.tmem_columns)

    @property
    def end(self) -> int:
        """First byte of shared memory past all things that have a place, of which the slot is one of the last."""
        behind = self.answers or self.numbers
        return self.slot_offset + SLOT_BYTES if behind is None else behind.end

    @property
    def results_apart(self) -> bool:
        """Whether the tile of results has a place of its own."""
        return self.results is not None and self.results.offset >= self.smem[-1].end

    @property
    def tiles(self) -> tuple[SmemTile, ...]:
        """Every tile in shared memory, the operands first."""
        others = (self.results, self.residual, self.numbers, self.sums, self.answers)
        return (*self.smem, *(tile for tile in others if tile is not None))

    def smem_tile(self, name: SmemName) -> SmemTile:
        """The tile of that name in shared memory; KeyError where there is none."""
        return _named(self.tiles, name)

    def tmem_tile(self, name: TmemName) -> TmemTile:
        """The tile of that name in tensor memory; KeyError where there is none."""
        return _named(self.tmem, name)

    def ring(self, name: RingName) -> BarrierRing:
        """The ring of that name; KeyError where there is none."""
        return _named(self.rings, name)


T = TypeVar("T", SmemTile, TmemTile, BarrierRing)


def _named(things: tuple[T, ...], name: str) -> T:
    for thing in things:
        if thing.name == name:
            return thing
    raise KeyError(name)


def tile_ring(
    name: SmemName, rows: int, row_bytes: int, stages: int, offset: int, *, state: str = "", swizzle: str | None = None
) -> SmemTile:
    """Lay out a ring of operand tiles from `offset` on; their swizzle spans a row where it is not said."""
    return SmemTile(
        name=name,
        rows=rows,
        row_bytes=row_bytes,
        swizzle=swizzle or f"{row_bytes}B",
        stages=stages,
        stage_bytes=-(-rows * row_bytes // STAGE_ALIGN) * STAGE_ALIGN,
        offset=offset,
        state=state,
    )


def lay_out(  # noqa: PLR0913 - one for each kind of thing that has a place
    smem: tuple[SmemTile, ...],
    tmem: tuple[TmemTile, ...],
    rings: Iterable[BarrierRing],
    arch: Arch,
    masks: int = 0,
    mask_tables: int = 1,
    results: SmemTile | None = None,
    numbers: SmemTile | None = None,
    residual: SmemTile | None = None,
    sums: SmemTile | None = None,
) -> Storage:
    """Put residual, barriers, mask table, slot and numbers behind the tiles, whose places are settled."""
    over = results or sums
    end = smem[-1].end if over is None else max(smem[-1].end, over.end)
    if residual is not None:
        residual = msgspec.structs.replace(residual, offset=end)
        end = residual.end
    rings = tuple(rings)
    *starts, end = accumulate([BARRIER_BYTES * ring.stages for ring in rings], initial=end)
    placed = tuple([msgspec.structs.replace(ring, offset=at) for ring, at in zip(rings, starts, strict=True)])
    table, slot = table_and_slot(end, masks * mask_tables)
    end = slot + SLOT_BYTES
    if numbers is not None:
        numbers = msgspec.structs.replace(numbers, offset=-(-end // NUMBERS_ALIGN) * NUMBERS_ALIGN)
        end = numbers.end
    columns = allocated_columns(tmem[-1].end, arch)
    return Storage(
        smem=smem,
        tmem=tmem,
        rings=placed,
        slot_offset=slot,
        smem_bytes=max(end, bytes_for_columns(columns, arch)),
        tmem_columns=columns,
        mask_offset=table if masks else None,
        masks=masks,
        mask_tables=mask_tables,
        results=results,
        numbers=numbers,
        residual=residual,
        sums=sums,
    )


def table_and_slot(end: int, masks: int) -> tuple[int, int]:
    """Offsets of the table of lane masks, of all of them, and of the word for the address of tensor memory."""
    table = -(-end // MASK_BYTES) * MASK_BYTES
    return table, table + MASK_BYTES * masks if masks else end


def allocated_columns(end: int, arch: Arch) -> int:
    """Columns to allocate so that `end` of them can be used: a power of two (PTX manual, tcgen05.alloc).

    None where the target has no tensor memory.
    """
    if not arch.limits.tmem_columns:
        return 0
    return max(arch.limits.tmem_columns_min, 1 << (end - 1).bit_length())
