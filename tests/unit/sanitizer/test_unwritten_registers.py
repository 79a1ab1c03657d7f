"""Registers that nothing has written on the path by which a thread came, and CTAs of declined requests."""

from __future__ import annotations

import pytest
from check_kernels import check, rules
from support.kernels import module

from convc.ir.findings import Finding, Verdict

HEAD = """.reg .b16 %h<6>, %never16; .reg .b64 %x4, %x5, %x6;
.reg .b32 %t, %c, %v, %w, %never, %x<4>; .reg .b64 %d, %lost; .reg .pred %p, %q, %open;
.reg .b128 %h;
mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x; mul.wide.u32 %d, %t, 4; add.u64 %d, %d, %p_out;
mov.b16 %h0, 0; mov.b16 %h1, 1; mov.b16 %h2, 2; mov.b64 %x5, 0;
"""


def found(body: str, **launch) -> list[Finding]:
    checked = check(module(HEAD + body, shared=".shared .align 16 .b8 tile[64]; .shared .align 8 .b64 bar;"), **launch)
    return [finding for finding in checked.findings if finding.rule in ("register-unwritten", "declined-request-used")]


ERRORS = {
    "stored": ("st.global.u32 [%d], %never;", "st uses %never, which was never written"),
    "stored after arithmetic": (
        "add.u32 %v, %never, 1; shl.b32 %w, %v, 2; st.global.u32 [%d], %w;",
        "st uses %w, which comes from %never, which was never written",
    ),
    "an address": ("ld.global.u32 %v, [%lost];", "ld uses %lost"),
    "an address of shared memory": (
        "add.u32 %v, %never, 4; and.b32 %v, %v, 60; ld.shared.u32 %v, [%v+1024];",
        "ld uses %v",
    ),
    "a branch": ("@%open bra END; END:", "bra is guarded by %open"),
    "a guard": ("mov.u32 %v, 1; @!%open st.global.u32 [%d], %v;", "st is guarded by %open"),
    "a comparison": ("setp.eq.u32 %p, %never, 3; @%p bra END; END:", "%p, which comes from %never"),
    "one element of a vector": (
        "mov.u32 %v, 1; shl.b32 %w, %t, 3; cvt.u64.u32 %d, %w; add.u64 %d, %d, %p_out;"
        " st.global.v2.u32 [%d], {%v, %never};",
        "st uses %never",
    ),
    "half of a pair": ("mov.b64 %lost, {%t, %never}; st.global.b64 [%p_out], %lost;", "%lost, which comes from %never"),
    "the chosen one of two": (
        "setp.ge.u32 %p, %t, 0; selp.u32 %v, %never, 1, %p; st.global.u32 [%d], %v;",
        "%v, which comes from %never",
    ),
    "one path of two": (
        "setp.lt.u32 %p, %t, 40; @%p bra SKIP; mov.u32 %never, 5; SKIP: st.global.u32 [%d], %never;",
        "st uses %never",
    ),
    "a loop's first round": (
        "mov.u32 %v, 0; LOOP: add.u32 %w, %never, 1; mov.u32 %never, %v; add.u32 %v, %v, 1; setp.lt.u32 %p, %v, 3;"
        " st.global.u32 [%d], %w; @%p bra LOOP;",
        "%w, which comes from %never",
    ),
    "the unwritten half of a pair": (
        "mov.b64 %lost, {%t, %never}; mov.b64 {%v, %w}, %lost; st.global.u32 [%d], %w;",
        "st uses %w, which comes from %never",
    ),
    "the unwritten quarter of a vector": (
        "mov.b64 %x4, {%h0, %h1, %h2, %never16}; mov.b64 {%h0, %h0, %h1, %h3}, %x4; st.global.u16 [%d], %h3;",
        "st uses %h3",
    ),
    "the upper one of two sums": (
        "mov.b64 %lost, {%t, %never}; add.rn.f32x2 %lost, %lost, %x5; shr.u64 %lost, %lost, 32;"
        " st.global.u64 [%p_out], %lost;",
        "st uses %lost, which comes from %never",
    ),
    "shifted across halves": (
        "mov.b64 %lost, {%t, %never}; shr.u64 %lost, %lost, 8; cvt.u32.u64 %w, %lost; st.global.u32 [%d], %w;",
        "st uses %w",
    ),
    "half a vector in one path": (
        "mov.b64 %lost, {%t, %t}; setp.lt.u32 %p, %t, 40; @%p mov.b64 %lost, {%t, %never};"
        " mov.b64 {%v, %w}, %lost; st.global.u32 [%d], %w;",
        "st uses %w",
    ),
}  # fmt: skip
CLEAN = {
    "the written half of a pair": "mov.b64 %lost, {%t, %never}; mov.b64 {%v, %w}, %lost; st.global.u32 [%d], %v;",
    "the written half, unpacked alone": "mov.b64 %lost, {%never, %t}; mov.b64 {_, %v}, %lost; st.global.u32 [%d], %v;",
    "two halves of a word": "mov.b32 %v, {%h1, %never16}; mov.b32 {%h2, %h3}, %v; st.global.u16 [%d], %h2;",
    "a half of a half": "mov.b32 %v, {%h1, %never16}; mov.b64 %lost, {%v, %never}; mov.b64 {%h2, %h3, %h4, %h5}, %lost;"
    " st.global.u16 [%d], %h2;",
    "two words of four": "mov.b128 %h, {%x5, %lost}; mov.b128 {%x6, %lost}, %h; st.global.u64 [%p_out], %x6;",
    "the other half is written later": "mov.b64 %lost, {%t, %never}; mov.b64 {%v, %w}, %lost; mov.b64 %lost, {%v, %t};"
    " st.global.b64 [%p_out], %lost;",
    "the upper half by a shift": "mov.b64 %lost, {%never, %t}; shr.u64 %x6, %lost, 32; st.global.b64 [%p_out], %x6;",
    "the lower half by a mask": "mov.b64 %lost, {%t, %never}; and.b64 %lost, %lost, 4294967295; st.global.b64 [%p_out],"
    " %lost;",
    "the lower half by a conversion": "mov.b64 %lost, {%t, %never}; cvt.u32.u64 %v, %lost; st.global.u32 [%d], %v;",
    "the lower one of two sums": "mov.b64 %lost, {%t, %never}; fma.rn.f32x2 %lost, %lost, %x5, %x5;"
    " mov.b64 {%v, %w}, %lost; st.global.u32 [%d], %v;",
    "copied as pair": "mov.b64 %lost, {%t, %never}; mov.b64 %x6, %lost; mov.b64 {%v, _}, %x6; st.global.u32 [%d], %v;",
    "written by all": "mov.u32 %never, 5; st.global.u32 [%d], %never;",
    "written under a guard": "setp.lt.u32 %p, %t, 40; @%p mov.u32 %never, 5; @%p st.global.u32 [%d], %never;",
    "written in two paths": "setp.lt.u32 %p, %t, 40; @%p bra ONE; mov.u32 %never, 5; bra TWO; ONE: mov.u32 %never, 6;"
    " TWO: st.global.u32 [%d], %never;",
    "written by those who use it": "setp.lt.u32 %p, %t, 40; @%p bra SKIP; mov.u32 %never, 5; SKIP: @%p bra END;"
    " st.global.u32 [%d], %never; END:",
    "not the chosen one": "setp.lt.u32 %p, %t, 0; selp.u32 %v, %never, 1, %p; st.global.u32 [%d], %v;",
    "nothing is left of it": "xor.b32 %v, %never, %never; st.global.u32 [%d], %v;",
    "loaded": "ld.global.v2.u32 {%never, %v}, [%p_out]; bar.sync 0; st.global.u32 [%d], %never;",
}


