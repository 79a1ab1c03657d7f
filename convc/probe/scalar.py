"""Probes of ordinary instructions: one warp, a few instructions, a word a lane."""

from __future__ import annotations

import functools

import numpy as np

from convc.ir.launch import PointerParam, TensorMapParam
from convc.ir.tensormap import TensorMap
from convc.probe.kernel import ProbeKernel, probe_kernel, probe_text
from convc.probe.probes import BLACKWELL, BOTH, RuleProbe

WORDS = 128
"""Words of `out`: four for each lane. `in` has two."""

LANES = np.arange(32, dtype=np.uint32)

MARKS = LANES + np.uint32(100)
"""A number for each lane that no buffer begins with."""

_ELECT = """
    elect.sync %z|%p, 0xffffffff;
    @%p add.u32 %d, %d, 100;
    and.b32 %y, %x, 1;
    setp.eq.u32 %q, %y, 0;
    @%q bra even;
    elect.sync %z|%p, 0xaaaaaaaa;
    st.global.u32 [%at+128], %z;
even:
"""

_DIVERGENCE = """
    setp.lt.u32 %p, %x, 8;
    @%p bra low;
high:
    add.u32 %y, %y, 1;
    setp.lt.u32 %q, %y, 5;
    @%q bra high;
    atom.global.add.u32 %d, [%out+128], %y;
    bra met;
low:
    add.u32 %y, %y, 1;
    setp.lt.u32 %q, %y, 6;
    @%q bra low;
    atom.global.add.u32 %d, [%out+128], 5;
met:
    setp.ge.u32 %q, %d, 40;
    selp.u32 %d, 1, 0, %q;
"""
"""The side that comes first adds to a small number: 8 lanes that jump, 24 that do not, each adds 5."""

_ABSENT_LANE = """
    setp.lt.u32 %p, %x, 8;
    @!%p bra away;
    add.u32 %d, %x, 50;
    shfl.sync.idx.b32 %d, %d, 20, 31, 0xff;
    shfl.sync.idx.b32 %z, %y, 20, 31, 0xff;
    st.global.u32 [%at+128], %z;
away:
"""

_SHARED_STORES = """
    st.shared.u32 [%word], %y;
    bar.warp.sync 0xffffffff;
    ld.shared.u32 %d, [%word];
"""

_GLOBAL_STORES = "    st.global.u32 [%out+128], %y;"

_ATOMICS = "    atom.global.exch.b32 %d, [%out+128], %x;"

_DIVIDE = """
    div.u32 %d, %x, %y;
    rem.u32 %z, %x, %y;
    st.global.u32 [%at+128], %z;
    sub.u32 %e0, 16, %x;
    div.s32 %e1, %e0, %y;
    rem.s32 %e2, %e0, %y;
    st.global.u32 [%at+256], %e1;
    st.global.u32 [%at+384], %e2;
"""

_DIVIDE_LONG = """
    .reg .b64 %a, %b, %c;
    sub.s32 %e0, %x, 16;
    cvt.s64.s32 %a, %e0;
    cvt.u64.u32 %b, %y;
    add.u64 %at, %at, %at;
    sub.u64 %at, %at, %out;
    div.{kind} %c, %a, %b;
    st.global.u64 [%at], %c;
    rem.{kind} %c, %a, %b;
    st.global.u64 [%at+256], %c;
    ret;
"""
"""Each lane's quotient and remainder take eight bytes."""

_RANDOM = """
    mov.b32 %e0, 0f3f880000;
    mov.b32 %z, %y;
    cvt.rs.satfinite.e4m3x4.f32 %d, {%e0, %e0, %e0, %e0}, %z;
"""
"""1.0625, half way between two numbers of e4m3."""

_PLACEMENT = """
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%word], 64;
    tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
    ld.shared.u32 %d, [%word];
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %d, 64;
"""

_FLUSHED_SUM = """
    st.shared.u32 [%word], %y;
    st.shared.u32 [%word+4], %y;
    st.shared.u32 [%word+8], %y;
    st.shared.u32 [%word+12], %y;
    fence.proxy.async.shared::cta;
    setp.ne.u32 %p, %t, 0;
    @%p bra over;
    mov.b64 %map, x;
    cvta.param.u64 %map, %map;
    mov.u32 %z, 0;
    cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.tile.bulk_group [%map, {%z}], [%word];
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
over:
    ret;
"""


