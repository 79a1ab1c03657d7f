"""The places of operands in a CTA that shares activations between filter columns, and the uses of its rings.

Activations and filter move at different paces, so each has a ring of its own, unless filter tiles are so short that all
that an activation tile meets come with it. Shared memory, from its start: activation
tiles with their halo, filter tiles, barriers, the table of lane masks, the word for the address of tensor memory.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, NamedTuple

from convc.compiler.index.geometry import MOVED, Geometry, read_so
from convc.compiler.index.row_stream import WINDOW
from convc.compiler.plan.names import A, B, RingName, TmemName
from convc.compiler.plan.records import Pipeline, Tiling
from convc.compiler.plan.storage import BarrierRing, SmemTile, tile_ring
from convc.compiler.plan.work import UNROLLED_TURNS, RingUse
from convc.derived.record import derived
from convc.derived.solved import mapped
from convc.ir.problem import ConvProblem

FULL_A = RingName("full_a")
EMPTY_A = RingName("empty_a")
FULL_B = RingName("full_b")
EMPTY_B = RingName("empty_b")
FULL = RingName("full")
EMPTY = RingName("empty")
A_TMEM = TmemName("a_tmem")
"""Activations in tensor memory."""


class TileRing(NamedTuple):
    """The ring of activation tiles, with the filter tiles that share their stages if there are any.

    Attributes:
        full, empty: its barriers.
        state: place of a role in it.
    """

    full: RingName
    empty: RingName
    state: str


APART = TileRing(FULL_A, EMPTY_A, "a")
TOGETHER = TileRing(FULL, EMPTY, "")


def activation_ring(tiling: Tiling) -> TileRing:
    """The ring of the activation tiles."""
    return TOGETHER if tiling.b_columns > 1 else APART


def operand_tiles(tiling: Tiling, rows: int) -> tuple[SmemTile, SmemTile]:
    """Rings of activation tiles of some rows, halo included, and of filter tiles."""
    together = tiling.b_columns > 1
    a = tile_ring(A, rows, tiling.row_bytes, tiling.a_stages, 0, state=activation_ring(tiling).state)
    filters = tiling.b_columns * tiling.b_rows
    return a, tile_ring(B, filters, tiling.row_bytes, tiling.b_stages, a.end, state="" if together else "b")


def operand_rings(tiling: Tiling, releases: int) -> tuple[BarrierRing, ...]:
    """Rings between load and mma: one of activations and one of filters, or one of both.

    `releases`: arrivals that give a stage back.
    """
    full, empty, state = activation_ring(tiling)
    activations = (
        BarrierRing(name=full, stages=tiling.a_stages, producer="load", consumer="mma", state=state),
        BarrierRing(
            name=empty, stages=tiling.a_stages, producer="mma", consumer="load", state=state, arrivals=releases
        ),
    )
    if tiling.b_columns > 1:
        return activations
    return (
        *activations,
        BarrierRing(name=FULL_B, stages=tiling.b_stages, producer="load", consumer="mma", state="b"),
        BarrierRing(
            name=EMPTY_B, stages=tiling.b_stages, producer="mma", consumer="load", state="b", arrivals=releases
        ),
    )


def mask_entries(problem: ConvProblem, geometry: Geometry) -> int:
    """Entries of the mask table: filter columns, and filter rows behind them, as far as the cut masks any."""
    columns, rows = _masks(geometry.form, *problem.kernel)
    return columns + (rows if geometry.stream.masked else 0)


def masks_read(geometry: Geometry) -> int:
    """Masks that are joined for a filter tap: of its column and of its row.

    Those of the second CTA of a pair are asked for behind those of the first, and there is no wait between the two.
    """
    columns, _ = _masks(geometry.form, 1, 1)
    return columns + geometry.stream.masked


@lru_cache(maxsize=256)
def _masks(form: str, rows: int, columns: int) -> tuple[int, int]:
    """Masks of filter columns and of filter rows, by the nest of a form."""
    masks = derived().forms[form].maps["masks"]
    sizes = {"R": rows, "S": columns}
    return mapped(masks, "columns", sizes), mapped(masks, "rows", sizes)


@lru_cache(maxsize=256)
def copied_rows(reading: str, form: str, lanes: int, windows: int, halo: int) -> int:
    """Rows of shared memory that the copies of a buffer fill, by the nest of a form that is read so."""
    sizes = {"BM": lanes, "WINDOW": WINDOW, "WINDOWS": windows, "PARTITIONS": lanes // WINDOW, "HALO": halo}
    return mapped(derived().forms[read_so(form, reading)].maps["copied"], "rows", sizes)


@lru_cache(maxsize=256)
def row_moves(form: str, last: int, apart: int) -> tuple[int, int]:
    """Count the moves of the rows of a buffer, and the lanes of them all, by the nest of a form that moves rows.

    last: column of the buffer. apart: lanes from one column to the next.
    """
    moves = derived().forms[read_so(form, MOVED)].maps["moves"]
    sizes = {"LAST": last, "d": apart}
    return mapped(moves, "turns", sizes), mapped(moves, "lanes", sizes)


def ring_uses(
    tiling: Tiling, pipeline: Pipeline, geometry: Geometry, *, loop: Literal["all", "but last", "none"]
) -> tuple[RingUse, ...]:
    """Count the activation and filter tiles that go through their stages.

    Args:
        tiling, pipeline, geometry: the tiles, the K loop, and the sharing.
        loop: over which filter columns of a buffer the mma role has its innermost loop; where it has none that is the
            loop over channel blocks.
    """
    rounds = pipeline.taps[0] * pipeline.blocks
    columns = [len(buffer.taps) for buffer in geometry.walk.buffers]
    tiles = rounds * len(columns)
    steps = rounds * sum(columns)
    if tiling.b_columns > 1:  # copies and multiplications of a stage are written out: the loop is that over blocks
        few = tiles if pipeline.blocks <= UNROLLED_TURNS else 0
        return (RingUse(steps=tiles, stages=tiling.b_stages, load_unrolled=few, multiply_unrolled=few),)
    inside = {"all": steps, "but last": steps - tiles, "none": 0}[loop]
    turns = max(columns) - (loop == "but last") if inside else pipeline.blocks
    unrolled = turns <= UNROLLED_TURNS
    return (
        RingUse(steps=tiles, stages=tiling.a_stages, multiply_unrolled=tiles if unrolled and not inside else 0),
        RingUse(
            steps=steps,
            stages=tiling.b_stages,
            load_unrolled=steps if max(columns) <= UNROLLED_TURNS else 0,
            multiply_unrolled=(inside or steps) if unrolled else 0,
        ),
    )


def largest_halo(geometry: Geometry) -> int:
    """The longest halo of a buffer, in pixels."""
    return max(buffer.halo for buffer in geometry.walk.buffers)
