"""Synchronising forms: barrier reductions, ranks of addresses, arrivals that complete nothing, launch control, and
asynchronous stores into a peer; expected values by plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from support import kernels
from support.kernels import module
from support.recorded import assemble_all, recorded

from convc.errors import DeadlockError, InputError, MachineFault, PtxSyntaxError
from convc.ir.findings import Verdict
from convc.ir.launch import BufferSpec, LaunchSpec, PointerParam
from convc.machine import RunOptions
from convc.machine.state.grants import GRANTS
from convc.sanitizer.run import check_kernel


@pytest.fixture(scope="module", autouse=True)
def every_kernel_is_ptx():
    with recorded() as texts:
        yield
    assemble_all(texts)


HEAD = """
.reg .b32 %t, %v, %w, %c, %g, %rank, %peer, %s, %remote, %x; .reg .b64 %a, %l, %k; .reg .pred %p, %q;
mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x; mov.u32 %x, %ntid.x; mad.lo.u32 %g, %c, %x, %t;
mov.u32 %rank, %cluster_ctarank; mov.u32 %s, data; mov.u32 %v, 0;
"""
STORE = "mul.wide.u32 %a, %g, 4; add.u64 %a, %a, %p_out; st.global.u32 [%a], %v;"
SHARED = ".shared .align 16 .b8 data[256];\n"
LEADER = "setp.eq.u32 %p, %t, 0; @!%p bra IDLE;"
"""Only thread 0 goes on, up to the label IDLE."""


def execute(body: str, *, ctas: int = 1, cluster: int = 1, threads: int = 32, rules: tuple = (), **options):
    """%v of every thread, as (ctas, threads); ``rules``: those of the findings; ``options``: of the run."""
    launch = LaunchSpec(
        entry="k",
        grid=(ctas, 1, 1),
        cluster=(cluster, 1, 1),
        block=(threads, 1, 1),
        params=(PointerParam(buffer="out"),),
        buffers={"out": BufferSpec(dtype="u32", shape=(ctas * threads,))},
    )
    text = module(HEAD + body + STORE, shared=SHARED)
    buffers = {"out": np.zeros(ctas * threads, np.uint32)}
    result = kernels.run(text, launch, buffers, options=RunOptions(**options))
    assert tuple(f.rule for f in result.findings) == rules
    return result.buffers["out"].reshape(ctas, threads)


# ---- bar.red ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["bar.red.popc.u32", "barrier.cta.red.popc.aligned.u32"])
def test_barrier_counts_the_threads_of_all_warps(form):
    """Threads whose number is divisible by 3, plus 5 in CTA 1."""
    body = f"""rem.u32 %w, %t, 3; setp.eq.u32 %p, %w, 0; setp.lt.u32 %q, %t, 5;
    {{ .reg .pred %one; setp.eq.u32 %one, %c, 1; and.pred %q, %q, %one; or.pred %p, %p, %q; }}
    {form} %v, 0, %p;"""
    got = execute(body, ctas=2, threads=96)
    want = [sum(t % 3 == 0 or (c == 1 and t < 5) for t in range(96)) for c in range(2)]
    assert want == [32, 35]
    assert np.array_equal(got, np.repeat(want, 96).reshape(2, 96))


@pytest.mark.parametrize("limit", [0, 1, 63, 64])
@pytest.mark.parametrize("sign", ["", "!"])
def test_barrier_asks_whether_all_or_any(limit, sign):
    body = f"""setp.lt.u32 %p, %t, {limit};
    bar.red.and.pred %q, 1, {sign}%p; selp.u32 %v, 1, 0, %q;
    barrier.red.or.pred %q, 2, 64, {sign}%p; selp.u32 %w, 2, 0, %q; add.u32 %v, %v, %w;"""
    votes = [(t < limit) != bool(sign) for t in range(64)]
    assert (execute(body, threads=64) == all(votes) + 2 * any(votes)).all()


def test_each_round_of_a_barrier_has_its_own_votes():
    """Warps vote in rounds of a loop, one of them on a longer path; bar.sync at the same barrier has no vote."""
    body = """{ .reg .b32 %i, %n; .reg .pred %more; mov.u32 %i, 0; bar.sync 3;
    ROUND: setp.lt.u32 %q, %t, 32; @!%q bra SHORT; add.u32 %w, %i, 1; xor.b32 %w, %w, 1;
    SHORT: shl.b32 %n, %i, 3; setp.lt.u32 %p, %t, %n; bar.red.popc.u32 %w, 3, %p;
    mad.lo.u32 %v, %v, 100, %w; add.u32 %i, %i, 1; setp.lt.u32 %more, %i, 5; @%more bra ROUND; }"""
    assert (execute(body, threads=96) == int("0008162432")).all()


def test_some_warps_vote_and_others_do_not():
    """64 threads meet at barrier 1; the other warp goes on."""
    body = """setp.ge.u32 %q, %t, 64; @%q bra DONE; setp.ne.u32 %p, %t, 7; bar.red.popc.u32 %v, 1, 64, %p; DONE:"""
    assert np.array_equal(execute(body, threads=96)[0], [63] * 64 + [0] * 32)


def test_warps_that_only_arrive_have_no_vote():
    body = """setp.eq.u32 %q, %t, %t; setp.lt.u32 %p, %t, 32; @%p bra VOTE; bar.arrive 4, 64; bra DONE;
    VOTE: bar.red.popc.u32 %v, 4, 64, %q; DONE:"""
    assert np.array_equal(execute(body, threads=64, rules=("barrier-mixed",))[0], [32] * 32 + [0] * 32)


def test_a_reduction_that_a_warp_skips_is_a_hang():
    body = "setp.lt.u32 %p, %t, 32; @!%p bra DONE; bar.red.popc.u32 %v, 1, 64, %p; DONE:"
    with pytest.raises(DeadlockError, match="waits for CTA barrier 1"):
        execute(body, threads=64)


GUARDED = "setp.lt.u32 %p, %t, 32; {first}; {second}; mov.u32 %v, 5;"
"""Two guarded barriers in a row: warp 0 executes the first, warp 1 the second."""


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("@%p bar.sync 1, 64", "@!%p barrier.cta.sync.aligned 1, 64"),
        ("@%p bar.arrive 1, 64", "@!%p bar.sync 1, 64"),
        ("@%p bar.red.or.pred %q, 1, 64, %p", "@!%p barrier.cta.red.popc.u32 %v, 1, 64, %p"),
    ],
)
def test_a_guard_leaves_whole_warps_out(first, second):
    """Each warp arrives once: neither barrier completes by itself, and together they do."""
    assert (execute(GUARDED.format(first=first, second=second), ctas=2, threads=64) == 5).all()


@pytest.mark.parametrize("barrier", ["bar.sync 1, 64", "bar.red.or.pred %q, 1, 64, %p"])
def test_a_warp_whose_guard_is_false_does_not_arrive(barrier):
    with pytest.raises(DeadlockError, match=r"CTA barrier 1 \(1 of 2 warps there\)"):
        execute(GUARDED.format(first=f"@%p {barrier}", second="mov.u32 %w, 0"), threads=64)


def test_a_guard_may_leave_out_ctas():
    """CTA 0 meets at barrier 1, CTA 1 does not; a lane of each warp is enough to bring the warp."""
    body = """setp.eq.u32 %p, %c, 0; and.b32 %w, %t, 31; setp.eq.and.u32 %p, %w, 3, %p; @%p bar.sync 1, 64;
    add.u32 %v, %c, 7;"""
    assert np.array_equal(execute(body, ctas=2, threads=64), [[7] * 64, [8] * 64])


# ---- getctarank ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cohort", [2, 148])
def test_rank_of_an_address(cohort):
    """The own rank, the peer's after mapa, and the same from generic addresses."""
    body = """xor.b32 %peer, %rank, 1; mapa.shared::cluster.u32 %remote, %s, %peer;
    getctarank.shared::cluster.u32 %v, %s; getctarank.shared::cluster.u32 %w, %remote; mad.lo.u32 %v, %v, 10, %w;
    cvt.u64.u32 %l, %s; cvta.shared.u64 %l, %l; mapa.u64 %k, %l, %peer;
    getctarank.u64 %w, %l; mad.lo.u32 %v, %v, 10, %w; getctarank.u64 %w, %k; mad.lo.u32 %v, %v, 10, %w;"""
    got = execute(body, ctas=4, cluster=2, cohort=cohort)
    assert np.array_equal(got, np.repeat([101, 1010, 101, 1010], 32).reshape(4, 32))