def _warp(body: str, second: np.ndarray, target: str) -> ProbeKernel:
    """A kernel of one warp: ``in`` has the numbers of the lanes, and behind them ``second``, uint32 (32,)."""
    buffers = {"in": np.concatenate([LANES, second]).astype(np.uint32), "out": np.zeros(WORDS, np.uint32)}
    return probe_kernel(probe_text("warp", target, body), buffers, threads=32)


def _flushed_sum(target: str) -> ProbeKernel:
    """1.5 and -1.25 times the smallest normal number of float32, added by a copy through a map that flushes."""
    tiny = np.float32(2.0**-126)
    text = probe_text("warp", target, _FLUSHED_SUM)
    text = text.replace(".param .u64 in, .param", ".param .u64 in, .param .align 64 .b8 x[128], .param")
    text = text.replace(".b64 %in, %out, %at;", ".b64 %in, %out, %at, %map;")
    old = np.full(WORDS, np.float32(1.5) * tiny, np.float32).view(np.uint32)
    given = np.full(WORDS, np.float32(-1.25) * tiny, np.float32).view(np.uint32)
    tensor_map = TensorMap(
        mode="tile", buffer="out", dtype="f32_ftz", dims=(4,), strides=(), box=(4,), element_strides=(1,)
    )
    params = (PointerParam(buffer="in"), TensorMapParam(map=tensor_map), PointerParam(buffer="out"))
    return probe_kernel(text, {"in": given, "out": old}, threads=32, params=params)


def _switch(
    name: str, question: str, body: str, second: np.ndarray | None = None, targets: tuple[str, ...] = BOTH
) -> RuleProbe:
    given = np.zeros(32, np.uint32) if second is None else second
    return RuleProbe(
        name=name, question=question, targets=targets, switch=name, kernel=functools.partial(_warp, body, given)
    )


SCALAR: tuple[RuleProbe, ...] = (
    _switch("elect", "Which of the active lanes does elect.sync elect?", _ELECT),
    _switch("divergence", "Which side of a divergent branch comes to an atomic first?", _DIVERGENCE),
    _switch("absent_lane", "What does shfl.sync read of a lane that takes no part?", _ABSENT_LANE, MARKS),
    RuleProbe(
        name="colliding_stores",
        question="Whose store to one word of shared memory stays, among the lanes of a warp?",
        targets=BOTH,
        switch="colliding_stores",
        kernel=functools.partial(_warp, _SHARED_STORES, MARKS),
    ),
    RuleProbe(
        name="colliding_global_stores",
        question="Whose store to one word of global memory stays, among the lanes of a warp?",
        targets=BOTH,
        switch="colliding_stores",
        kernel=functools.partial(_warp, _GLOBAL_STORES, MARKS),
    ),
    _switch("atomic_order", "In which order do the lanes of a warp hit one word by atom.exch?", _ATOMICS),
    _switch("divide_by_zero", "What are the quotient and the remainder of 32-bit numbers divided by zero?", _DIVIDE),
    *(
        RuleProbe(
            name=f"divide_by_zero_{kind}",
            question=f"What are the quotient and the remainder of div.{kind} and rem.{kind} by zero?",
            targets=BOTH,
            switch="divide_by_zero",
            kernel=functools.partial(_warp, _DIVIDE_LONG.format(kind=kind), LANES * np.uint32(0)),
        )
        for kind in ("u64", "s64")
    ),
    RuleProbe(
        name="ftz_sum",
        question="Does a sum through an f32_ftz tensor map flush a subnormal result?",
        targets=BOTH,
        switch="ftz_sum",
        kernel=_flushed_sum,
    ),
    _switch(
        "random_bits",
        "Do two neighbours of cvt.rs to four narrow numbers share 16 random bits, or has each 8 of its own?",
        _RANDOM,
        (LANES * np.uint32(0x08421085)) ^ np.uint32(0x80007FFF),
        BLACKWELL,
    ),
    _switch("placement", "Which free columns does tcgen05.alloc take?", _PLACEMENT, targets=BLACKWELL),
)
"""The probes of this module."""
