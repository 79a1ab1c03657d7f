"""Mistakes of CTAs that share the K loop of a tile are noticed: another order of the parts, one that leaves early.

Sums of the kernel are not exact (`sabotage_kernels.inexact`): the first part is near 2^24 and the third near -2^24, so
that the second loses its last bit unless it comes behind them.
"""

from __future__ import annotations

import pytest
from sabotage_caught import caught, inside, with_mistake

NAME = "four split-K CTAs, in order"
PART = r"mapa\.shared::cluster\.u32 %peer, %at, {};"
ADD = "mapa.shared::cluster.u32 %peer, %at, {};"
SUMMED = inside(r"{}\.wait") + r"barrier\.cluster\.wait\.acquire\.aligned;"

MISTAKES = {
    "two parts in each other's place": (
        rf"(?s){PART.format(1)}(.*?){PART.format(2)}", rf"{ADD.format(2)}\1{ADD.format(1)}",
    ),
    "each CTA begins with its own part": (
        PART.format(r"(\d)"), r"add.u32 %peer, %part, \1; and.b32 %peer, %peer, 3; " + ADD.format("%peer"),
    ),
    "a part is added twice, another never": (PART.format(3), ADD.format(2)),
    "sums are read before they are there": (SUMMED.format("meet"), r"\1"),
    "a peer leaves early": (SUMMED.format("end"), r"\1"),
    "two CTAs take the same steps": (r"mov\.b32 %block, %part;", "shr.b32 %block, %part, 1;"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_mistake_of_a_split_is_noticed(mistake):
    assert caught(NAME, with_mistake(NAME, *MISTAKES[mistake]))


CLUSTERS = "golden workspace_f16"
ATOM = r"atom\.acq_rel\.gpu\.global\.inc"

OF_CLUSTERS = {
    "others may read before the sums are there": (ATOM, "atom.acquire.gpu.global.inc"),
    "others have not been heard": (ATOM, "atom.release.gpu.global.inc"),
    "one lane tells, the others have not met": (r"bar\.warp\.sync 0xffffffff;  // the sums", "// the sums"),
    "one lane has heard, the others have not met": (r"bar\.warp\.sync 0xffffffff;  // those", "// those"),
    "the counter is not 0 again": (r"(%before, \[%at\]), 1;", r"\1, 2;"),
    "nobody is the last": (r"setp\.ne\.u32 %more, %before, 1;", "setp.ne.u32 %more, %before, 2;"),
    "whoever is first adds": (r"setp\.ne\.u32 %more, %before, 1;", "setp.ne.u32 %more, %before, 0;"),
    "all clusters keep their sums at one place": (r"(shr\.s32 %t1, %part, )3;", r"\g<1>4;"),
    "warps of two ranks have one counter": (r"(mad\.lo\.s32 %counter, %t0, )4,", r"\g<1>0,"),
}


SLOW = {name for name, (pattern, _) in OF_CLUSTERS.items() if pattern == ATOM or "sync" in pattern}
"""Those of orders, which checkers find: `tests/kernel/test_split_k.py` has some of them too."""


@pytest.mark.parametrize(
    "mistake", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in OF_CLUSTERS]
)
def test_the_mistake_of_clusters_is_noticed(mistake):
    assert caught(CLUSTERS, with_mistake(CLUSTERS, *OF_CLUSTERS[mistake]))
