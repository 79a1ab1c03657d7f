"""The schedule ``slide``: the tile and its halo stay in shared memory, and a filter column reads them some rows on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from convc.compiler.index.geometry import Geometry
from convc.compiler.plan.issue_cycles import ROW_STORE
from convc.compiler.plan.names import ACC, A, B
from convc.compiler.plan.records import Pipeline, Plan, Tiling
from convc.compiler.plan.storage import TmemTile
from convc.compiler.plan.tiling import Depths
from convc.compiler.plan.work import STORE_BYTES, CtaWork, row_chunk, row_store_cycles
from convc.compiler.schedules.base import TOGETHER, Request
from convc.compiler.schedules.cores.all import core_of
from convc.compiler.schedules.epilogue import row_epilogue
from convc.compiler.schedules.sharing.base import Sharing
from convc.compiler.schedules.sharing.buffers import SharedTile
from convc.compiler.schedules.sharing.k_loop import before_tap, k_loop, release_filter, release_tile
from convc.compiler.schedules.sharing.storage import masks_read, ring_uses
from convc.compiler.schedules.skeleton import about, number
from convc.compiler.tile.steps.base import Compute, Loop, Step
from convc.compiler.tile.steps.mma import WARPGROUP_ROWS
from convc.host_layout.device_layout import DeviceLayout
from convc.ir.arch import Arch
from convc.ir.expr import Var

SHORT_TILE_BYTES = 4096
"""A filter tile up to this size arrives faster than a copy with a stage of its own is issued."""
MOST_COLUMNS = 8
"""Filter columns of a stage, each of which is written out."""


def _together(each: Depths, columns: int, *, fixed: bool) -> Iterator[Depths]:
    """A tiling with the filter tiles of all columns in the stage of their activations, if it has stages for both."""
    deep = tuple((b_stages, b_stages) for a_stages, b_stages in each.stages if fixed or a_stages == b_stages)
    if deep:
        a_stages, b_stages = deep[0]
        yield Depths(first=replace(each.first, a_stages=a_stages, b_stages=b_stages, b_columns=columns), stages=deep)


@dataclass(frozen=True, kw_only=True)
class Slide(Sharing):
    """Descriptors that start at another row of the same tile."""

    @property
    def whole_tap_first(self) -> bool:
        """Rows can be read from anywhere, so the columns of a buffer may come in any order."""
        return True

    def tilings(self, layout: DeviceLayout, request: Request, geometry: Geometry) -> Iterator[Depths]:
        """Those of every schedule, and those whose filter tiles come in the stage of the activations that they meet.

        Short filter tiles always do; behind a tile of 64 rows, whose MMAs are short, longer ones may.
        """
        columns = max(len(buffer.taps) for buffer in geometry.walk.buffers)
        free = request.filters is None and (request.multicast or (1, 1)) == (1, 1) and 1 < columns <= MOST_COLUMNS
        for each in super().tilings(layout, request, geometry):
            tile_bytes = each.first.block_n * each.first.row_bytes
            together = columns > 1 if request.filters == TOGETHER else free and tile_bytes <= SHORT_TILE_BYTES
            if not together:
                yield each
            if together or (free and each.first.block_m == WARPGROUP_ROWS and tile_bytes <= 2 * SHORT_TILE_BYTES):
                yield from _together(each, columns, fixed=request.stages is not None)

    def tensor_tiles(self, layout: DeviceLayout, tiling: Tiling, arch: Arch) -> tuple[TmemTile, ...]:
        """The accumulator alone."""
        return (TmemTile(name=ACC, lanes=tiling.block_m, columns=tiling.block_n, column_offset=0),)

    def work(self, layout: DeviceLayout, tiling: Tiling, pipeline: Pipeline, geometry: Geometry, arch: Arch) -> CtaWork:
        """Count the K loop: filter rows and channel blocks outside, filter columns innermost."""
        rounds = pipeline.taps[0] * pipeline.blocks
        taps = rounds * pipeline.taps[1]
        halos = [buffer.halo for buffer in geometry.walk.buffers]
        if geometry.stream.boxed:  # one map for all buffers, so that each has the longest halo
            halos = [max(halos)] * len(halos)
        rows = sum(self.tile_rows(geometry, halo) for halo in halos)
        m = arch.limits.mma_m
        return CtaWork(
            mmas=taps * pipeline.atoms * (tiling.block_m // m),
            m=m,
            n=tiling.block_n,
            ctas=tiling.ctas,
            activation_bytes=rounds * rows * tiling.row_bytes,
            filter_bytes=taps * tiling.b_rows * tiling.row_bytes,
            row_bytes=tiling.row_bytes,
            chunks=tiling.block_n // row_chunk(tiling.block_n),
            stores=tiling.block_n * layout.problem.out_dtype.bytes // STORE_BYTES,
            store_own=ROW_STORE,
            store_cycles=row_store_cycles(layout, arch.rates),
            loads=taps + rounds * len(geometry.walk.buffers),
            rings=ring_uses(tiling, pipeline, geometry, loop="all"),
            masks=self.masks(layout, geometry) * tiling.ctas,
            masked=taps * masks_read(geometry),
        )

    def multiply(self, plan: Plan) -> tuple[Step, ...]:
        """The tile stays; every filter column reads it from another row on."""
        return k_loop(plan, _multiply)

    def epilogue(self, plan: Plan) -> tuple[Step, ...]:
        """A lane has an output pixel."""
        return row_epilogue(plan)


def _multiply(tile: SharedTile) -> Iterator[Step]:
    plan = tile.plan
    mark = tile.mark
    position = Var(tile.position)
    row = number(f"row{mark}")
    inside = tile.with_filters
    counter = tile.counter(position)
    filters = number(f"b_row{mark}")
    place = Compute(
        id=f"mma.b_row{mark}",
        note="one filter tile per column",
        dst=filters,
        expr=tile.nest.value("filters", "row", position=position),
    )
    body = (
        *before_tap(tile, position),
        Compute(
            id=f"mma.row{mark}",
            note="first row: the distance from the buffer's first filter column",
            dst=row,
            expr=tile.further_on(position),
        ),
        *((place,) if inside else ()),
        core_of(plan.arch).product(
            id=f"mma.multiply{mark}",
            note="the same activations, from a later row on",
            acc=ACC,
            a=A,
            b=B,
            operand=plan.problem.operand,
            m=plan.tiling.block_m,
            n=plan.tiling.block_n,
            atoms=plan.pipeline.atoms,
            counter=counter,
            row=row,
            b_row=filters if inside else None,
            masked=plan.storage.masks > 0,
            filter_operand=plan.problem.filter_operand,
        ),
        *(() if inside else release_filter(plan, mark, counter)),
    )
    yield Loop(
        id=f"mma.columns{mark}",
        note=f"filter columns of {tile.name}",
        var=tile.position,
        count=tile.taps,
        body=about(tile.column(position), *body),
        written_out=inside,
    )
    yield from release_tile(tile)
