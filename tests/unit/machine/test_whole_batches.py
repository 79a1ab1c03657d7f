"""A batch of CTAs is as so many single ones: results, findings and faults, whatever addresses depend on.

Drawn kernels access shared, tensor, barrier and global memory at places that depend on CTA, rank, warp and lane, in
threads that depend on them too. They run in one batch, in batches of one cluster, and each cluster by itself.
"""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import some
from support.kernels import execute, module

from convc.errors import MachineFault
from convc.ir.findings import Finding
from convc.ir.launch import BufferSpec, LaunchSpec, PointerParam
from convc.machine import RunOptions, RunResult, run

CTAS, WARPS = 4, 2
THREADS = 32 * WARPS
INPUTS = 4096

HEAD = """.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 out)
{
.shared .align 128 .b8 s[4096];
.shared .align 8 .b64 bars[8];
.shared .align 4 .b32 slot;
.reg .b32 %s, %b, %t, %warp, %lane, %cta, %rank, %a, %f, %g, %v, %sum, %peer, %tm, %n, %q<4>;
.reg .b64 %x, %out, %d; .reg .pred %p, %done;
ld.param.u64 %x, [x]; ld.param.u64 %out, [out];
mov.u32 %s, s; mov.u32 %b, bars; mov.u32 %t, %tid.x; shr.u32 %warp, %t, 5; and.b32 %lane, %t, 31;
mov.u32 %cta, %ctaid.x; mov.u32 %rank, %cluster_ctarank; mov.u32 %sum, %t;
setp.ne.u32 %p, %warp, 0; @%p bra NEXT;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 64;
NEXT: bar.sync 0; ld.shared.b32 %tm, [slot];
"""

TAIL = """
bar.sync 0; setp.ne.u32 %p, %warp, 0; @%p bra END;
tcgen05.dealloc.cta_group::1.sync.aligned.b32 %tm, 64;
END: mad.lo.u32 %a, %cta, 64, %t; mul.wide.u32 %d, %a, 4; add.u64 %out, %out, %d; st.global.b32 [%out], %sum;
ret;
}
"""

SUM = "mad.lo.u32 %sum, %sum, 31, %v;"
VALUE = "mad.lo.u32 %v, %f, 77, {step};"
SHARED = "and.b32 %f, %f, 255; shl.b32 %a, %f, 2; add.u32 %a, %a, %s;"
PEER = "and.b32 %peer, %g, {ranks}; mapa.shared::cluster.u32 %a, %a, %peer;"

