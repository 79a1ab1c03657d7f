"""Every operand of every mbarrier form is that of its thread: address, count, bytes, parity, state, CTA."""

from __future__ import annotations

import numpy as np
import pytest
from support import kernels
from support.recorded import assemble_all, recorded

from convc.errors import DeadlockError, MachineFault
from convc.ir.findings import Verdict
from convc.ir.launch import BufferSpec, LaunchSpec, PointerParam
from convc.machine import RunOptions, RunResult
from convc.machine.isa.sync import parties


@pytest.fixture(scope="module", autouse=True)
def every_kernel_is_ptx():
    with recorded() as texts:
        yield
    assemble_all(texts)


HEAD = """
.reg .b32 %t, %w, %c, %v, %g, %n, %m, %x, %s, %b, %rank; .reg .b64 %a, %l, %k; .reg .pred %p, %q, %few, %one;
mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x; mov.u32 %rank, %cluster_ctarank; shr.u32 %w, %t, 5; mov.u32 %v, 0;
mov.u32 %s, bars; setp.lt.u32 %few, %t, 4; setp.eq.u32 %one, %t, 0;
and.b32 %b, %t, 3; shl.b32 %b, %b, 3; add.u32 %b, %b, %s;
"""
"""%b: the thread's own barrier of four; %few: threads 0 to 3; %one: thread 0."""

STORE = """mov.u32 %x, %ntid.x; mad.lo.u32 %g, %c, %x, %t; mul.wide.u32 %a, %g, 4; add.u64 %a, %a, %p_out;
st.global.u32 [%a], %v;"""
MEET = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
POLICIES = [RunOptions(), RunOptions(policy="late"), RunOptions(policy="seeded", seed=3), RunOptions(cohort=1)]


def run(body: str, *, ctas: int = 2, cluster: int = 1, threads: int = 64, options=POLICIES[0], **more) -> RunResult:
    buffers = {"out": np.zeros((ctas, threads), np.uint32), **more}
    launch = LaunchSpec(
        entry="k",
        grid=(ctas, 1, 1),
        cluster=(cluster, 1, 1),
        block=(threads, 1, 1),
        params=tuple(PointerParam(buffer=name) for name in buffers),
        buffers={name: BufferSpec(dtype="u32", shape=array.shape) for name, array in buffers.items()},
    )
    shared = ".shared .align 128 .b8 words[4096];\n.shared .align 16 .b8 bars[256];\n"
    text = kernels.module(HEAD + body + STORE, shared=shared, pointers=tuple(buffers))
    return kernels.run(text, launch, buffers, options=options)


def values(body: str, **more) -> np.ndarray:
    """What each thread ends with; nothing is found."""
    found = run(body, **more)
    assert found.findings == ()
    return found.buffers["out"]


def asked(parity: str = "0") -> str:
    return f"mbarrier.test_wait.parity.shared::cta.b64 %p, [%b], {parity}; selp.u32 %v, 1, 0, %p;"


INIT = "@%few mbarrier.init.shared::cta.b64 [%b], {count}; bar.sync 0;"


def test_addresses_and_counts_of_init():
    """Barrier i counts i + 1 arrivals; each gets two."""
    body = f"""add.u32 %n, %t, 1; {INIT.format(count="%n")} setp.lt.u32 %p, %t, 8;
    setp.gt.u32 %q, %t, 3; and.pred %q, %p, %q; @%q mbarrier.arrive.shared::cta.b64 _, [%b]; bar.sync 0;
    shr.u32 %n, %t, 2; and.b32 %n, %n, 1; setp.eq.u32 %q, %n, 1; and.b32 %m, %t, 3; setp.ne.and.u32 %q, %m, 0, %q;
    setp.lt.and.u32 %q, %t, 8, %q; @%q mbarrier.arrive.shared::cta.b64 _, [%b]; bar.sync 0; {asked()}"""
    assert np.array_equal(values(body), [[1, 1, 0, 0] * 16] * 2)


def test_addresses_of_arrivals():
    body = f"{INIT.format(count=16)} mbarrier.arrive.shared::cta.b64 _, [%b]; bar.sync 0; {asked()}"
    assert (values(body) == 1).all()
    assert (values(body.replace("], 16;", "], 17;")) == 0).all()


