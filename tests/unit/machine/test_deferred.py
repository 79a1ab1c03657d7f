"""Deferred work: what a thread waits for itself, stores that a barrier counts. Kernels that wait see no difference."""

from __future__ import annotations

import numpy as np
import pytest
from support import kernels
from support.kernels import module
from support.recorded import assemble_all, recorded

from convc.errors import MachineFault
from convc.ir.launch import BufferSpec, LaunchSpec, PointerParam
from convc.machine import RunOptions

POLICIES = [("eager", 0), ("late", 0), *(("seeded", seed) for seed in range(4))]


@pytest.fixture(scope="module", autouse=True)
def every_kernel_is_ptx():
    with recorded() as texts:
        yield
    assemble_all(texts)


def execute(body: str, policy: str = "eager", seed: int = 0, *, ctas: int = 1, threads: int = 64, cluster: int = 1):
    """``%v`` of every thread, as (ctas, threads), and the result; word i of ``x`` is 1000 + i, ``data`` is shared."""
    head = """
    .reg .b32 %t, %v, %w, %c, %g, %s, %own, %bar, %rank, %peer, %far, %bell; .reg .b64 %a, %in; .reg .pred %p, %q;
    mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x; mov.u32 %w, %ntid.x; mad.lo.u32 %g, %c, %w, %t; mov.u32 %s, data;
    mov.u32 %rank, %cluster_ctarank; shl.b32 %own, %t, 2; add.u32 %own, %own, %s; add.u32 %bar, %s, 512;
    mul.wide.u32 %in, %t, 4; add.u64 %in, %in, %p_x; mov.u32 %v, 0;
    """
    tail = "mul.wide.u32 %a, %g, 4; add.u64 %a, %a, %p_out; st.global.u32 [%a], %v;"
    text = module(head + body + tail, pointers=("x", "out"), shared=".shared .align 128 .b8 data[1024];\n")
    buffers = {"x": np.arange(1000, 1000 + 256, dtype=np.uint32), "out": np.zeros(ctas * threads, np.uint32)}
    launch = LaunchSpec(
        entry="k",
        grid=(ctas, 1, 1),
        block=(threads, 1, 1),
        cluster=(cluster, 1, 1),
        params=tuple(PointerParam(buffer=name) for name in buffers),
        buffers={name: BufferSpec(dtype="u32", shape=data.shape) for name, data in buffers.items()},
    )
    result = kernels.run(text, launch, buffers, options=RunOptions(policy=policy, seed=seed))
    return result.buffers["out"].reshape(ctas, threads), result


# ---- cp.async -------------------------------------------------------------------------------------------------------

COPY = "cp.async.ca.shared.global [%own], [%in], 4;"
NEXT = "cp.async.ca.shared.global [%own+256], [%in+256], 4;"
READ = "ld.shared.u32 %v, [%own];"
BELL = "setp.eq.u32 %p, %t, 0; @%p mbarrier.init.shared::cta.b64 [%bar], {count}; bar.sync 0;"
WAIT = "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar], 0; @!%p bra WAIT;"
ONE_GROUP, TWO_GROUPS = (f"{COPY} cp.async.commit_group; {NEXT} {more}" for more in ("", "cp.async.commit_group;"))
NOINC = f"{BELL.format(count=64)} {COPY} cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%bar];"
INC = (
    f"{BELL.format(count=1)} {COPY} cp.async.mbarrier.arrive.shared::cta.b64 [%bar]; bar.sync 0;"
    "@%p mbarrier.arrive.shared::cta.b64 _, [%bar];"
)
WAITED = {
    "wait_group": (f"{COPY} cp.async.commit_group;", "cp.async.wait_group 0;"),
    "wait_all": (COPY, "cp.async.wait_all;"),
    "the older of two groups": (TWO_GROUPS, "cp.async.wait_group 1;"),
    "a group beside an open one": (ONE_GROUP, "cp.async.wait_group 0;"),
    "an empty group counts": (f"{COPY} cp.async.commit_group; cp.async.commit_group;", "cp.async.wait_group 1;"),
    "mbarrier, counted": (NOINC, WAIT),
    "mbarrier, raised": (INC, WAIT),
}
NOT_WAITED = {
    "no wait": (f"{COPY} cp.async.commit_group;", ""),
    "the latest group": (f"{NEXT} cp.async.commit_group; {COPY} cp.async.commit_group;", "cp.async.wait_group 1;"),
    "an open group": (f"{NEXT} cp.async.commit_group; {COPY}", "cp.async.wait_group 0;"),
    "a copy behind the arrival": (NOINC.replace(COPY, NEXT) + COPY, WAIT),
    "no wait for the mbarrier": (NOINC, ""),
}


