"""What ordinary loads have read is overwritten by the asynchronous proxy behind a proxy fence alone."""

from __future__ import annotations

import pytest
from check_kernels import check, line_of, rules
from support.kernels import module

from convc.ir.findings import Verdict

SHARED = ".shared .align 1024 .b8 data[2048];\n"
FENCE = "fence.proxy.async.shared::cta;"
RING = """
.reg .b32 %t, %v, %s, %full, %empty; .reg .b64 %a; .reg .pred %p, %skip;
mov.u32 %t, %tid.x; mov.u32 %s, data; add.u32 %full, %s, 1024; add.u32 %empty, %s, 1032;
setp.ne.u32 %skip, %t, 0; @%skip bra READY;
mbarrier.init.shared::cta.b64 [%full], 1; mbarrier.init.shared::cta.b64 [%empty], 32;
fence.mbarrier_init.release.cluster; fence.proxy.async;
READY: bar.warp.sync 0xffffffff; bar.sync 0;
setp.lt.u32 %p, %t, 32; @%p bra READ;
setp.ne.u32 %skip, %t, 32; @%skip bra END;
{copy}
ROOM: mbarrier.try_wait.parity.shared::cta.b64 %p, [%empty], 0; @!%p bra ROOM;
{before_copy}
{again}
LAST: mbarrier.try_wait.parity.shared::cta.b64 %p, [%full], 1; @!%p bra LAST;
bra END;
READ: mbarrier.try_wait.parity.shared::cta.b64 %p, [%full], 0; @!%p bra READ;
{access}
{before_arrival}
mbarrier.arrive.shared::cta.b64 _, [%empty];
END: bar.warp.sync 0xffffffff;
"""
EXPECT = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%full], 64;"
COPY = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%s], [%p_out], 64, [%full];"
AGAIN = COPY.replace("[%p_out]", "[%p_out+64]")
ACCESS = "shl.b32 %v, %t, 1; and.b32 %v, %v, 60; add.u32 %v, %v, %s; ld.shared.u32 %v, [%v];"


def ring(**changed: str) -> str:
    parts = {"access": ACCESS, "before_arrival": "", "before_copy": "", "copy": f"{EXPECT} {COPY}"}
    again = {"again": f"{EXPECT} {AGAIN}"}
    return module(RING.format(**(parts | again | changed)).replace("; ", ";\n"), shared=SHARED)


@pytest.mark.parametrize("where", ["before_arrival", "before_copy"])
def test_a_fence_of_the_reader_or_behind_the_wait_will_do(where):
    """CUTLASS fences before the arrival; a fence behind the wait for it is as good, if the writer executes it."""
    assert rules(check(ring(**{where: FENCE}), threads=64)) == set()


def test_a_barrier_alone_orders_no_proxies():
    text = ring()
    (found,) = check(text, threads=64).findings
    assert (found.rule, found.verdict) == ("proxy-fence-missing", Verdict.review)
    read, copy = line_of(text, "ld.shared.u32 %v"), line_of(text, "[%p_out+64]")
    assert (found.line, found.other.line) == (copy, read)
    assert found.message == (
        f"write by a copy of warp 1 (copy, line {copy}) is not ordered after read by warp 0 (ld, line {read}); "
        "only a proxy fence is missing in between"
    )


def test_bytes_that_an_engine_overwrites_are_as_those_that_were_read():
    """Ordinary stores whose bytes a copy overwrites: nobody has their data, so that a missing fence is for review."""
    stores = ACCESS.replace("ld.shared.u32 %v, [%v]", "st.shared.u32 [%v], %t")
    text = ring(access=stores)
    (found,) = check(text, threads=64).findings
    assert (found.rule, found.verdict) == ("race-shared-memory", Verdict.review)
    assert "only a proxy fence or a tcgen05 fence is missing" in found.message
    assert rules(check(ring(access=stores, before_copy=FENCE), threads=64)) == set()


def test_a_fence_before_the_read_comes_too_early():
    assert rules(check(ring(access=f"{FENCE} {ACCESS}"), threads=64)) == {"proxy-fence-missing"}


@pytest.mark.parametrize("where", ["before_arrival", "before_copy"])
@pytest.mark.parametrize(
    "fence", ["fence.proxy.async.global;", "fence.proxy.alias;", "fence.proxy.tensormap::generic.release.gpu;"]
)
def test_a_fence_of_another_proxy_is_named(fence, where):
    text = ring(**{where: fence})
    (found,) = check(text, threads=64).findings
    assert (found.rule, found.verdict) == ("proxy-fence-wrong", Verdict.review)
    assert f"of line {line_of(text, fence)} is for another proxy or state space" in found.message
    assert rules(check(ring(**{where: f"{fence} fence.proxy.async;"}), threads=64)) == set()


def test_a_fence_that_is_for_something_else_is_not_blamed():
    """It stands before the read, and makes the buffer's start known to copies."""
    text = ring(access=f"fence.proxy.async.global; {ACCESS}")
    assert rules(check(text, threads=64)) == {"proxy-fence-missing"}


def test_what_the_asynchronous_proxy_reads_needs_none():
    """A copy that reads shared memory and is waited for."""
    store = "cp.async.bulk.global.shared::cta.bulk_group [%a], [%s], 16;"
    access = f"""mul.wide.u32 %a, %t, 16; add.u64 %a, %a, %p_out; add.u64 %a, %a, 1024;
        {store} cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"""
    assert rules(check(ring(access=access), threads=64)) == set()


def test_an_mbarrier_that_a_copy_reads_as_data_wants_a_proxy_fence():
    """Its warp told the other warp of the mbarrier.init by bar.sync: nothing but the fence is missing."""
    text = module(
        """
.reg .b32 %t, %s; .reg .pred %skip;
mov.u32 %t, %tid.x; mov.u32 %s, data;
setp.ne.u32 %skip, %t, 0; @%skip bra READY;
mbarrier.init.shared::cta.b64 [%s], 1; mbarrier.init.shared::cta.b64 [%s+8], 1;
READY: bar.warp.sync 0xffffffff; bar.sync 0;
setp.ne.u32 %skip, %t, 32; @%skip bra END;
cp.async.bulk.global.shared::cta.bulk_group [%p_out], [%s], 16; cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
END: bar.warp.sync 0xffffffff;
""".replace("; ", ";\n"),
        shared=SHARED,
    )
    races = [found for found in check(text, threads=64).findings if found.rule == "race-shared-memory"]
    assert {found.verdict for found in races} == {Verdict.review}
    assert all(found.message.endswith("; only a proxy fence or a tcgen05 fence is missing") for found in races)