def test_counts_of_arrivals():
    """Threads 0 to 3 arrive 1, 2, 3 and 4 times."""
    body = """@%one mbarrier.init.shared::cta.b64 [%s], {count}; bar.sync 0; add.u32 %n, %t, 1;
    @%few mbarrier.arrive.release.cta.shared::cta.b64 _, [%s], %n; bar.sync 0;
    mbarrier.test_wait.parity.shared::cta.b64 %p, [%s], 0; selp.u32 %v, 1, 0, %p;"""
    assert (values(body.format(count=10)) == 1).all()
    assert (values(body.format(count=11)) == 0).all()


def test_dropped_counts_are_those_of_each_thread():
    """Barrier i expects 20, and drops 16 (i + 1) / 4 arrivals for ever."""
    body = f"""{INIT.format(count=100)} and.b32 %n, %t, 3; add.u32 %n, %n, 1;
    mbarrier.arrive_drop.release.cta.shared::cta.b64 _, [%b], %n;
    bar.sync 0; @%few mbarrier.arrive.shared::cta.b64 %l, [%b]; @%few mbarrier.pending_count.b64 %v, %l;"""
    assert np.array_equal(values(body)[:, :4], [[84, 68, 52, 36]] * 2)


def test_bytes_of_each_thread():
    """Thread t < 4 expects 16 (t + 1) bytes and copies as many."""
    data = np.arange(256, dtype=np.uint32)
    body = """@%one mbarrier.init.shared::cta.b64 [%s], 4; fence.mbarrier_init.release.cluster; bar.sync 0;
    add.u32 %n, %t, 1; shl.b32 %n, %n, 4; mov.u32 %x, words; shl.b32 %m, %t, 8; add.u32 %x, %x, %m;
    cvt.u64.u32 %k, %m; add.u64 %k, %k, %p_data;
    @%few mbarrier.arrive.expect_tx.shared::cta.b64 _, [%s], %n;
    @%few cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%x], [%k], %n, [%s];
    W: mbarrier.try_wait.parity.shared::cta.b64 %p, [%s], 0; @!%p bra W;
    shr.u32 %m, %t, 4; shl.b32 %m, %m, 8; mov.u32 %x, words; add.u32 %x, %x, %m; ld.shared.u32 %v, [%x+12];"""
    for options in POLICIES:
        assert np.array_equal(values(body, data=data, options=options), [np.repeat([3, 67, 131, 195], 16)] * 2)


def test_bytes_without_an_arrival():
    """Every thread expects t % 3 times 16 bytes at its barrier, and its neighbour completes them."""
    body = f"""{INIT.format(count=1)} rem.u32 %n, %t, 3; shl.b32 %n, %n, 4; add.u32 %n, %n, 16;
    mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%b], %n; bar.sync 0;
    @%few mbarrier.arrive.shared::cta.b64 _, [%b]; bar.sync 0; {asked()} bar.sync 0;
    mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%b], %n; bar.sync 0; mov.u32 %m, %v; {asked()}
    mad.lo.u32 %v, %m, 10, %v;"""
    assert (values(body) == 1).all()


def test_parities_of_each_lane_and_warp():
    """A fresh barrier: the phase of parity 1 is over, that of parity 0 is not."""
    lanes = f"{INIT.format(count=1)} and.b32 %n, %t, 1; {asked('%n')}"
    assert np.array_equal(values(lanes), [[0, 1] * 32] * 2)
    warps = f"{INIT.format(count=1)} and.b32 %n, %w, 1; {asked('%n')}"
    assert np.array_equal(values(warps), [[0] * 32 + [1] * 32] * 2)


def test_a_wait_ends_when_the_barriers_of_all_lanes_have_completed():
    """Warp 1 completes the barriers of the lanes of warp 0, one by one."""
    body = f"""{INIT.format(count=1)} setp.lt.u32 %q, %t, 32; @%q bra W; mov.u32 %n, 0;
    setp.ne.u32 %q, %t, 32; @%q bra W;
    NEXT: mbarrier.arrive.shared::cta.b64 _, [%s]; add.u32 %s, %s, 8; add.u32 %n, %n, 1; setp.lt.u32 %q, %n, 4;
    @%q bra NEXT;
    W: mbarrier.try_wait.parity.shared::cta.b64 %p, [%b], 0; @!%p bra W; mov.u32 %v, 5;"""
    found = run(body)
    assert (found.buffers["out"] == 5).all()
    assert found.counters.mbarrier_waits == 4  # two warps of two CTAs


