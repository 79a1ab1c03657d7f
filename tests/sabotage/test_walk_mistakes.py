"""Mistakes of persistent CTAs are noticed: a tile made twice or never, a half that is reused too early."""

from __future__ import annotations

import pytest
from sabotage_caught import caught, inside, with_mistake

STEP = r"(add\.u32 %tile, %tile, )2;"
LIMIT = r"(setp\.lt\.u32 %more, %tile, )10;"
AWAITED = inside(r"mma\.{}") + r"mbarrier\.try_wait\S+ %passed,[^;]*;"
TAKE = r"(@%granted clusterlaunchcontrol\.query_cancel\.get_first_ctaid::x\.b32\.b128) %tile, %answer;"
AGAIN = inside(r"epilogue\.again") + r"(?<=\{)"
PASS = r"\1setp.eq.u32 %passed, 0, 0;"

WALK, FETCH, ORDER = "golden persistent_f16", "golden dynamic_f16", "golden tile_order_f16"
MASKS = "slide, persistent CTAs over masked tiles"
HELD = "persistent CTAs, bias in registers"
MISTAKES = {
    "tiles are visited twice": (WALK, STEP, r"\g<1>1;"),
    "half of the tiles are never visited": (WALK, STEP, r"\g<1>4;"),
    "the last tile is never visited": (WALK, LIMIT, r"\g<1>9;"),
    "one role leaves the last tile out": (WALK, rf"(?s)(step=mma.*?{LIMIT[1:]}", r"\g<1>9;"),
    "a half is reused too early": (WALK, AWAITED.format("drained"), PASS),
    "a half is given back before it has been read": (
        WALK, AGAIN, r"\1 .reg .b32 %half; mad.lo.u32 %half, %stage_acc, 8, %smem;"
        r" mbarrier.arrive.shared::cta.b64 _, [%half+57392];",
    ),
    "a half is given back by one warp less": (WALK, r"(mbarrier\.init\S+ \[%bar\+57392\], )128;", r"\g<1>96;"),
    "one half alone": (WALK, r"mad\.lo\.u32 %acc, %stage_acc, 48,", "mad.lo.u32 %acc, 0, 48,"),
    "tiles that are granted are never visited": (FETCH, TAKE, ""),
    "tiles that are granted are visited twice": (FETCH, TAKE, r"\1 %tile, %answer; and.b32 %tile, %tile, 14;"),
    "an answer is read too early": (FETCH, AWAITED.format("answered"), PASS),
    "masks are read before they are there": (MASKS, AWAITED.format("drained"), PASS),
    "masks are said to be there by three warps": (
        MASKS, r"(mbarrier\.init\S+ \[\S+\], )128(;\s+// drained\[)", r"\g<1>96\2",
    ),
    "masks of the tile before are read": (MASKS, r"mad\.lo\.u32 %from, %stage_masks, \d+, %from;", ""),
    "masks are those of this tile, not of the next": (
        MASKS, inside(r"epilogue\.tile_m_next") + r"(?<=add\.s32 %t1, %tile, )3;", r"\g<1>0;",
    ),
    "sums of two tiles ago stay": (MASKS, inside(r"epilogue\.zero") + r"tcgen05\.st\S+ [^;]*;", r"\1"),
    "numbers of other channels are held": (HELD, inside(r"epilogue\.numbers") + r"(?<=%from\+)16\]", r"\g<1>0]"),
    "some numbers are never read": (HELD, r"ld\.global\.nc\.v4\.b32 \{%held60, [^;]*;", ""),
    "a tile has numbers of the channels behind it": (HELD, r"mov\.b32 %tile_k, 0;", "mov.b32 %tile_k, 128;"),
    "channels have the numbers of others": (HELD, r"%held([1-9])([1-9]);", r"%held\2\1;"),
    "the second slab has numbers of the first": (HELD, r"%held6(\d);", r"%held\1;"),
    "a number that is added is no longer held": (
        HELD, r"(add\.rn\.f32 %v5, %v5, %held5;)", r"\1 add.rn.f32 %held5, %held5, 0f3F800000;",
    ),
    "a tile is in the list twice, another never": (ORDER, r"(places\[\d+\] = \{\s*)(\w+), \w+", r"\1\2, \2"),
}  # fmt: skip


@pytest.mark.one_of(2)
@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_mistake_of_a_walk_is_noticed(mistake):
    name, pattern, wrong = MISTAKES[mistake]
    assert caught(name, with_mistake(name, pattern, wrong))
