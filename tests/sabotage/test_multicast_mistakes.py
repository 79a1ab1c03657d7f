"""Mistakes that only CTAs that load for each other can have are noticed: a wrong mask, count or part, no wait."""

from __future__ import annotations

import pytest
from sabotage_caught import caught, inside, with_mistake

NAME = "golden multicast_f16"
WARPS = "hopper clusters that load for each other"

MISTAKES = {
    "a peer leaves early": (inside(r"end\.sync") + r"barrier\.cluster\.wait\.acquire\.aligned;", r"\1"),
    "filters go to all CTAs": (r"mul\.lo\.s32 %ctas_b, \S+, 3;", "mov.b32 %ctas_b, 15;"),
    "filters go to the CTA alone": (r"mul\.lo\.s32 %ctas_b, (\S+), 3;", r"mov.b32 %ctas_b, \1;"),
    "activations go to the CTA's row": (r"mul\.lo\.s32 %ctas_a, \S+, 5;", "mov.b32 %ctas_a, 3;"),
    "a stage is given back to the CTA alone": (
        r"(cvt\.u16\.u32 %ctas, )%peers;", r"mov.u32 %peers, %cluster_ctarank; shl.b32 %peers, 1, %peers; \1%peers;"
    ),
    "a stage is given back to others": (r"(cvt\.u16\.u32 %ctas, )%peers;", r"xor.b32 %peers, %peers, 15; \1%peers;"),
    "a stage waits for two of three": (r"(mbarrier\.init\S+ \[\S+\], )3(;  // empty\[0:2\])", r"\g<1>2\2"),
    "a stage waits for more than there are": (r"(mbarrier\.init\S+ \[\S+\], )3(;  // empty\[0:2\])", r"\g<1>4\2"),
    "bytes of the CTA's own copies": (r"(mbarrier\.arrive\.expect_tx\S+ _, \[\S+\], )22528", r"\g<1>11264"),
    "the same part of the filter twice": (r"mul\.lo\.s32 %at_b, \S+, 3072;", "mov.b32 %at_b, 0;"),
    "the same part of the pixels twice": (r"mul\.lo\.s32 %at_a, \S+, 8192;", "mov.b32 %at_a, 0;"),
}  # fmt: skip


TOLD_BY_WARPS = {name: MISTAKES[name] for name in (
    "a peer leaves early", "filters go to all CTAs", "activations go to the CTA's row",
)} | {
    "a stage is given back to the CTA alone": (
        r"and\.b32 %bar, %bar, %peers;", r"mov.u32 %peers, %cluster_ctarank; shl.b32 %peers, 1, %peers; \g<0>"
    ),
    "a stage is given back to others": (r"and\.b32 %bar, %bar, %peers;", r"xor.b32 %peers, %peers, 15; \g<0>"),
    "another CTA is told": (r"mapa\.shared::cluster\.u32 %bar, %bar, %own;", "mapa.shared::cluster.u32 %bar, %bar, 0;"),
    "a stage waits for two of three": (r"(mbarrier\.init\S+ \[\S+\], )12(;  // empty\[0\])", r"\g<1>8\2"),
    "MMAs are not waited for": (r"wgmma\.wait_group\.sync\.aligned 1;", "wgmma.wait_group.sync.aligned 2;"),
}  # fmt: skip
"""Of Hopper's warps, each of which tells the CTAs of its mask."""


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_mistake_of_a_cluster_is_noticed(mistake):
    assert caught(NAME, with_mistake(NAME, *MISTAKES[mistake]))


@pytest.mark.parametrize("mistake", TOLD_BY_WARPS)
def test_the_mistake_of_warps_is_noticed(mistake):
    assert caught(WARPS, with_mistake(WARPS, *TOLD_BY_WARPS[mistake]))