def test_who_waits_for_nobody_goes_on():
    """Warp 1 waits for a barrier that warp 0 completes behind the same wait."""
    body = f"""{INIT.format(count=1)} shl.b32 %n, %w, 3; add.u32 %n, %n, %s; xor.b32 %m, %w, 1;
    W: mbarrier.try_wait.parity.shared::cta.b64 %p, [%n], %m; @!%p bra W;
    setp.eq.u32 %q, %t, 0; @%q mbarrier.arrive.shared::cta.b64 _, [%s+8]; mov.u32 %v, 3;"""
    for options in POLICIES:
        assert (values(body, options=options) == 3).all()


def test_ctas_that_wait_for_each_other_in_turn():
    """A ring: rank 0 has the token (its wait is for parity 1), and each rank hands it on behind its wait."""
    body = f"""@%one mbarrier.init.shared::cta.b64 [%s], 1; fence.mbarrier_init.release.cluster; {MEET}
    setp.eq.u32 %q, %rank, 0; selp.u32 %n, 1, 0, %q;
    W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p, [%s], %n; @!%p bra W;
    add.u32 %m, %rank, 1; and.b32 %m, %m, 3; mapa.shared::cluster.u32 %x, %s, %m;
    @%one mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%x]; {MEET} mov.u32 %v, 8;"""
    for options in POLICIES[:3]:
        assert (values(body, ctas=8, cluster=4, options=options) == 8).all()


def test_states_are_those_of_each_thread():
    """Threads find 64 arrivals pending, 63, and so on; behind the last one all of their phases are over."""
    body = """@%one mbarrier.init.shared::cta.b64 [%s], 64; bar.sync 0; mbarrier.arrive.shared::cta.b64 %l, [%s];
    mbarrier.pending_count.b64 %v, %l; bar.sync 0;
    mbarrier.test_wait.shared::cta.b64 %p, [%s], %l; selp.u32 %n, 100, 0, %p; add.u32 %v, %v, %n;"""
    assert np.array_equal(values(body), [[164 - t for t in range(64)]] * 2)


def test_states_of_lanes_at_different_barriers():
    """Only barriers 0 and 1 complete."""
    body = f"""and.b32 %n, %t, 2; add.u32 %n, %n, 16; {INIT.format(count="%n")}
    mbarrier.arrive.shared::cta.b64 %l, [%b]; bar.sync 0;
    mbarrier.test_wait.shared::cta.b64 %p, [%b], %l; selp.u32 %v, 1, 0, %p;"""
    assert np.array_equal(values(body), [[1, 1, 0, 0] * 16] * 2)


@pytest.mark.parametrize("generic", [False, True])
@pytest.mark.parametrize("form", ["mbarrier.arrive.release.cluster", "mbarrier.arrive.expect_tx.relaxed.cluster"])
def test_lanes_arrive_at_the_barriers_of_several_ctas(form, generic):
    """A release to the whole cluster: lane i of each CTA arrives at the barrier of rank i."""
    tx = ", 0" if "expect" in form else ""
    place = "mapa.shared::cluster.u32 %x, %s, %t;"
    if generic:
        place = """cvt.u64.u32 %k, %s; cvta.shared.u64 %k, %k; mapa.u64 %k, %k, %t; cvta.to.shared.u64 %k, %k;
        cvt.u32.u64 %x, %k;"""
    body = f"""@%one mbarrier.init.shared::cta.b64 [%s], 4; fence.mbarrier_init.release.cluster; {MEET}
    @!%few bra W; {place} {form}.shared::cluster.b64 _, [%x]{tx};
    W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p, [%s], 0; @!%p bra W; {MEET} mov.u32 %v, 6;"""
    for cohort in (4, 148):
        assert (values(body, ctas=8, cluster=4, options=RunOptions(cohort=cohort)) == 6).all()


