"""CTAs of a cluster that do alike are looked at in one go: what is found is what each of them shows by itself."""

from __future__ import annotations

import pytest
from check_kernels import LEADER, check
from support.kernels import module

from convc.ir.findings import Finding
from convc.ir.tensormap import TensorMap
from convc.sanitizer.accesses import Accesses

SHARED = ".shared .align 1024 .b8 data[2048];\n"
HEAD = """
.reg .b32 %t, %rank, %s, %own, %next, %bar, %v, %at, %w; .reg .pred %p, %skip, %first;
mov.u32 %t, %tid.x; mov.u32 %w, %t; mov.u32 %rank, %cluster_ctarank; mov.u32 %s, data; add.u32 %bar, %s, 1024;
setp.eq.u32 %first, %rank, 1; mad.lo.u32 %own, %t, 4, %s; xor.b32 %at, %t, 32; mad.lo.u32 %next, %at, 4, %s;
"""
STORE = "st.shared.u32 [%own], %t;"
READ = "ld.shared.u32 %v, [%next];"
COPY = f"""{LEADER.format(label="READY")}
mbarrier.init.shared::cta.b64 [%bar], 1; fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 128;
cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%s], [%m_tile, {{0}}], [%bar];
READY: bar.sync 0;
"""
WAIT = "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar], 0; @!%p bra WAIT;"
AGAIN = f"@!%first bra PAST; {STORE} PAST: bar.warp.sync 0xffffffff;"
"""CTA 1 alone stores once more."""

TILE = TensorMap(
    mode="tile", buffer="out", dtype="u32", dims=(32,), strides=(), element_strides=(1,), box=(32,), swizzle="none"
)  # fmt: skip


def kernel(*parts: str, **more) -> str:
    body = "\n".join([HEAD, *parts]).replace("; ", ";\n")
    return module(body, shared=SHARED, **more)


def both(monkeypatch, text: str, maps: tuple[TensorMap, ...]) -> tuple[list[bool], tuple[Finding, ...]]:
    """What was done in one go and what was not, and the findings, which are those of each CTA by itself."""
    joint = Accesses.accessed_alike
    went: list[bool] = []

    def watched(self, *args):
        went.append(joint(self, *args))
        return went[-1]

    monkeypatch.setattr(Accesses, "accessed_alike", watched)
    together = check(text, grid=8, cluster=4, threads=64, maps=maps)
    monkeypatch.setattr(Accesses, "accessed_alike", lambda *_: False)
    alone = check(text, grid=8, cluster=4, threads=64, maps=maps)
    assert together.findings == alone.findings
    assert together.result is not None
    assert alone.result is not None
    assert together.result.counters == alone.result.counters
    return went, together.findings


@pytest.mark.parametrize("kept", [True, False], ids=["ordered", "racing"])
def test_all_do_alike(monkeypatch, kept):
    went, findings = both(monkeypatch, kernel(STORE, "bar.sync 0;" if kept else "", READ), ())
    assert went
    assert all(went) == kept
    assert {finding.rule for finding in findings} == (set() if kept else {"race-shared-memory"})


def test_one_of_them_alone_races(monkeypatch):
    """CTA 1 has stored behind the barrier, so that nothing orders its read; the others have read what was there."""
    text = kernel(STORE, "bar.sync 0;", AGAIN, READ)
    went, findings = both(monkeypatch, text, ())
    assert True in went
    assert False in went
    assert {finding.cta for finding in findings if finding.rule == "race-shared-memory"} == {1}


@pytest.mark.parametrize("kept", [True, False], ids=["ordered", "racing"])
def test_copies_into_each(monkeypatch, kept):
    text = kernel(COPY, WAIT if kept else "", "ld.shared.u32 %v, [%s];", maps=("tile",))
    went, findings = both(monkeypatch, text, (TILE,))
    assert went
    assert all(went) == kept
    assert ("race-shared-memory" in {finding.rule for finding in findings}) != kept


OTHER_LANES = """
and.b32 %at, %rank, 1; shl.b32 %at, %at, 4; and.b32 %v, %t, 16; setp.ne.u32 %skip, %at, %v;
shr.u32 %v, %t, 5; shl.b32 %v, %v, 6; and.b32 %at, %t, 15; mad.lo.u32 %own, %at, 4, %s; add.u32 %own, %own, %v;
@%skip bra PAST;
"""
"""Of each warp half the lanes store, in CTAs 1 and 3 the upper ones, at the same places."""


@pytest.mark.parametrize(
    ("change", "joined"),
    [
        ("", 4),  # what two warps store and read
        ("mad.lo.u32 %own, %rank, 4, %own;", 2),
        (OTHER_LANES, 2),
    ],
)
def test_only_what_is_alike_is_done_in_one_go(monkeypatch, change, joined):
    went, findings = both(monkeypatch, kernel(change, STORE, "PAST: bar.sync 0;", READ), ())
    assert sum(went) == joined
    assert "race-shared-memory" not in {finding.rule for finding in findings}


def test_what_another_warp_has_read_in_one_of_them_is_kept(monkeypatch):
    """In CTA 1 the first warp has read what the second one then reads in all, and overwrites."""
    second = "setp.lt.u32 %skip, %t, 32; @%skip bra PAST; {} PAST: bar.warp.sync 0xffffffff;"
    first = f"setp.lt.and.u32 %skip, %t, 32, %first; @!%skip bra OVER; {READ} OVER: bar.warp.sync 0xffffffff;"
    again = second.format("ld.shared.u32 %v, [%own]; st.shared.u32 [%own], %t;")
    went, findings = both(monkeypatch, kernel(STORE, "bar.sync 0;", first, again), ())
    assert True in went
    assert {(finding.rule, finding.cta) for finding in findings} == {("race-shared-memory", 1)}
