"""A cooperative launch: all CTAs of a grid meet at the barrier in the workspace that %envreg1 and %envreg2 name."""

from __future__ import annotations

import numpy as np
import pytest
from support import kernels
from support.recorded import assemble_all, recorded

from convc.errors import DeadlockError, InputError, LaunchError
from convc.ir.launch import BufferSpec, LaunchSpec, PointerParam
from convc.machine import RunOptions


@pytest.fixture(scope="module", autouse=True)
def every_kernel_is_ptx():
    with recorded() as texts:
        yield
    assemble_all(texts)


SYNC = """bar.sync 0; setp.ne.u32 %p, %t, 0; @%p bra MET{n};
setp.eq.u32 %p, %c, 0; sub.u32 %x, %all, 1; sub.u32 %x, 0x80000000, %x; selp.b32 %x, %x, 1, %p;
membar.gl; atom.global.add.u32 %old, [%bar], %x;
SPIN{n}: ld.volatile.global.u32 %x, [%bar]; xor.b32 %x, %x, %old; and.b32 %x, %x, 0x80000000;
setp.eq.u32 %p, %x, 0; @%p bra SPIN{n}; membar.gl; MET{n}: bar.sync 0;
"""
"""How all CTAs meet: CTA 0 adds what brings the sum of all to 2^31, and everybody waits for the top bit to change."""

BODY = """
.reg .b32 %t, %c, %x, %v, %all, %old, %lo, %hi; .reg .b64 %a, %bar, %g; .reg .pred %p;
mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x; mov.u32 %all, %nctaid.x;
mov.b32 %lo, %envreg2; mov.b32 %hi, %envreg1; mov.b64 %bar, {%lo, %hi}; add.u64 %bar, %bar, 4;
mad.lo.u32 %v, %c, 64, %t; mul.wide.u32 %a, %v, 4; add.u64 %a, %a, %p_out; st.global.u32 [%a], %v;
"""

NEXT = """add.u32 %x, %c, 1; rem.u32 %x, %x, %all; mad.lo.u32 %x, %x, 64, %t;
mul.wide.u32 %g, %x, 4; add.u64 %g, %g, %p_out;
ld.global.u32 %v, [%g];"""
"""What the next CTA has."""

TWICE = BODY + SYNC.format(n=0) + NEXT + SYNC.format(n=1) + "add.u32 %v, %v, 1000; st.global.u32 [%a], %v;"


def run(body: str, grid: int, **options) -> np.ndarray:
    launch = LaunchSpec(
        entry="k",
        grid=(grid, 1, 1),
        block=(64, 1, 1),
        params=(PointerParam(buffer="out"),),
        buffers={"out": BufferSpec(dtype="u32", shape=(grid, 64))},
    )
    buffers = {"out": np.zeros((grid, 64), np.uint32)}
    return kernels.run(kernels.module(body), launch, buffers, options=RunOptions(**options)).buffers["out"]


@pytest.mark.parametrize("options", [{}, {"cohort": 1}, {"policy": "seeded", "seed": 1}])
@pytest.mark.parametrize("ctas", [1, 3, 200])
def test_all_ctas_of_a_grid_meet_twice(ctas, options):
    want = [[(c + 1) % ctas * 64 + t + 1000 for t in range(64)] for c in range(ctas)]
    assert np.array_equal(run(TWICE, ctas, **options), want)


def test_a_cta_that_does_not_come_is_a_hang(monkeypatch):
    monkeypatch.setattr("convc.machine.execute.engine.TURN", 1 << 10)  # a spinning loop is soon known for one
    gone = BODY + "setp.eq.u32 %p, %c, 2; @%p bra MET0;" + SYNC.format(n=0).replace("MET0: bar.sync 0;", "MET0:")
    with pytest.raises(DeadlockError, match="it spins in a loop without side effects"):
        run(gone, 3)


def test_a_grid_that_cannot_run_at_once_is_refused_by_size():
    with pytest.raises(LaunchError, match=r"the 9 CTAs of a cooperative launch .* take 9216 bytes together"):
        run(TWICE, 9, cohort_bytes=5000)


def test_a_part_of_the_grid_is_refused():
    with pytest.raises(InputError, match="run the whole grid"):
        run(TWICE, 4, ctas=(0, 2))
