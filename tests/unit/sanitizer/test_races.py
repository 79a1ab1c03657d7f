"""The race checker: a finding exactly when the synchronisation is missing."""

from __future__ import annotations

import numpy as np
import pytest
from support.kernels import module

from convc.ir.findings import Verdict
from convc.ir.launch import BufferSpec, LaunchSpec, PointerParam
from convc.ptx.descriptors import InstructionDescriptor, SharedDescriptor, encode_instruction, encode_shared
from convc.sanitizer.run import Checked, check_kernel


def check(text: str, *, grid: int = 1, threads: int = 128, size: int = 4096, shared: int = 0) -> Checked:
    launch = LaunchSpec(
        entry="k",
        grid=(grid, 1, 1),
        block=(threads, 1, 1),
        shared_bytes=shared,
        buffers={"out": BufferSpec(dtype="u32", shape=(size // 4,))},
        params=(PointerParam(buffer="out"),),
    )
    return check_kernel(text, launch, {"out": np.zeros(size // 4, np.uint32)})


def rules(checked: Checked) -> set[str]:
    return {finding.rule for finding in checked.findings}


EXCHANGE = """
.reg .b32 %t, %b, %o, %v; mov.u32 %t, %tid.x; mov.u32 %b, tile; shl.b32 %o, %t, 2; add.u32 %o, %o, %b;
st.shared.u32 [%o], %t;
{sync}
xor.b32 %t, %t, 127; shl.b32 %o, %t, 2; add.u32 %o, %o, %b;
ld.shared.u32 %v, [%o];
"""
TILE = ".shared .align 16 .b8 tile[512];\n"


@pytest.mark.parametrize("present", [True, False])
def test_shared_memory_between_warps_needs_a_barrier(present):
    checked = check(module(EXCHANGE.format(sync="bar.sync 0;" if present else ""), shared=TILE))
    assert ("race-shared-memory" in rules(checked)) is not present
    if not present:
        finding = next(f for f in checked.findings if f.rule == "race-shared-memory")
        assert "is not ordered after write by warp" in finding.message or "is not ordered after read" in finding.message
        assert finding.line > 0
        assert finding.warp is not None


OPERANDS = """
.reg .b32 %t, %s, %o, %w, %z, %slot, %bar, %d, %i; .reg .b64 %a, %b; .reg .pred %p, %skip, %no;
mov.u32 %t, %tid.x; mov.u32 %s, smem; mov.b32 %z, 0; shr.u32 %w, %t, 5;
setp.ne.u32 %skip, %w, 0; setp.ne.u32 %no, %z, 0;
add.u32 %slot, %s, 8192; add.u32 %bar, %s, 8200;
mad.lo.u32 %o, %t, 48, %s;
st.shared.v4.b32 [%o], {{%z, %z, %z, %z}}; st.shared.v4.b32 [%o+16], {{%z, %z, %z, %z}};
st.shared.v4.b32 [%o+32], {{%z, %z, %z, %z}};
{proxy}
@%skip bra READY;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%slot], 32;
{{ .reg .pred %one; elect.sync _|%one, 0xffffffff; @!%one bra IDLE;
mbarrier.init.shared::cta.b64 [%bar], 1; {init}
IDLE: bar.warp.sync 0xffffffff; }}
READY: {before} bar.sync 0; {after}
ld.shared.b32 %d, [%slot];
@%skip bra DONE;
{{ .reg .pred %one; elect.sync _|%one, 0xffffffff; @!%one bra IDLE;
mov.b64 %a, {a}; mov.b64 %b, {b}; mov.b32 %i, {idesc};
tcgen05.mma.cta_group::1.kind::f16 [%d], %a, %b, %i, %no;
tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%bar];
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar], 0; @!%p bra WAIT;
IDLE: bar.warp.sync 0xffffffff; }}
tcgen05.fence::after_thread_sync;
tcgen05.dealloc.cta_group::1.sync.aligned.b32 %d, 32;
DONE:
"""
PARTS = {
    "proxy": "fence.proxy.async.shared::cta;",
    "init": "fence.mbarrier_init.release.cluster;",
    "before": "tcgen05.fence::before_thread_sync;",
    "after": "tcgen05.fence::after_thread_sync;",
}


def operands_kernel(**changed: str) -> str:
    shape = InstructionDescriptor(kind="f16", d_type="f32", a_type="f16", b_type="f16", m=128, n=32)
    words = [encode_shared(SharedDescriptor(start=1024 + at, lbo=128, sbo=256, swizzle="none")) for at in (0, 4096)]
    body = OPERANDS.format(**(PARTS | changed), a=words[0], b=words[1], idesc=encode_instruction(shape))
    return module(body, shared=".extern .shared .align 1024 .b8 smem[];\n")


def test_ordinary_stores_reach_the_tensor_core_through_a_proxy_fence():
    assert rules(check(operands_kernel(), shared=8256)) == set()
    assert rules(check(operands_kernel(proxy=""), shared=8256)) == {"race-shared-memory"}


def test_a_barrier_must_be_visible_to_the_tensor_core():
    checked = check(operands_kernel(init="", proxy=""), shared=8256)
    assert any("mbarrier" in finding.message for finding in checked.findings)


def test_columns_that_are_given_back_are_not_looked_at_unless_the_cta_has_them():
    """As many as a register can say would take terabytes of notes."""
    dealloc = "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %d, "
    text = operands_kernel().replace(f"{dealloc}32;", f"mov.b32 %o, {(1 << 31) - 1}; {dealloc}%o;")
    found = check(text, shared=8256).findings
    assert [finding.rule for finding in found] == ["fault"]
    assert f"tcgen05.dealloc of {(1 << 31) - 1} columns at 0x0, which is not an allocation" in found[0].message


STORES = """
.reg .b64 %a; .reg .b32 %v, %c; mov.u32 %c, %ctaid.x; mov.u32 %v, %tid.x;
{index}
add.u64 %a, %a, %p_out; st.global.u32 [%a], %v;
"""


def test_two_ctas_may_not_store_to_the_same_bytes():
    apart = "mad.lo.u32 %c, %c, 32, %v; mul.wide.u32 %a, %c, 4;"
    same = "mul.wide.u32 %a, %v, 4;"
    assert rules(check(module(STORES.format(index=apart)), grid=2, threads=32)) == set()
    checked = check(module(STORES.format(index=same)), grid=2, threads=32)
    assert rules(checked) == {"race-global-memory"}
    assert checked.verdict is Verdict.error
    assert "more than one CTA stores to buffer 'out'" in checked.findings[0].message


def test_a_hang_and_a_fault_are_findings_with_their_line(monkeypatch):
    monkeypatch.setattr("convc.machine.execute.engine.TURN", 1 << 10)  # a spinning loop is soon known for one
    spin = ".reg .pred %p; .reg .b32 %v;\nLOOP: ld.global.u32 %v, [%p_out]; setp.eq.u32 %p, %v, 0; @%p bra LOOP;"
    hang = check(module(spin))
    assert rules(hang) == {"hang"}
    assert hang.result is None
    text = module(".reg .b32 %v;\nld.global.u32 %v, [%p_out+4096];")
    fault = check(text, threads=32)
    assert rules(fault) == {"fault"}
    finding = fault.findings[0]
    assert "ld.global.u32" in text.splitlines()[finding.line - 1]
    assert (finding.cta, finding.warp, finding.lanes) == (0, 0, tuple(range(32)))
    assert (hang.findings[0].cta, hang.findings[0].warp) == (0, 0)
    for grid in (1, 2):  # all threads do it: the first of them are named
        finding = check(text, grid=grid).findings[0]
        assert (finding.cta, finding.warp, finding.lanes) == (0, 0, tuple(range(32)))


def test_what_the_machine_finds_names_who_did_it():
    body = """.reg .b32 %v, %t; .reg .pred %p; mov.u32 %t, %tid.x; setp.gt.u32 %p, %t, 60; @!%p bra DONE;
    ld.shared.u32 %v, [tile+8]; DONE:"""
    checked = check(module(body, shared=TILE), threads=64)
    finding = next(f for f in checked.findings if f.rule == "shared-memory-unwritten")
    assert (finding.cta, finding.warp, finding.lanes) == (0, 1, (29, 30, 31))
    assert str(finding).endswith("(CTA 0, warp 1, lanes 29..31)")


def test_an_oracle_is_one_that_read_what_nobody_wrote():
    """CTA 1, whose first words were not written, reads them in warp 1, all others what is there."""
    body = """.reg .b32 %v, %t, %o, %c; .reg .pred %p, %q; mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x; mov.u32 %o, tile;
    setp.eq.u32 %p, %c, 1; @!%p st.shared.u32 [%o], %t; st.shared.u32 [%o+64], %t; bar.sync 0;
    setp.eq.u32 %q, %t, 37; add.u32 %v, %o, 64; @%q mov.u32 %v, %o; ld.shared.u32 %v, [%v];"""
    found = [f for f in check(module(body, shared=TILE), grid=3, threads=64).findings if "unwritten" in f.rule]
    assert [(f.cta, f.warp, f.lanes) for f in found] == [(1, 1, (5,))]
