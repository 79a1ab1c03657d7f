"""Buffers of a launch that lie where they are asked to, and buffers that are variables of the module."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

import convc
from convc.errors import LaunchError
from convc.gpu.plan import plan_launch
from convc.ir.launch import FIRST_ADDRESS, BufferSpec, LaunchSpec, PointerParam

TEXT = """
.version 8.6
.target sm_100a
.address_size 64
.visible .global .align 4 .u32 counter = 5;
.visible .const .align 4 .u32 step = 2;
.visible .entry count(.param .u64 out)
{
    .reg .b64 %out, %at;
    .reg .b32 %value, %step;
    ld.param.u64 %out, [out];
    mov.u64 %at, counter;
    ld.global.u32 %value, [counter];
    ld.const.u32 %step, [step];
    add.u32 %value, %value, %step;
    st.global.u32 [%at], %value;
    st.global.u64 [%out], %at;
    st.global.u64 [%out+8], %out;
    ret;
}
"""

LAUNCH = LaunchSpec(
    entry="count",
    grid=(1, 1, 1),
    block=(1, 1, 1),
    buffers={
        "out": BufferSpec(dtype="u64", shape=(2,), address=9 * FIRST_ADDRESS),
        "counter": BufferSpec(dtype="u32", shape=(1,), address=130 * FIRST_ADDRESS, variable="counter"),
        "step": BufferSpec(dtype="u32", shape=(1,), address=7 * FIRST_ADDRESS, variable="step"),
    },
    params=(PointerParam(buffer="out"),),
)


def changed(name: str, **fields: object) -> LaunchSpec:
    return replace(LAUNCH, buffers={**LAUNCH.buffers, name: replace(LAUNCH.buffers[name], **fields)})


@pytest.mark.parametrize("check", [False, True])
def test_variables_keep_their_values_from_launch_to_launch(check):
    first = convc.simulate(TEXT, LAUNCH, check=check)
    assert first.ok
    assert first.buffers["out"].tolist() == [130 * FIRST_ADDRESS, 9 * FIRST_ADDRESS]
    assert first.buffers["counter"].tolist() == [7]  # the text's 5 and 2
    contents = {"counter": first.buffers["counter"], "step": np.array([30], np.uint32)}
    assert convc.simulate(TEXT, LAUNCH, contents, check=check).buffers["counter"].tolist() == [37]
    assert convc.simulate(TEXT, LAUNCH, check=check).buffers["counter"].tolist() == [7]


@pytest.mark.parametrize(
    ("launch", "message"),
    [
        (changed("step", address=None), "some buffers have an address, and others have none"),
        (changed("step", address=9 * FIRST_ADDRESS), "must be its own multiple of 0x10000000000"),
        (changed("step", address=FIRST_ADDRESS + 16), "must be its own multiple of 0x10000000000"),
        (changed("step", address=0x4001 * FIRST_ADDRESS), "must be its own multiple of 0x10000000000"),
        (changed("step", variable="counter"), "two buffers are the variable 'counter'"),
        (changed("step", variable="other"), "global or .const variable 'other', and there is none"),
        (changed("step", shape=(2,)), "'step', and it is .const, of 4 bytes"),
    ],
)
def test_what_cannot_be_placed(launch, message):
    with pytest.raises(LaunchError, match=message):
        convc.simulate(TEXT, launch)


def test_no_gpu_is_asked_for_addresses():
    with pytest.raises(LaunchError, match="which only the simulator supports"):
        plan_launch(LAUNCH, TEXT)
