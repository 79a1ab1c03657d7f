"""Atomics, and loads and stores with an order: what does not race, and what they order (PTX memory model)."""

from __future__ import annotations

import pytest
from check_kernels import check, errors, line_of, only_error, rules
from support.kernels import module

from convc.ir.findings import Verdict

SHARED = ".shared .align 1024 .b8 data[2048];\n"
HEAD = """
.reg .b32 %t, %s, %v, %w, %i; .reg .b64 %f; .reg .pred %p, %q, %first;
mov.u32 %t, %tid.x; mov.u32 %s, data; mov.u32 %i, 1; setp.lt.u32 %first, %t, 32;
"""
ZERO = "@%first st.shared.u32 [%s+256], 0; bar.sync 0;"
"""The flag, at data + 256 or at the start of the buffer, begins at 0."""

FLAG = {"shared": "[%s+256]", "global": "[%p_out]"}
DATA = {"shared": "[%s]", "global": "[%p_out+128]"}


def kernel(*parts: str) -> str:
    return module("\n".join((HEAD, *parts)).replace("; ", ";\n"), shared=SHARED)


def handover(send: str, receive: str, space: str = "shared", other: str = "shared") -> str:
    """Warp 0 stores a word and raises a flag, warp 1 spins on the flag and loads the word."""
    fill = {"flag": FLAG[space], "space": space}
    return kernel(
        ZERO,
        "@!%first bra OTHER;",
        f"st.{other}.u32 {DATA[other]}, %i;",
        send.format(**fill),
        "bra DONE;",
        "OTHER:",
        receive.format(**fill),
        f"ld.{other}.u32 %w, {DATA[other]};",
        "DONE:",
    )


SPIN = "LOOP: {load} setp.eq.u32 %p, %v, 0; @%p bra LOOP;"
ATOMIC_READ = "atom.{order}.gpu.{{space}}.or.b32 %v, {{flag}}, 0;"
ORDERED = {
    "release, acquire": ("st.release.gpu.{space}.u32 {flag}, %i;", "ld.acquire.gpu.{space}.u32 %v, {flag};", ""),
    "cta scope": ("st.release.cta.{space}.u32 {flag}, %i;", "ld.acquire.cta.{space}.u32 %v, {flag};", ""),
    "atomics": ("atom.acq_rel.gpu.{space}.add.u32 %v, {flag}, %i;", ATOMIC_READ.format(order="acquire"), ""),
    "reduction": ("red.release.gpu.{space}.add.u32 {flag}, %i;", "ld.acquire.gpu.{space}.u32 %v, {flag};", ""),
    "fences": (
        "fence.acq_rel.gpu; st.relaxed.gpu.{space}.u32 {flag}, %i;", "ld.relaxed.gpu.{space}.u32 %v, {flag};",
        "fence.acq_rel.gpu;",
    ),
    "membar": (
        "membar.gl; atom.relaxed.gpu.{space}.exch.b32 %v, {flag}, %i;", "ld.volatile.{space}.u32 %v, {flag};",
        "membar.gl;",
    ),
    "one fence": ("fence.sc.gpu; st.volatile.{space}.u32 {flag}, %i;", "ld.acquire.gpu.{space}.u32 %v, {flag};", ""),
}  # fmt: skip
"""(store of the flag, load of it, what follows the spinning)."""


@pytest.mark.parametrize("other", ["shared", "global"])
@pytest.mark.parametrize("space", ["shared", "global"])
@pytest.mark.parametrize("name", ORDERED)
def test_a_flag_orders_what_comes_before_its_release(name, space, other):
    send, load, behind = ORDERED[name]
    receive = SPIN.format(load=load) + behind
    assert rules(check(handover(send, receive, space, other), threads=64)) == set()