@pytest.mark.parametrize(("policy", "seed"), POLICIES)
@pytest.mark.parametrize("case", WAITED)
def test_a_waited_copy_is_there(case, policy, seed):
    issue, wait = WAITED[case]
    got, result = execute(issue + wait + READ, policy, seed)
    assert result.findings == ()
    assert np.array_equal(got[0], 1000 + np.arange(64))


@pytest.mark.parametrize("case", NOT_WAITED)
def test_a_copy_that_is_not_waited_for_comes_late(case):
    issue, wait = NOT_WAITED[case]
    assert np.array_equal(execute(issue + wait + READ)[0][0], 1000 + np.arange(64))  # by luck
    got, result = execute(issue + wait + READ, "late")
    assert (got == 0xFFFFFFFF).all()
    assert [f.rule for f in result.findings] == ["shared-memory-unwritten"]


def test_a_thread_waits_for_its_own_copies_only():
    """Of each warp, the even lanes wait; warp 1 copies in the odd lanes only."""
    body = f"""setp.ge.u32 %q, %t, 32; and.b32 %w, %t, 1; setp.eq.u32 %p, %w, 0; @%q bra SECOND; {COPY} bra BOTH;
    SECOND: @!%p {COPY} BOTH: @%p cp.async.wait_all; {READ}"""
    got = execute(body, "late")[0][0]
    arrived = (np.arange(64) < 32) & (np.arange(64) % 2 == 0)
    assert np.array_equal(got, np.where(arrived, 1000 + np.arange(64), 0xFFFFFFFF))


def test_a_fault_of_a_late_copy_names_its_line():
    with pytest.raises(MachineFault, match="of buffer 'x', which has 1024 bytes") as caught:
        execute(f"add.u64 %in, %in, 1024;\n{COPY}\ncp.async.wait_all; {READ}", "late")
    assert caught.value.span.text.startswith("cp.async.ca")


# ---- st.async and red.async ----------------------------------------------------------------------------------------

MEET = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
SENDS = {
    "st.async": "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%far], %g, [%bell];",
    "red.async": "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%far], %g, [%bell];",
}


def exchange(send: str, wait: str) -> str:
    """Thread t of a CTA sends its number to word t of the other, whose words are 0 before."""
    return f"""st.shared.u32 [%own], %v; setp.eq.u32 %p, %t, 0; @!%p bra READY;
    mbarrier.init.shared::cta.b64 [%bar], 1; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 256;
    READY: {MEET} xor.b32 %peer, %rank, 1; mapa.shared::cluster.u32 %far, %own, %peer;
    mapa.shared::cluster.u32 %bell, %bar, %peer; {SENDS[send]} {wait} {READ} {MEET}"""


@pytest.mark.parametrize(("policy", "seed"), POLICIES)
@pytest.mark.parametrize("send", SENDS)
def test_what_the_peer_sent_is_there_behind_the_barrier(send, policy, seed):
    got, result = execute(exchange(send, WAIT), policy, seed, ctas=4, cluster=2)
    assert result.findings == ()
    assert np.array_equal(got, np.arange(256).reshape(4, 64)[[1, 0, 3, 2]])


@pytest.mark.parametrize("send", SENDS)
def test_what_the_peer_sends_may_come_late(send):
    """Even a barrier of the cluster does not wait for it."""
    assert (execute(exchange(send, MEET), ctas=2, cluster=2)[0] == [np.arange(64, 128), np.arange(64)]).all()  # by luck
    assert not execute(exchange(send, MEET), "late", ctas=2, cluster=2)[0].any()


# ---- reductions in bulk --------------------------------------------------------------------------------------------

