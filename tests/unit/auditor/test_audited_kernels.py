"""Small kernels: a rule each that the golden kernels do not reach, and places that are not followed."""

from __future__ import annotations

import pytest

from convc.auditor import state
from convc.auditor.run import Audited, audit_kernel
from convc.ir.findings import Verdict
from convc.ir.launch import BufferSpec, LaunchSpec, PointerParam

HEAD = """.version 8.7
.target {target}
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.visible .entry k(.param .u64 out)
{directives}
{{
.reg .b32 %a, %b, %c, %warp, %rank, %smem, %tmem; .reg .b64 %out, %wide; .reg .pred %p, %q, %mine; .reg .b128 %answer;
ld.param.u64 %out, [out];
mov.u32 %smem, smem;
mov.u32 %warp, %tid.x;
shr.u32 %warp, %warp, 5;
mov.u32 %rank, %cluster_ctarank;
setp.eq.u32 %mine, %warp, 0;
"""

MEET = "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;"
FIRST = "elect.sync _|%p, 0xffffffff;\n@!%mine mov.pred %p, 0;\n"
"""%p: one lane of warp 0."""


def audited(body: str, *, directives: str = "", target: str = "sm_100a", **launch) -> Audited:
    """The audit of a kernel with a body, of two warps unless said otherwise."""
    fields = {"grid": (4, 1, 1), "block": (64, 1, 1), "shared_bytes": 65536} | launch
    text = HEAD.format(target=target, directives=directives) + body + "\nret;\n}\n"
    buffers = {"out": BufferSpec(dtype="u32", shape=(64,))}
    return audit_kernel(text, LaunchSpec(entry="k", buffers=buffers, params=(PointerParam(buffer="out"),), **fields))


def rules(found: Audited) -> set[str]:
    return {finding.rule for finding in found.findings}


def alloc(group: int = 1, columns: int = 64) -> str:
    """Warp 0 allocates, and gives back at once."""
    return f"""
    @!%mine bra allocated;
    tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32 [%smem], {columns};
    ld.shared.b32 %tmem, [%smem];
    tcgen05.dealloc.cta_group::{group}.sync.aligned.b32 %tmem, {columns};
    allocated:
    """


UNKNOWN = "ld.global.u32 %a, [%out];\nsetp.eq.u32 %q, %a, 0;\n"
"""%q: nobody knows."""


def test_a_branch_on_data_that_others_rely_on_ends_the_walk():
    found = audited(UNKNOWN + "@%q bra past;\nbar.sync 0;\npast:\n")
    assert found.findings == ()
    (unclear,) = found.unclear
    assert (unclear.lost, unclear.warps) == (True, 4)
    assert "bar" in unclear.reason


def test_a_branch_on_data_that_only_computes_is_passed_by():
    found = audited(UNKNOWN + "@%q bra past;\nadd.u32 %b, %b, 1;\nst.global.u32 [%out], %b;\npast:\nbar.sync 0;\n")
    assert (found.findings, found.unclear) == ((), ())


def test_what_was_written_on_the_way_is_not_known_behind_it():
    count = "mov.u32 %b, 64;\n@%q bra past;\nmov.u32 %b, 32;\npast:\nbar.sync 1, %b;\n"
    found = audited(UNKNOWN + count)
    assert found.findings == ()
    assert "unknown" in found.unclear[0].reason


def test_a_switch_is_followed():
    ways = """
    ts: .branchtargets zero, one;
    brx.idx %warp, ts;
    zero:
    bar.arrive 1, 64;
    bra done;
    one:
    bar.sync 1, 64;
    done:
    """
    assert audited(ways).findings == ()
    stuck = audited(ways.replace("bar.arrive 1, 64;", ""))
    assert rules(stuck) == {"no-end"}
    assert "barrier 1 of the CTA" in stuck.findings[0].message


def test_a_call_is_not_followed():
    text = HEAD.format(target="sm_100a", directives="").replace(
        ".visible .entry", ".func f()\n{\nret;\n}\n.visible .entry"
    )
    found = audit_kernel(text + "call f;\nret;\n}\n", audited_launch())
    assert "call is not followed" in found.unclear[0].reason


