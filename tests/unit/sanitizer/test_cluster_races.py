"""Races between the CTAs of one cluster: each kernel is clean; without one thing, an error names who is not ordered."""

from __future__ import annotations

import pytest
from check_kernels import LEADER, MEET, check, errors, line_of, only_error, rules
from situations import once, read, wait
from situations_cluster import at, cluster
from support.kernels import module

from convc.ir.findings import Verdict
from convc.ir.tensormap import TensorMap

SHARED = ".shared .align 1024 .b8 data[2048];\n"
BELL = 1024
"""The barrier, after the data."""

HEAD = """
.reg .b32 %t, %rank, %peer, %s, %r, %v, %w, %bar, %far; .reg .b64 %a; .reg .pred %p, %q, %skip;
mov.u32 %t, %tid.x; mov.u32 %rank, %cluster_ctarank; xor.b32 %peer, %rank, 1; mov.u32 %s, data; add.u32 %bar, %s, 1024;
mapa.shared::cluster.u32 %r, %s, %peer; mapa.shared::cluster.u32 %far, %bar, %peer;
"""
INIT = f"""{LEADER.format(label="READY")}
mbarrier.init.shared::cta.b64 [%bar], 1; fence.mbarrier_init.release.cluster;
READY: bar.warp.sync 0xffffffff;
"""
WAIT = "WAIT: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p, [%bar], 0; @!%p bra WAIT;"
SEND = f"""{LEADER.format(label="SENT")}
st.shared::cluster.u32 [%r], %t;
mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%far];
SENT: bar.warp.sync 0xffffffff;
"""


def pair(*parts: str, maps: tuple[str, ...] = ()) -> str:
    """A kernel for clusters of two: the lines of its parts, each instruction on its own."""
    body = "\n".join(parts).replace("; ", ";\n")
    return module(HEAD.replace("; ", ";\n") + body, shared=SHARED, maps=maps)


def run(text: str, **more):
    return check(text, grid=4, cluster=2, threads=32, **more)


STORE = pair(INIT, MEET, SEND, WAIT, "ld.shared.u32 %v, [%s];", MEET)


def test_a_remote_store_is_ordered_by_a_remote_arrival():
    assert rules(run(STORE)) == set()


def test_a_wait_that_is_missing_is_a_race_with_the_peer():
    text = pair(INIT, MEET, SEND, "ld.shared.u32 %v, [%s];", MEET)
    found = only_error(run(text))
    load, store = line_of(text, "ld.shared.u32 %v"), line_of(text, "st.shared::cluster")
    assert found.rule == "race-shared-memory"
    assert found.message == (
        f"read by warp 0 of CTA 0 (ld, line {load}) is not ordered after write by warp 0 of CTA 1 (st, line {store})"
    )
    assert (found.cta, found.warp, found.lanes, found.line) == (0, 0, tuple(range(32)), load)
    assert (found.other.cta, found.other.warp, found.other.lanes, found.other.line) == (1, 0, (0,), store)
    assert (found.region.buffer, found.region.runs) == (None, ((1024, 1027),))


def test_an_arrival_before_the_store_does_not_order_it():
    swapped = SEND.split("\n")
    swapped[1], swapped[2] = swapped[2], swapped[1]
    found = only_error(run(pair(INIT, MEET, "\n".join(swapped), WAIT, "ld.shared.u32 %v, [%s];", MEET)))
    assert "read by warp 0 of CTA 0 (ld" in found.message
    assert "is not ordered after write by warp 0 of CTA 1 (st" in found.message


def test_a_barrier_of_a_peer_must_be_there_before_it_is_used():
    found = errors(run(pair(INIT, SEND, WAIT, "ld.shared.u32 %v, [%s];", MEET)))
    assert {f.rule for f in found} == {"race-shared-memory", "peer-not-started"}
    race = next(f for f in found if f.rule == "race-shared-memory")
    assert "read by warp 0 of CTA 0 (mbarrier" in race.message
    assert "is not ordered after write by warp 0 of CTA 1 (init" in race.message


def test_a_peer_must_have_started():
    text = pair("st.shared::cluster.u32 [%r], %t;", MEET)
    found = only_error(run(text))
    assert found.rule == "peer-not-started"
    assert found.message == (
        f"write by warp 0 of CTA 0 (st, line {line_of(text, 'st.shared::cluster')}) accesses the memory of CTA 1 "
        "before that CTA is known to run"
    )
    assert rules(run(pair(MEET, "st.shared::cluster.u32 [%r], %t;", MEET))) == set()


