"""Scopes that do not hold who takes part: of atomics, reductions, loads, stores and fences, in clusters and between."""

from __future__ import annotations

import pytest
from check_kernels import MEET, check, line_of, rules
from support.kernels import module

from convc.ir.findings import Verdict

HEAD = """
.reg .b32 %t, %c, %v, %w, %n; .reg .b64 %a, %b; .reg .pred %p, %q, %mine;
mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x; mov.u32 %v, 0; setp.eq.u32 %mine, %t, 0;
mad.lo.u32 %n, %c, 32, %t; mul.wide.u32 %a, %n, 4; add.u64 %a, %a, %p_out; add.u64 %a, %a, 1024;
"""
"""%a is the thread's own word, behind the counters at the start of the buffer."""


def kernel(*parts: str) -> str:
    return module("\n".join((HEAD, *parts)).replace("; ", ";\n"))


def found(text: str, **more) -> dict[str, Verdict]:
    checked = check(text, **{"grid": 4, "threads": 32} | more)
    return {finding.rule: finding.verdict for finding in checked.findings}


NARROW = {"scope-too-narrow": Verdict.error}
COUNTERS = {
    "atom": "atom.relaxed.SCOPE.global.add.u32 %v, [%p_out], 1;",
    "atom, released": "atom.acq_rel.SCOPE.global.inc.u32 %v, [%p_out], 9;",
    "cas": "atom.relaxed.SCOPE.global.cas.b32 %v, [%p_out], 0, 1;",
    "red": "red.relaxed.SCOPE.global.add.u32 [%p_out], 1;",
    "red, vector": "cvt.rn.f32.u32 %v, %t; red.relaxed.SCOPE.global.v2.f32.add [%p_out], {%v, %v};",
    "flag": "@%mine st.relaxed.SCOPE.global.u32 [%p_out], 1; ld.relaxed.SCOPE.global.u32 %v, [%p_out];",
    "read": "@%mine red.relaxed.gpu.global.add.u32 [%p_out], 1; ld.relaxed.SCOPE.global.u32 %v, [%p_out];",
}


@pytest.mark.parametrize("what", COUNTERS)
def test_strong_accesses_of_clusters_meet_in_the_scope_of_the_gpu(what):
    body = COUNTERS[what]
    for scope in ("gpu", "sys"):
        assert found(kernel(body.replace("SCOPE", scope))) == {}
    for scope in ("cta", "cluster"):
        assert found(kernel(body.replace("SCOPE", scope))) == NARROW
    for one in check(kernel(body.replace("SCOPE", "cta")), grid=4, threads=32).findings:
        assert "their scopes do not include threads of other clusters; .gpu does" in one.message


@pytest.mark.parametrize("what", [name for name in COUNTERS if name != "read"])
def test_a_counter_of_each_cta_needs_no_more(what):
    body = "mul.wide.u32 %b, %c, 8; add.u64 %b, %b, %p_out;" + COUNTERS[what].replace("[%p_out]", "[%b]")
    assert found(kernel(body.replace("SCOPE", "cta"))) == {}


@pytest.mark.parametrize("what", [name for name in COUNTERS if name != "read"])
def test_in_a_cluster_that_of_the_cluster_is_enough(what):
    body = COUNTERS[what]
    pair = {"grid": 2, "cluster": 2}
    assert found(kernel(body.replace("SCOPE", "cluster")), **pair) == {}
    assert found(kernel(body.replace("SCOPE", "cta")), **pair) == NARROW


LAST = """
st.global.u32 [%a], %t;
bar.sync 0;
SEND
@%mine atom.relaxed.ATOM.global.add.u32 %v, [%p_out], 1;
shfl.sync.idx.b32 %v, %v, 0, 31, 0xffffffff;
setp.ne.u32 %p, %v, 3; @%p bra DONE;
TAKE
ld.global.u32 %w, [%a+-128];
DONE:
"""
"""The CTA that counts last reads what the one in front of it has stored."""


def last(send: str, take: str, atom: str = "gpu") -> str:
    return kernel("add.u64 %a, %a, 128;", LAST.replace("SEND", send).replace("TAKE", take).replace("ATOM", atom))


def test_a_fence_of_the_gpu_may_order_clusters():
    for send, take in (("fence.acq_rel.gpu;", "fence.acq_rel.gpu;"), ("membar.gl;", "membar.gl;")):
        assert found(last(send, take)) == {"race-global-memory": Verdict.review}, "what it orders is not followed"
    assert found(last("fence.release.sys;", "fence.acquire.sys;")) == {"race-global-memory": Verdict.review}
    assert found(last("", "")) == {"race-global-memory": Verdict.review}, "no fence says a scope"