FILL = "st.shared.u32 [%own], %t; fence.proxy.async.shared::cta; bar.sync 0;"
ADD = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%p_out], [%s], 256;"
LEADER = "setp.eq.u32 %p, %t, 0;"
REUSE = (
    "bar.sync 0; mov.u32 %w, 7777; st.shared.u32 [%own], %w; bar.sync 0; @%p cp.async.bulk.wait_group 0; bar.sync 0;"
)
TO_PEER = """@!%p bra SENT; mapa.shared::cluster.u32 %far, %s, %peer; mapa.shared::cluster.u32 %bell, %bar, %peer;
add.u32 %w, %s, 256; cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32
[%far], [%w], 256, [%bell]; SENT:"""


def summed(wait: str, policy: str, seed: int = 0) -> np.ndarray:
    """What bulk reductions of 0..63 added to zeros in global memory, where the source is used again behind ``wait``."""
    body = f"{FILL} {LEADER} @%p {ADD} @%p cp.async.bulk.commit_group; {wait} {REUSE} ld.global.u32 %v, [%a];"
    return execute("mul.wide.u32 %a, %t, 4; add.u64 %a, %a, %p_out;" + body, policy, seed)[0][0]


@pytest.mark.parametrize(("policy", "seed"), POLICIES)
def test_a_waited_reduction_has_read_its_source(policy, seed):
    assert np.array_equal(summed("@%p cp.async.bulk.wait_group.read 0;", policy, seed), np.arange(64))


def test_a_reduction_that_is_not_waited_for_comes_late():
    assert np.array_equal(summed("", "eager"), np.arange(64))  # by luck
    assert (summed("", "late") == 7777).all()


def to_peer(wait: str, policy: str, seed: int = 0) -> np.ndarray:
    """What a bulk reduction of the other CTA's numbers added to 100 in shared memory."""
    body = f"""mov.u32 %w, 100; st.shared.u32 [%own], %w; st.shared.u32 [%own+256], %g; {LEADER}
    fence.proxy.async.shared::cta; @!%p bra READY; mbarrier.init.shared::cta.b64 [%bar], 1;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 256; READY: {MEET} xor.b32 %peer, %rank, 1;
    {TO_PEER} {wait} {READ} {MEET}"""
    return execute(body, policy, seed, ctas=2, cluster=2)[0]


@pytest.mark.parametrize(("policy", "seed"), POLICIES)
def test_a_reduction_into_the_peer_is_there_behind_the_barrier(policy, seed):
    assert np.array_equal(to_peer(WAIT, policy, seed), 100 + np.arange(128).reshape(2, 64)[::-1])


def test_a_reduction_into_the_peer_may_come_late():
    assert np.array_equal(to_peer(MEET, "eager"), 100 + np.arange(128).reshape(2, 64)[::-1])  # by luck
    assert (to_peer(MEET, "late") == 100).all()


ORDER = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%p_out], [%w], 16;"


def test_sums_of_one_group_come_in_any_order_but_groups_do_not():
    """2^24 + 1 + 1 - 2^24 in float32 is 0 or 2 or 1, as the terms come."""
    terms = (2.0**24, 1.0, 1.0, -(2.0**24))
    fill = "\n".join(
        f"mov.b32 %w, {np.float32(x).view(np.uint32)}; st.shared.v4.b32 [%s+{16 * i}], {{%w, %w, %w, %w}};"
        for i, x in enumerate(terms)
    )

    def total(between: str, policy: str, seed: int) -> float:
        adds = between.join(f"add.u32 %w, %s, {16 * i}; {ORDER}" for i in range(4))
        body = f"""setp.ne.u32 %p, %t, 0; @%p bra DONE; {fill} fence.proxy.async.shared::cta; {adds}
        cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; DONE: bar.sync 0; ld.global.u32 %v, [%p_out];"""
        return float(execute(body, policy, seed)[0][0, 0].view(np.float32))

    assert total("", "eager", 0) == 0.0
    assert {total("", "seeded", seed) for seed in range(12)} == {0.0, 1.0, 2.0}
    assert {total("cp.async.bulk.commit_group;", "seeded", seed) for seed in range(12)} == {0.0}
