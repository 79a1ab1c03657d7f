"""Split K: the CTAs of a cluster, or of several, share the K loop of one tile.

Where a layer has fewer tiles than the chip has SMs, most of it idles while a few CTAs go through long K loops. Here a
cluster of CTAs along the third axis of the grid works on one tile: part p of n takes the steps p, p + n, p + 2 n and so
on, so that each has one at least and no two differ by more than one. Every CTA then leaves its sums in its own shared
memory, over the operand tiles, which have all been multiplied by then. Once all are there, CTA p adds the columns of
its n-th of the tile, those of part 0 first, then 1, 2 and so on, and stores them: the order does not depend on who was
first, so neither do the bits of the result.

More CTAs than a cluster has are several clusters (`RANKS` each). CTA p of each has then added its columns of a part of
the steps, and leaves these sums in global memory, in a workspace where each cluster has a place of its own. Each warp
says so at a counter that the warps of the other clusters with the same rows and columns have in common. The one that
comes last adds what all clusters have left, that of cluster 0 first, and stores the results; again it does not matter
who that is. The counter then is 0 again, for the next launch.
"""

from __future__ import annotations

import math

from msgspec.structs import replace

from convc.compiler.plan.candidate import ScheduleCandidates
from convc.compiler.plan.candidates import pipeline_of
from convc.compiler.plan.constraints import TiledProblem
from convc.compiler.plan.names import SUMS
from convc.compiler.plan.offer import Offer
from convc.compiler.plan.records import Pipeline, Rejection, Tiling
from convc.compiler.plan.result_tile import number_tile
from convc.compiler.plan.storage import SUM_BYTES, SmemTile, Storage, lay_out
from convc.compiler.plan.work import STORE_BYTES, CtaWork, RingUse
from convc.ir.dtypes import DType
from convc.support.memory import human_bytes

MOST_SUMS = 128
"""Registers of a thread that hold sums at a time: of some columns, those of all parts."""

QUAD = STORE_BYTES // SUM_BYTES
"""Columns that a thread writes to shared memory, or reads there, at once."""

RANKS = 8
"""CTAs of a cluster at most: every GPU launches so many (CUDA programming guide)."""

MOST_KEPT = 256 << 20
"""Bytes of a workspace at most: none that L2 holds is larger, and its addresses have 32 bits."""


def ranks_of(parts: int) -> int:
    """CTAs of each cluster, with so many split-K CTAs."""
    return min(parts, RANKS)


