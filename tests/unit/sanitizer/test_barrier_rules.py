"""mbarriers: nobody else touches a live one, and .cta is for one CTA; each mistake, and its repaired twin."""

from __future__ import annotations

import pytest
from check_kernels import MEET, check
from support.kernels import module

from convc.ir.findings import Verdict

HEAD = """.reg .b32 %t, %b, %v, %w, %rank, %far, %x<4>; .reg .b64 %d, %l; .reg .pred %p, %q;
mov.u32 %t, %tid.x; mov.u32 %b, bar; mov.u32 %v, tile; mov.u32 %rank, %cluster_ctarank;
setp.ne.u32 %p, %t, 0; @%p bra READY;
mbarrier.init.shared::cta.b64 [%b], 1; mbarrier.init.shared::cta.b64 [%b+8], 1; fence.mbarrier_init.release.cluster;
READY: bar.sync 0;
"""
SHARED = ".shared .align 16 .b8 tile[64]; .shared .align 16 .b64 bar[2];"
END = "bar.sync 0; mbarrier.inval.shared::cta.b64 [%b]; bar.sync 0;"
TOUCHES = {
    "a store": "st.shared.u32 [%b+4], %t;",
    "a generic store": "cvt.u64.u32 %l, %b; cvta.shared.u64 %l, %l; st.u32 [%l], %t;",
    "a load": "ld.shared.u32 %w, [%b];",
    "an atomic": "atom.shared.add.u32 %w, [%b], 1;",
    "a vector that begins in front of it": "st.shared.v4.u32 [%b], {%t, %t, %t, %t};",
    "a small copy": "cp.async.ca.shared.global [%b], [%p_out], 8; cp.async.wait_all;",
    "zeros": "st.bulk.weak.shared::cta [%b], 8, 0;",
}


def found(body: str, rule: str, **launch) -> list[str]:
    checked = check(module(HEAD + body, shared=SHARED), **launch)
    return [finding.message for finding in checked.findings if finding.rule == rule]


@pytest.mark.parametrize("what", TOUCHES)
def test_a_live_barrier_is_touched(what):
    one = f"@%p bra OVER; {TOUCHES[what]} OVER:"
    assert found(one, "mbarrier-touched")
    other = one.replace("[%b", "[%v").replace("%l, %b;", "%l, %v;")
    assert found(other, "mbarrier-touched") == []


def test_its_memory_may_be_used_behind_its_end():
    use = "bar.sync 0; @%p bra OVER; mbarrier.inval.shared::cta.b64 [%b]; st.shared.u64 [%b], 0; OVER:"
    assert found(use, "mbarrier-touched") == []
    second = use.replace("st.shared.u64 [%b], 0;", "st.shared.u64 [%b], 0; st.shared.u64 [%b+8], 0;")
    assert len(found(second, "mbarrier-touched")) == 1


def test_a_copy_may_not_land_on_a_barrier():
    copy = """@%p bra OVER; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b+8], 16;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [PLACE], [%p_out], 16, [%b+8];
    OVER: WAIT: mbarrier.try_wait.parity.shared::cta.b64 %q, [%b+8], 0; @!%q bra WAIT;"""
    (message,) = found(copy.replace("PLACE", "%b"), "mbarrier-touched")
    assert message.startswith("cp.async.bulk.load writes bytes of the mbarrier")
    assert found(copy.replace("PLACE", "%v"), "mbarrier-touched") == []


REMOTE = f"""{MEET}
@%p bra OVER; setp.eq.u32 %q, %rank, 0; @%q bra TAKE;
mapa.shared::cluster.u32 %far, %b, 0;
mbarrier.arrive.release.ONE.shared::cluster.b64 _, [%far]; bra OVER;
TAKE: mbarrier.try_wait.parity.acquire.TWO.shared::cta.b64 %q, [%b], 0; @!%q bra TAKE;
OVER: {MEET}"""


@pytest.mark.parametrize(
    ("one", "two"), [("cta", "cluster"), ("cluster", "cta"), ("cta", "cta"), ("cluster", "cluster")]
)
def test_the_scope_holds_all_who_take_part(one, two):
    messages = found(REMOTE.replace("ONE", one).replace("TWO", two), "scope-too-narrow", grid=2, cluster=2)
    assert len(messages) == [one, two].count("cta")
    assert any("arrives at an mbarrier of another CTA" in message for message in messages) == (one == "cta")


@pytest.mark.parametrize(
    ("one", "before", "verdict"),
    [
        ("cluster", "", Verdict.rule),
        ("cta", "", Verdict.error),
        ("cluster", "mapa.shared::cluster.u32 %x0, %v, 0; st.shared::cluster.u32 [%x0], %t;", Verdict.error),
        ("cluster", "ld.shared.u32 %w, [%v]; st.shared.u32 [%v], %t;", Verdict.rule),
    ],
)
def test_a_wait_that_is_too_narrow_for_room_that_is_given_back(one, before, verdict):
    """Nothing of the other CTA's is read behind the wait, or what it has stored there."""
    text = (
        REMOTE.replace("ONE", one).replace("TWO", "cta").replace("mbarrier.arrive.rel", f"{before} mbarrier.arrive.rel")
    )
    checked = check(
        module(HEAD + "st.shared.u32 [%v], %t; bar.sync 0;" + text, shared=SHARED), grid=2, cluster=2, threads=32
    )
    waits = [f for f in checked.findings if f.rule == "scope-too-narrow" and "try_wait" in f.message]
    assert [finding.verdict for finding in waits] == [verdict]


def test_no_scope_is_that_of_the_cluster():
    text = REMOTE.replace(".release.ONE", "").replace(".acquire.TWO", "")
    assert found(text, "scope-too-narrow", grid=2, cluster=2) == []


def test_the_scope_of_one_cta_is_enough_for_itself():
    text = """@%p bra WAIT; mbarrier.arrive.release.cta.shared::cta.b64 _, [%b];
    WAIT: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %q, [%b], 0; @!%q bra WAIT;"""
    assert found(text, "scope-too-narrow", grid=2, cluster=2) == []