def audited_launch() -> LaunchSpec:
    buffers = {"out": BufferSpec(dtype="u32", shape=(64,))}
    return LaunchSpec(
        entry="k", grid=(1, 1, 1), block=(64, 1, 1), buffers=buffers, params=(PointerParam(buffer="out"),)
    )


def test_a_walk_has_an_end(monkeypatch):
    monkeypatch.setattr(state, "MOST_STEPS", 5000)
    found = audited("mov.u32 %b, 0;\nnext:\nadd.u32 %b, %b, 1;\nsetp.ne.u32 %q, %b, 0;\n@%q bra next;\nbar.sync 0;\n")
    assert found.findings == ()
    assert "stopped after" in found.unclear[0].reason


@pytest.mark.parametrize(
    ("directives", "launch", "said"),
    [
        (".reqntid 128, 1, 1", {}, "reqntid"),
        (".maxntid 32, 1, 1", {}, "maxntid"),
        (".explicitcluster\n.reqnctapercluster 2, 1, 1", {}, "reqnctapercluster"),
        ("", {"shared_bytes": 232448}, None),
    ],
)
def test_limits_of_the_launch(directives, launch, said):
    found = audited("", directives=directives, **launch)
    assert rules(found) == ({"launch-limits"} if said else set())
    assert not said or said in found.findings[0].message


def test_a_pair_needs_a_peer_that_runs():
    pair = {"directives": ".explicitcluster\n.reqnctapercluster 2, 1, 1", "cluster": (2, 1, 1)}
    assert "pair-rendezvous" in rules(audited(alloc(2), **pair))
    assert "pair-rendezvous" not in rules(audited(MEET + alloc(2) + MEET, **pair))
    relaxed = MEET.replace("arrive.release", "arrive.relaxed")
    assert "pair-rendezvous" not in rules(audited(relaxed + alloc(2) + MEET, **pair))
    assert "pair-rendezvous" in rules(audited(alloc(2)))


def test_clusters_want_no_more_columns_than_there_are():
    many = {"cluster": (2, 1, 1), "shared_bytes": 32768, "block": (256, 1, 1)}
    found = audited(MEET + alloc(1, 256) + MEET, **many)
    assert (rules(found), found.verdict) == ({"residency"}, Verdict.review)
    for promised, verdict in ((2, Verdict.review), (3, Verdict.error)):  # by the text itself, so many are on an SM
        directives = f".maxntid 256, 1, 1\n.minnctapersm {promised}"
        assert audited(MEET + alloc(1, 256) + MEET, directives=directives, **many).verdict is verdict
    assert rules(audited(MEET + alloc(1, 256) + MEET, **(many | {"shared_bytes": 98304}))) == set()
    assert rules(audited(alloc(1, 256), shared_bytes=32768)) == set(), "CTAs without peers wait for nobody"


def test_the_next_grid_comes_behind_the_allocation():
    begin = "griddepcontrol.launch_dependents;\n"
    assert "dependent-launch" in rules(audited(begin + alloc()))
    assert "dependent-launch" in rules(audited("@%mine bra past;\n" + begin + "past:\n" + alloc()))
    assert "dependent-launch" not in rules(audited(alloc() + "bar.sync 0;\n" + begin))


def asked(times: str) -> str:
    """One lane asks for other CTAs, each time it is told ``times`` of %q."""
    return f"""
    {FIRST}
    @!%p bra over;
    mbarrier.init.shared::cta.b64 [%smem], 1;
    fence.mbarrier_init.release.cluster;
    mov.u32 %b, 0;
    next:
    fence.proxy.async.shared::cta;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%smem], 16;
    clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%smem+16], [%smem];
    wait:
    mbarrier.try_wait.parity.shared::cta.b64 %q, [%smem], %b;
    @!%q bra wait;
    xor.b32 %b, %b, 1;
    ld.shared::cta.b128 %answer, [%smem+16];
    clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %q, %answer;
    {times}
    over:
    """


FETCH = "@%q clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %c, %answer;\n@%q bra next;"


def test_nobody_asks_behind_a_refusal():
    assert rules(audited(asked(FETCH))) == set()
    again = FETCH + "\nadd.u32 %a, %a, 1;\nsetp.lt.u32 %q, %a, 2;\n@%q bra next;"
    assert rules(audited("mov.u32 %a, 0;\n" + asked(again))) == {"launch-control"}
    blind = FETCH.replace("@%q clusterlaunch", "clusterlaunch")
    assert rules(audited(asked(blind))) == {"launch-control"}


