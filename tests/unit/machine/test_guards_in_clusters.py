"""A guard that holds in some CTAs of a cluster alone: their addresses count, and nobody else's."""

from __future__ import annotations

import numpy as np
import pytest
from support.kernels import module

from convc.errors import MachineError
from convc.ir.launch import BufferSpec, LaunchSpec, PointerParam
from convc.machine import RunResult, run

HEAD = """
.shared .align 1024 .b8 data[2048];
.reg .b32 %t, %rank, %c, %s, %at, %v, %w, %x, %y, %z, %other; .reg .b64 %a, %g, %state; .reg .pred %some;
mov.u32 %t, %tid.x; mov.u32 %rank, %cluster_ctarank; mov.u32 %c, %ctaid.x; mov.u32 %s, data;
mad.lo.u32 %at, %t, 16, %s; add.u32 %v, %c, %t; mov.u32 %w, %v; mov.u32 %x, %v; mov.u32 %y, %v;
st.shared.v4.u32 [%at], {%v, %w, %x, %y};
cvt.u64.u32 %g, %s; cvta.shared.u64 %g, %g; cvta.to.global.u64 %a, %p_out;
mad.lo.u32 %z, %c, 128, %t; mul.lo.u32 %z, %z, 4; cvt.u64.u32 %state, %z; add.u64 %a, %a, %state;
mbarrier.init.shared::cta.b64 [%s+1024], 64;
mapa.shared::cluster.u32 %other, %s, 1;
bar.sync 0;
"""
TAIL = """
bar.sync 0;
ld.shared.u32 %z, [%at]; add.u32 %v, %v, %w; add.u32 %v, %v, %x; add.u32 %v, %v, %y; mad.lo.u32 %v, %z, 7, %v;
st.global.u32 [%a], %v;
barrier.cluster.arrive.aligned;
barrier.cluster.wait.aligned;
"""
GUARDS = {
    "a CTA": "setp.eq.u32 %some, %rank, 2;",
    "threads of two CTAs": "xor.b32 %z, %rank, %t; and.b32 %z, %z, 3; setp.eq.u32 %some, %z, 1;",
}
OWN = (
    "ld.shared.u32 %w, [%s+256];",
    "ld.shared.u32 %w, [%at];",
    "ld.shared.v4.u32 {%v, %w, %x, %y}, [%at];",
    "ld.shared.u16 %w, [%at+2];",
    "ld.volatile.shared.u32 %w, [%at];",
    "ld.u32 %w, [%g];",
    "st.shared.u32 [%at], 77;",
    "st.shared.v2.u32 [%at+8], {%v, 5};",
    "st.shared.u8 [%at+3], 9;",
    "st.u32 [%g+64], 3;",
    "atom.shared.add.u32 %w, [%at], 3;",
    "red.shared.max.u32 [%at], 100;",
    "mbarrier.arrive.shared::cta.b64 %state, [%s+1024];",
    "cp.async.ca.shared.global [%at], [%p_out], 16; cp.async.wait_all;",
)
"""Instructions that name shared memory of the own CTA."""


def outcome(guard: str, guarded: str) -> RunResult:
    """What two clusters of four CTAs of 64 threads do."""
    text = module((HEAD + guard + "\n" + guarded + TAIL).replace("; ", ";\n"))
    launch = LaunchSpec(
        entry="k", grid=(8, 1, 1), cluster=(4, 1, 1), block=(64, 1, 1), shared_bytes=0,
        buffers={"out": BufferSpec(dtype="u32", shape=(1024,))}, params=(PointerParam(buffer="out"),),
    )  # fmt: skip
    return run(text, launch, {"out": np.zeros(1024, np.uint32)})


@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.parametrize("instruction", OWN)
def test_a_guard_is_a_branch_around(guard, instruction):
    guarded = "\n".join(f"@%some {each.strip()};" for each in instruction.split(";") if each.strip())
    one = outcome(GUARDS[guard], guarded)
    other = outcome(GUARDS[guard], f"@!%some bra PAST;\n{instruction}\nPAST: bar.warp.sync 0xffffffff;")
    np.testing.assert_array_equal(one.buffers["out"], other.buffers["out"])
    assert [(f.rule, f.message) for f in one.findings] == [(f.rule, f.message) for f in other.findings]


def test_the_memory_of_another_cta_is_refused_where_it_is_named():
    load = "@%some ld.shared.u32 %w, [%other];"
    assert outcome("setp.eq.u32 %some, %rank, 1;", load).buffers["out"].any()
    with pytest.raises(MachineError, match="an address in CTA 1 of the cluster, where one in the own CTA is needed"):
        outcome("setp.eq.u32 %some, %rank, 2;", load)