RELAXED = "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.acquire.aligned;"


def test_a_relaxed_arrival_passes_on_what_a_fence_released():
    """fence.mbarrier_init releases the barrier alone; other stores need a fence of the cluster."""
    assert rules(run(pair(INIT, RELAXED, SEND, WAIT, "ld.shared.u32 %v, [%s];", MEET))) == set()
    exchange = "st.shared.u32 [%s], %t; {fence} " + RELAXED + " ld.shared::cluster.u32 %v, [%r];" + MEET
    for fence in ("fence.acq_rel.cluster;", "membar.gl;", "fence.release.cluster;"):
        assert rules(run(pair(exchange.format(fence=fence)))) == set()
    for fence in ("", "fence.acq_rel.cta;", "fence.acquire.cluster;", "fence.mbarrier_init.release.cluster;"):
        found = only_error(run(pair(exchange.format(fence=fence))))
        assert "read by warp 0 of CTA 0 (ld" in found.message
        assert "write by warp 0 of CTA 1 (st" in found.message


def test_a_barrier_made_behind_the_fence_of_its_warp_is_a_rule():
    """The fence is there, and early. Without any fence, or behind that of another warp, it is an error."""
    more = f"{LEADER.format(label='MADE')} {{}} MADE: bar.warp.sync 0xffffffff;"
    fence, late = "fence.mbarrier_init.release.cluster;", "mbarrier.init.shared::cta.b64 [%bar], 1;"
    use = SEND + WAIT + "ld.shared.u32 %v, [%s];" + MEET
    for arrival, first, then, verdict in (
        (RELAXED, fence + late, "", Verdict.rule),
        (RELAXED, fence + late, fence, None),
        (RELAXED, late + fence, "", None),
        (MEET, fence + late, "", None),
        (RELAXED, late, "", Verdict.error),
    ):
        found = run(pair(more.format(first + then), arrival, use)).findings
        assert {(f.rule, f.verdict) for f in found} == ({("race-shared-memory", verdict)} if verdict else set())
        if verdict is Verdict.rule:
            assert "; PTX manual, fence.mbarrier_init, barrier.cluster: " in found[0].message
    away = "setp.ne.u32 %q, %t, 32; @%q bra OVER; " + fence + " OVER: bar.sync 0;"
    found = check(
        pair(away, more.format(late), RELAXED, "setp.ge.u32 %q, %t, 32; @%q bra DONE;", SEND, WAIT, "DONE:", MEET),
        grid=4,
        cluster=2,
        threads=64,
    ).findings
    assert ("race-shared-memory", Verdict.error) in {(f.rule, f.verdict) for f in found}


def test_a_relaxed_arrival_on_a_barrier_is_no_release():
    arrive = "mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%far];"
    for fence, clean in (("fence.acq_rel.cluster;", True), ("", False)):
        send = SEND.replace("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%far];", fence + arrive)
        checked = run(pair(INIT, MEET, send, WAIT, "ld.shared.u32 %v, [%s];", MEET))
        assert (rules(checked) == set()) is clean


def test_a_relaxed_wait_needs_a_fence():
    wait = WAIT.replace("acquire", "relaxed")
    for fence, clean in (("fence.acquire.cluster;", True), ("", False)):
        checked = run(pair(INIT, MEET, SEND, wait, fence, "ld.shared.u32 %v, [%s];", MEET))
        assert (rules(checked) == set()) is clean


# ---- copies that reach a peer ------------------------------------------------------------------------------------

