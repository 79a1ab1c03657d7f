"""Races over global memory inside one CTA: ordinary accesses, tensor and bulk copies, groups of copies."""

from __future__ import annotations

import pytest
from check_kernels import LEADER, check, errors, line_of, only_error, rules
from support.kernels import module

from convc.ir.findings import Verdict
from convc.ir.tensormap import TensorMap

SHARED = ".shared .align 1024 .b8 data[2048];\n"
HEAD = """
.reg .b32 %t, %s, %v, %w, %z, %bar; .reg .b64 %a, %b; .reg .pred %p, %q, %skip;
mov.u32 %t, %tid.x; mov.u32 %s, data; add.u32 %bar, %s, 1024; mov.u32 %z, 0;
mul.wide.u32 %a, %t, 4; add.u64 %a, %a, %p_out;
"""
MAP = TensorMap(
    mode="tile", buffer="out", dtype="u32", dims=(32, 8), strides=(128,), element_strides=(1, 1), box=(32, 1)
)


def kernel(*parts: str) -> str:
    return module("\n".join((HEAD, *parts)).replace("; ", ";\n"), shared=SHARED, maps=("map",))


def run(text: str, threads: int = 64, **more):
    return check(text, threads=threads, maps=(MAP,), **more)


EXCHANGE = """st.global.u32 [%a], %t; {sync} xor.b32 %v, %t, 63; mul.wide.u32 %b, %v, 4; add.u64 %b, %b, %p_out;
ld.global.u32 %w, [%b];"""


def test_two_warps_need_a_barrier_between_store_and_load():
    assert rules(run(kernel(EXCHANGE.format(sync="bar.sync 0;")))) == set()
    text = kernel(EXCHANGE.format(sync=""))
    found = only_error(run(text))
    load, store = line_of(text, "ld.global"), line_of(text, "st.global")
    assert found.rule == "race-global-memory"
    assert found.message == f"read by warp 0 (ld, line {load}) is not ordered after write by warp 1 (st, line {store})"
    assert (found.cta, found.warp, found.lanes) == (0, 0, tuple(range(32)))
    assert (found.other.warp, found.other.lanes) == (1, tuple(range(32)))
    assert (found.region.buffer, found.region.runs) == ("out", ((128, 255),))


def test_two_warps_may_store_to_neighbouring_bytes():
    body = "cvt.u64.u32 %b, %t; add.u64 %b, %b, %p_out; st.global.u8 [%b], %t;"
    assert rules(run(kernel(body))) == set()


def test_two_warps_that_store_to_the_same_bytes():
    body = "setp.lt.u32 %p, %t, 32; @%p bra FIRST; st.global.u32 [%p_out+8], %t; bra DONE; FIRST: {first} DONE:"
    found = only_error(run(kernel(body.format(first="st.global.u64 [%p_out+8], %a;"))))
    assert found.rule == "race-global-memory"
    assert found.region.runs == ((8, 11),)
    same = run(kernel("st.global.u32 [%p_out], %z;"))
    assert [f.verdict for f in same.findings] == [Verdict.review]
    assert same.findings[0].message.endswith("; they may store the same")


# ---- tensor and bulk copies ----------------------------------------------------------------------------------------

COMPLETION = "mbarrier::complete_tx::bytes"
INIT = f"""{LEADER.format(label="READY")} mbarrier.init.shared::cta.b64 [%bar], 1; fence.proxy.async.shared::cta;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 128; READY: bar.warp.sync 0xffffffff;"""
LOADS = {
    "tensor": f"cp.async.bulk.tensor.2d.shared::cta.global.tile.{COMPLETION} [%s], [%m_map, {{%z, %z}}], [%bar];",
    "bulk": f"cp.async.bulk.shared::cta.global.{COMPLETION} [%s], [%p_out], 128, [%bar];",
}
WAIT = "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar], 0; @!%p bra WAIT;"


def loading(load: str, fence: str) -> str:
    """Warp 0 stores what one of its lanes then has copied."""
    send = f"{LEADER.format(label='SENT')} {LOADS[load]} SENT: bar.warp.sync 0xffffffff;"
    return kernel(INIT, "st.global.u32 [%a], %t;", fence, "bar.warp.sync 0xffffffff;", send, WAIT)


