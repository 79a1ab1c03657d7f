"""mbarrier forms that no kernel of ours uses, and instructions that change nothing, run as a kernel's text."""

from __future__ import annotations

import numpy as np
import pytest
from support.kernels import execute, module
from support.recorded import assemble_all, recorded

from convc.errors import UnmodelledError


@pytest.fixture(scope="module", autouse=True)
def every_kernel_is_ptx():
    with recorded() as texts:
        yield
    assemble_all(texts)


def run_one_thread(body: str, count: int, **buffers: np.ndarray) -> list[int]:
    """What one thread wrote to ``out`` (`count` words)."""
    given = {"out": np.full(count, 99, np.uint32), **buffers}
    text = module(
        ".reg .b32 %x; .reg .b64 %bar, %s<4>, %g; .reg .pred %p;\nmov.b64 %bar, slot;\n" + body,
        shared=".shared .align 8 .b64 slot;\n",
        pointers=tuple(given),
    )
    result = execute(text, given, block=(1, 1, 1), pointers=tuple(given))
    return result.buffers["out"].tolist()


def pending(at: int, state: str) -> str:
    return f"mbarrier.pending_count.b64 %x, {state}; st.global.b32 [%p_out+{4 * at}], %x;"


def answer(at: int) -> str:
    return f"selp.b32 %x, 1, 0, %p; st.global.b32 [%p_out+{4 * at}], %x;"


def test_states_dropped_arrivals_and_bytes():
    body = f"""
    mbarrier.init.shared::cta.b64 [%bar], 3;
    mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%bar], 64;
    mbarrier.arrive.shared::cta.b64 %s0, [%bar]; {pending(0, "%s0")}
    mbarrier.arrive.shared::cta.b64 %s1, [%bar]; {pending(1, "%s1")}
    mbarrier.arrive_drop.shared::cta.b64 _, [%bar];
    mbarrier.test_wait.shared::cta.b64 %p, [%bar], %s0; {answer(2)}
    mbarrier.test_wait.parity.shared::cta.b64 %p, [%bar], 0; {answer(3)}
    mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%bar], 64;
    mbarrier.test_wait.shared::cta.b64 %p, [%bar], %s0; {answer(4)}
    mbarrier.test_wait.parity.shared::cta.b64 %p, [%bar], 0; {answer(5)}
    mbarrier.try_wait.shared::cta.b64 %p, [%bar], %s1; {answer(6)}
    mbarrier.arrive.shared::cta.b64 %s2, [%bar]; {pending(7, "%s2")}
    mbarrier.arrive_drop.expect_tx.shared::cta.b64 _, [%bar], 16;
    mbarrier.test_wait.shared::cta.b64 %p, [%bar], %s2; {answer(8)}
    mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%bar], 16;
    mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar], 1; {answer(9)}
    mbarrier.arrive.shared::cta.b64 %s3, [%bar]; {pending(10, "%s3")}
    mbarrier.test_wait.shared::cta.b64 %p, [%bar], %s3; {answer(11)}
    """
    assert run_one_thread(body, 12) == [3, 2, 0, 0, 1, 1, 1, 2, 0, 1, 1, 1]


@pytest.mark.parametrize(
    "text",
    [
        "fence.acq_rel.gpu; fence.sc.cta; membar.gl;",
        "fence.acquire.sync_restrict::shared::cluster.cluster; fence.release.sync_restrict::shared::cta.cluster;",
        "fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;",
        "griddepcontrol.wait; griddepcontrol.launch_dependents;",
        "prefetchu.L1 [%p_more];",
        "discard.global.L2 [%p_more], 128;",
        "createpolicy.range.global.L2::evict_last.L2::evict_unchanged.b64 %g, [%p_out], 64, 128;",
        "createpolicy.cvt.L2.b64 %g, %p_out;",
    ],
)
def test_hints_and_fences_change_nothing_that_one_thread_sees(text):
    body = f"mov.b32 %x, 7; st.global.b32 [%p_out], %x;\n{text}\nst.global.b32 [%p_out+4], %x;"
    assert run_one_thread(body, 2, more=np.zeros(32, np.uint32)) == [7, 7]


@pytest.mark.parametrize(
    ("made", "policy"),
    [
        ("createpolicy.fractional.L2::evict_last.L2::evict_unchanged.b64 %g, 0.5;", "%g"),
        ("createpolicy.range.L2::evict_first.b64 %g, [%p_out], 0, %x;", "%g"),
        ("createpolicy.fractional.L2::evict_normal.b64 %g; createpolicy.cvt.L2.b64 %g, %g;", "%g"),
        ("createpolicy.fractional.L2::evict_first.b64 %g; add.u64 %g, %g, 1;", "%g"),
        ("ld.global.u64 %g, [%p_more];", "%g"),
        ("", "0x14F0000000000000"),
    ],
)
def test_a_policy_may_come_from_anywhere(made, policy):
    body = (
        f"mov.b32 %x, 7;\n{made}\nst.global.L2::cache_hint.b32 [%p_out], %x, {policy};\n"
        f"ld.global.L2::cache_hint.b32 %x, [%p_out], {policy}; st.global.b32 [%p_out+4], %x;"
    )
    assert run_one_thread(body, 2, more=np.arange(32, dtype=np.uint32)) == [7, 7]


def test_the_primary_part_of_a_range_is_no_longer_than_all_of_it():
    with pytest.raises(UnmodelledError, match="primary size must be at most the total size, got 128 of 64 bytes"):
        run_one_thread("createpolicy.range.L2::evict_last.b64 %g, [%p_out], 128, 64;", 1)
