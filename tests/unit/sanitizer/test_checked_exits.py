"""A CTA must not exit while a peer may still reach its memory: clean with a meeting or a wait, an error without."""

from __future__ import annotations

import pytest
from check_kernels import LEADER, MEET, check, line_of, only_error, rules
from support.kernels import module

SHARED = ".shared .align 1024 .b8 data[2048];\n"
HEAD = """
.reg .b32 %t, %rank, %peer, %s, %r, %v, %w, %bar, %far, %z; .reg .b64 %a; .reg .pred %p, %q, %skip; .reg .b16 %m;
mov.u32 %t, %tid.x; mov.u32 %rank, %cluster_ctarank; xor.b32 %peer, %rank, 1; mov.u32 %s, data; add.u32 %bar, %s, 1024;
mapa.shared::cluster.u32 %r, %s, %peer; mapa.shared::cluster.u32 %far, %bar, %peer;
"""
INIT = f"""{LEADER.format(label="READY")}
mbarrier.init.shared::cta.b64 [%bar], 1; fence.mbarrier_init.release.cluster;
READY: bar.warp.sync 0xffffffff; st.shared.u32 [%s], %t;
st.shared.v4.u32 [%s+512], {{%t, %t, %t, %t}}; fence.proxy.async;
"""
MET = "bar.warp.sync 0xffffffff;"
COMPLETION = "mbarrier::complete_tx::bytes"
VISITS = {
    "mbarrier.arrive.release.cluster": "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%far];",
    "st.shared::cluster": "st.shared::cluster.u32 [%r], %t;",
    "ld.shared::cluster": "ld.shared::cluster.u32 %v, [%r];",
    "atom.relaxed.cluster": "atom.relaxed.cluster.shared::cluster.add.u32 %v, [%r], %t;",
    "st.async": f"""mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%bar], 4;
        st.async.shared::cluster.{COMPLETION}.u32 [%r], %t, [%far];""",
    "cp.async.bulk": f"""mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%bar], 16;
        cp.async.bulk.shared::cluster.shared::cta.{COMPLETION} [%r], [%s+512], 16, [%far];""",
}
"""What each CTA does to its peer, by a word of the line."""

WORDS = {
    "mbarrier.arrive.release.cluster": "read by warp 0 of CTA {0} (mbarrier, line {1})",
    "st.shared::cluster": "write by warp 0 of CTA {0} (st, line {1})",
    "ld.shared::cluster": "read by warp 0 of CTA {0} (ld, line {1})",
    "atom.relaxed.cluster": "write by warp 0 of CTA {0} (atom, line {1})",
    "st.async": "write by warp 0 of CTA {0} (st.async, line {1})",
    "cp.async.bulk": "write by a copy of warp 0 of CTA {0} (copy, line {1})",
}


def kernel(*parts: str) -> str:
    return module("\n".join((HEAD, *parts)).replace("; ", ";\n"), shared=SHARED)


def run(text: str):
    return check(text, grid=4, cluster=2, threads=32)


def visiting(visit: str) -> str:
    return f"{LEADER.format(label='DONE')} {VISITS[visit]} DONE: bar.warp.sync 0xffffffff;"


WAIT = "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar], 0; @!%p bra WAIT;"


@pytest.mark.parametrize("visit", VISITS)
def test_a_last_visit_is_over_before_the_peer_exits(visit):
    """A meeting does for what is over when the instruction is; a copy has to be waited for, and its sender told."""
    if "async" in visit:
        arrive = (
            f"{LEADER.format(label='HERE')} mbarrier.arrive.shared::cta.b64 _, [%bar]; HERE: bar.warp.sync 0xffffffff;"
        )
        assert rules(run(kernel(INIT, MEET, visiting(visit), arrive, WAIT, MEET))) == set()
        alone = rules(run(kernel(INIT, MEET, visiting(visit), arrive, WAIT)))
        assert alone == ({"exit-before-completion"} if visit == "cp.async.bulk" else set())
        assert "exit-before-peer" in rules(run(kernel(INIT, MEET, visiting(visit), MEET)))
    else:
        assert rules(run(kernel(INIT, MEET, visiting(visit), MEET))) == set()
    text = kernel(INIT, MEET, visiting(visit))
    found = [f for f in run(text).findings if f.rule == "exit-before-peer"]
    line = line_of(text, visit)
    assert {f.line for f in found} == {line}
    peer = found[0].cta
    what = WORDS[visit].format(peer, line)
    assert (
        found[0].message
        == f"CTA {1 - peer} may exit before the {what}, which accesses its memory: the two are not ordered"
    )
    assert (found[0].warp, found[0].lanes) == (0, (0,))


def test_a_wait_for_the_arrival_is_as_good_as_a_meeting():
    assert rules(run(kernel(INIT, MEET, visiting("mbarrier.arrive.release.cluster"), WAIT))) == set()


def test_a_relaxed_meeting_orders_nothing():
    relaxed = "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;"
    found = only_error(run(kernel(INIT, MEET, visiting("st.shared::cluster"), relaxed)))
    assert found.rule == "exit-before-peer"


MULTICAST = f"""{LEADER.format(label="DONE")} mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 64;
setp.ne.u32 %q, %rank, 0; @%q bra DONE; mov.u16 %m, 3;
cp.async.bulk.shared::cluster.global.{COMPLETION}.multicast::cluster [%s], [%p_out], 64, [%bar], %m;
DONE: bar.warp.sync 0xffffffff; {{only}}
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar], 0; @!%p bra WAIT; END:
"""


def test_each_destination_of_a_multicast_copy_waits():
    assert rules(run(kernel(INIT, MEET, MULTICAST.format(only="")))) == set()
    text = kernel(INIT, MEET, MULTICAST.format(only="setp.ne.u32 %q, %rank, 0; @%q bra END;"))
    found = only_error(run(text))
    line = line_of(text, "cp.async.bulk")
    assert found.message == (
        f"CTA 1 may exit before the write by a copy of warp 0 of CTA 0 (copy, line {line}), which accesses its "
        "memory: the two are not ordered"
    )


def test_work_of_the_own_cta_is_waited_for():
    own = (
        MULTICAST.replace(".multicast::cluster", "")
        .replace(", [%bar], %m;", ", [%bar];")
        .replace("cluster.global", "cta.global")
    )
    assert rules(check(kernel(INIT, MET, own.format(only="")), threads=32)) == set()
    found = only_error(check(kernel(INIT, MET, own.format(only="bra END;")), threads=32))
    assert found.rule == "exit-before-completion"
    assert found.message.startswith("the CTA exits without a wait for the write by a copy of warp 0 (copy, line")