@pytest.mark.parametrize("name", ERRORS)
def test_a_value_that_nothing_wrote_reaches_others(name):
    body, message = ERRORS[name]
    findings = found(body)
    assert [finding.verdict for finding in findings] == [Verdict.error], findings
    assert message in findings[0].message


@pytest.mark.parametrize("name", CLEAN)
def test_a_value_that_was_written_is_clean(name):
    body = CLEAN[name]
    assert not [finding for finding in found(body) if finding.verdict is Verdict.error]
    if name not in ("not the chosen one",):
        assert found(body) == []


def test_a_read_that_leads_to_nothing_is_for_review():
    (finding,) = found("add.u32 %v, %never, 1; mov.u32 %v, 2; st.global.u32 [%d], %v;")
    assert finding.verdict is Verdict.review
    assert finding.message == "int.add reads %never, which was never written on this path"


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("shfl.sync", "shfl.sync.idx.b32 %never, %never, 0, 31, -1;"),
        ("movmatrix", "movmatrix.sync.aligned.m8n8.trans.b16 %never, %never;"),
    ],
)
def test_what_lanes_give_each_other_is_for_review_and_not_followed(form: str, text: str):
    (finding,) = found(f"{text} st.global.u32 [%d], %never;")
    assert finding.verdict is Verdict.review
    assert finding.message == f"{form} reads %never, which was never written on this path"


def test_the_lanes_and_the_cta_are_named():
    body = "setp.eq.u32 %p, %c, 1; setp.eq.and.u32 %p, %t, 37, %p; @!%p mov.u32 %never, 5; st.global.u32 [%d], %never;"
    (finding,) = found(body, grid=3, threads=64)
    assert (finding.cta, finding.warp, finding.lanes) == (1, 1, (5,))


ASK = """mov.u32 %v, bar; mov.u32 %w, tile; setp.ne.u32 %p, %t, 0; @%p bra READY;
mbarrier.init.shared::cta.b64 [%v], 1; fence.proxy.async.shared::cta;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%v], 16;
clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%w], [%v];
READY: bar.sync 0;
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %q, [%v], 0; @!%q bra WAIT;
ld.shared.b128 %h, [tile];
clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %q, %h;
clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%x0, %x1, %x2, _}, %h;
"""


@pytest.mark.parametrize(
    ("use", "count"),
    [
        ("selp.u32 %x0, %x0, 7, %q; st.global.u32 [%d], %x0;", 0),
        ("@!%q bra END; st.global.u32 [%d], %x0; END:", 0),
        ("add.u32 %x0, %x0, %x1; selp.u32 %x0, 7, %x0, !%q; st.global.u32 [%d], %x0;", 0),
        ("st.global.u32 [%d], %x0;", 1),
        ("add.u32 %x1, %x1, 1; setp.eq.u32 %p, %x1, 4; @%p bra END; END:", 1),
    ],
)
def test_the_cta_of_a_declined_request_may_be_read_and_not_used(use, count):
    findings = [f for f in found(ASK + use) if f.rule == "declined-request-used"]
    assert len(findings) == count
    assert all("comes from the CTA id of a declined request" in finding.message for finding in findings)
    assert rules(check(module(HEAD + CLEAN["loaded"]))) == set()