def test_bytes_for_barriers_of_several_ctas():
    """Lane i expects 16 (i + 1) bytes at rank i, and then completes them."""
    body = f"""@%one mbarrier.init.shared::cta.b64 [%s], 1; fence.mbarrier_init.release.cluster; {MEET}
    mapa.shared::cluster.u32 %x, %s, %t; add.u32 %n, %t, 1; shl.b32 %n, %n, 4;
    @%few mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64 [%x], %n; {MEET}
    @%one mbarrier.arrive.shared::cta.b64 _, [%s]; {MEET}
    mbarrier.test_wait.parity.shared::cta.b64 %p, [%s], 0; selp.u32 %m, 10, 0, %p; {MEET}
    @%few mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%x], %n; {MEET}
    mbarrier.test_wait.parity.shared::cta.b64 %p, [%s], 0; selp.u32 %v, 1, 0, %p; add.u32 %v, %v, %m;"""
    assert (values(body, ctas=8, cluster=4) == 1).all()


@pytest.mark.parametrize(("noinc", "count"), [(".noinc", 16), ("", 1)])
def test_small_copies_arrive_at_the_barrier_of_their_lane(noinc, count):
    data = np.arange(64, dtype=np.uint32) + 7
    last = "" if noinc else "@%few mbarrier.arrive.shared::cta.b64 _, [%b];"
    body = f"""{INIT.format(count=count)} mov.u32 %x, words; shl.b32 %m, %t, 2; add.u32 %x, %x, %m;
    cvt.u64.u32 %k, %m; add.u64 %k, %k, %p_data; cp.async.ca.shared.global [%x], [%k], 4;
    cp.async.mbarrier.arrive{noinc}.shared::cta.b64 [%b]; {last}
    W: mbarrier.try_wait.parity.shared::cta.b64 %p, [%b], 0; @!%p bra W; ld.shared.u32 %v, [%x];"""
    for options in POLICIES:
        assert np.array_equal(values(body, data=data, options=options), [data] * 2)


def test_barriers_of_lanes_end():
    """Memory of two of four barriers is used again; an arrival at one of them has none to go to."""
    body = f"""{INIT.format(count=1)} setp.lt.u32 %p, %t, 2; @%p mbarrier.inval.shared::cta.b64 [%b];
    add.u32 %x, %b, 16; @%p mbarrier.arrive.shared::cta.b64 _, [%x]; bar.sync 0;
    and.b32 %n, %t, 2; add.u32 %b, %n, %s; add.u32 %b, %b, 16; and.b32 %n, %t, 1; shl.b32 %n, %n, 3;
    mov.u32 %b, %s; add.u32 %b, %b, 16; add.u32 %b, %b, %n; {asked()}"""
    assert (values(body) == 1).all()
    with pytest.raises(MachineFault, match="no initialised mbarrier"):
        run(body + "@%few mbarrier.arrive.shared::cta.b64 _, [%s];")


def test_commits_of_lanes():
    """Threads 0 to 3 commit, each to its barrier."""
    body = f"""{INIT.format(count=1)}
    @%few tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%b];
    W: mbarrier.try_wait.parity.shared::cta.b64 %p, [%b], 0; @!%p bra W; mov.u32 %v, 4;"""
    for options in POLICIES:
        assert (values(body, options=options) == 4).all()


def test_commits_of_lanes_with_masks():
    """Lane i of each CTA commits to the CTAs of mask i + 1: rank 0 hears lanes 0 and 2, rank 1 lanes 1 and 2."""
    body = f"""{{ .reg .b16 %mask; @%one mbarrier.init.shared::cta.b64 [%s], 4;
    fence.mbarrier_init.release.cluster; {MEET} add.u32 %n, %t, 1; cvt.u16.u32 %mask, %n; setp.lt.u32 %p, %t, 3;
    @%p tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%s], %mask;
    W: mbarrier.try_wait.parity.shared::cta.b64 %p, [%s], 0; @!%p bra W; {MEET} mov.u32 %v, 4; }}"""
    for options in POLICIES[:3]:
        assert (values(body, ctas=4, cluster=2, options=options) == 4).all()


# ---- what goes wrong ---------------------------------------------------------------------------------------------


def test_several_threads_that_initialise_one_barrier_are_reported():
    found = run("setp.lt.u32 %p, %t, 31; @%p mbarrier.init.shared::cta.b64 [%s], 2; bar.sync 0;")
    assert [(f.rule, f.verdict, f.lanes) for f in found.findings] == [
        ("mbarrier-init-again", Verdict.error, tuple(range(31)))
    ]
    assert "31 threads of a CTA initialise the mbarrier" in found.findings[0].message