def test_rank_by_lane():
    """Even lanes ask about the own address, odd lanes about the peer's."""
    body = """xor.b32 %peer, %rank, 1; and.b32 %w, %t, 1; xor.b32 %w, %w, %rank;
    mapa.shared::cluster.u32 %remote, data, %w; getctarank.shared::cluster.u32 %v, %remote;"""
    got = execute(body, ctas=2, cluster=2)
    assert np.array_equal(got, [[t % 2 for t in range(32)], [1 - t % 2 for t in range(32)]])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("getctarank.u64 %v, %p_out;", "is not the generic address of shared memory"),
        ("mapa.shared::cluster.u32 %remote, %s, 6; getctarank.shared::cluster.u32 %v, %remote;",
         "is in no CTA of the cluster of size 2"),
    ],
)  # fmt: skip
def test_an_address_of_no_cta_has_no_rank(body, message):
    with pytest.raises(MachineFault, match=message):
        execute(body, ctas=2, cluster=2)


# ---- arrivals that complete nothing ------------------------------------------------------------------------------


def test_arrivals_without_completion_count():
    """Of 10 arrivals 3 and 2 come; the drop lowers the next phase to 8; 5 more complete the first, 8 the second."""
    body = f"""{LEADER} mbarrier.init.shared::cta.b64 [%s], 10;
    mbarrier.arrive.noComplete.shared::cta.b64 %l, [%s], 3; mbarrier.pending_count.b64 %v, %l;
    mbarrier.arrive_drop.noComplete.release.cta.shared::cta.b64 %k, [%s], 2; mbarrier.pending_count.b64 %w, %k;
    mad.lo.u32 %v, %v, 10, %w; mbarrier.arrive.shared::cta.b64 _, [%s], 5;
    mbarrier.test_wait.shared::cta.b64 %q, [%s], %k; selp.u32 %w, 1, 0, %q; mad.lo.u32 %v, %v, 10, %w;
    mbarrier.arrive.shared::cta.b64 %l, [%s], 8; mbarrier.pending_count.b64 %w, %l; mad.lo.u32 %v, %v, 10, %w;
    mbarrier.test_wait.shared::cta.b64 %q, [%s], %l; selp.u32 %w, 1, 0, %q; mad.lo.u32 %v, %v, 10, %w;
    IDLE:"""
    # 10 pending, then 10 - 3 = 7, phase over, 8 pending, phase over
    assert execute(body)[0, 0] == ((((10 * 10 + 7) * 10 + 1) * 10) + 8) * 10 + 1


