"""Who is said to have made a fault: the CTA, the warp and the lane that did it, and nobody else."""

from __future__ import annotations

import numpy as np
import pytest
from support.kernels import execute, module

from convc.errors import MachineFault
from convc.machine.base.findings import failure

TRY = """
.reg .pred %p, %q; .reg .b32 %t, %bar, %w, %c;
mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x; shr.u32 %w, %t, 5; mov.u32 %bar, 1024;
setp.eq.u32 %p, %t, 0; @%p mbarrier.init.shared.b64 [%bar], 1; bar.sync 0;
setp.eq.u32 %p, %w, {warp}; setp.eq.and.u32 %p, %c, {cta}, %p; @%p mov.u32 %bar, 1048576;
setp.ge.u32 %q, %w, {least};
@%q mbarrier.try_wait.parity.shared.b64 %p, [%bar], 1;
"""


@pytest.mark.parametrize(
    ("cta", "warp", "least"),
    [
        (0, 1, 0),
        (0, 1, 1),
        (1, 3, 0),
        (1, 3, 2),
        (1, 3, 3),
    ],
)
def test_the_warp_of_a_guarded_wait_that_faults_is_found(cta, warp, least):
    text = module(TRY.format(cta=cta, warp=warp, least=least).replace("; ", ";\n"))
    with pytest.raises(MachineFault) as caught:
        execute(text, {"out": np.zeros(1, np.uint32)}, grid=(2, 1, 1), block=(128, 1, 1), shared_bytes=2048)
    error = caught.value
    assert "1048576" in error.message or "0x100000" in error.message
    assert (error.cta, error.warp, error.lanes) == (cta, warp, tuple(range(32)))


ONE = """
.reg .pred %p, %q, %d; .reg .b32 %t, %bar, %c, %v, %s, %g<4>; .reg .b64 %o; .reg .b32 %far;
mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x; mov.u32 %bar, 1024; mov.u32 %v, 0; mov.u32 %s, 2048;
mov.b64 %o, %p_out;
setp.eq.u32 %p, %t, 0; @%p mbarrier.init.shared.b64 [%bar], 1;
barrier.cluster.arrive.release; barrier.cluster.wait.acquire;
mapa.shared::cluster.u32 %far, %bar, 0;
setp.eq.u32 %q, %t, 37; setp.eq.and.u32 %q, %c, 1, %q;
"""
FAULTS = {
    "outside of a buffer": "@%q add.u64 %o, %o, 1000000; st.global.u32 [%o], %v;",
    "not aligned": "@%q add.u64 %o, %o, 4; ld.global.v4.u32 {%g0, %g1, %g2, %g3}, [%o];",
    "outside of shared memory": "@%q mov.u32 %s, 10000000; ld.shared.u32 %v, [%s];",
    "an atomic": "@%q add.u32 %s, %s, 2; atom.shared.add.u32 %v, [%s], 1;",
    "no mbarrier": "@%q add.u32 %bar, %bar, 64; mbarrier.arrive.shared.b64 _, [%bar];",
    "too many arrivals": "@%q mbarrier.arrive.shared.b64 _, [%bar], 9;",
    "too many arrivals at a peer": "@%q mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%far], 9;",
    "too many bytes": "@%q mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%bar], 2000000;",
    "a trap": "@%q trap;",
    "a bulk copy": "mov.u32 %v, 0; @%q mov.u32 %v, 24; "
    "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%s], [%o], %v, [%bar];",
    "a commit": "@%q add.u32 %bar, %bar, 64; "
    "@%q tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%bar];",
    "an MMA": "@%q tcgen05.mma.cta_group::1.kind::f16 [%s], %o, %o, %v, %q;",
    "a barrier": "mov.u32 %v, 1; @%q mov.u32 %v, 2; bar.sync %v, 128;",
}


@pytest.mark.parametrize("name", FAULTS)
def test_one_lane_that_faults_is_named(name):
    text = module((ONE + FAULTS[name]).replace("; ", ";\n"))
    with pytest.raises(MachineFault) as caught:
        execute(
            text,
            {"out": np.zeros(64, np.uint32)},
            grid=(2, 1, 1),
            block=(128, 1, 1),
            shared_bytes=4096,
            cluster=(2, 1, 1),
        )
    error = caught.value
    assert (error.cta, error.warp, error.lanes) == (1, 1, (5,))
    assert error.where == "CTA 1, warp 1, lane 5"


def test_a_warp_that_faults_as_one_is_named_with_all_of_its_lanes():
    """No lane alone meets the fault that two of them disagree."""
    load = "mov.u32 %s, 0; @%q mov.u32 %s, 1; tcgen05.ld.sync.aligned.32x32b.x1.b32 {%v}, [%s];"
    with pytest.raises(MachineFault, match="needs the same operands in all lanes of a warp") as caught:
        execute(
            module((ONE + load).replace("; ", ";\n")),
            {"out": np.zeros(64, np.uint32)},
            grid=(2, 1, 1),
            block=(128, 1, 1),
            shared_bytes=4096,
            cluster=(2, 1, 1),
        )
    assert (caught.value.cta, caught.value.warp, caught.value.lanes) == (1, 1, tuple(range(32)))


def test_of_several_that_may_have_done_it_none_is_named():
    text = module((ONE + "mbarrier.arrive.shared.b64 _, [%bar], 9;").replace("; ", ";\n"))
    with pytest.raises(MachineFault) as caught:
        execute(
            text,
            {"out": np.zeros(64, np.uint32)},
            grid=(2, 1, 1),
            block=(128, 1, 1),
            shared_bytes=4096,
            cluster=(2, 1, 1),
        )
    assert (caught.value.cta, caught.value.warp, caught.value.lanes) == (0, None, ())


def test_a_fault_of_no_instruction_is_in_no_line():
    found = failure(MachineFault("lost"), "k.ptx", " late")
    assert (found.rule, found.file, found.line, found.message) == ("fault", "k.ptx", 0, "lost late")
