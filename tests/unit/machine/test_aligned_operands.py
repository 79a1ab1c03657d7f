"""Instructions that a warp executes as one refuse operands in which its lanes differ."""

from __future__ import annotations

import numpy as np
import pytest
from support import kernels

from convc.errors import MachineFault

HEAD = """.reg .b32 %t, %a, %n; .reg .pred %p; mov.u32 %t, %tid.x; mov.u32 %a, slot; mov.u32 %n, 32;"""
ALLOC = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%a], %n;"
LOAD = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%t}, [%a];"
FREE = "ld.shared.u32 %a, [slot]; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %a, %n;"


def run(body: str) -> None:
    text = kernels.module(HEAD + body, shared=".shared .align 4 .b32 slot[32];\n")
    kernels.execute(text, {"out": np.zeros(32, np.uint32)})


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("shl.b32 %t, %t, 2; add.u32 %a, %a, %t; " + ALLOC, "the address for tcgen05.alloc's result must be the same"),
        ("setp.lt.u32 %p, %t, 4; selp.b32 %n, 64, 32, %p; " + ALLOC, "the same operands in all lanes"),
        (ALLOC + FREE.replace("tcgen05", "add.u32 %a, %a, %t; tcgen05"), "the same operands in all lanes"),
        (ALLOC + FREE.replace("tcgen05", "add.u32 %a, %a, %t; " + LOAD + "tcgen05"), "the same operands in all lanes"),
    ],
)  # fmt: skip
def test_lanes_that_differ_are_refused(body, message):
    with pytest.raises(MachineFault, match=message):
        run(body)