@pytest.mark.parametrize("form", ["mbarrier.arrive", "mbarrier.arrive_drop"])
def test_an_arrival_that_completes_after_all_is_a_fault(form):
    body = f"""{LEADER} mbarrier.init.shared::cta.b64 [%s], 4;
    {form}.noComplete.shared::cta.b64 _, [%s], 4; IDLE:"""
    with pytest.raises(MachineFault, match=f"{form}.noComplete: this arrival completes a phase"):
        execute(body)


def test_an_arrival_without_completion_needs_a_count():
    with pytest.raises(PtxSyntaxError, match="count"):
        execute(f"{LEADER} mbarrier.arrive.noComplete.shared::cta.b64 _, [%s]; IDLE:")


# ---- cluster launch control ----------------------------------------------------------------------------------------

REQUEST = "clusterlaunchcontrol.try_cancel.async{space}.mbarrier::complete_tx::bytes{all}.b128 [{at}], [{bell}];"
MEET = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"


def wait_for(barrier: str) -> str:
    return f"LOOP: mbarrier.try_wait.parity.shared::cta.b64 %p, [{barrier}], 0; @!%p bra LOOP;"


def launch_control(query: str, *, space: str = ".shared::cta", everyone: bool = False) -> str:
    """Each CTA (or rank 0 for all) asks for a cluster, waits for the response and loads it."""
    asks = "setp.eq.u32 %q, %rank, 0; and.pred %p, %p, %q;" if everyone else ""
    at, bell = ("%s", "%w") if space else ("%l", "%k")
    request = REQUEST.format(space=space, all=".multicast::cluster::all" if everyone else "", at=at, bell=bell)
    return f"""{{ .reg .b128 %r; .reg .b32 %d, %e, %f; add.u32 %w, %s, 64; setp.eq.u32 %p, %t, 0; @!%p bra READY;
    cvt.u64.u32 %l, %s; cvta.shared.u64 %l, %l; add.u64 %k, %l, 64;
    mbarrier.init.shared::cta.b64 [%w], 1; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%w], 16;
    READY: {MEET} setp.eq.u32 %p, %t, 0; {asks} @!%p bra IDLE; {request} IDLE: {wait_for("%w")}
    ld.shared.b128 %r, [%s]; {query} {MEET} }}"""


