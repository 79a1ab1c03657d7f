"""Lanes of one warp: only what brings them together orders what they do to one place."""

from __future__ import annotations

import pytest
from check_kernels import LEADER, check, only_error, rules
from support.kernels import module

TILE = ".shared .align 128 .b8 tile[512]; .shared .align 8 .b64 bell;\n"
HEAD = """
.reg .b32 %t, %o, %n, %v, %bar; .reg .b64 %a; mov.u32 %t, %tid.x; mov.u32 %bar, bell;
shl.b32 %o, %t, 2; mov.u32 %v, tile; add.u32 %o, %o, %v; cvt.u64.u32 %a, %t; shl.b64 %a, %a, 2; add.u64 %a, %a, %p_out;
"""
NEIGHBOUR = {
    "shared": ("st.shared.u32 [%o], %t;", "xor.b32 %n, %o, 4; ld.shared.u32 %v, [%n];"),
    "global": ("st.global.u32 [%a], %t;", "xor.b64 %a, %a, 4; ld.global.u32 %v, [%a];"),
}
MET = "bar.warp.sync 0xffffffff;"
RELEASED = """
mbarrier.arrive.shared::cta.b64 _, [%bar];
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar], 0; @!%p bra WAIT;
"""
INIT = f"{LEADER.format(label='READY')} mbarrier.init.shared::cta.b64 [%bar], 32; READY: {MET} bar.sync 0;"
SHUFFLE = "shfl.sync.bfly.b32 %n, %t, 1, 31, 0xffffffff;"


def run(*parts: str):
    preds = ".reg .pred %p, %skip;"
    return check(module(preds + HEAD + "\n".join(parts), shared=TILE), threads=32)


@pytest.mark.parametrize("space", NEIGHBOUR)
@pytest.mark.parametrize("between", [MET, "bar.sync 0;", RELEASED])
def test_lanes_that_met_see_what_their_neighbours_stored(space, between):
    store, load = NEIGHBOUR[space]
    assert rules(run(INIT, store, between, load)) == set()


@pytest.mark.parametrize("space", NEIGHBOUR)
@pytest.mark.parametrize("between", ["", SHUFFLE, "membar.cta;", "fence.proxy.async;"])
def test_lanes_that_did_not_meet_race(space, between):
    """Neither a fence nor an instruction that all lanes execute together orders memory between them."""
    store, load = NEIGHBOUR[space]
    found = only_error(run(INIT, store, between, load))
    assert found.rule == f"race-{space}-memory"
    assert "they are two lanes of one warp: put bar.warp.sync in between" in found.message


def test_a_lane_reads_what_it_stored_itself():
    assert rules(run(INIT, "st.shared.u32 [%o], %t; ld.shared.u32 %v, [%o];")) == set()


def test_a_place_is_used_again_when_all_lanes_have_read_it():
    again = "xor.b32 %n, %o, 4; ld.shared.u32 %v, [%n]; {between} st.shared.u32 [%o], %v;"
    first = f"st.shared.u32 [%o], %t; {MET}"
    assert rules(run(INIT, first, again.format(between=MET))) == set()
    assert "is not ordered after read" in only_error(run(INIT, first, again.format(between=""))).message


def test_what_one_lane_has_waited_for_the_others_know_when_they_meet():
    """A lane waits until its copy has read shared memory; then all lanes overwrite it."""
    copy = f"""{LEADER.format(label="DONE")} cp.async.bulk.global.shared::cta.bulk_group [%p_out], [tile], 128;
    cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0; DONE:"""
    stored = f"st.shared.u32 [%o], %t; fence.proxy.async.shared::cta; {MET}"
    over = "st.shared.u32 [%o], %v;"
    for between in (MET, RELEASED):
        assert rules(run(INIT, stored, copy, between, over)) == set()
    found = only_error(run(INIT, stored, copy, over))
    assert found.message.startswith("write by warp 0 (st")
    assert found.message.endswith("put bar.warp.sync in between")


def test_each_lane_waits_for_its_own_copies():
    """cp.async: behind its wait a lane sees what it has copied itself, and what others have, behind a meeting."""
    copy = "cp.async.ca.shared.global [%o], [%a], 4; cp.async.wait_all; xor.b32 %n, %o, {other}; {between}"
    load = "ld.shared.u32 %v, [%n];"
    assert rules(run(INIT, copy.format(other=0, between=""), load)) == set()
    assert rules(run(INIT, copy.format(other=4, between=MET), load)) == set()
    assert only_error(run(INIT, copy.format(other=4, between=""), load)).rule == "race-shared-memory"


def test_one_lane_copies_what_all_have_stored():
    """The end of an epilogue: each lane stores, makes that visible to the copy engine, and one lane issues the copy."""
    copy = f"""{LEADER.format(label="DONE")} cp.async.bulk.global.shared::cta.bulk_group [%p_out], [tile], 128;
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; DONE:"""
    stored = "st.shared.u32 [%o], %t; fence.proxy.async.shared::cta;"
    assert rules(run(INIT, stored, MET, copy)) == set()
    found = only_error(run(INIT, stored, copy))
    assert found.message.startswith("read by a copy of warp 0")
    assert found.message.endswith("put bar.warp.sync in between")
