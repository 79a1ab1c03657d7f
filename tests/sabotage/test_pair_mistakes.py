"""Mistakes that only CTA pairs can have are noticed: one of the two leaves early, or a signal goes astray."""

from __future__ import annotations

import pytest
from sabotage_caught import caught, inside, with_mistake

NAME = "golden pair_f16"
COMMIT = inside(r"mma\.{}") + r"(?<=mov\.b16 %ctas, )0x3"

MISTAKES = {
    "a peer leaves early": (inside(r"end\.sync") + r"barrier\.cluster\.wait\.acquire\.aligned;", r"\1"),
    "operands are told to the wrong CTA": (r"(mapa\.\S+ %lead, %smem, )0", r"\g<1>1"),
    "a stage is given back to the first CTA alone": (COMMIT.format("release"), r"\g<1>0x1"),
    "a stage is given back to the second CTA alone": (COMMIT.format("release"), r"\g<1>0x2"),
    "the first CTA alone hears of the accumulator": (COMMIT.format("done"), r"\g<1>0x1"),
    "both CTAs multiply": (r"setp\.ne\.or\.u32 %skip, %rank, 0, %skip;", ""),
    "bytes of one CTA": (r"(@%first mbarrier\.arrive\.expect_tx\S+ _, \[\S+\], )45056", r"\g<1>22528"),
    "the same half of the filter twice": (r"(mul\.lo\.s32 %\w+, )%rank, 48", r"\g<1>0, 48"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_mistake_of_a_pair_is_noticed(mistake):
    assert caught(NAME, with_mistake(NAME, *MISTAKES[mistake]))


@pytest.mark.parametrize("which", ["first", "next"])
def test_masks_of_the_second_cta_alone_are_noticed(which):
    """The first one multiplies for both, and reads a table that nobody has filled, or that of the tile before."""
    name = "slide in CTA pairs that walk, masks"
    other = with_mistake(name, inside(rf"epilogue\.masks_{which}") + r"setp\.ne(?=\.u32 %second)", r"\1setp.eq")
    assert caught(name, other)
