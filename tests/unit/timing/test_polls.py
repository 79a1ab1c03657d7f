"""mbarrier.test_wait: one that says yes is a wait; of a loop that polls in vain, one round is kept."""

from __future__ import annotations

import numpy as np
import pytest
from support.kernels import module

from convc.ir.launch import BufferSpec, LaunchSpec, PointerParam
from convc.timing.kernel import time_kernel
from convc.timing.parameters import read_chip

HEAD = """.reg .b32 %t, %b, %s, %n; .reg .pred %p, %q; .reg .b64 %d;
mov.u32 %t, %tid.x; mov.u32 %b, bar; mov.u32 %s, tile;
setp.ne.u32 %q, %t, 0; @%q bra READY;
mbarrier.init.shared::cta.b64 [%b], 1; fence.mbarrier_init.release.cluster;
READY: bar.sync 0;
setp.ne.u32 %q, %t, 32; @%q bra WAIT;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], 4096;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%s], [%p_out], 4096, [%b];
WAIT:
"""
SHARED = ".shared .align 128 .b8 tile[4096]; .shared .align 8 .b64 bar;"
TRY = "mbarrier.try_wait.parity.shared::cta.b64 %p, [%b], 0; @!%p bra WAIT;"
WAITS = {
    "try": TRY,
    "test, then try": "mbarrier.test_wait.parity.shared::cta.b64 %p, [%b], 0; @%p bra DONE; TRY: "
    + TRY.replace("WAIT;", "TRY;")
    + " DONE:",
    "poll": TRY.replace("try_wait", "test_wait"),
    "poll and count": "mov.u32 %n, 0; AGAIN: add.u32 %n, %n, 1; "
    "mbarrier.test_wait.parity.shared::cta.b64 %p, [%b], 0; @!%p bra AGAIN;",
}


def cycles(how: str) -> float:
    launch = LaunchSpec(
        entry="k",
        grid=(1, 1, 1),
        block=(64, 1, 1),
        buffers={"out": BufferSpec(dtype="u32", shape=(1024,))},
        params=(PointerParam(buffer="out"),),
    )
    text = module(HEAD + WAITS[how], shared=SHARED)
    return time_kernel(text, launch, {"out": np.zeros(1024, np.uint32)}, read_chip("b200")).cycles


@pytest.mark.parametrize("how", [how for how in WAITS if how != "try"])
def test_a_poll_takes_about_as_long_as_a_wait(how, monkeypatch):
    monkeypatch.setattr("convc.machine.execute.engine.TURN", 1 << 8)
    assert cycles("try") <= cycles(how) <= cycles("try") + 200