@pytest.mark.parametrize(
    "body",
    [
        "mbarrier.init.shared::cta.b64 [%b], 2; bar.sync 0;",
        "add.u32 %n, %t, 1; @%few mbarrier.init.shared::cta.b64 [%s], %n; bar.sync 0;",
    ],
)
def test_lanes_of_several_warps_or_counts_that_share_a_barrier_are_reported(body):
    assert [f.rule for f in run(body).findings] == ["mbarrier-init-again"]


ONCE_MORE = "@%one mbarrier.init.shared::cta.b64 [%s], 1; bar.sync 0; {between} mbarrier.init.shared::cta.b64 [%s], 1;"
"""Thread 0 initialises; the last thread does so later."""


@pytest.mark.parametrize("options", POLICIES)
@pytest.mark.parametrize("who", ["%t, 63", "%t, 0"])
def test_an_mbarrier_that_is_initialised_again_is_reported(who, options):
    found = run(ONCE_MORE.format(between=f"setp.eq.u32 %q, {who}; @%q"), options=options)
    assert {f.rule for f in found.findings} == {"mbarrier-init-again"}
    assert (
        "is initialised a second time, which is undefined: initialise it once, or use mbarrier.inval first"
        in found.findings[0].message
    )


@pytest.mark.parametrize("options", POLICIES)
def test_an_mbarrier_that_was_invalidated_may_be_initialised_again(options):
    values(ONCE_MORE.format(between="@%one mbarrier.inval.shared::cta.b64 [%s]; bar.sync 0; @%one"), options=options)


def test_ctas_initialise_mbarriers_of_their_own():
    """The even ones first, the odd ones later, and again in only one of them."""
    parts = (
        "and.b32 %n, %c, 1; setp.eq.and.u32 %q, %n, {}, %one; @%q mbarrier.init.shared::cta.b64 [%s], 1; bar.sync 0;"
    )
    values(parts.format(0) + parts.format(1), ctas=4)
    again = "setp.eq.and.u32 %q, %c, 2, %one; @%q mbarrier.init.shared::cta.b64 [%s], 1;"
    found = run(parts.format(0) + parts.format(1) + again, ctas=4)
    assert [(f.rule, f.cta) for f in found.findings] == [("mbarrier-init-again", 2)]


def test_more_arrivals_than_the_count_complete_several_phases():
    """64 threads arrive at a count of 16: four phases; the states tell which."""
    found = run("""@%one mbarrier.init.shared::cta.b64 [%s], 16; bar.sync 0; mbarrier.arrive.shared::cta.b64 %l, [%s];
    shr.u64 %l, %l, 32; cvt.u32.u64 %v, %l;""")
    assert np.array_equal(found.buffers["out"], [np.repeat([0, 1, 2, 3], 16)] * 2)
    assert [(f.rule, f.verdict) for f in found.findings] == [("mbarrier-overrun", Verdict.review)]


def test_one_arrival_more_than_the_count_falls_into_the_next_phase():
    found = run("@%one mbarrier.init.shared::cta.b64 [%s], 63; bar.sync 0; mbarrier.arrive.shared::cta.b64 _, [%s];")
    assert [(f.rule, f.verdict) for f in found.findings] == [("mbarrier-overrun", Verdict.review)]


def test_arrivals_past_a_phase_that_waits_for_bytes_are_a_fault():
    body = """@%one mbarrier.init.shared::cta.b64 [%s], 1; bar.sync 0;
    @%few mbarrier.arrive.expect_tx.shared::cta.b64 _, [%s], 16;"""
    with pytest.raises(MachineFault, match="more arrivals than the phase allows"):
        run(body)


def test_an_arrival_of_no_count_is_a_fault():
    body = f"{INIT.format(count=4)} and.b32 %n, %t, 1; mbarrier.arrive.release.cta.shared::cta.b64 _, [%b], %n;"
    with pytest.raises(MachineFault, match="the count must be at least 1, got 0"):
        run(body)


def test_bytes_that_complete_a_phase_on_the_way_belong_to_the_next_as_well():
    """Four threads complete 16 bytes each; the phase waits for 32."""
    found = values("""@%one mbarrier.init.shared::cta.b64 [%s], 1; bar.sync 0;
    @%one mbarrier.arrive.expect_tx.shared::cta.b64 _, [%s], 32; bar.sync 0;
    @%few mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%s], 16; bar.sync 0;
    mbarrier.test_wait.parity.shared::cta.b64 %p, [%s], 0; selp.u32 %v, 1, 0, %p;""")
    assert (found == 1).all()


