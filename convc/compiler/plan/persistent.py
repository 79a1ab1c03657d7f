"""Persistent CTAs: at most one for each SM, which walks over tiles of the output.

The accumulator has two halves. While one is carried away, the next tile is multiplied into the other, and the tile
after that is loaded: of all epilogues only the last one is waited for. Halves are stages of a ring like those of
operand tiles: ``done`` says that one is complete, ``drained`` that it has been read. What the epilogue keeps in shared
memory needs a place of its own, since the operand tiles are in use all the time.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec

from convc.compiler.plan.candidate import Offer, ScheduleCandidates
from convc.compiler.plan.names import ACC, DONE, DRAINED
from convc.compiler.plan.pairs import PAIR
from convc.compiler.plan.records import Rejection, Tiling
from convc.compiler.plan.storage import BarrierRing, MemoryNeed, Storage, lay_out
from convc.ir.arch import Arch

HALVES = 2
"""Accumulators of a CTA: one is multiplied into, one is carried away."""

STATE = "acc"
"""The state of a role that says which of them it is at."""


def persistent(candidates: ScheduleCandidates, arch: Arch, ctas: int | None) -> ScheduleCandidates:
    """Offer the tilings to CTAs that walk over tiles, as far as these can be.

    Args:
        candidates: of a schedule, one tile a CTA.
        arch: the target.
        ctas: CTAs at most; None: one for each SM.
    """
    if arch.tensor_core != "tcgen05":
        reason = f"persistent CTAs need two accumulators in tensor memory, and {arch.name} has it in registers"
        return replace(candidates, parts=(Rejection(rule="persistent", reason=reason),))
    parts = (_walking(part, ctas or arch.rates.sms) if isinstance(part, Offer) else part for part in candidates.parts)
    return replace(candidates, parts=tuple(parts))


def _walking(offer: Offer, most: int) -> Offer | Rejection:
    """An offer with storage for two accumulators."""
    if offer.layout.blocks is not None:
        reason = f"{offer.layout.blocks.name} has scale factors, which the warps carry that would carry results"
        return Rejection(rule="persistent", reason=reason)

    if offer.tilings and offer.tilings[0].multicast[1] > 1:
        reason = "clusters of several tiles of channels do not walk along the pixels as one"
        return Rejection(rule="persistent", reason=reason)

    def storage(tiling: Tiling) -> Storage:
        return two_halves(offer.storage(tiling), offer.arch)

    def need(tiling: Tiling) -> MemoryNeed:
        return storage(tiling).need

    return replace(offer, storage=storage, need=need, most_ctas=most)


def two_halves(storage: Storage, arch: Arch) -> Storage:
    """The memory of a CTA with a second accumulator, and nothing of the epilogue over operand tiles."""
    acc = storage.tmem_tile(ACC)
    moved = (
        tile if tile.name == ACC else msgspec.structs.replace(tile, column_offset=tile.column_offset + acc.columns)
        for tile in storage.tmem
    )
    tmem = (msgspec.structs.replace(acc, stages=HALVES, state=STATE), *(tile for tile in moved if tile.name != ACC))
    done = storage.ring(DONE)
    rings = (
        *(ring for ring in storage.rings if ring.name != DONE),
        msgspec.structs.replace(done, stages=HALVES, state=STATE),
        BarrierRing(
            name=DRAINED,
            stages=HALVES,
            producer=done.consumer,
            consumer=done.producer,
            arrivals=arch.limits.tmem_lanes * (PAIR if done.at == "all" else 1),
            state=STATE,
            at="leader" if done.at == "all" else "own",
        ),
    )
    results = storage.results
    if results is not None:
        results = msgspec.structs.replace(results, offset=storage.smem[-1].end)
    return lay_out(
        storage.smem,
        tmem,
        rings,
        arch,
        masks=storage.masks,
        results=results,
        numbers=storage.numbers,
        residual=storage.residual,
    )