@pytest.mark.parametrize("space", ["", ".shared::cta"])
@pytest.mark.parametrize("everyone", [False, True])
def test_a_request_for_another_cluster_is_declined(space, everyone):
    """The barrier's 16 bytes arrive in every CTA that was promised them, and the answer is no."""
    query = """mov.u32 %v, 7; clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %q, %r;
    @%q bra TAKE; mov.u32 %v, 9; bra DONE;
    TAKE: clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%d, %e, %f, _}, %r;
    clusterlaunchcontrol.query_cancel.get_first_ctaid::y.b32.b128 %e, %r; add.u32 %v, %d, %e; DONE:"""
    body = launch_control(query, space=space, everyone=everyone)
    assert (execute(body, ctas=4, cluster=2, grants="none") == 9).all()
    assert sorted(execute(body, ctas=4, cluster=2, resident=1)[:, 0]) == ([0, 0, 2, 2] if everyone else [0, 0, 2, 9])


@pytest.mark.parametrize("seen", [True, False])
def test_nobody_asks_again_after_a_declined_request(seen):
    """Two requests under way are fine; one after the answer was read is not."""
    again = f"mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%w], 16; {REQUEST}"
    again = again.format(space=".shared::cta", all="", at="%s", bell="%w")
    answer = "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %q, %r;"
    query = f"{answer if seen else ''} setp.eq.u32 %p, %t, 0; @!%p bra ENOUGH; {again} ENOUGH:"
    launch = LaunchSpec(
        entry="k",
        grid=(2, 1, 1),
        block=(32, 1, 1),
        params=(PointerParam(buffer="out"),),
        buffers={"out": BufferSpec(dtype="u32", shape=(64,))},
    )
    text = module(HEAD + launch_control(query) + STORE, shared=SHARED)
    options = RunOptions(grants="none")
    found = kernels.run(text, launch, {"out": np.zeros(64, np.uint32)}, options=options).findings
    assert [(f.rule, f.verdict) for f in found] == [("launch-control-after-decline", Verdict.error)] * seen
    if seen:
        assert found[0].message == "clusterlaunchcontrol.try_cancel after a declined request: undefined"
        assert (found[0].cta, found[0].warp, found[0].lanes) == (0, 0, (0,))
        assert "try_cancel" in text.splitlines()[found[0].line - 1]


@pytest.mark.parametrize(
    "query",
    ["clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%v, %e, %f, _}, %r;",
     "clusterlaunchcontrol.query_cancel.get_first_ctaid::y.b32.b128 %v, %r;"],
)  # fmt: skip
def test_the_cta_of_a_declined_request_is_any_number(query):
    """Reading it is no fault: kernels of CuTe DSL do, and look afterwards whether it was granted."""
    execute(launch_control(query), ctas=2, cluster=2)


