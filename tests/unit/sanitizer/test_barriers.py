"""Barriers as NVIDIA's compiler uses them: all warps arrive in one instruction, branches before bar.sync."""

from __future__ import annotations

import pytest
from support.kernels import module
from test_races import check, rules

from convc.ir.findings import Verdict

TILE = ".shared .align 16 .b8 tile[512];\n.shared .align 8 .b64 bar;\n"
TURNS = """
.reg .b32 %t, %o, %v, %zero; .reg .b64 %s; .reg .pred %p, %first; mov.u32 %t, %tid.x; setp.eq.u32 %first, %t, 0;
mov.u32 %o, tile; mad.lo.u32 %o, %t, 4, %o; mov.u32 %zero, 0;
@%first mbarrier.init.shared.b64 [bar], 128; bar.warp.sync -1; bar.sync 0;
st.shared.u32 [%o], %t;
mbarrier.arrive.shared::cta.b64 %s, [bar];
{wait}
xor.b32 %t, %t, 127; mov.u32 %o, tile; mad.lo.u32 %o, %t, 4, %o; ld.shared.u32 %v, [%o];
"""
WAIT = "AGAIN: mbarrier.try_wait.shared::cta.b64 %p, [bar], %s; @!%p bra AGAIN;"


@pytest.mark.parametrize("present", [True, False])
def test_a_phase_that_one_instruction_completes_holds_all_warps(present):
    checked = check(module(TURNS.format(wait=WAIT if present else ""), shared=TILE))
    assert ("race-shared-memory" in rules(checked)) is not present


PARTED = """
.reg .b32 %t, %v; .reg .pred %p; mov.u32 %t, %tid.x; setp.lt.u32 %p, %t, 5; mov.u32 %v, 1;
@!%p bra SKIP; mul.lo.u32 %v, %t, 3; st.global.u32 [%p_out], 3;
SKIP: {converge}
{aligned}
"""


@pytest.mark.parametrize(
    ("aligned", "verdict"),
    [
        ("barrier.cta.sync.aligned 0;", Verdict.review),
        ("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;", Verdict.review),
        ("movmatrix.sync.aligned.m8n8.trans.b16 %v, %v;", Verdict.rule),
    ],
)  # fmt: skip
def test_parted_lanes_before_a_barrier_are_for_review(aligned, verdict):
    checked = check(module(PARTED.format(converge="", aligned=aligned)), threads=32)
    (found,) = (f for f in checked.findings if f.rule == "aligned-after-divergence")
    assert found.verdict is verdict
    assert "without bar.warp.sync in between: put one before it" in found.message
    together = check(module(PARTED.format(converge="bar.warp.sync -1;", aligned=aligned)), threads=32)
    assert "aligned-after-divergence" not in rules(together)


@pytest.mark.parametrize("form", ["bar.sync 0;", "bar.cta.sync 0;", "bar.red.popc.u32 %v, 0, %p;"])
def test_a_barrier_behind_an_if_brings_the_lanes_together(form):
    """What NVIDIA's compiler makes of __syncthreads() is clean, and so is an aligned instruction behind it."""
    text = module(PARTED.format(converge=form, aligned="movmatrix.sync.aligned.m8n8.trans.b16 %v, %v;"))
    assert rules(check(text, threads=32)) == set()