STEPS = {
    "load": f"{SHARED} mov.b32 %v, 0; @%p ld.shared.b32 %v, [%a]; {SUM}",
    "store": f"{SHARED} {VALUE} @%p st.shared.b32 [%a], %v;",
    "reduce": f"{SHARED} @%p red.shared.add.u32 [%a], 3;",
    "remote load": f"{SHARED} {PEER} mov.b32 %v, 0; @%p ld.shared::cluster.b32 %v, [%a]; {SUM}",
    "remote store": f"{SHARED} {PEER} {VALUE} @%p st.shared::cluster.b32 [%a], %v;",
    "global load": f"mul.wide.u32 %d, %f, 40; add.u64 %d, %x, %d; mov.b32 %v, 0; @%p ld.global.b32 %v, [%d]; {SUM}",
    "async": "and.b32 %f, %f, 255; mul.wide.u32 %d, %f, 4; add.u64 %d, %x, %d; shl.b32 %a, %f, 2;"
    " add.u32 %a, %a, %s; @%p cp.async.ca.shared.global [%a], [%d], 4; cp.async.wait_all;",
    "matrices": "and.b32 %f, %f, 63; shl.b32 %a, %f, 4; add.u32 %a, %a, %s;"
    " ldmatrix.sync.aligned.m8n8.x1.shared.b16 {{%v}}, [%a]; " + SUM,
    "put matrices": "and.b32 %f, %g, 7; shl.b32 %f, %f, 3; add.u32 %f, %f, %lane; and.b32 %f, %f, 63;"
    " shl.b32 %a, %f, 4; add.u32 %a, %a, %s; mov.b32 %v, 9; stmatrix.sync.aligned.m8n8.x1.shared.b16 [%a], {{%v}};",
    "tensor load": "and.b32 %g, %g, 63; shl.b32 %a, %warp, 21; add.u32 %a, %a, %tm; add.u32 %a, %a, %g;"
    " tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%v}}, [%a]; tcgen05.wait::ld.sync.aligned; " + SUM,
    "tensor store": "and.b32 %g, %g, 63; shl.b32 %a, %warp, 21; add.u32 %a, %a, %tm; add.u32 %a, %a, %g;"
    " tcgen05.st.sync.aligned.32x32b.x1.b32 [%a], {{%t}}; tcgen05.wait::st.sync.aligned;",
    "barrier": "and.b32 %g, %h, 7; shl.b32 %g, %g, 3; add.u32 %a, %b, %g; and.b32 %n, %h, 3; add.u32 %n, %n, 1;"
    " setp.ne.u32 %p, %t, 0; @%p bra L{step}; mbarrier.init.shared::cta.b64 [%a], %n; L{step}: bar.sync 0;"
    " setp.lt.u32 %p, %t, %n; @!%p bra M{step}; mbarrier.arrive.shared::cta.b64 _, [%a]; M{step}:"
    " W{step}: mbarrier.try_wait.parity.shared::cta.b64 %done, [%a], 0; @!%done bra W{step}; bar.sync 0;"
    " setp.ne.u32 %p, %t, 0; @%p bra N{step}; mbarrier.inval.shared::cta.b64 [%a]; N{step}:",
    "bulk": "and.b32 %n, %h, 31; shl.b32 %n, %n, 5; and.b32 %g, %h, 7; shl.b32 %g, %g, 3; add.u32 %a, %b, %g;"
    " add.u32 %n, %n, %s; cvt.u64.u32 %d, %g; shl.b64 %d, %d, 4; add.u64 %d, %d, %x;"
    " setp.ne.u32 %p, %t, 0; @%p bra L{step}; mbarrier.init.shared::cta.b64 [%a], 1;"
    " mbarrier.arrive.expect_tx.shared::cta.b64 _, [%a], 32;"
    " cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%n], [%d], 32, [%a]; L{step}: bar.sync 0;"
    " W{step}: mbarrier.try_wait.parity.shared::cta.b64 %done, [%a], 0; @!%done bra W{step}; bar.sync 0;"
    " setp.ne.u32 %p, %t, 0; @%p bra N{step}; mbarrier.inval.shared::cta.b64 [%a]; N{step}:",
}  # fmt: skip
"""Each computes with %f and %g (of each thread), %h (of each CTA), and the predicate %p (of each thread)."""

FACTOR = st.integers(0, 5)
STEP = st.tuples(
    st.sampled_from(sorted(STEPS)), st.tuples(*[FACTOR] * 5), st.tuples(*[FACTOR] * 3), st.tuples(*[FACTOR] * 5)
)


def _sum(register: str, names: str, factors: tuple[int, ...]) -> str:
    """A register as a sum of others, times factors; the last is added alone."""
    lines = [f"mov.b32 {register}, {factors[-1]};"]
    lines += [
        f"mad.lo.u32 {register}, {name}, {factor}, {register};"
        for name, factor in zip(names.split(), factors, strict=False)
        if factor
    ]
    return " ".join(lines)


def _text(steps: list[tuple[str, tuple[int, ...], tuple[int, ...], tuple[int, ...]]], cluster: int) -> str:
    lines: list[str] = []
    for number, (name, places, ctas, guard) in enumerate(steps):
        lines.append(_sum("%f", "%cta %rank %warp %lane", places))
        lines.append(_sum("%g", "%cta %warp", ctas))
        lines.append(_sum("%h", "%cta %rank", ctas))
        lines.append(_sum("%n", "%cta %rank %warp %lane", guard))
        lines.append("rem.u32 %n, %n, 3; setp.ne.u32 %p, %n, 0;")
        lines.append(STEPS[name].format(step=number, ranks=cluster - 1))
        lines.append("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;")
    return (HEAD + "\n".join(lines) + TAIL).replace("%f, %g", "%f, %g, %h", 1)


def _run(text: str, cluster: int, **options: object) -> RunResult | MachineFault:
    launch = LaunchSpec(
        entry="k",
        grid=(CTAS, 1, 1),
        block=(THREADS, 1, 1),
        cluster=(cluster, 1, 1),
        buffers={
            "x": BufferSpec(dtype="u8", shape=(INPUTS,)),
            "out": BufferSpec(dtype="u32", shape=(CTAS, THREADS)),
        },
        params=(PointerParam(buffer="x"), PointerParam(buffer="out")),
    )
    buffers = {
        "x": np.random.default_rng(0).integers(0, 256, INPUTS).astype(np.uint8),
        "out": np.zeros((CTAS, THREADS), np.uint32),
    }
    try:
        return run(text, launch, buffers, options=RunOptions(evaluation="lazy", **options))
    except MachineFault as fault:
        return fault


