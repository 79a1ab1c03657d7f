"""A plan is performed: the order of calls, what goes into parameters, cleaning up, and what goes wrong."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from unit.gpu.fake_driver import H100, FakeDriver
from unit.gpu.test_plan import TILE, spec

from convc.errors import GpuError, GpuFault, LimitError
from convc.gpu.perform import Hang, perform
from convc.gpu.plan import plan_launch
from convc.ir.launch import PointerParam, StructParam, TensorMapParam

PLAN = plan_launch(spec(PointerParam(buffer="b", offset=4), TensorMapParam(map=TILE), shared_bytes=100))
CONTENTS = {"a": np.arange(2048, dtype=np.uint16)}


def fill_b(memory: dict[int, np.ndarray], params: list[bytes]) -> None:
    """A kernel that writes 7 from the address in its first parameter to the end of buffer b."""
    address = int.from_bytes(params[0], "little")
    memory[address >> 32 << 32][address & 0xFFFFFFFF : 64] = 7


def driver(**more) -> FakeDriver:
    return FakeDriver(sizes=[8, 128], kernel=fill_b, **more)


def test_the_calls_and_what_they_are_given():
    used = driver()
    done = perform(used, PLAN, b"text", CONTENTS)
    assert used.calls == [
        *("device", "load", "function", "parameter_sizes", "prepare 100 1", "allocate", "allocate"),
        *("cuTensorMapEncodeTiled", "launch", "wait", "read", "read", "read", "read", "free", "free", "unload"),
    ]
    ((call, address),) = used.encoded
    assert (call.buffer, address) == ("a", (2 << 32) + 32)
    np.testing.assert_array_equal(done.buffers["a"].view(np.uint16), CONTENTS["a"])
    np.testing.assert_array_equal(done.buffers["b"], [255] * 4 + [7] * 60)
    (encoded,) = done.maps
    fixed_byte = encoded[8 + 2]
    assert fixed_byte == 0xFF & ~(1 << 5), (
        "the driver is 13.0 and the tensor small: bit 21 of the second word is cleared"
    )
    assert done.timing is None
    assert used.memory == {}


def test_launches_are_timed_after_the_result_is_taken():
    def count(memory, params):
        memory[3 << 32][0] += 1

    used = FakeDriver(sizes=[8, 128], kernel=count)
    done = perform(used, PLAN, b"text", {"b": np.zeros(64, np.uint8)}, repeat=5)
    assert done.buffers["b"][0] == 1
    assert done.timing is not None
    assert (done.timing.microseconds, done.timing.streamed, done.timing.clock_ghz) == ((10.0,) * 5, 10.0, 2.0)
    assert done.timing.cycles == 20_000
    alone = ["sm_clock", "k"] * 5
    assert [plan.entry for plan in used.plans] == ["k"] * (1 + 3) + alone + ["sm_clock", *["k"] * 5]
    assert used.memory == {}


@pytest.mark.parametrize(
    "call", ["function", "parameter_sizes", "allocate", "cuTensorMapEncodeTiled", "launch", "read"]
)
@pytest.mark.parametrize("error", [GpuError("refused"), GpuFault("faulted")])
def test_whatever_fails_everything_is_given_back(call, error):
    used = driver(fails={call: error})
    with pytest.raises(type(error)):
        perform(used, PLAN, b"text", CONTENTS)
    assert used.memory == {}
    assert used.calls[-1] == "unload"


def test_after_a_fault_the_first_error_is_told():
    """Every call fails then, those that give back too."""
    later = GpuFault("later")
    used = driver(fails={"launch": GpuFault("first"), "free": later, "unload": later})
    with pytest.raises(GpuFault, match="first"):
        perform(used, PLAN, b"text", CONTENTS)


def test_who_is_tired_of_waiting_is_not_kept():
    used = driver(fails={"wait": KeyboardInterrupt()})
    with pytest.raises(KeyboardInterrupt):
        perform(used, PLAN, b"text", CONTENTS)
    assert used.calls[-1] == "wait"


def test_a_kernel_that_hangs_is_left_alone():
    used = driver(hangs=True)
    with pytest.raises(Hang, match=r"did not end within 0\.5 s"):
        perform(used, PLAN, b"text", CONTENTS, seconds=0.5)
    assert used.calls[-1] == "wait", "giving back would wait for the kernel"


def test_a_write_behind_a_buffer_is_found():
    def behind(memory, params):
        memory[3 << 32][64 + 5] = 0

    used = FakeDriver(sizes=[8, 128], kernel=behind)
    with pytest.raises(GpuFault, match="wrote past the end of buffer 'b': byte 69 of 64"):
        perform(used, PLAN, b"text", CONTENTS)
    assert used.memory == {}


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ([8], "has 1 parameters, the launch file gives 2"),
        ([4, 128], "parameter 0 has 4 bytes, the launch file gives 8"),
    ],
)
def test_parameters_must_be_those_of_the_kernel(sizes, said):
    used = FakeDriver(sizes=sizes)
    with pytest.raises(GpuError, match=said):
        perform(used, PLAN, b"text", CONTENTS)
    assert "allocate" not in used.calls


def test_a_structure_without_bytes_grows_with_zeros():
    seen = []
    used = FakeDriver(sizes=[24], kernel=lambda memory, params: seen.extend(params))
    perform(used, plan_launch(spec(StructParam())), b"text", {})
    assert seen == [bytes(24)]


@pytest.mark.parametrize(
    ("target", "runs"),
    [("sm_90", 1), ("sm_90a", 1), ("sm_80", 1), ("sm_80a", 0), ("sm_100", 0), ("sm_100a", 0), ("sm_90f", 1), ("", 1)],
)
def test_a_target_must_fit_the_gpu(target, runs):
    used = driver()
    plan = plan_launch(spec(PointerParam(buffer="b"), TensorMapParam(map=TILE)), f".target {target}" if target else "")
    if runs:
        perform(used, plan, b"text", CONTENTS)
        return
    with pytest.raises(GpuError, match=rf"the kernel is for {target}, and this GPU is an A Hopper \(sm_90\)"):
        perform(used, plan, b"text", CONTENTS)
    assert used.calls == ["device"]


def test_sizes_are_checked_before_memory_is_taken():
    for used, kind, said in (
        (driver(now=replace(H100, free_bytes=999)), LimitError, "need 12.1 KiB of the GPU's memory, and 999 bytes are"),
        (
            driver(now=replace(H100, shared_bytes=99)),
            GpuError,
            "asks for 100 bytes of shared memory, and A Hopper has 99",
        ),
    ):
        with pytest.raises(kind, match=said):
            perform(used, PLAN, b"text", CONTENTS)
        assert used.calls == ["device"]


def test_a_large_cluster_is_asked_for():
    used = driver()
    plan = plan_launch(
        msgspec.structs.replace(
            spec(PointerParam(buffer="b"), TensorMapParam(map=TILE)), cluster=(16, 1, 1), grid=(16, 1, 1)
        )
    )
    perform(used, plan, b"text", CONTENTS)
    assert "prepare 0 16" in used.calls
