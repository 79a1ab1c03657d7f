"""CTA pairs: two CTAs whose tensor cores multiply as one (``cta_group::2``).

A pair lies side by side along the first axis of the grid: each CTA has a tile of pixels of its own, and both the same
output channels. So each keeps half of the filter tile in its shared memory and reads half of its rows for an MMA, and
each half goes through L2 once for both. The first CTA issues the MMAs of both, so it alone waits for operands: the
copies of both count on its barriers. What it commits is told to both (PTX manual, ``tcgen05.mma``, layout A).
"""

from __future__ import annotations

from msgspec.structs import replace

from convc.compiler.plan.candidate import ScheduleCandidates
from convc.compiler.plan.constraints import TiledProblem
from convc.compiler.plan.offer import Offer
from convc.compiler.plan.records import Rejection, Tiling
from convc.compiler.plan.storage import BarrierRing, Storage
from convc.ir.arch import Arch

PAIR = 2
"""CTAs of a pair."""


def paired(candidates: ScheduleCandidates, arch: Arch, *, able: bool) -> ScheduleCandidates:
    """Offer the tilings to CTA pairs, as far as these can be.

    Args:
        candidates: of a schedule, one CTA by itself.
        arch: the target.
        able: whether two CTAs can share the schedule's filter tiles.
    """
    reason = None
    if arch.tensor_core != "tcgen05":
        reason = f"2-CTA MMA needs tcgen05, and {arch.name} has {arch.tensor_core}"
    elif not able:
        reason = f"schedule {candidates.schedule.title} does not support 2-CTA MMA"
    if reason is not None:
        return replace(candidates, parts=(Rejection(rule="pairs", reason=reason),))
    return replace(
        candidates, parts=tuple(_paired(part) if isinstance(part, Offer) else part for part in candidates.parts)
    )


def _paired(offer: Offer) -> Offer | Rejection:
    """An offer whose tiles of pixels are made two at a time; of an odd number, one more is empty."""
    if offer.layout.blocks is not None:
        reason = f"{offer.layout.blocks.name} has scale factors, for which 2-CTA MMA needs another layout"
        return Rejection(rule="pairs", reason=reason)

    if offer.layout.summed:
        reason = "where pixels are summed, each CTA loads its own tiles: no 2-CTA MMA"
        return Rejection(rule="pairs", reason=reason)

    def storage(tiling: Tiling) -> Storage:
        return told_to_pairs(offer.storage(tiling))

    rows = -(-offer.rows // PAIR) * PAIR
    geometry = offer.geometry and replace(offer.geometry, spare=rows - offer.rows)
    return replace(
        offer,
        geometry=geometry,
        depths=tuple(each.in_clusters(ctas=PAIR) for each in offer.depths),
        rows=rows,
        storage=storage,
        rules=(pair_shape, *offer.rules),
    )


def told_to_pairs(storage: Storage) -> Storage:
    """The memory of a CTA of a pair: as that of one by itself, but for whose barriers are signalled."""
    return replace(storage, rings=tuple(map(_told, storage.rings)))


def _told(ring: BarrierRing) -> BarrierRing:
    """Copies tell the CTA that multiplies, and what has been multiplied is told to both; the rest is each CTA's own."""
    if "mma" not in (ring.producer, ring.consumer):
        return ring
    return replace(ring, at="leader" if ring.consumer == "mma" else "all")


def pair_shape(tiled: TiledProblem) -> str | None:
    """With M = 256, N is a multiple of 16, of 32 for whole numbers (PTX, ``tcgen05.mma`` shapes)."""
    step = 32 if tiled.layout.problem.operand_dtype.integer else 16
    n = tiled.tiling.block_n
    if n % step:
        return f"{n} columns: an MMA of a CTA pair takes multiples of {step}"
    return None