def test_an_answer_is_fenced_before_the_next():
    assert rules(audited(asked(FETCH).replace("fence.proxy.async.shared::cta;", ""))) == {"proxy-fence"}


REMOTE = """
    @!%mine bra made;
    elect.sync _|%p, 0xffffffff;
    @%p mbarrier.init.shared::cta.b64 [%smem], 1;
    fence.mbarrier_init.release.cluster;
    made:
    {met}
    setp.ne.u32 %q, %rank, 0;
    @!%mine bra past;
    @!%q bra past;
    mapa.shared::cluster.u32 %b, %smem, 0;
    elect.sync _|%p, 0xffffffff;
    @%p mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%b];
    past:
    {end}
"""


def test_a_cta_stays_until_its_peers_are_done():
    pair = {"cluster": (2, 1, 1)}
    assert rules(audited(REMOTE.format(met=MEET, end=MEET), **pair)) == set()
    assert rules(audited(REMOTE.format(met=MEET, end=""), **pair)) == {"producer-tail"}
    assert "barrier-init" in rules(audited(REMOTE.format(met="", end=MEET), **pair))
    lasting = """
    @!%mine bra left;
    @%q bra left;
    wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p, [%smem], 0;
    @!%p bra wait;
    left:
    """
    assert rules(audited(REMOTE.format(met=MEET, end=lasting), **pair)) == set(), "it has waited for the signal"


def test_threads_that_meet_by_memory_are_not_judged():
    found = audited(REMOTE.format(met=MEET, end="ld.acquire.gpu.global.u32 %c, [%out];\n"), cluster=(2, 1, 1))
    assert found.findings == ()
    assert any("producer-tail is not checked" in each.reason for each in found.unclear)


STORED = """
    {fence_there}
    st.shared.u32 [%smem+1024], %warp;
    {behind}
    bar.sync 0;
    {ahead}
    @!%mine bra past;
    elect.sync _|%p, 0xffffffff;
    @%p cp.async.bulk.global.shared::cta.bulk_group [%out], [%smem+1024], 16;
    @%p cp.async.bulk.commit_group;
    cp.async.bulk.wait_group.read 0;
    past:
"""


@pytest.mark.parametrize(
    ("behind", "ahead", "expected"),
    [
        ("fence.proxy.async.shared::cta;", "", set()),
        ("fence.proxy.async;", "", set()),
        ("", "fence.proxy.async.shared::cta;", set()),
        ("", "", {"proxy-fence"}),
        ("fence.proxy.async.global;", "", {"proxy-fence"}),
        ("fence.acq_rel.cta;", "", {"proxy-fence"}),
    ],
)
def test_a_proxy_fence_stands_anywhere_on_the_way(behind, ahead, expected):
    assert rules(audited(STORED.format(fence_there="", behind=behind, ahead=ahead))) == expected


def test_a_fence_ahead_of_the_store_is_none():
    assert rules(audited(STORED.format(fence_there="fence.proxy.async;", behind="", ahead=""))) == {"proxy-fence"}


def test_warps_reach_their_own_lanes():
    body = """
    @!%mine bra past;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%smem], 64;
    ld.shared.b32 %tmem, [%smem];
    add.u32 %a, %tmem, {lane};
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%b}}, [%a];
    tcgen05.wait::ld.sync.aligned;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %tmem, 64;
    past:
    """
    assert rules(audited(body.format(lane=0))) == set()
    assert rules(audited(body.format(lane=0x200000))) == {"tcgen05-order"}
    assert rules(audited(body.format(lane=64))) == {"tensor-memory-alloc"}, "columns behind the allocation"


@pytest.mark.parametrize(("count", "right"), [(0, False), (1, True), ((1 << 20) - 1, True), (1 << 20, False)])
def test_an_mbarrier_is_made_for_as_many_arrivals_as_it_can_count(count, right):
    found = audited(f"{FIRST}@%p mbarrier.init.shared::cta.b64 [%smem], {count};")
    assert ("arrival-count" in rules(found)) != right