def _said(findings: tuple[Finding, ...]) -> set[tuple[str, int]]:
    return {(finding.rule, finding.line) for finding in findings}


def _compare(text: str, cluster: int) -> None:
    batch, apart = _run(text, cluster), _run(text, cluster, cohort=cluster)
    alone = [_run(text, cluster, only=(first,)) for first in range(0, CTAS, cluster)]
    faults = [one for one in alone if isinstance(one, MachineFault)]
    for several in (batch, apart):
        if isinstance(several, MachineFault):
            assert several.cta is not None
            assert several.warp is not None
            assert several.lanes
            own = alone[several.cta // cluster]
            assert isinstance(own, MachineFault), (several.message, several.where)
            assert own.span is not None
            assert several.span is not None
            assert (own.message, own.span.line) == (several.message, several.span.line)
            if cluster == 1:
                assert (own.cta, own.warp, own.lanes) == (several.cta, several.warp, several.lanes)
            continue
        assert not faults
        single = [one for one in alone if isinstance(one, RunResult)]
        np.testing.assert_array_equal(several.buffers["out"], sum(one.buffers["out"] for one in single))
        assert _said(several.findings) == set().union(*[_said(one.findings) for one in single])
        for finding in several.findings:
            own = [
                f for f in single[finding.cta // cluster].findings if (f.rule, f.line) == (finding.rule, finding.line)
            ]
            assert own
            assert own[0].message == finding.message
            if cluster == 1:
                assert (own[0].warp, own[0].lanes) == (finding.warp, finding.lanes)


@settings(max_examples=some(400))
@given(steps=st.lists(STEP, min_size=1, max_size=6), cluster=st.sampled_from((1, 2)))
def test_a_batch_is_as_single_ctas(steps, cluster):
    _compare(_text(steps, cluster), cluster)


def test_threads_that_differ_by_cta_commit_their_copies():
    """Each CTA stores by another thread, and that one alone closes the group and waits for it."""
    body = """.reg .pred %p; .reg .b32 %t, %c, %a; .reg .b64 %d;
    mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x; setp.eq.u32 %p, %t, %c; mov.u32 %a, tile;
    st.shared.u32 [tile], %c; fence.proxy.async.shared::cta; bar.sync 0; mul.wide.u32 %d, %c, 16;
    add.u64 %d, %p_out, %d;
    @%p cp.async.bulk.global.shared::cta.bulk_group [%d], [%a], 16;
    @%p cp.async.bulk.commit_group; @%p cp.async.bulk.wait_group 0;"""
    text = module(body, shared=".shared .align 16 .b8 tile[16];")
    for policy in ("eager", "late"):
        options = RunOptions(policy=policy)
        result = execute(text, {"out": np.zeros(12, np.uint32)}, grid=(3, 1, 1), options=options)
        assert result.buffers["out"][::4].tolist() == [0, 1, 2]
        assert {finding.rule for finding in result.findings} == {"shared-memory-unwritten"}


def test_a_fault_names_the_only_thread_that_did_it():
    """All CTAs load, and one warp of the last is outside of the buffer."""
    steps = [("global load", (20, 0, 20, 1, 0), (0, 0, 0), (0, 0, 0, 0, 1))]
    fault = _run(_text(steps, 1), 1)
    assert isinstance(fault, MachineFault)
    assert (fault.cta, fault.warp, fault.lanes) == (3, 1, tuple(range(23, 32)))
    assert fault.where == "CTA 3, warp 1, lanes 23..31"


def test_what_one_cta_wrote_is_not_written_in_another():
    """Each CTA writes a word of its own, and reads the next one's, in its own memory."""
    steps = [
        ("store", (1, 0, 0, 0, 0), (0, 0, 0), (0, 0, 0, 0, 1)),
        ("load", (1, 0, 0, 0, 1), (0, 0, 0), (0, 0, 0, 0, 1)),
    ]
    for cohort in (1, CTAS):
        result = _run(_text(steps, 1), 1, cohort=cohort)
        assert isinstance(result, RunResult)
        assert [finding.rule for finding in result.findings] == ["shared-memory-unwritten"]
        assert result.findings[0].cta == 0
        assert "reads 4 bytes" in result.findings[0].message