def kept_shape(tiles: tuple[int, int], parts: int, tiling: Tiling) -> tuple[int, ...]:
    """The workspace: clusters, tiles of channels and of pixels, four columns of each, lanes, and these columns."""
    rows, columns = tiles
    return (parts // ranks_of(parts), columns, rows, tiling.block_n // QUAD, tiling.block_m, QUAD)


def split(candidates: ScheduleCandidates, parts: int, *, able: bool) -> ScheduleCandidates:
    """Offer the tilings to split-K clusters, as far as these can.

    Args:
        candidates: of a schedule, one tile a CTA.
        parts: CTAs of a cluster.
        able: whether several CTAs can share the schedule's K loop.
    """
    if not able:
        reason = f"schedule {candidates.schedule.title} does not support split-K"
        return replace(candidates, parts=(Rejection(rule="split", reason=reason),))
    shared = (_shared(part, parts) if isinstance(part, Offer) else part for part in candidates.parts)
    return replace(candidates, parts=tuple(shared))


def _shared(offer: Offer, parts: int) -> Offer | Rejection:
    if offer.layout.blocks is not None:
        reason = f"the epilogue warps copy the scale factors of {offer.layout.blocks.name}: no split-K"
        return Rejection(rule="split", reason=reason)

    if offer.first.multicast != (1, 1):
        reason = "a multicast cluster computes several tiles, a split-K cluster one"
        return Rejection(rule="split", reason=reason)

    if offer.laid(offer.first).results is not None:
        reason = "store tma stores whole rows of a tile from one CTA, and a split-K CTA stores some columns"
        return Rejection(rule="split", reason=reason)

    pixels = offer.layout.problem.gemm_m

    def storage(tiling: Tiling) -> Storage:
        return with_sums(offer.laid(tiling), tiling, offer)

    def work(tiling: Tiling, pipeline: Pipeline) -> CtaWork:
        units = shared_units(pipeline, rows=offer.geometry is not None)
        return part_of(offer.done(tiling), units, parts, min(tiling.block_m, pixels))

    rules = (shared_steps, shared_columns, kept_sums, *offer.rules)
    return replace(offer, storage=storage, work=work, parts=parts, rules=rules, alone=False)


def sum_tile(tiling: Tiling) -> SmemTile:
    """Lay sums out from the start of shared memory on: for every four columns, 16 bytes of each lane.

    The lanes of a warp then write and read 512 bytes that follow each other.
    """
    row = QUAD * SUM_BYTES * tiling.block_m
    rows = tiling.block_n // QUAD
    return SmemTile(name=SUMS, rows=rows, row_bytes=row, swizzle="none", stages=1, stage_bytes=rows * row, offset=0)


def with_sums(storage: Storage, tiling: Tiling, offer: Offer) -> Storage:
    """The memory of a CTA that leaves its sums for others, and reads what it adds to each channel ahead of need."""
    numbers = number_tile(offer.layout, tiling)
    sums = sum_tile(tiling)
    return lay_out(
        storage.smem, storage.tmem, storage.rings, offer.arch, masks=storage.masks, numbers=numbers, sums=sums
    )


def shared_units(pipeline: Pipeline, *, rows: bool) -> int:
    """Steps that CTAs share: filter rows and channel blocks, and filter columns where each loads activations.

    Args:
        pipeline: the K loop.
        rows: whether the columns of a filter row share activations, and so stay together.
    """
    return (pipeline.taps[0] if rows else math.prod(pipeline.taps)) * pipeline.blocks


def summed_columns(tiling: Tiling, ranks: int, dtype: DType) -> tuple[int, int]:
    """Columns that a thread adds at a time, and how often: of the part of a tile's columns that a CTA adds."""
    own = tiling.block_n // ranks
    least = max(STORE_BYTES // dtype.bytes, QUAD)
    columns = next(width for width in range(own, 0, -least) if own % width == 0 and width * ranks <= MOST_SUMS)
    return columns, own // columns


_SHARED = [
    "mmas",
    "activation_bytes",
    "filter_bytes",
    "loads",
    "copies",
    "refreshes",
    "shifts",
    "moving",
    "drains",
    "own_waits",
    "masked",
]
"""Counts of the K loop, of which each CTA has its part."""


def part_of(work: CtaWork, units: int, parts: int, rows: int) -> CtaWork:
    """The work of the CTA with the most steps of a tile, and its columns of the epilogue.

    Args:
        work: of a CTA that has a tile for itself.
        units, parts: steps that are shared, and CTAs that share them.
        rows: output pixels of the tile.
    """
    most = -(-units // parts)
    ranks = ranks_of(parts)
    steps = [ring.steps * most // units for ring in work.rings]
    rings = [RingUse(steps=own, stages=ring.stages) for own, ring in zip(steps, work.rings, strict=True)]
    shared = {name: getattr(work, name) * most // units for name in _SHARED}
    return replace(
        work,
        **shared,
        rings=tuple(rings),
        chunks=-(-work.chunks // ranks),
        stores=-(-work.stores // ranks),
        parts=ranks,
        clusters=parts // ranks,
        sum_bytes=rows * work.n // ranks * (ranks - 1) * SUM_BYTES,
    )


def shared_steps(tiled: TiledProblem) -> str | None:
    """Every CTA of a cluster has one step at least, since its first one fills the accumulator."""
    atom = tiled.arch.limits.mma_atom_bytes
    units = shared_units(pipeline_of(tiled.layout, tiled.tiling, atom), rows=bool(tiled.tiling.a_stages))
    if units < tiled.parts:
        return f"the K loop has {units} {'step' if units == 1 else 'steps'}, too few for {tiled.parts} CTAs"
    return None


def shared_columns(tiled: TiledProblem) -> str | None:
    """Every CTA of a cluster stores as many columns, in pieces of 16 bytes, and reads sums in such pieces too."""
    n = tiled.tiling.block_n
    ranks = ranks_of(tiled.parts)
    least = max(STORE_BYTES // tiled.layout.problem.out_dtype.bytes, QUAD)
    if n % (ranks * least):
        return f"{n} columns: {ranks} CTAs that store 16 bytes at a time share multiples of {ranks * least}"
    return None


def kept_sums(tiled: TiledProblem) -> str | None:
    """The partial sums of all clusters fit in a workspace."""
    if tiled.parts == ranks_of(tiled.parts):
        return None
    kept = SUM_BYTES * math.prod(kept_shape(tiled.grid, tiled.parts, tiled.tiling))
    if kept > MOST_KEPT:
        return f"the sums of {tiled.parts} CTAs a tile take {human_bytes(kept)}, more than {human_bytes(MOST_KEPT)}"
    return None
