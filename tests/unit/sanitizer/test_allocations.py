"""Tensor memory that CTAs get together, or wait for: each rule with a kernel that breaks it and one that does not."""

from __future__ import annotations

import pytest
from check_kernels import MEET, check, line_of, only_error, rules
from support.kernels import module

from convc.ir.findings import Verdict

SHARED = ".extern .shared .align 1024 .b8 smem[];\n"
HEAD = """
.reg .b32 %t, %w, %s, %slot, %d, %rank; .reg .pred %p, %skip;
mov.u32 %t, %tid.x; shr.u32 %w, %t, 5; mov.u32 %s, smem; mov.u32 %rank, %cluster_ctarank; mov.u32 %slot, %s;
"""
PAIR = """
{before}
setp.ne.u32 %skip, %w, {warp}; @%skip bra GOT;
{at_once}
tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%slot], 32;
tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;
GOT: bar.sync 0;
ld.shared.b32 %d, [%slot];
{end}
setp.ne.u32 %skip, %w, {warp}; @%skip bra DONE;
tcgen05.dealloc.cta_group::2.sync.aligned.b32 %d, 32;
DONE:
"""
ARRIVE, WAIT = MEET.replace("; ", ";\n").splitlines()
RELAXED = ARRIVE.replace("release", "relaxed")


def pair(before: str = MEET, *, warp: str = "0", at_once: str = "", end: str = MEET) -> str:
    body = HEAD + PAIR.format(before=before, warp=warp, at_once=at_once, end=end)
    return module(body.replace("; ", ";\n"), shared=SHARED)


def run(text: str, *, cluster: int = 2, shared: int = 1024):
    return check(text, grid=2 * cluster, cluster=cluster, threads=64, shared=shared)


@pytest.mark.parametrize("before", [MEET, f"{RELAXED} {WAIT}"])
def test_a_pair_that_has_met_allocates(before):
    """A relaxed arrival orders no memory, and says that its CTA runs."""
    assert rules(run(pair(before))) == set()


def test_the_warp_that_allocates_has_to_wait_itself():
    """An arrival says nothing of the peer, and neither does the wait of another warp."""
    text = pair(ARRIVE, end=f"{WAIT} {MEET}")
    found = only_error(run(text))
    assert (found.rule, found.line, found.warp) == ("pair-allocation", line_of(text, "tcgen05.alloc"), 0)
    assert found.message == (
        f"tcgen05.alloc of both CTAs of a pair before CTA {1 - found.cta} is known to run: "
        "let this warp wait at barrier.cluster first"
    )
    arrive, late = "barrier.cluster.arrive.release;", "barrier.cluster.wait.acquire;"
    other = f"setp.eq.u32 %skip, %w, 0; @%skip bra HERE; {late} HERE: bar.warp.sync 0xffffffff;"
    first = f"setp.ne.u32 %skip, %w, 0; @%skip bra OVER; {late} OVER: bar.warp.sync 0xffffffff; {MEET}"
    assert only_error(run(pair(f"{arrive} {other}", end=first))).rule == "pair-allocation"
    assert rules(run(pair(f"{arrive} {other} bar.sync 0;", end=first))) == set()


def test_a_pair_that_never_meets_allocates_by_chance():
    text = pair("", end="bar.sync 0;")
    assert only_error(run(text)).rule == "pair-allocation"


def test_the_permit_of_a_pair_goes_back_when_both_run():
    text = module(
        (HEAD + "tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;" + MEET).replace("; ", ";\n"), shared=SHARED
    )
    found = only_error(run(text))
    assert (found.rule, found.line) == ("pair-allocation", line_of(text, "relinquish"))


def test_both_ctas_of_a_pair_allocate_by_the_same_warp():
    """CUTLASS demands it (``Allocator2Sm``)."""
    found = only_error(run(pair(warp="%rank")))
    assert found.rule == "pair-allocation"
    assert found.message.startswith(
        "the CTAs of a pair must allocate in the same warp and keep the address at the same offset"
    )
    assert "in warp 0, at 0x400" in found.message
    assert "in warp 1, at 0x400" in found.message


def test_both_ctas_of_a_pair_keep_the_address_at_the_same_place():
    """The even CTA's allocation stores it in the odd one."""
    found = only_error(run(pair("mad.lo.u32 %slot, %rank, 16, %s; " + MEET)))
    assert found.rule == "pair-allocation"
    assert "in warp 0, at 0x400" in found.message
    assert "in warp 0, at 0x410" in found.message


ALONE = """
setp.ne.u32 %skip, %w, 0; @%skip bra GOT;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%slot], {columns};
GOT: bar.sync 0;
ld.shared.b32 %d, [%slot];
{before}
setp.ne.u32 %skip, %w, 0; @%skip bra DONE;
tcgen05.dealloc.cta_group::1.sync.aligned.b32 %d, {columns};
DONE: {after}
"""


def keeping(columns: int, before: str, after: str) -> str:
    body = HEAD + ALONE.format(columns=columns, before=before, after=after)
    return module(body.replace("; ", ";\n"), shared=SHARED)


def test_clusters_that_keep_columns_for_each_other_may_wait_in_a_circle():
    """256 columns: two CTAs have some, and with 70000 bytes of shared memory an SM takes three."""
    text = keeping(256, MEET, "")
    (found,) = run(text, shared=70000).findings
    assert (found.rule, found.verdict) == ("tensor-memory-residency", Verdict.review)
    assert found.line == line_of(text, "tcgen05.dealloc")
    assert "3 CTAs with 256 columns each fit on an SM by shared memory and threads, which has 512" in found.message
    assert rules(run(text, shared=76816)) == set()
    assert rules(run(keeping(128, MEET, ""), shared=70000)) == set()


def test_ctas_that_give_columns_back_before_they_meet_wait_for_nobody():
    assert rules(run(keeping(256, "bar.sync 0;", MEET), shared=70000)) == set()
    assert rules(run(keeping(256, MEET, ""), cluster=1, shared=70000)) == set()


def test_a_pair_gets_its_columns_at_once():
    text = pair().replace("], 32;", "], 512;").replace("%d, 32;", "%d, 512;")
    assert rules(run(text)) == set()


def test_ctas_of_a_cluster_that_allocate_alone_keep_the_address_where_they_like():
    apart = "mad.lo.u32 %slot, %rank, 16, %s; " + MEET
    assert "pair-allocation" not in rules(run(pair(apart).replace("cta_group::2", "cta_group::1")))