@pytest.mark.parametrize("load", LOADS)
def test_a_copy_sees_ordinary_stores_behind_a_proxy_fence(load):
    for fence in ("fence.proxy.async;", "fence.proxy.async.global;"):
        assert rules(run(loading(load, fence), threads=32)) == set()
    for fence in ("", "fence.proxy.async.shared::cta;", "membar.gl;"):
        text = loading(load, fence)
        found = only_error(run(text, threads=32))
        store = line_of(text, "st.global")
        why = "only a proxy fence or a tcgen05 fence is missing"
        if "proxy" in fence:
            why = f"the fence.proxy.async.shared::cta of line {store + 1} is for another proxy or state space"
        assert found.rule == ("proxy-fence-wrong" if "proxy" in fence else "race-global-memory")
        assert found.message == (
            f"read by a copy of warp 0 (copy, line {line_of(text, 'cp.async.bulk')}) is not ordered after write by "
            f"warp 0 (st, line {store}); {why}"
        )
        assert (found.lanes, found.other.lanes) == ((0,), tuple(range(32)))


@pytest.mark.parametrize("load", LOADS)
def test_a_store_waits_for_the_copy_that_reads_the_old_bytes(load):
    send = f"{LEADER.format(label='SENT')} {LOADS[load]} SENT: bar.warp.sync 0xffffffff;"
    assert rules(run(kernel(INIT, send, WAIT, "st.global.u32 [%a], %t;"), threads=32)) == set()
    found = only_error(run(kernel(INIT, send, "st.global.u32 [%a], %t;", WAIT), threads=32))
    assert "write by warp 0 (st, line" in found.message
    assert "is not ordered after read by a copy of warp 0 (copy, line" in found.message


STORES = {
    "tensor": "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%m_map, {%z, %z}], [%s];",
    "bulk": "cp.async.bulk.global.shared::cta.bulk_group [%p_out], [%s], 128;",
    "reduce": "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%p_out], [%s], 128;",
}


def storing(store: str, *behind: str) -> str:
    """Lane 0 has 128 bytes stored and commits them."""
    fill = "shl.b32 %v, %t, 2; add.u32 %v, %v, %s; st.shared.u32 [%v], %t; fence.proxy.async.shared::cta; bar.sync 0;"
    send = f"""{LEADER.format(label="SENT")} {STORES[store]} cp.async.bulk.commit_group; {behind[0]}
    SENT: bar.warp.sync 0xffffffff; bar.sync 0;"""
    return kernel(fill, send, *behind[1:])


@pytest.mark.parametrize("store", STORES)
def test_a_store_is_read_back_behind_its_group(store):
    read = "ld.global.u32 %v, [%a];"
    assert rules(run(storing(store, "cp.async.bulk.wait_group 0;", read), threads=32)) == set()
    for wait in ("cp.async.bulk.wait_group.read 0;", "cp.async.bulk.wait_group 1;"):
        text = storing(store, wait, read)
        found = [f for f in errors(run(text, threads=32)) if f.rule == "race-global-memory"]
        copy = line_of(text, "[%s]" if store == "tensor" else "[%p_out], [%s]")
        assert found[0].message == (
            f"read by warp 0 (ld, line {line_of(text, 'ld.global.u32 %v')}) is not ordered after write by a copy of "
            f"warp 0 (copy, line {copy})"
        )


def test_a_source_is_free_behind_the_reading_wait():
    again = "st.shared.u32 [%s], %t;"
    assert errors(run(storing("bulk", "cp.async.bulk.wait_group.read 0;", again), threads=32)) == []
    found = [f for f in errors(run(storing("bulk", "", again), threads=32)) if f.rule == "race-shared-memory"]
    assert "write by warp 0 (st, line" in found[0].message
    assert "is not ordered after read by a copy of warp 0 (copy, line" in found[0].message


def test_groups_belong_to_the_thread_that_closes_them():
    """Lane 1 waits for its own groups, of which there are none."""
    body = """setp.gt.u32 %skip, %t, 1; @%skip bra SENT; setp.ne.u32 %q, %t, 0;
    @!%q cp.async.bulk.global.shared::cta.bulk_group [%p_out], [%s], 128; cp.async.bulk.commit_group;
    @%q cp.async.bulk.wait_group 0; SENT: bar.warp.sync 0xffffffff; bar.sync 0; ld.global.u32 %v, [%a];"""
    fill = "st.shared.u32 [%s], %t; fence.proxy.async; bar.sync 0;"
    assert "race-global-memory" in {f.rule for f in errors(run(kernel(fill, body), threads=32))}


