"""Persistent CTAs: at most one for each SM, which makes tiles of the output one after the other.

The accumulator has two halves. While one is stored, the next tile is multiplied into the other, and the tile
after that is loaded: of all epilogues only the last one is waited for. Halves are stages of a ring like those of
operand tiles: ``done`` says that one is complete, ``drained`` that it has been read. What the epilogue keeps in shared
memory needs a place of its own, since the operand tiles are in use all the time. A ring may have more stages than a
tile has steps: the loads of the next tiles run ahead. Each tile has masks of its own, so that there are two tables of
them: the warps that carry a tile away fill that of the next one before.

Where the accumulator lies in registers of the warps that store it, there is one: the loads of the next tiles run
ahead while it is stored.
"""

from __future__ import annotations

from msgspec.structs import replace

from convc.compiler.plan.candidate import ScheduleCandidates
from convc.compiler.plan.candidates import MAX_STAGES
from convc.compiler.plan.names import ACC, ANSWERED, ANSWERS, DONE, DRAINED, HEARD
from convc.compiler.plan.offer import Offer
from convc.compiler.plan.pairs import PAIR
from convc.compiler.plan.records import Pipeline, Rejection, Tiling
from convc.compiler.plan.residency import bytes_alone
from convc.compiler.plan.storage import (
    ANSWER_BYTES,
    EVERY_ROLE,
    MASKS,
    BarrierRing,
    SmemTile,
    Storage,
    lay_out,
)
from convc.compiler.plan.tiling import Depths
from convc.compiler.plan.work import CtaWork
from convc.host_layout.device_layout import DeviceLayout
from convc.ir.arch import Arch

NUMBER_BYTES = 4
"""Of a number that the epilogue adds to a channel, or that it multiplies it with."""

MOST_HELD = 128
"""Numbers of the epilogue that a thread keeps in registers, of which it has 255 (``ptxas -v`` spills none of them)."""

HALVES = 2
"""Accumulators of a CTA: one is multiplied into, one is stored."""

STATE = "acc"
"""The state of a role that says which of them it is at."""


AHEAD = 3
"""Answers that there is room for: the role that loads is ahead of the epilogue by less."""

ASKED = "asked"
"""The state of a role that says which answer is next."""

LISTENERS = 2
"""Roles besides the epilogue that read an answer, one thread of each."""


def persistent(
    candidates: ScheduleCandidates,
    arch: Arch,
    ctas: int | None,
    stages: int | None = None,
    *,
    dynamic: bool = False,
) -> ScheduleCandidates:
    """Offer the tilings to persistent CTAs, as far as these can be.

    Args:
        candidates: of a schedule, one tile a CTA.
        arch: the target.
        ctas: CTAs at most; None: one for each SM.
        stages: of operand tiles; None: as many as is best.
        dynamic: each tile has a CTA in the grid, and those that run take over tiles of those that have not begun.
    """
    most = ctas or arch.rates.sms
    parts = (_persistent(part, most, stages, dynamic) if isinstance(part, Offer) else part for part in candidates.parts)
    return replace(candidates, parts=tuple(parts))


