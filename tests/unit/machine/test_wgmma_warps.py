"""Who executes what synchronises wgmma: all warps of whole warpgroups, with all their lanes."""

from __future__ import annotations

import numpy as np
import pytest
from support.kernels import execute, module

from convc.errors import MachineFault

WHAT = ["wgmma.fence", "wgmma.commit_group", "wgmma.wait_group"]


def run(what: str, threads: int, guard: str = ""):
    number = " 0" if what == "wgmma.wait_group" else ""
    body = f".reg .pred %p; .reg .b32 %t; mov.u32 %t, %tid.x; {guard} {what}.sync.aligned{number};"
    text = module(body.replace("; ", ";\n")).replace("sm_100a", "sm_90a")
    return execute(text, {"out": np.zeros(1, np.uint32)}, block=(threads, 1, 1))


@pytest.mark.parametrize("what", WHAT)
def test_whole_warpgroups_execute_it(what):
    assert run(what, 256).findings == ()
    assert run(what, 160, "setp.lt.u32 %p, %t, 128; @%p").findings == ()


@pytest.mark.parametrize("what", WHAT)
@pytest.mark.parametrize(
    ("threads", "guard"),
    [
        (32, ""),
        (96, ""),
        (160, ""),
        (160, "setp.ge.u32 %p, %t, 128; @%p"),
    ],
)
def test_a_warp_of_no_whole_warpgroup_may_not(what, threads, guard):
    with pytest.raises(MachineFault) as caught:
        run(what, threads, guard)
    assert f"{what} by a warp outside of a full warpgroup: the CTA has {threads // 32} warps" in str(caught.value)


@pytest.mark.parametrize("what", WHAT)
def test_nor_some_lanes_of_a_warp(what):
    with pytest.raises(MachineFault, match="must be executed by all 32 lanes of a warp"):
        run(what, 128, "setp.ne.u32 %p, %t, 70; @%p")