def test_two_stores_of_one_place_wait_for_each_other():
    twice = f"{STORES['bulk']} cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
    assert rules(run(storing("bulk", f"cp.async.bulk.wait_group 0; {twice}"), threads=32)) == set()
    found = [f for f in errors(run(storing("bulk", twice), threads=32)) if f.rule == "race-global-memory"]
    assert found[0].message.count("write by a copy of warp 0") == 2
    reduced = twice.replace(STORES["bulk"], STORES["reduce"])
    assert errors(run(storing("reduce", reduced), threads=32)) == []


# ---- cp.async ----------------------------------------------------------------------------------------------------

ASYNC = """cvt.u32.u64 %w, %a; shl.b32 %v, %t, 4; and.b32 %v, %v, 511; add.u32 %v, %v, %s; mul.wide.u32 %b, %t, 16;
add.u64 %b, %b, %p_out; cp.async.ca.shared.global [%v], [%b], 16; {close} {wait} bar.sync 0; ld.shared.u32 %w, [%v];"""


@pytest.mark.parametrize(
    ("close", "wait", "clean"),
    [
        ("cp.async.commit_group;", "cp.async.wait_group 0;", True),
        ("", "cp.async.wait_all;", True),
        ("cp.async.commit_group;", "cp.async.wait_group 1;", False),
        ("", "cp.async.wait_group 0;", False),
        ("cp.async.commit_group;", "", False),
    ],
)
def test_a_small_copy_is_there_behind_its_group(close, wait, clean):
    text = kernel(ASYNC.format(close=close, wait=wait))
    checked = run(text, threads=32)
    assert (rules(checked) == set()) is clean
    if not clean:
        found = only_error(checked)
        copy = line_of(text, "cp.async.ca")
        assert found.message.endswith(f"is not ordered after write by warp 0 (cp.async, line {copy})")


def test_small_copies_signal_a_barrier():
    arrive = "cp.async.mbarrier.arrive.noinc.shared.b64 [%bar];"
    init = INIT.replace("[%bar], 1;", "[%bar], 32;").replace(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 128;", ""
    )
    assert rules(run(kernel(init, ASYNC.format(close=arrive, wait=WAIT)), threads=32)) == set()
    late = ASYNC.format(close="", wait=f"{arrive} {WAIT}").replace("cp.async.ca", "{arrive} cp.async.ca", 1)
    early = ASYNC.format(close="", wait=WAIT).replace("cp.async.ca.shared", f"{arrive} cp.async.ca.shared")
    assert rules(run(kernel(init, late.replace("{arrive}", "")), threads=32)) == set()
    assert only_error(run(kernel(init, early), threads=32)).rule == "race-shared-memory"


COLLIDING = """
.reg .b32 %t, %c, %v; .reg .b64 %at; .reg .pred %last; mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x;
mad.lo.u32 %v, %c, 128, %t; mul.wide.u32 %at, %v, 4; add.u64 %at, %at, %p_out;
setp.ge.u32 %last, %v, {first};
@%last mov.u64 %at, %p_out; @%last add.u64 %at, %at, 4092; {same}
st.global.u32 [%at], %v;
"""


def test_lanes_of_any_cta_that_store_to_one_place_at_once_are_found():
    """Rows without a place of their own go to the last one, all of the last CTA: another one wins, and it shows."""
    found = check(module(COLLIDING.format(first=1022, same="")), grid=8).findings
    assert [(f.rule, f.verdict) for f in found] == [("open-question", Verdict.review)]
    assert "with switch colliding_stores=highest, " in found[0].message
    same = check(module(COLLIDING.format(first=1022, same="@%last mov.u32 %v, 5;")), grid=8)
    assert same.findings == ()


@pytest.mark.parametrize("same", ["", "@%last mov.u32 %v, 5;"])
def test_warps_of_any_cta_that_store_to_one_place_are_found(same):
    """As those of the first one are: they may store the same."""
    (found,) = check(module(COLLIDING.format(first=991, same=same)), grid=8).findings
    assert (found.rule, found.verdict, found.cta) == ("race-global-memory", Verdict.review, 7)
    assert found.message.endswith("they may store the same")
