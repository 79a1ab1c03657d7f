"""Mistakes in the start of a kernel are noticed: a warp that begins before there are barriers, or says so too early.

The warp that loads makes the barriers, tells the others, and goes on without them; CTAs of a cluster wait for the
barriers of the others before that.
"""

from __future__ import annotations

import pytest
from sabotage_caught import caught, inside, with_mistake

ALONE, PAIR, CLUSTER = "f16", "golden pair_f16", "golden multicast_f16"
WARPS = "hopper clusters that load for each other"

INIT = r"(// ==== init: (?s:(?!// ====).)*?)"
TELL = r"bar\.arrive 2, 192;"
WAIT = "barrier.cluster.wait.acquire.aligned;"
BY_ONE = "{{ .reg .pred %other; setp.ne.u32 %other, %warp, 5; @%other bra others; {} others: bar.warp.sync -1; }}"
AT_THE_END = r"barrier\.cluster\.wait\.acquire\.aligned;((?s:.)*?//@ step=end\.sync (?s:.)*?)(barrier\.cluster\.arrive)"

MISTAKES = {
    "another warp makes the barriers": (ALONE, INIT + r"(?<=setp\.ne\.u32 %skip, %warp, )5;", r"\g<1>4;"),
    "the warp that loads tells nobody": (ALONE, TELL, ""),
    "nobody waits for the warp that loads": (ALONE, rf"{TELL}((?s:.)*?bar\.sync 2, )192;", r"\g<1>160;"),
    "the warp that loads tells before it has made the barriers": (
        ALONE, rf"(    // ==== init: )((?s:.)*?){TELL}", rf"    {BY_ONE.format('bar.arrive 2, 192;')}\n\1\2",
    ),
    "the warp that loads of a pair does not wait for its peer": (
        PAIR, inside(r"begin\.met") + AT_THE_END, rf"\1\2{BY_ONE.format(WAIT)}\3",
    ),
    "the warp that loads of a cluster does not wait for its peers": (
        CLUSTER, inside(r"begin\.met") + AT_THE_END, rf"\1\2{BY_ONE.format(WAIT)}\3",
    ),
    "the warps of a cluster do not wait for its peers": (
        WARPS, inside(r"start\.sync") + AT_THE_END, rf"\1\2{WAIT}\3",
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_mistake_of_a_start_is_noticed(mistake):
    name, pattern, wrong = MISTAKES[mistake]
    assert caught(name, with_mistake(name, pattern, wrong))