WALK = f"""{{ .reg .b128 %r; .reg .b32 %parity, %n; .reg .b64 %at; add.u32 %w, %s, 64; mov.b32 %parity, 0;
    mov.u32 %n, %ctaid.x; setp.eq.u32 %p, %t, 0; @!%p bra READY; mbarrier.init.shared::cta.b64 [%w], 1;
    fence.mbarrier_init.release.cluster; READY: bar.sync 0;
    AGAIN: mad.lo.u32 %v, %n, 32, %t; mul.wide.u32 %at, %v, 4; add.u64 %at, %at, %p_out;
    red.relaxed.gpu.global.add.u32 [%at], 1;
    setp.eq.u32 %p, %t, 0; @!%p bra WAIT; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%w], 16;
    {REQUEST.format(space=".shared::cta", all="", at="%s", bell="%w")}
    WAIT: mbarrier.try_wait.parity.shared::cta.b64 %q, [%w], %parity; @!%q bra WAIT;
    ld.shared.b128 %r, [%s]; clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %q, %r;
    @%q clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %n, %r;
    fence.proxy.async.shared::cta; bar.sync 0; xor.b32 %parity, %parity, 1; @%q bra AGAIN; }}"""
"""CTAs that do their own work, and then that of those they get: each thread counts in a word of its own."""


ELEVEN = LaunchSpec(
    entry="k",
    grid=(11, 1, 1),
    block=(32, 1, 1),
    params=(PointerParam(buffer="out"),),
    buffers={"out": BufferSpec(dtype="u32", shape=(352,))},
)


@pytest.mark.parametrize("completion", ["eager", "late"])
@pytest.mark.parametrize("resident", [None, 1, 4, 11])
@pytest.mark.parametrize("grants", GRANTS)
def test_whoever_is_granted_the_work_is_done_once(grants, resident, completion):
    text = module(HEAD + WALK, shared=SHARED)
    options = RunOptions(grants=grants, resident=resident, policy=completion, seed=3)
    result = kernels.run(text, ELEVEN, {"out": np.zeros(352, np.uint32)}, options=options)
    assert result.findings == ()
    assert (result.buffers["out"] == 1).all()
    begun = {"none": 11, "seeded": result.counters.ctas}.get(grants, resident or 2)
    assert result.counters.ctas == begun >= (resident or 2)


def test_the_checkers_compare_grants():
    text = module(HEAD + WALK, shared=SHARED)
    zeros = {"out": np.zeros(352, np.uint32)}
    assert check_kernel(text, ELEVEN, zeros).findings == ()
    found = check_kernel(text.replace("@%q bra AGAIN;", ""), ELEVEN, zeros).findings
    words = ["grants none, 160 bytes of buffer 'out' change"]
    assert [f.message.partition("with ")[2] for f in found if f.rule == "grant-order"][-1:] == words


def test_a_policy_of_grants_that_does_not_exist_is_refused():
    with pytest.raises(InputError, match="grants must be one of ordered, reversed, seeded, none, got 'fair'"):
        RunOptions(grants="fair")
    with pytest.raises(InputError, match="at least 1 cluster must be resident, got 0"):
        RunOptions(resident=0)


def test_only_a_response_can_be_queried():
    query = """mov.b64 %l, 0; mov.b128 %r, {%l, %l};
    clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %q, %r;"""
    with pytest.raises(MachineFault, match=r"not a response of clusterlaunchcontrol\.try_cancel"):
        execute(launch_control(query), ctas=2, cluster=2)


def test_a_response_needs_16_aligned_bytes():
    body = launch_control("").replace("[%s], [%w]", "[%s+8], [%w]")
    with pytest.raises(MachineFault, match="shared address must be a multiple of 16"):
        execute(body, ctas=2, cluster=2)


# ---- st.async and red.async --------------------------------------------------------------------------------------

ASYNC = ".mbarrier::complete_tx::bytes"


def exchange(send: str, *, tx: int, clear: str = "") -> str:
    """Each CTA expects ``tx`` bytes at data + 0, sends to its peer (%remote; barrier %x there), waits, goes on."""
    return f"""{{ .reg .b32 %bell, %m, %n; .reg .b64 %d; add.u32 %bell, %s, 128; {clear}
    setp.eq.u32 %p, %t, 0; @!%p bra READY; mbarrier.init.shared::cta.b64 [%bell], 1;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bell], {tx};
    READY: {MEET} xor.b32 %peer, %rank, 1; mapa.shared::cluster.u32 %remote, %s, %peer; add.u32 %x, %remote, 128;
    {send}
    {wait_for("%bell")} }}"""