def test_a_lane_in_another_cta_has_no_barrier_of_its_own():
    body = f"""@%one mbarrier.init.shared::cta.b64 [%s], 1; {MEET} mapa.shared::cluster.u32 %x, %s, %t;
    @%few mbarrier.test_wait.parity.shared::cta.b64 %p, [%x], 0;"""
    with pytest.raises(MachineFault, match=r"an address in CTA \d of the cluster, where one in the own CTA is needed"):
        run(body, ctas=4, cluster=4)


def test_a_lane_names_a_cta_outside_the_cluster():
    body = f"""@%one mbarrier.init.shared::cta.b64 [%s], 8; {MEET} mapa.shared::cluster.u32 %x, %s, %t;
    @%few mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%x];"""
    with pytest.raises(MachineFault, match="names CTA 2 of a cluster of 2"):
        run(body, ctas=4, cluster=2)


def test_a_hang_names_the_barrier_that_is_not_complete():
    body = f"{INIT.format(count=1)} W: mbarrier.try_wait.parity.shared::cta.b64 %p, [%b], 0; @!%p bra W;"
    lanes = "setp.ne.u32 %p, %t, 3; setp.lt.and.u32 %p, %t, 4, %p; @%p mbarrier.arrive.shared::cta.b64 _, [%b];"
    with pytest.raises(DeadlockError, match=r"waits for mbarrier 0x\w+8, phase parity 0"):
        run(body.replace("W:", lanes + " W:"))


@pytest.mark.parametrize("cluster", [1, 2])
@pytest.mark.parametrize("which", ["%few", "%p"])
def test_ctas_that_do_the_same_are_asked_once(cluster, which, monkeypatch):
    """Each of four threads its barrier, with arrivals that are numbered; with ``%p`` others in every second CTA."""
    body = f"""and.b32 %m, %rank, 1; add.u32 %n, %m, 4; setp.lt.u32 %p, %t, %n; add.u32 %m, %t, 1;
    @{which} mbarrier.init.shared::cta.b64 [%x], %m; bar.sync 0;
    @%few mbarrier.arrive.shared::cta.b64 _, [%x]; bar.sync 0; {asked()}"""
    body = "shl.b32 %x, %t, 3; add.u32 %x, %x, %s;" + body
    known: list[bool] = []
    look = parties._alike

    def looked(*arguments):
        found = look(*arguments)
        known.append(found is not None)
        return found

    monkeypatch.setattr(parties, "_alike", looked)
    together = values(body, cluster=cluster)
    assert known[0] == (which == "%few" or cluster == 1)
    monkeypatch.setattr(parties, "_alike", lambda *_: None)
    assert np.array_equal(together, values(body, cluster=cluster))
    assert (together[0, :4] == [1, 0, 0, 0]).all()


def test_a_generic_address_that_all_threads_have():
    """It loses its window, where the bytes of the barrier are looked for too."""
    body = """cvt.u64.u32 %l, %s; cvta.shared.u64 %l, %l; @!%one bra READY; mbarrier.init.b64 [%l], 64;
    READY: bar.sync 0; mbarrier.arrive.b64 _, [%l]; mov.u32 %v, 5;
    WAIT: mbarrier.try_wait.parity.b64 %p, [%l], 0; @!%p bra WAIT;"""
    assert (values(body) == 5).all()


USES = {
    "an arrival": "mbarrier.arrive.shared::cta.b64 _, [bars];",
    "bytes that are expected": "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bars], 16;",
    "an end": "mbarrier.inval.shared::cta.b64 [bars];",
    "a test of a phase": "mbarrier.test_wait.parity.shared::cta.b64 %p, [bars], 1; selp.u32 %v, 1, 0, %p;",
    "a test of a state": "mov.b64 %k, 0; mbarrier.test_wait.shared::cta.b64 %p, [bars], %k; selp.u32 %v, 1, 0, %p;",
    "a wait that nothing holds up": "W: mbarrier.try_wait.parity.shared::cta.b64 %p, [bars], 1; @!%p bra W;",
    "a wait for an arrival": """mbarrier.arrive.release.cta.shared::cta.b64 _, [bars], 9;
    W: mbarrier.try_wait.parity.shared::cta.b64 %p, [bars], 0; @!%p bra W;""",
    "a commit": "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bars];",
    "a commit by a mask": """mov.b16 %one16, 1;
    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [bars], %one16;""",
    "an asynchronous store": """mov.u32 %n, words; mov.u32 %m, bars;
    st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%n], %v, [%m];""",
    "a small copy": "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [bars];",
    "a bulk copy": "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [words], [%p_out], 16, [bars];",
}