MAP = TensorMap(
    mode="tile", buffer="out", dtype="u32", dims=(32, 8), strides=(128,), element_strides=(1, 1), box=(32, 1)
)
EXPECT = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 128;"
COMPLETION = "mbarrier::complete_tx::bytes"
SENDERS = {
    "multicast": f"""setp.ne.u32 %q, %rank, 0; @%q bra SENT; .reg .b16 %m; mov.u16 %m, 3; mov.u32 %w, 0;
        cp.async.bulk.tensor.2d.shared::cluster.global.tile.{COMPLETION}.multicast::cluster
        [%s], [%m_map, {{%w, %w}}], [%bar], %m;""",
    "bulk multicast": f"""setp.ne.u32 %q, %rank, 0; @%q bra SENT; .reg .b16 %m; mov.u16 %m, 3;
        cp.async.bulk.shared::cluster.global.{COMPLETION}.multicast::cluster [%s], [%p_out], 128, [%bar], %m;""",
    "peer": f"cp.async.bulk.shared::cluster.shared::cta.{COMPLETION} [%r], [%s+256], 128, [%far];",
    "reduce peer": f"""cp.reduce.async.bulk.shared::cluster.shared::cta.{COMPLETION}.add.u32
        [%r], [%s+256], 128, [%far];""",
}


def copying(sender: str, *, wait: str = WAIT, after: str = MEET, before: str = MEET) -> str:
    fill = "shl.b32 %v, %t, 2; add.u32 %v, %v, %s; st.shared.u32 [%v], %t; st.shared.u32 [%v+256], %t;"
    send = f"""{LEADER.format(label="SENT")} {EXPECT} {before if before != MEET else ""} {SENDERS[sender]}
    SENT: bar.warp.sync 0xffffffff;"""
    ready = MEET if before == MEET else ""
    return pair(
        INIT, fill, "fence.proxy.async.shared::cta;", ready, send, wait, "ld.shared.u32 %v, [%s];", after, maps=("map",)
    )


@pytest.mark.parametrize("sender", SENDERS)
def test_a_copy_into_a_peer_is_known_to_who_waits_for_it(sender):
    assert rules(run(copying(sender), maps=(MAP,))) == set()
    text = copying(sender, wait="")
    found = [f for f in errors(run(text, maps=(MAP,))) if f.rule == "race-shared-memory"]
    copier = "a copy of warp 0 of CTA 0" if "multicast" in sender else "a copy of warp 0 of CTA 1"
    assert any(
        f"(ld, line {line_of(text, 'ld.shared.u32 %v')}) is not ordered after write by {copier}" in f.message
        for f in found
    )


def test_a_multicast_overwrites_what_the_peer_may_still_read():
    """Rank 1 reads its buffer while rank 0 sends: the meeting in between is what orders them."""
    reading = "ld.shared.u32 %v, [%s]; bar.warp.sync 0xffffffff;"
    send = f"{LEADER.format(label='SENT')} {EXPECT} {SENDERS['multicast']} SENT: bar.warp.sync 0xffffffff;"
    fill = "st.shared.u32 [%s], %t;"
    clean = pair(INIT, fill, MEET, reading, "fence.proxy.async;", MEET, send, WAIT, MEET, maps=("map",))
    broken = pair(INIT, fill, "fence.proxy.async;", MEET, reading, send, WAIT, MEET, maps=("map",))
    assert rules(run(clean, maps=(MAP,))) == set()
    found = only_error(run(broken, maps=(MAP,)))
    assert "write by a copy of warp 0 of CTA 0 (copy" in found.message
    assert "is not ordered after read by warp 0 of CTA 1 (ld" in found.message


ASYNC = {
    "st.async": f"st.async.shared::cluster.{COMPLETION}.u32 [%r], %t, [%far];",
    "red.async": f"red.async.relaxed.cluster.shared::cluster.{COMPLETION}.add.u32 [%r], %t, [%far];",
}


@pytest.mark.parametrize("form", ASYNC)
def test_an_asynchronous_store_is_known_to_who_waits_for_its_bytes(form):
    send = f"""{LEADER.format(label="SENT")} mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 4; {ASYNC[form]}
    SENT: bar.warp.sync 0xffffffff;"""
    fill = "st.shared.u32 [%s], %t;"
    assert rules(run(pair(INIT, fill, MEET, send, WAIT, "ld.shared.u32 %v, [%s];", MEET))) == set()
    text = pair(INIT, fill, MEET, send, "ld.shared.u32 %v, [%s];", WAIT, MEET)
    found = only_error(run(text))
    assert f"is not ordered after write by warp 0 of CTA 1 ({form}, line {line_of(text, form)})" in found.message


# ---- atomics on a peer -------------------------------------------------------------------------------------------

COUNTER = """mov.u32 %w, 0; mapa.shared::cluster.u32 %w, %s, %w; mov.u32 %v, 1;
setp.eq.u32 %q, %rank, 0; @!%q bra GO; st.shared.u32 [%s], 0; GO: {meet}
atom.relaxed.cluster.shared::cluster.add.u32 %v, [%w], %v;
"""


