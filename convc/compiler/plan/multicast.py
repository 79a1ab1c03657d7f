"""Clusters whose CTAs load operand tiles for each other (``.multicast::cluster``).

CTAs beside each other along the pixels have the same filter tile, those along the channels the same activation tile. In
a cluster of several tiles each CTA fetches its part of such a tile, and the copy engine puts it into the same stage of
all that have it, so that it goes through L2 once (PTX manual, ``cp.async.bulk.tensor``, ``.multicast::cluster``). A
barrier of a CTA counts the bytes that all bring it. A stage may be filled again when every CTA that gets something from
there has multiplied its own: so a commit, or each warp that multiplied (``wgmma``), tells the barriers of all that load
for the CTA.
"""

from __future__ import annotations

from msgspec.structs import replace

from convc.compiler.plan.candidate import ScheduleCandidates
from convc.compiler.plan.constraints import TiledProblem
from convc.compiler.plan.names import A, B
from convc.compiler.plan.offer import Offer
from convc.compiler.plan.records import Pipeline, Rejection, Tiling
from convc.compiler.plan.storage import SHARERS, BarrierRing, Storage
from convc.compiler.plan.work import CtaWork


def multicast(candidates: ScheduleCandidates, shape: tuple[int, int], *, able: bool) -> ScheduleCandidates:
    """Offer the tilings to clusters whose CTAs load for each other, as far as these can.

    Args:
        candidates: of a schedule, each CTA with loads of its own.
        shape: tiles of pixels and of channels of a cluster.
        able: whether the schedule's tiles can come in parts.
    """
    if not able:
        reason = f"schedule {candidates.schedule.title} does not support multicast"
        return replace(candidates, parts=(Rejection(rule="multicast", reason=reason),))
    parts = (_sharing(part, shape) if isinstance(part, Offer) else part for part in candidates.parts)
    return replace(candidates, parts=tuple(parts))


def _sharing(offer: Offer, shape: tuple[int, int]) -> Offer | Rejection:
    """An offer of whole clusters along the pixels: where tiles are missing there, empty ones are made."""
    reason = None
    apart = tuple(each for each in offer.depths if each.first.b_columns == 1)
    if offer.layout.blocks is not None:
        reason = f"{offer.layout.blocks.name} has scale factors, whose stages warps release too: no multicast"
    elif offer.layout.summed:
        reason = "where pixels are summed, each CTA loads its own tiles: no multicast"
    elif shape[1] > 1 and offer.layout.problem.groups > 1:
        reason = "with groups, neighbouring tiles of channels may read other activations"
    elif shape[1] > 1 and offer.geometry is not None:
        reason = "an activation tile with its halo is one copy: only filter tiles can be multicast (2x1)"
    elif not apart:
        reason = "filter tiles in the stages of the activations are one copy each: multicast needs filters apart"
    elif apart[0].first.ctas > 1:
        reason = "a CTA of a pair loads half of a filter tile, and multicast needs whole ones"
    if reason is not None:
        return Rejection(rule="multicast", reason=reason)

    def storage(tiling: Tiling) -> Storage:
        return told_to_sharers(offer.storage(tiling), shape)

    def work(tiling: Tiling, pipeline: Pipeline) -> CtaWork:
        return replace(offer.work(tiling, pipeline), multicast=shape)

    rows = -(-offer.rows // shape[0]) * shape[0]
    return replace(
        offer,
        geometry=offer.geometry and replace(offer.geometry, spare=rows - offer.rows),
        depths=tuple(each.in_clusters(multicast=shape) for each in apart),
        rows=rows,
        storage=storage,
        work=work,
        rules=(whole_clusters, *offer.rules),
    )


def sharers_of(shape: tuple[int, int]) -> int:
    """CTAs that load for one: those of its row and of its column of the cluster, itself among them."""
    return sum(shape) - 1


def told_to_sharers(storage: Storage, shape: tuple[int, int]) -> Storage:
    """The memory of a CTA whose stages are given back to all that load into them: those of tiles that come in parts."""
    pixels, channels = shape
    shared = {A: channels > 1, B: pixels > 1}
    states = {tile.state for tile in storage.smem if shared.get(tile.name)}

    def told(ring: BarrierRing) -> BarrierRing:
        if (ring.producer, ring.consumer) != ("mma", "load") or ring.state not in states:
            return ring
        return replace(ring, at=SHARERS, arrivals=ring.arrivals * sharers_of(shape))

    return replace(storage, rings=tuple(map(told, storage.rings)))


def whole_clusters(tiled: TiledProblem) -> str | None:
    """Multicast clusters have whole tiles of channels, as empty tiles would waste MMAs."""
    columns = tiled.grid[1]
    shape = tiled.tiling.multicast
    if columns % shape[1]:
        tiles = "tile" if columns == 1 else "tiles"
        return f"{columns} {tiles} of channels: clusters of {shape[0]} x {shape[1]} take multiples of {shape[1]}"
    return None