def _persistent(offer: Offer, most: int, stages: int | None, dynamic: bool) -> Offer | Rejection:
    if offer.layout.blocks is not None:
        reason = f"{offer.layout.blocks.name} has scale factors, which the epilogue's warps copy: no persistent CTAs"
        return Rejection(rule="persistent", reason=reason)

    if offer.depths and offer.first.multicast[1] > 1:
        reason = "clusters with several tiles of channels do not support persistent CTAs"
        return Rejection(rule="persistent", reason=reason)

    def storage(tiling: Tiling) -> Storage:
        once = offer.laid(tiling)
        if offer.arch.limits.tmem_columns:
            if held(offer.layout, tiling):
                once = replace(once, numbers=None)
            halves = two_halves(once, offer.arch)
            return with_answers(halves, offer.arch) if dynamic else halves
        columns = -(-offer.layout.problem.out_channels // tiling.block_n) * tiling.block_n
        return in_registers(once, columns, offer.arch)

    def work(tiling: Tiling, pipeline: Pipeline) -> CtaWork:
        once = offer.done(tiling)
        keeps = offer.arch.limits.tmem_columns > 0 and once.slabs > 0 and held(offer.layout, tiling)
        return replace(once, held=keeps)

    ahead = offer.depths if stages is not None else tuple(map(deeper, offer.depths))
    alone = offer.arch.limits.tmem_columns > 0 and (offer.alone or dynamic)
    return replace(offer, depths=ahead, storage=storage, work=work, most_ctas=most, dynamic=dynamic, alone=alone)


def deeper(each: Depths) -> Depths:
    """The tilings, and those with more stages than a tile has steps, in which loads of the next tiles run ahead."""
    a_stages, b_stages = each.stages[-1]
    if a_stages:
        return each
    more = tuple((0, depth) for depth in range(b_stages + 1, MAX_STAGES + 1))
    return replace(each, stages=each.stages + more)


def held(layout: DeviceLayout, tiling: Tiling) -> bool:
    """Whether the numbers of the epilogue stay in registers: one for each of few channels, the same for all tiles.

    Beside MMAs that read operands all the time, threads get 4.6 bytes a cycle of the port of shared memory
    (`shared_memory.beside`), so that numbers in there would take longer than all else in the epilogue.
    """
    one = len(layout.bias.shape) == 1
    return one and layout.problem.out_channels <= tiling.block_n <= MOST_HELD


def two_halves(storage: Storage, arch: Arch) -> Storage:
    """The memory of a CTA with a second accumulator, and nothing of the epilogue over operand tiles."""
    acc = storage.tmem_tile(ACC)
    moved = (
        tile if tile.name == ACC else replace(tile, column_offset=tile.column_offset + acc.columns)
        for tile in storage.tmem
    )
    tmem = (replace(acc, stages=HALVES, state=STATE), *(tile for tile in moved if tile.name != ACC))
    done = storage.ring(DONE)
    rings = (
        *(ring for ring in storage.rings if ring.name != DONE),
        replace(done, stages=HALVES, state=STATE),
        BarrierRing(
            name=DRAINED,
            stages=HALVES,
            producer=done.consumer,
            consumer=done.producer,
            arrivals=arch.limits.tmem_lanes * (PAIR if done.at == "all" else 1),
            state=MASKS if storage.masks else STATE,
            at="leader" if done.at == "all" else "own",
            ahead=storage.masks > 0,
        ),
    )
    results = storage.results
    if results is not None:
        results = replace(results, offset=storage.smem[-1].end)
    placed = lay_out(
        storage.smem,
        tmem,
        rings,
        arch,
        masks=storage.masks,
        mask_tables=HALVES if storage.masks else 1,
        results=results,
        numbers=storage.numbers,
        residual=storage.residual,
    )
    # What keeps an SM for itself goes on doing so, however many CTAs are asked for.
    return replace(placed, smem_bytes=max(placed.smem_bytes, storage.smem_bytes))


def in_registers(storage: Storage, columns: int, arch: Arch) -> Storage:
    """The memory of a CTA whose accumulator is in registers, and so of one tile at a time.

    Results have a place of their own, since the operands of the next tile are loaded meanwhile. What is added to each
    channel is there for all tiles, `columns` of them, and brought once.
    """
    results = storage.results
    if results is not None:
        results = replace(results, offset=storage.smem[-1].end)
    numbers = storage.numbers
    if numbers is not None:
        row = NUMBER_BYTES * columns
        numbers = replace(numbers, row_bytes=row, stage_bytes=numbers.rows * row)
    return lay_out(storage.smem, storage.tmem, storage.rings, arch, results=results, numbers=numbers)


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
        offset=-(-placed.end // ANSWER_BYTES) * ANSWER_BYTES,
        state=ASKED,
    )
    return replace(placed, answers=answers, smem_bytes=max(answers.end, bytes_alone(arch)))
