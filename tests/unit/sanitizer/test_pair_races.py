"""Tensor operations of a CTA pair: both CTAs' shared and tensor memory, multicast commits."""

from __future__ import annotations

from check_kernels import MEET, check, errors, line_of, rules
from support.kernels import module

from convc.ir.findings import Verdict
from convc.ptx.descriptors import InstructionDescriptor, SharedDescriptor, encode_instruction, encode_shared

BODY = """
.reg .b32 %t, %s, %o, %w, %z, %slot, %bar, %d, %i, %rank, %v; .reg .b64 %a, %b;
.reg .pred %p, %skip, %no, %other, %one; .reg .b16 %m;
mov.u32 %t, %tid.x; mov.u32 %s, smem; mov.b32 %z, 0; shr.u32 %w, %t, 5; mov.u32 %rank, %cluster_ctarank;
setp.ne.u32 %skip, %w, 0; setp.ne.u32 %no, %z, 0; setp.ne.u32 %other, %rank, 0;
add.u32 %slot, %s, 8192; add.u32 %bar, %s, 8200;
{started}
@%skip bra FILL;
tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%slot], 32;
elect.sync _|%one, 0xffffffff; @!%one bra IDLE;
mbarrier.init.shared::cta.b64 [%bar], 1; fence.mbarrier_init.release.cluster;
IDLE: bar.warp.sync 0xffffffff;
FILL: mad.lo.u32 %o, %t, 48, %s;
st.shared.v4.b32 [%o], {{%z, %z, %z, %z}}; st.shared.v4.b32 [%o+16], {{%z, %z, %z, %z}};
st.shared.v4.b32 [%o+32], {{%z, %z, %z, %z}};
{proxy}
bar.sync 0;
ld.shared.b32 %d, [%slot];
{meet}
@%other bra WAIT; @%skip bra WAIT; elect.sync _|%one, 0xffffffff; @!%one bra ISSUED;
mov.b64 %a, {a}; mov.b64 %b, {b}; mov.b32 %i, {idesc}; mov.u16 %m, {mask};
tcgen05.mma.cta_group::2.kind::f16 [%d], %a, %b, %i, %no;
tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%bar], %m;
ISSUED: bar.warp.sync 0xffffffff;
WAIT: {wait}
{after}
shl.b32 %o, %w, 21; add.u32 %o, %o, %d;
tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%v}}, [%o];
tcgen05.wait::ld.sync.aligned;
tcgen05.fence::before_thread_sync; {end} tcgen05.fence::after_thread_sync;
@%skip bra DONE; tcgen05.dealloc.cta_group::2.sync.aligned.b32 %d, 32;
DONE:
"""
TWICE = """tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%bar+8], %m;
tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%bar], %m;"""
"""Two commits of one product: of a stage that is free, and of the accumulator."""

PARTS = {
    "started": MEET,
    "proxy": "fence.proxy.async.shared::cta;",
    "meet": MEET,
    "mask": "3",
    "wait": "AGAIN: mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar], 0; @!%p bra AGAIN;",
    "after": "tcgen05.fence::after_thread_sync;",
    "end": MEET,
}


def kernel(**changed: str) -> str:
    shape = InstructionDescriptor(kind="f16", d_type="f32", a_type="f16", b_type="f16", m=256, n=32)
    words = [encode_shared(SharedDescriptor(start=1024 + at, lbo=128, sbo=256, swizzle="none")) for at in (0, 4096)]
    body = BODY.format(**(PARTS | changed), a=words[0], b=words[1], idesc=encode_instruction(shape))
    return module(body.replace("; ", ";\n"), shared=".extern .shared .align 1024 .b8 smem[];\n")


def run(text: str):
    return check(text, grid=2, cluster=2, shared=8256)


def test_a_pair_multiplies_and_both_wait():
    assert rules(run(kernel())) == set()


def test_operands_of_both_ctas_need_a_proxy_fence():
    text = kernel(proxy="")
    messages = [f.message for f in errors(run(text))]
    mma = line_of(text, "tcgen05.mma")
    assert any(
        m.startswith(f"read by mma of warp 0 of CTA 0 (mma, line {mma}) is not ordered after write") for m in messages
    )


def test_the_operands_of_the_peer_must_be_there():
    """A barrier of each CTA alone does not tell the leader about the other one's stores."""
    found = errors(run(kernel(meet="bar.sync 0;")))
    assert any(
        f.message.startswith("read by mma of warp 0 of CTA 0 (mma")
        and "is not ordered after write by warp 0 of CTA 1 (st" in f.message
        and f.other.cta == 1
        for f in found
    )


def test_a_commit_to_one_cta_leaves_the_other_waiting_for_nothing():
    """The odd CTA reads its accumulator although only the even one was told."""
    wait = "@%other bra READ;" + PARTS["wait"] + "READ:"
    text = kernel(mask="1", wait=wait)
    found = [f for f in errors(run(text)) if f.rule == "race-tensor-memory"]
    load, mma = line_of(text, "tcgen05.ld"), line_of(text, "tcgen05.mma")
    assert found[0].message == (
        f"read by warp 0 of CTA 1 (ld, line {load}) is not ordered after write by mma of warp 0 of CTA 0 "
        f"(mma, line {mma})"
    )
    assert (found[0].region.lanes, found[0].region.columns) == ((0, 31), (0, 0))


def test_tensor_memory_is_freed_behind_the_peer():
    text = kernel(end="bar.sync 0;")
    assert {f.rule for f in errors(run(text))} <= {"exit-before-peer"}
    late = kernel(end="bar.sync 0;", mask="1", wait="@%other bra READ;" + PARTS["wait"] + "READ:", after="")
    freed = [f for f in errors(run(late)) if "dealloc" in f.message]
    assert any(
        "write by warp 0 of CTA 1 (dealloc" in f.message and "mma of warp 0 of CTA 0" in f.message for f in freed
    )


def test_the_leader_may_not_outlive_its_pair():
    """The odd CTA is told of nothing, reads nothing and exits: the product may still read its shared memory."""
    text = kernel(mask="1", wait="@%other bra DONE;" + PARTS["wait"], end="bar.sync 0;")
    found = [f for f in errors(run(text)) if f.rule == "exit-before-peer"]
    assert found[0].message.startswith("CTA 1 may exit before the ")
    assert "mma of warp 0 of CTA 0 (mma" in found[0].message
    assert found[0].line == line_of(text, "tcgen05.mma")


def test_a_commit_arrives_while_its_barrier_is_there():
    """That a later commit has been seen does not say that an earlier one has arrived at the peer's barrier."""
    init = "mbarrier.init.shared::cta.b64 [%bar], 1;"
    commit = TWICE.splitlines()[1]

    def twice(text: str) -> str:
        return text.replace(init, f"{init}\n{init.replace('bar]', 'bar+8]')}").replace(commit, TWICE)

    both = twice(kernel())
    (found,) = run(both).findings
    line = line_of(both, "b64 [%bar+8], %m;")
    assert (found.rule, found.verdict, found.line) == ("exit-before-arrival", Verdict.review, line)
    assert found.message == (
        "CTA 1 may exit before a commit by warp 0 of CTA 0 arrives at its mbarrier: no thread of it waits for "
        "that phase"
    )
    awaited = PARTS["wait"] + "LAST: mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar+8], 0; @!%p bra LAST;"
    assert rules(run(twice(kernel(wait=awaited)))) == set()
