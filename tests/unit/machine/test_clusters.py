"""Clusters: who is who, signalling a peer, the cluster barrier, and shared memory of a peer."""

from __future__ import annotations

import numpy as np
import pytest
from support.kernels import module

from convc.errors import DeadlockError, MachineFault
from convc.ir.launch import BufferSpec, LaunchSpec, PointerParam
from convc.machine import RunOptions, run

SHARED = ".shared .align 16 .b8 data[256];\n"


def execute(body: str, *, grid=(4, 1, 1), cluster=(2, 1, 1), threads=32, cohort=148):
    words = int(np.prod(grid)) * threads
    launch = LaunchSpec(
        entry="k",
        grid=grid,
        cluster=cluster,
        block=(threads, 1, 1),
        params=(PointerParam(buffer="out"),),
        buffers={"out": BufferSpec(dtype="u32", shape=(words,))},
    )
    text = module(HEAD + body + STORE, shared=SHARED)
    result = run(text, launch, {"out": np.zeros(words, np.uint32)}, options=RunOptions(cohort=cohort))
    assert result.findings == ()
    return result.buffers["out"].reshape(-1, threads)


HEAD = """
.reg .b32 %t, %v, %c, %n, %y, %g, %rank, %s, %peer, %w; .reg .b64 %a; .reg .pred %p, %q;
mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x; mov.u32 %n, %nctaid.x; mov.u32 %y, %ctaid.y; mad.lo.u32 %c, %y, %n, %c;
mov.u32 %n, %ntid.x; mad.lo.u32 %g, %c, %n, %t; mov.u32 %rank, %cluster_ctarank; mov.u32 %s, data;
"""
STORE = "mul.wide.u32 %a, %g, 4; add.u64 %a, %a, %p_out; st.global.u32 [%a], %v;"


@pytest.mark.parametrize("cohort", [1, 2, 148])
def test_special_registers_of_a_two_dimensional_cluster(cohort):
    body = """
    mov.u32 %v, %clusterid.x; mov.u32 %w, %clusterid.y; mad.lo.u32 %v, %v, 10, %w;
    mov.u32 %w, %cluster_ctaid.x; mad.lo.u32 %v, %v, 10, %w; mov.u32 %w, %cluster_ctaid.y; mad.lo.u32 %v, %v, 10, %w;
    mad.lo.u32 %v, %v, 10, %rank; mov.u32 %w, %cluster_nctarank; mad.lo.u32 %v, %v, 10, %w;
    """
    got = execute(body, grid=(4, 4, 1), cluster=(2, 2, 1), cohort=cohort)[:, 0]
    for number, value in enumerate(got.tolist()):
        x, y = number % 4, number // 4
        rank = x % 2 + 2 * (y % 2)
        assert value == int(f"{x // 2}{y // 2}{x % 2}{y % 2}{rank}4")


def test_a_peer_signals_through_mapa():
    body = """
    { .reg .pred %one; elect.sync _|%one, 0xffffffff; @!%one bra IDLE;
    mbarrier.init.shared::cta.b64 [%s], 1; fence.mbarrier_init.release.cluster;
    IDLE: bar.warp.sync 0xffffffff; }
    barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
    { .reg .pred %one; elect.sync _|%one, 0xffffffff; @!%one bra IDLE;
    xor.b32 %peer, %rank, 1; mapa.shared::cluster.u32 %w, %s, %peer;
    mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%w];
    IDLE: bar.warp.sync 0xffffffff; }
    LOOP: mbarrier.try_wait.parity.shared::cta.b64 %p, [%s], 0; @!%p bra LOOP;
    add.u32 %v, %rank, 7;
    """
    assert np.array_equal(execute(body)[:, 0], [7, 8, 7, 8])


def test_a_barrier_that_one_cta_makes_late_leaves_the_others_alone():
    """Rank 0 completes a phase of its barrier before rank 1 makes its own of rank + 1 arrivals there."""
    body = """setp.ne.u32 %q, %t, 0; @%q bra IDLE; setp.eq.u32 %p, %rank, 0; add.u32 %n, %rank, 1; @!%p bra LATE;
    mbarrier.init.shared::cta.b64 [%s], %n; mbarrier.arrive.shared::cta.b64 _, [%s];
    LATE: barrier.cluster.arrive; barrier.cluster.wait; @%p bra WAIT;
    mbarrier.init.shared::cta.b64 [%s], %n; mbarrier.arrive.shared::cta.b64 _, [%s], 2;
    WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p, [%s], 0; @!%p bra WAIT;
    IDLE: setp.ne.u32 %p, %t, 0; @!%p bra DONE; barrier.cluster.arrive; barrier.cluster.wait; DONE: mov.u32 %v, 3;"""
    assert (execute(body) == 3).all()


def test_ctas_in_lockstep_make_barriers_of_their_own_counts():
    body = """setp.ne.u32 %q, %t, 0; @%q bra IDLE; add.u32 %n, %rank, 1;
    mbarrier.init.shared::cta.b64 [%s], %n; mbarrier.arrive.shared::cta.b64 _, [%s], %n;
    WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p, [%s], 0; @!%p bra WAIT;
    IDLE: mov.u32 %v, 3;"""
    assert (execute(body) == 3).all()


def test_reading_the_shared_memory_of_a_peer():
    body = """
    shl.b32 %w, %t, 2; add.u32 %w, %w, %s; st.shared.u32 [%w], %g;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    xor.b32 %peer, %rank, 1; mapa.shared::cluster.u32 %w, %w, %peer; ld.shared::cluster.u32 %v, [%w];
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    """
    got = execute(body)
    number = np.arange(128).reshape(4, 32)
    assert np.array_equal(got, number[[1, 0, 3, 2]])


def test_a_cluster_barrier_that_one_cta_skips_is_a_hang():
    body = """
    mov.u32 %v, 1; setp.eq.u32 %p, %rank, 0; @%p bra SKIP;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; bra DONE;
    SKIP: mbarrier.init.shared::cta.b64 [%s], 1;
    LOOP: mbarrier.try_wait.parity.shared::cta.b64 %p, [%s], 0; @!%p bra LOOP;
    DONE:
    """
    with pytest.raises(DeadlockError, match="waits for the cluster barrier"):
        execute(body)


def test_a_cta_that_has_exited_does_not_hold_up_the_cluster():
    body = """
    mov.u32 %v, 1; setp.eq.u32 %p, %rank, 0; @%p ret;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    """
    assert np.array_equal(execute(body)[:, 0], [0, 1, 0, 1])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("mov.u32 %v, 0; barrier.cluster.wait.aligned;", "wait without barrier.cluster.arrive"),
        ("mov.u32 %v, 0; barrier.cluster.arrive.aligned; barrier.cluster.arrive.aligned;", "arrive twice"),
        ("mov.u32 %v, 5; mapa.shared::cluster.u32 %w, %s, %v; mbarrier.arrive.shared::cluster.b64 _, [%w];",
         "names CTA 5 of a cluster of 2"),
    ],
)  # fmt: skip
def test_mistakes_are_faults(body, message):
    with pytest.raises(MachineFault, match=message):
        execute(body)
