"""tcgen05.alloc blocks who must wait, and nobody else: every order in which warps and CTAs ask, alone and in pairs."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest
from support.kernels import module

from convc.ir.launch import BufferSpec, LaunchSpec, PointerParam
from convc.machine import RunOptions, RunResult, run
from convc.machine.base.switches import Switches

WARPS = 3
BODY = """.reg .b32 %t, %w, %a, %c, %i, %cta, %n, %late; .reg .b64 %d; .reg .pred %p;
mov.u32 %t, %tid.x; shr.u32 %w, %t, 5; mov.u32 %cta, %ctaid.x; mov.u32 %a, slot; mad.lo.u32 %a, %w, 4, %a;
mad.lo.u32 %i, %cta, 3, %w; mul.wide.u32 %d, %i, 4; add.u64 %d, %d, %p_delays; ld.global.u32 %late, [%d];
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
mov.u32 %i, 0; SPIN: add.u32 %i, %i, 1; setp.lt.u32 %p, %i, %late; @%p bra SPIN;
tcgen05.alloc.cta_group::GROUP.sync.aligned.shared::cta.b32 [%a], COUNT;
ld.shared.u32 %c, [%a];
mov.u32 %i, 0; USE: add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 5; @%p bra USE;
tcgen05.dealloc.cta_group::GROUP.sync.aligned.b32 %c, COUNT;
mad.lo.u32 %i, %cta, 3, %w; mul.wide.u32 %d, %i, 4; add.u64 %d, %d, %p_out; st.global.u32 [%d], %c;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"""


def work(delays: list[tuple[int, ...]], count: int, group: int, placement: str = "first") -> RunResult:
    """Each warp of each CTA asks for as many columns after its own delay, uses them and gives them back."""
    launch = LaunchSpec(
        entry="k",
        grid=(len(delays), 1, 1),
        block=(32 * WARPS, 1, 1),
        cluster=(2, 1, 1),
        buffers={name: BufferSpec(dtype="u32", shape=(len(delays), WARPS)) for name in ("delays", "out")},
        params=(PointerParam(buffer="delays"), PointerParam(buffer="out")),
    )
    body = BODY.replace("GROUP", str(group)).replace("COUNT", str(count))
    text = module(body, pointers=("delays", "out"), shared=".shared .align 4 .b32 slot[3];")
    buffers = {"delays": np.array(delays, np.uint32), "out": np.full((len(delays), WARPS), 7, np.uint32)}
    return run(text, launch, buffers, options=RunOptions(switches=Switches(placement=placement)))


@pytest.mark.parametrize("count", [512, 256])
@pytest.mark.parametrize("group", [1, 2])
def test_every_order_of_grants_comes_to_an_end(group, count):
    orders = [*permutations((1, 40, 80)), (1, 1, 1), (1, 1, 40)]
    for first, second in product(orders, orders[:: 5 if group == 1 else 3]):
        result = work([first, second], count, group)
        assert result.findings == ()
        assert set(result.buffers["out"].ravel().tolist()) <= set(range(0, 512, count))


def test_ctas_of_one_strand_wait_alone():
    """In CTA 0 the columns of two warps overlap in time, in CTA 1 they do not; all of four CTAs come to an end."""
    result = work([(1, 1, 1), (1, 200, 400), (5, 5, 1), (300, 1, 1)], 512, 1, "last")
    assert result.findings == ()
    assert not result.buffers["out"].any()