UNORDERED = {
    "relaxed store": ("st.relaxed.gpu.{space}.u32 {flag}, %i;", "ld.acquire.gpu.{space}.u32 %v, {flag};", ""),
    "relaxed load": ("st.release.gpu.{space}.u32 {flag}, %i;", "ld.relaxed.gpu.{space}.u32 %v, {flag};", ""),
    "no fence before": (
        "st.relaxed.gpu.{space}.u32 {flag}, %i;", "ld.relaxed.gpu.{space}.u32 %v, {flag};", "fence.acq_rel.gpu;",
    ),
    "fence of the wrong kind": (
        "fence.acquire.gpu; st.relaxed.gpu.{space}.u32 {flag}, %i;", "ld.acquire.gpu.{space}.u32 %v, {flag};", "",
    ),
    "a later relaxed store": (
        "st.release.gpu.{space}.u32 {flag}, %i; st.relaxed.gpu.{space}.u32 {flag}, 2;",
        "ld.acquire.gpu.{space}.u32 %v, {flag};", "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("space", ["shared", "global"])
@pytest.mark.parametrize("name", UNORDERED)
def test_a_flag_without_release_or_acquire_orders_nothing(name, space):
    send, load, behind = UNORDERED[name]
    found = only_error(check(handover(send, SPIN.format(load=load) + behind, space), threads=64))
    assert found.rule == "race-shared-memory"
    assert "read by warp 1 (ld" in found.message
    assert "is not ordered after write by warp 0 (st" in found.message


def test_an_atomic_passes_a_release_on():
    """Warp 1 adds to the flag that warp 0 released; warp 2 acquires what warp 1 left."""
    text = kernel(
        ZERO,
        "@!%first bra OTHER;",
        "st.shared.u32 [%s], %t;",
        "st.release.cta.shared.u32 [%s+256], %i;",
        "bra DONE;",
        "OTHER: setp.ge.u32 %q, %t, 64; @%q bra LAST;",
        "SECOND: atom.relaxed.cta.shared.cas.b32 %v, [%s+256], 1, 2;",
        "setp.eq.u32 %p, %v, 0; @%p bra SECOND; bra DONE;",
        "LAST: ld.acquire.cta.shared.u32 %v, [%s+256]; setp.lt.u32 %p, %v, 2; @%p bra LAST;",
        "ld.shared.u32 %w, [%s];",
        "DONE:",
    )
    assert rules(check(text, threads=96)) == set()
    weaker = text.replace(
        "atom.relaxed.cta.shared.cas.b32 %v, [%s+256], 1, 2;", "ld.relaxed.cta.shared.u32 %v, [%s+256];"
    )
    weaker = weaker.replace("@%p bra SECOND;", "@%p bra SECOND; st.relaxed.cta.shared.u32 [%s+256], 2;")
    assert only_error(check(weaker, threads=96)).rule == "race-shared-memory"


@pytest.mark.parametrize("space", ["shared", "global"])
def test_strong_accesses_do_not_race_and_weak_ones_do(space):
    strong = f"atom.relaxed.gpu.{space}.add.u32 %v, {FLAG[space]}, %i; ld.relaxed.gpu.{space}.u32 %v, {FLAG[space]};"
    assert rules(check(kernel(ZERO, strong), threads=64)) == set()
    weak = f"atom.relaxed.gpu.{space}.add.u32 %v, {FLAG[space]}, %i; ld.{space}.u32 %v, {FLAG[space]};"
    found = errors(check(kernel(ZERO, weak), threads=64))
    assert {f.rule for f in found} == {f"race-{space}-memory"}
    assert any("(ld, line" in f.message and "(atom, line" in f.message for f in found)


def test_atomics_of_two_warps_are_both_remembered():
    """A load that is ordered after one warp's atomic, but not after the other's, races."""
    text = kernel(
        ZERO,
        "bar.sync 0; atom.relaxed.gpu.shared.add.u32 %v, [%s+256], %i;",
        "setp.lt.u32 %q, %t, 64; @!%q bra DONE;",
        "bar.sync 1, 64; ld.shared.u32 %w, [%s+256];",
        "DONE:",
    )
    assert rules(check(text, threads=64)) == set()
    found = errors(check(text, threads=96))
    assert found
    assert all("by warp 2 (atom" in f.message for f in found)


def test_mixed_scopes_of_one_cta_are_fine():
    text = kernel(
        ZERO, "@%first atom.cta.shared.add.u32 %v, [%s+256], %i; @!%first red.gpu.shared.add.u32 [%s+256], %i;"
    )
    assert rules(check(text, threads=64)) == set()


def test_an_engine_does_not_see_an_atomic_without_a_proxy_fence():
    body = """st.shared.v4.u32 [%s+256], {%i, %i, %i, %i}; atom.shared.add.u32 %v, [%s+256], %i; {fence}
    bar.warp.sync 0xffffffff; setp.eq.u32 %p, %t, 0; @!%p bra DONE;
    cp.async.bulk.global.shared::cta.bulk_group [%p_out], [%s+256], 16;
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; DONE:"""
    assert rules(check(kernel(body.replace("{fence}", "fence.proxy.async;")), threads=32)) == set()
    found = errors(check(kernel(body.replace("{fence}", "")), threads=32))
    assert any("(atom, line" in f.message and f.message.startswith("read by a copy of warp 0") for f in found)


def test_an_ordinary_load_beside_an_atomic_says_what_to_do():
    """The idiom ``old = *p; do ... atomicCAS(p, ...)``: the first load is ordinary."""
    body = """.reg .b32 %v, %w; ld.global.u32 %v, [%p_out]; add.u32 %w, %v, 1;
    atom.global.cas.b32 %v, [%p_out], %v, %w;"""
    (found,) = check(module(body), threads=64).findings
    assert found.verdict is Verdict.error
    assert found.message.endswith("(ld.relaxed, st.relaxed or volatile), or order the two by a barrier")
    strong = check(module(body.replace("ld.global", "ld.relaxed.gpu.global")), threads=64)
    assert strong.findings == ()


@pytest.mark.parametrize("space", ["shared", "global"])
def test_a_weak_store_makes_an_end_of_a_release(space):
    """Who acquires what a weak store wrote has heard nothing: the words race, besides the flag."""
    send = ORDERED["release, acquire"][0] + " st.{space}.u32 {flag}, 2;"
    receive = "LOOP: ld.acquire.gpu.{space}.u32 %v, {flag}; setp.ne.u32 %p, %v, 2; @%p bra LOOP;"
    text = handover(send, receive, space)
    found = [f for f in errors(check(text, threads=64)) if f.line == line_of(text, "ld.shared.u32 %w")]
    assert len(found) == 1
    assert "is not ordered after write by warp 0 (st" in found[0].message