@pytest.mark.one_of(2)
@pytest.mark.parametrize("options", POLICIES, ids=["eager", "late", "seeded", "alone"])
@pytest.mark.parametrize("end", ["inval", "no init"])
@pytest.mark.parametrize("use", USES)
def test_a_barrier_that_one_cta_has_and_another_has_not(use, end, options):
    """CTA 0 ends its own, or never makes one; that of CTA 1 counts on."""
    made = {
        "inval": "@%one mbarrier.init.shared::cta.b64 [bars], 9; @%q mbarrier.inval.shared::cta.b64 [bars];",
        "no init": "setp.eq.and.u32 %one, %c, 1, %one; @%one mbarrier.init.shared::cta.b64 [bars], 9;",
    }[end]
    body = f"""setp.eq.u32 %q, %c, 0; and.pred %q, %q, %one; {made} bar.sync 0;
    .reg .b16 %one16; setp.eq.u32 %q, %c, {{cta}}; @!%q bra END; setp.ne.u32 %p, %t, 0; @%p bra END; {USES[use]} END:"""
    assert run(body.format(cta=1), options=options).counters.ctas == 2
    for text in (body, body.replace("@!%q bra END;", "")):
        with pytest.raises(MachineFault, match="no initialised mbarrier at shared address") as caught:
            run(text.format(cta=0), options=options)
        late = use == "a bulk copy" and options.policy != RunOptions().policy  # nobody executes it when it is performed
        assert late or caught.value.cta == 0


@pytest.mark.parametrize("options", POLICIES, ids=["eager", "late", "seeded", "alone"])
@pytest.mark.parametrize("wait", ["test_wait", "try_wait"])
def test_lanes_that_wait_for_what_their_cta_has_not(wait, options):
    """Of four barriers CTA 0 has three. Lanes that leave the fourth alone wait for theirs; the others are named."""
    body = f"""setp.eq.u32 %q, %c, 0; setp.eq.and.u32 %q, %t, 3, %q; not.pred %q, %q; and.pred %q, %q, %few;
    @%q mbarrier.init.shared::cta.b64 [%b], 1; bar.sync 0; add.u32 %n, %c, 3; and.b32 %m, %t, 3;
    setp.ge.u32 %q, %m, %n; LEFT W: mbarrier.{wait}.parity.shared::cta.b64 %p, [%b], 1; @!%p bra W;
    mov.u32 %v, 1; END:"""
    kept = values(body.replace("LEFT", "@%q bra END;"), options=options)
    assert np.array_equal(kept, [[1, 1, 1, 0] * 16, [1, 1, 1, 1] * 16])
    with pytest.raises(MachineFault, match="no initialised mbarrier at shared address") as caught:
        run(body.replace("LEFT", ""), options=options)
    assert (caught.value.cta, caught.value.warp, caught.value.lanes) == (0, 0, tuple(range(3, 32, 4)))


@pytest.mark.parametrize(
    ("who", "count"),
    [("0", 0), ("1", 2), ("2", 2), ("3", 4)],
    ids=["none", "of CTA 0", "of CTA 1", "of both"],
)
def test_the_warps_that_find_their_phase_complete_are_counted(who, count):
    """Of two CTAs of two warps, those arrive at their barrier whose bit is set."""
    body = f"""@%one mbarrier.init.shared::cta.b64 [bars], 1; bar.sync 0; shr.u32 %n, {who}, %c; and.b32 %n, %n, 1;
    setp.eq.u32 %q, %n, 1; and.pred %q, %q, %one; @%q mbarrier.arrive.shared::cta.b64 _, [bars]; bar.sync 0;
    mbarrier.test_wait.parity.shared::cta.b64 %p, [bars], 0; selp.u32 %v, 1, 0, %p;"""
    found = run(body)
    assert found.counters.mbarrier_waits == count
    assert (found.buffers["out"] == 1).sum() == 32 * count