@pytest.mark.parametrize(
    ("send", "take", "named"),
    [
        ("fence.acq_rel.cta;", "fence.acq_rel.gpu;", "fence.acq_rel.cta"),
        ("fence.sc.cluster;", "fence.acq_rel.gpu;", "fence.sc.cluster"),
        ("membar.cta;", "membar.gl;", "membar.cta"),
        ("fence.release.gpu;", "fence.acquire.cta;", "fence.acquire.cta"),
        ("fence.release.cluster;", "fence.acquire.cluster;", "fence.release.cluster"),
    ],
)
def test_a_fence_for_less_is_named(send, take, named):
    text = last(send, take)
    (one,) = check(text, grid=4, threads=32).findings
    assert (one.rule, one.verdict) == ("scope-too-narrow", Verdict.error)
    assert f"fence of line {line_of(text, named)} does not include other clusters" in one.message


def test_a_release_of_its_own_does_as_well():
    wide = last("", "").replace("atom.relaxed.gpu", "atom.acq_rel.gpu")
    assert found(wide) == {"race-global-memory": Verdict.review}
    assert found(wide.replace("atom.acq_rel.gpu", "atom.acq_rel.cta")) == NARROW


HANDED = """
st.global.u32 [%a], %t;
bar.warp.sync 0xffffffff;
@%mine atom.acq_rel.gpu.global.add.u32 %v, [%p_out], 1;
bar.warp.sync 0xffffffff;
shfl.sync.idx.b32 %v, %v, 0, 31, 0xffffffff;
setp.ne.u32 %p, %v, 3; @%p bra DONE;
ld.global.u32 %w, [%a+-128];
DONE:
"""
"""The CTA that counts last reads what the one in front of it has stored, released by its lane 0."""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("", "", id="as it is"),
        pytest.param(
            "atom.acq_rel.gpu.global.add.u32 %v, [%p_out], 1",
            "atom.acq_rel.sys.global.inc.u32 %v, [%p_out], 9",
            id="of the system",
        ),
    ],
)
def test_what_a_warp_released_another_may_read(before, after):
    assert found(kernel("add.u64 %a, %a, 128;", HANDED.replace(before, after))) == {}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            "st.global.u32 [%a], %t;\nbar.warp.sync 0xffffffff;",
            "st.global.u32 [%a], %t;",
            id="lanes do not meet before the release",
        ),
        pytest.param("1;\nbar.warp.sync 0xffffffff;", "1;", id="lanes do not meet behind the acquire"),
        pytest.param("acq_rel", "release", id="no acquire"),
        pytest.param("acq_rel", "acquire", id="no release"),
        pytest.param("acq_rel", "relaxed", id="neither"),
        pytest.param("DONE:", "DONE: st.global.u32 [%a], %v;", id="stored again"),
    ],
)
def test_without_one_step_of_the_handover_it_is_for_review(before, after):
    assert before in HANDED
    text = kernel("add.u64 %a, %a, 128;", HANDED.replace(before, after, 1))
    assert found(text) == {"race-global-memory": Verdict.review}


HANDOVER = f"""
mul.wide.u32 %b, %t, 4; add.u64 %b, %b, %p_out; add.u64 %b, %b, 512;
{MEET}
setp.ne.u32 %q, %c, 0; @%q bra OTHER;
st.global.u32 [%b], %t;
bar.sync 0;
SEND
@%mine st.relaxed.gpu.global.u32 [%p_out], 1;
bra DONE;
OTHER:
LOOP: ld.relaxed.gpu.global.u32 %v, [%p_out]; setp.eq.u32 %p, %v, 0; @%p bra LOOP;
TAKE
ld.global.u32 %w, [%b];
DONE: {MEET}
"""
"""In a cluster of two: the first CTA stores words, and raises a flag that the second one waits for."""


@pytest.mark.parametrize(
    ("send", "take", "expected"),
    [
        ("fence.acq_rel.cluster;", "fence.acq_rel.cluster;", {}),
        ("fence.acq_rel.gpu;", "fence.acq_rel.gpu;", {}),
        ("fence.acq_rel.cta;", "fence.acq_rel.cluster;", NARROW),
        ("fence.acq_rel.cluster;", "fence.acq_rel.cta;", NARROW),
        ("", "fence.acq_rel.cluster;", {"race-global-memory": Verdict.error}),
    ],
)
def test_in_a_cluster_who_hears_what_is_followed(send, take, expected):
    body = HANDOVER.replace("SEND", send).replace("TAKE", take)
    assert found(kernel(body), grid=2, cluster=2) == expected


def test_a_fence_for_the_own_cta_is_right_there():
    """Its warps tell each other by it, and nobody else is told."""
    body = """
    setp.lt.u32 %p, %t, 32; @!%p bra TAKE;
    st.global.u32 [%a], %t; fence.acq_rel.cta; st.relaxed.cta.global.u32 [%b], 1; bra DONE;
    TAKE: LOOP: ld.relaxed.cta.global.u32 %v, [%b+-128]; setp.eq.u32 %q, %v, 0; @%q bra LOOP;
    fence.acq_rel.cta; ld.global.u32 %w, [%a+-128];
    DONE:
    """
    place = "mad.lo.u32 %n, %c, 64, %t; mul.wide.u32 %a, %n, 4; add.u64 %a, %a, %p_out; add.u64 %b, %a, 2048;"
    assert rules(check(kernel(place, body), grid=4, threads=64, size=8192)) == set()