@pytest.mark.parametrize("space", ["", ".shared::cluster"])
@pytest.mark.parametrize("cohort", [2, 148])
def test_asynchronous_stores_reach_the_peer(space, cohort):
    """Thread t of a CTA writes 1000 c + t to word t of the other CTA, whose barrier counts 32 times 4 bytes."""
    at, bell = ("%remote", "%x") if space else ("%l", "%k")
    body = (
        exchange(
            f"""mad.lo.u32 %w, %c, 1000, %t; shl.b32 %v, %t, 2; add.u32 %remote, %remote, %v;
        cvt.u64.u32 %l, %remote; cvta.shared::cluster.u64 %l, %l; cvt.u64.u32 %k, %x; cvta.shared::cluster.u64 %k, %k;
        st.async.weak{space}{ASYNC}.u32 [{at}], %w, [{bell}];""",
            tx=128,
        )
        + "shl.b32 %w, %t, 2; add.u32 %w, %w, %s; ld.shared.u32 %v, [%w];"
    )
    want = [[1000 * (c ^ 1) + t for t in range(32)] for c in range(4)]
    assert np.array_equal(execute(body, ctas=4, cluster=2, cohort=cohort), want)


@pytest.mark.parametrize(("form", "tx"), [("v4.b32", 128), ("v2.u64", 128), ("b64", 64)])
def test_asynchronous_stores_of_vectors(form, tx):
    """8 threads store; the words follow each other in memory, and the barrier wants just these bytes."""
    words = tx // 32
    values = {"v4.b32": "{%w, %t, %w, %c}", "v2.u64": "{%l, %k}", "b64": "%l"}[form]
    body = (
        exchange(
            f"""add.u32 %w, %t, 50; mad.lo.u32 %remote, %t, {4 * words}, %remote;
        cvt.u64.u32 %l, %t; shl.b64 %l, %l, 32; cvt.u64.u32 %k, %w; or.b64 %l, %l, %k; cvt.u64.u32 %d, %c;
        shl.b64 %d, %d, 32; or.b64 %k, %k, %d;
        setp.lt.u32 %q, %t, 8; @%q st.async.shared::cluster{ASYNC}.{form} [%remote], {values}, [%x];""",
            tx=tx,
        )
        + f"rem.u32 %w, %t, {8 * words}; shl.b32 %w, %w, 2; add.u32 %w, %w, %s; ld.shared.u32 %v, [%w];"
    )

    def word(cta: int, number: int) -> int:
        t, part = divmod(number % (8 * words), words)
        return (t + 50, t, t + 50, cta ^ 1)[part]

    want = [[word(c, t) for t in range(32)] for c in range(2)]
    assert np.array_equal(execute(body, ctas=2, cluster=2), want)


def wrapped(values, start, step):
    for value in values:
        start = step(start, value)
    return start & 0xFFFFFFFF


REDUCTIONS = [
    ("add.u32", 100, lambda a, b: a + b),
    ("add.s32", 100, lambda a, b: a + b),
    ("min.u32", 100, min),
    ("max.s32", -5, max),
    ("and.b32", 0xFF, lambda a, b: a & b),
    ("or.b32", 0x100, lambda a, b: a | b),
    ("xor.b32", 0x100, lambda a, b: a ^ b),
    ("inc.u32", 1, lambda a, b: 0 if a >= b else a + 1),
    ("dec.u32", 1, lambda a, b: b if a == 0 or a > b else a - 1),
]


@pytest.mark.parametrize(("form", "start", "step"), REDUCTIONS, ids=[r[0] for r in REDUCTIONS])
def test_asynchronous_reductions(form, start, step):
    """All threads of a CTA send t + 3 + 40 c to one word of the other."""
    body = (
        exchange(
            f"""mad.lo.u32 %w, %c, 40, %t; add.u32 %w, %w, 3;
        red.async.relaxed.cluster.shared::cluster{ASYNC}.{form} [%remote], %w, [%x];""",
            tx=128,
            clear=f"st.shared.b32 [%s], {start};",
        )
        + "ld.shared.u32 %v, [%s];"
    )
    want = [wrapped([t + 3 + 40 * (c ^ 1) for t in range(32)], start, step) for c in range(2)]
    assert np.array_equal(execute(body, ctas=2, cluster=2)[:, 0], want)