def test_atomics_on_one_counter_do_not_race():
    clean = pair(COUNTER.format(meet=MEET), MEET, "ld.shared::cluster.u32 %v, [%w];", MEET)
    assert rules(run(clean)) == set()
    text = pair(COUNTER.format(meet=MEET), "ld.shared::cluster.u32 %v, [%w];", MEET)
    atom, load = line_of(text, "atom."), line_of(text, "ld.shared::cluster")
    assert {frozenset((f.line, f.other.line)) for f in errors(run(text))} == {frozenset((atom, load))}


def test_an_atomic_of_cta_scope_does_not_reach_the_peer():
    found = only_error(run(pair(COUNTER.format(meet=MEET).replace("relaxed.cluster", "relaxed.cta"), MEET)))
    assert found.rule == "scope-too-narrow"
    assert found.message.count("(atom, line") == 2
    assert found.message.endswith("their scopes do not include each other's thread; .cluster or .gpu does")
    assert {found.cta, found.other.cta} == {0, 1}


def test_clusters_of_sixteen_are_followed():
    """Each CTA signals its right neighbour; the last meeting is missing for one word of shared memory."""
    ring = HEAD.replace("xor.b32 %peer, %rank, 1", "add.u32 %peer, %rank, 1; and.b32 %peer, %peer, 15")
    body = ring + INIT + MEET + SEND + WAIT + "ld.shared.u32 %v, [%s];" + MEET
    assert rules(check(module(body, shared=SHARED), grid=16, cluster=16, threads=32)) == set()
    broken = module(body.replace(WAIT, ""), shared=SHARED)
    found = only_error(check(broken, grid=16, cluster=16, threads=32))
    assert "read by warp 0 of CTA 0 (ld" in found.message
    assert "write by warp 0 of CTA 15 (st" in found.message


def test_warps_of_every_rank_are_watched():
    """Rank 1 alone parts its lanes before an aligned instruction."""
    parted = "setp.ne.u32 %q, %rank, 1; @%q bra GO; setp.gt.u32 %p, %t, 3; @%p bra GO; st.shared.u32 [%s], %t; GO:"
    (found,) = run(pair(parted, MEET)).findings
    assert found.rule == "aligned-after-divergence"
    assert found.cta == 1
    assert rules(run(pair(parted, "bar.warp.sync 0xffffffff;", MEET))) == set()


COMMIT = once(
    "mov.b16 %mask, 3; tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64"
    " [%b], %mask;"
)
"""An arrival at the first barrier of CTA 0 and of CTA 1."""


def three_commits(counts: tuple[int, int], *then: str) -> str:
    """Three CTAs store a tile each in CTA 0, and commit to barriers of these counts; what CTAs 0 and 1 do then."""
    count = f"setp.eq.u32 %s, %rank, 0; selp.u32 %x1, {counts[0]}, {counts[1]}, %s;"
    made = count + once("mbarrier.init.shared::cta.b64 [%b], %x1; fence.mbarrier_init.release.cluster;")
    sent = "mad.lo.u32 %far, %rank, 1024, %w; mapa.shared::cluster.u32 %far, %far, 0;"
    body = sent + "st.shared::cluster.u32 [%far], %lane;" + COMMIT
    body += "".join(at(rank, wait(0) + text) for rank, text in enumerate(then))
    return cluster(body, counts=(0, 1), first=made)


@pytest.mark.parametrize(
    ("counts", "raced"),
    [((3, 3), ()), ((3, 2), ()), ((2, 3), (2,)), ((2, 2), (2,))],
    ids=["all", "all by CTA 0", "all by CTA 1", "two"],
)
def test_a_phase_passes_on_no_more_commits_than_it_needs(counts, raced):
    """Those of one event come in any order; here the last ones are in the phase behind it."""
    body = "".join(read(tile) for tile in range(3))
    text = three_commits(counts, body, "")
    found = check(text, grid=3, cluster=3, threads=32)
    lines = [number for number, line in enumerate(text.splitlines(), 1) if "ld.shared.u32 %x1" in line]
    races = [finding.line for finding in found.findings if finding.rule == "race-shared-memory"]
    assert races == [lines[tile] for tile in raced]
