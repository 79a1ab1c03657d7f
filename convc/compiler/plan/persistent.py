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
from convc.compiler.plan.cost import bytes_alone
from convc.compiler.plan.names import ACC, ANSWERED, ANSWERS, DONE, DRAINED, HEARD
from convc.compiler.plan.pairs import PAIR
from convc.compiler.plan.records import Rejection, Tiling
from convc.compiler.plan.storage import (
    ANSWER_BYTES,
    EVERY_ROLE,
    BarrierRing,
    MemoryNeed,
    SmemTile,
    Storage,
    lay_out,
)
from convc.ir.arch import Arch

HALVES = 2
"""Accumulators of a CTA: one is multiplied into, one is carried away."""

STATE = "acc"
"""The state of a role that says which of them it is at."""


AHEAD = 3
"""Answers that there is room for: the role that loads is ahead of the epilogue by less."""

ASKED = "asked"
"""The state of a role that says which answer is next."""

LISTENERS = 2
"""Roles besides the epilogue that read an answer, one thread of each."""


def persistent(
    candidates: ScheduleCandidates, arch: Arch, ctas: int | None, *, fetched: bool = False
) -> ScheduleCandidates:
    """Offer the tilings to CTAs that walk over tiles, as far as these can be.

    Args:
        candidates: of a schedule, one tile a CTA.
        arch: the target.
        ctas: CTAs at most; None: one for each SM.
        fetched: each tile has a CTA in the grid, and those that run take over tiles of those that have not begun.
    """
    if arch.tensor_core != "tcgen05":
        reason = f"persistent CTAs need two accumulators in tensor memory, and {arch.name} has it in registers"
        return replace(candidates, parts=(Rejection(rule="persistent", reason=reason),))
    parts = (
        _walking(part, ctas or arch.rates.sms, fetched) if isinstance(part, Offer) else part
        for part in candidates.parts
    )
    return replace(candidates, parts=tuple(parts))


def _walking(offer: Offer, most: int, fetched: bool) -> Offer | Rejection:
    """An offer with storage for two accumulators."""
    if offer.layout.blocks is not None:
        reason = f"{offer.layout.blocks.name} has scale factors, which the warps carry that would carry results"
        return Rejection(rule="persistent", reason=reason)

    def storage(tiling: Tiling) -> Storage:
        halves = two_halves(offer.storage(tiling), offer.arch)
        return with_answers(halves, offer.arch) if fetched else halves

    def need(tiling: Tiling) -> MemoryNeed:
        return storage(tiling).need

    return replace(offer, storage=storage, need=need, most_ctas=most, fetched=fetched)


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


def with_answers(storage: Storage, arch: Arch) -> Storage:
    """The memory of a CTA that asks for tiles: answers behind all else, and so much that an SM holds one CTA.

    A second one would wait for tensor memory until the first has made all tiles that it gets.
    """
    rings = (
        BarrierRing(name=ANSWERED, stages=AHEAD, producer="load", consumer=EVERY_ROLE, state=ASKED),
        BarrierRing(
            name=HEARD,
            stages=AHEAD,
            producer=EVERY_ROLE,
            consumer="load",
            arrivals=arch.limits.tmem_lanes + LISTENERS,
            state=ASKED,
        ),
    )
    placed = lay_out(
        storage.smem,
        storage.tmem,
        (*storage.rings, *rings),
        arch,
        masks=storage.masks,
        results=storage.results,
        numbers=storage.numbers,
        residual=storage.residual,
    )
    answers = SmemTile(
        name=ANSWERS,
        rows=1,
        row_bytes=ANSWER_BYTES,
        swizzle="none",
        stages=AHEAD,
        stage_bytes=ANSWER_BYTES,
        offset=-(-placed.smem_bytes // ANSWER_BYTES) * ANSWER_BYTES,
        state=ASKED,
    )
    return msgspec.structs.replace(placed, answers=answers, smem_bytes=max(answers.end, bytes_alone(arch)))