def test_asynchronous_sum_of_64_bits():
    """32 times 2^28 carries into the upper word."""
    body = (
        exchange(
            f"""mov.u64 %l, 0x10000000; cvt.u64.u32 %k, %remote; cvta.shared::cluster.u64 %k, %k; add.u64 %d, %k, 128;
        red.async.relaxed.cluster{ASYNC}.add.u64 [%k], %l, [%d];""",
            tx=256,
            clear="mov.b64 %d, 5; st.shared.b64 [%s], %d;",
        )
        + "ld.shared.v2.u32 {%v, %w}, [%s]; mad.lo.u32 %v, %w, 1000, %v;"
    )
    assert (execute(body, ctas=2, cluster=2) == 2005).all()


def test_threads_may_send_to_different_ctas():
    """In a cluster of 4, lane t of rank r adds 1 to word r of rank (r + 1 + t % 3) % 4."""
    body = (
        exchange(
            f"""rem.u32 %m, %t, 3; add.u32 %m, %m, 1; add.u32 %m, %m, %rank; and.b32 %m, %m, 3;
        mapa.shared::cluster.u32 %remote, %s, %m; add.u32 %x, %remote, 128; mov.u32 %n, 1;
        shl.b32 %w, %rank, 2; add.u32 %remote, %remote, %w;
        red.async.relaxed.cluster.shared::cluster{ASYNC}.add.u32 [%remote], %n, [%x];""",
            tx=128,
            clear="shl.b32 %w, %t, 2; add.u32 %w, %w, %s; st.shared.u32 [%w], %v; bar.sync 0;",
        )
        + """
    and.b32 %w, %t, 3; shl.b32 %w, %w, 2; add.u32 %w, %w, %s; ld.shared.u32 %v, [%w];"""
    )
    sent = np.zeros((4, 4), int)
    for rank in range(4):
        for t in range(32):
            sent[(rank + 1 + t % 3) % 4, rank] += 1
    assert sent.sum(axis=1).tolist() == [32, 32, 32, 32]
    assert np.array_equal(execute(body, ctas=4, cluster=4), sent[:, np.arange(32) % 4])


@pytest.mark.parametrize(
    ("send", "message"),
    [
        ("st.async.shared::cluster{a}.u32 [%remote], %w, [%bell];", "must be in the same CTA of the cluster"),
        ("st.async.shared::cluster{a}.u32 [%remote], %w, [%x+8];", "no initialised mbarrier"),
        ("st.async.shared::cluster{a}.u32 [%remote+2], %w, [%x];", "not aligned to 4 bytes"),
        ("red.async.relaxed.cluster.shared::cluster{a}.add.u32 [%remote], %w, [%bell];", "must be in the same CTA"),
    ],
)
def test_asynchronous_stores_that_go_wrong(send, message):
    clear = "mov.u32 %w, 1; st.shared.u32 [%s], %w;"
    with pytest.raises(MachineFault, match=message):
        execute(exchange(send.format(a=ASYNC), tx=128, clear=clear), ctas=2, cluster=2)


def test_too_few_bytes_are_a_hang():
    send = f"setp.ne.u32 %q, %t, 4; mov.u32 %w, 1; @%q st.async.shared::cluster{ASYNC}.u32 [%remote], %w, [%x];"
    with pytest.raises(DeadlockError, match="4 bytes outstanding"):
        execute(exchange(send, tx=128), ctas=2, cluster=2)


def test_a_store_to_the_own_cta_is_reported():
    send = f"mov.u32 %w, 1; st.async.shared::cluster{ASYNC}.u32 [%s], %w, [%bell];"
    text = module(HEAD + exchange(send, tx=128) + STORE, shared=SHARED)
    launch = LaunchSpec(
        entry="k",
        grid=(2, 1, 1),
        cluster=(2, 1, 1),
        block=(32, 1, 1),
        params=(PointerParam(buffer="out"),),
        buffers={"out": BufferSpec(dtype="u32", shape=(64,))},
    )
    result = kernels.run(text, launch, {"out": np.zeros(64, np.uint32)})
    assert [(f.rule, f.verdict) for f in result.findings] == [("async-store-own-cta", Verdict.review)]
