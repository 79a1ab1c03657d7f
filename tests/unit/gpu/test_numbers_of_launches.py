"""Drawn numbers, digests and comparisons of buffers, beside plain loops; limits of what is launched."""

from __future__ import annotations

import math
import zlib
from dataclasses import replace

import numpy as np
import pytest
from unit.gpu.fake_driver import H100, FakeDriver
from unit.gpu.test_plan import spec

from convc.errors import GpuError, LimitError
from convc.gpu.clock import clock_plan
from convc.gpu.contents import digest, drawn
from convc.gpu.perform import GUARD, MOST_QUEUED, QUEUE_CYCLES, WARM_UP, perform
from convc.gpu.plan import Address, plan_launch
from convc.gpu.result import compare_buffers
from convc.gpu.tensormaps import LAST_DRIVER_TO_FIX, fixed
from convc.ir.launch import BufferSpec, PointerParam, ScalarParam, StructField, StructParam

WORD = (1 << 64) - 1


def mix(z: int) -> int:
    """The finaliser of splitmix64 (Steele, Lea and Flood, OOPSLA 2014)."""
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & WORD
    z = (z ^ z >> 27) * 0x94D049BB133111EB & WORD
    return z ^ z >> 31


@pytest.mark.parametrize(("dtype", "least"), [("u16", 0), ("s8", -3), ("f32", -3)])
@pytest.mark.parametrize("seed", [0, 3])
def test_drawn_numbers_are_those_of_a_plain_loop(dtype, least, seed):
    start = (seed + 1) * 0x9E3779B97F4A7C15 + (zlib.crc32(b"name") << 32) & WORD
    wanted = [least + mix(start + i + 1 & WORD) % 7 for i in range(15)]
    assert drawn(BufferSpec(dtype=dtype, shape=(5, 3)), "name", seed).reshape(-1).tolist() == wanted


@pytest.mark.parametrize("size", [0, 1, 8, 9, 23])
def test_a_digest_is_that_of_a_plain_loop(size):
    data = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    padded = data.tobytes().ljust(-(-size // 8) * 8, b"\0")
    words = [int.from_bytes(padded[at : at + 8], "little") for at in range(0, len(padded), 8)]
    assert digest(data) == f"{sum(mix(word ^ mix(i + 1)) for i, word in enumerate(words)) & WORD:016x}"


NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("got", "expected", "atol", "rtol", "differ", "wrong", "worst", "first"),
    [
        ([1, 2, 3], [1, 2, 3], 0, 0, 0, 0, None, None),
        ([1, 2, 4], [1, 2, 3], 0, 0, 1, 1, 1, 2),
        ([1, 2.5, 4], [1, 2, 3], 0.5, 0, 2, 1, 1, 2),
        ([1, 2.5, 4], [1, 2, 3], 1, 0, 2, 0, 1, 1),
        ([1, -2.5, 4], [1, -2, 3], 0, 0.25, 2, 1, 1, 2),
        ([1, 2.5, 4], [1, 2, 3], 0.25, 0.125, 2, 1, 1, 2),
        ([NAN, 1], [NAN, 1], 0, 0, 0, 0, None, None),
        ([NAN, 1], [-NAN, 1], 0, 0, 1, 1, None, 0),
        ([NAN, 1], [-NAN, 1], 1, 0, 1, 0, None, 0),
        ([NAN, 1], [2, 1], 1, 0, 1, 1, None, 0),
        ([1, INF, 8], [1, 2, 3], 1, 0, 2, 2, 5, 1),
        ([INF, 1], [-INF, 1], 1, 0, 1, 1, None, 0),
        ([0.0, 1], [-0.0, 1], 0, 0, 1, 1, 0, 0),
        ([0.0, 1], [-0.0, 1], 0, 1, 1, 0, 0, 0),
    ],
)
def test_buffers_agree_in_bytes_or_as_near_as_is_allowed(got, expected, atol, rtol, differ, wrong, worst, first):
    got, expected = (np.array([numbers], np.float32) for numbers in (got, expected))
    found = compare_buffers("b", got, expected, atol, rtol)
    assert (found.buffer, found.count, found.differ, found.wrong) == ("b", got.size, differ, wrong)
    assert found.worst == worst
    assert found.first == (None if first is None else (0, first))
    assert found.got == ("" if first is None else str(got[0, first]))
    assert found.expected == ("" if first is None else str(expected[0, first]))


def test_nothing_may_differ_unless_more_is_allowed():
    found = compare_buffers("b", np.float32([1, 2]), np.float32([1, 2.5]))
    assert (found.differ, found.wrong) == (1, 1)


def test_whole_numbers_have_to_be_the_same_whatever_is_allowed():
    found = compare_buffers("b", np.array([1, 5], np.int32), np.array([1, 4], np.int32), 10, 10)
    assert (found.differ, found.wrong, found.worst, found.first) == (1, 1, None, (1,))


@pytest.mark.parametrize(
    ("target", "capability", "runs"),
    [
        *(
            ("sm_90a", (9, 0), True),
            ("sm_90a", (10, 0), False),
            ("sm_100a", (10, 0), True),
            ("sm_100a", (10, 3), False),
        ),
        *(
            ("sm_next", (9, 0), True),
            ("sm_100f", (10, 0), True),
            ("sm_100f", (10, 3), True),
            ("sm_103f", (10, 0), False),
        ),
        *(("sm_100f", (11, 0), False), ("sm_90", (10, 3), True), ("sm_103", (10, 0), False), ("sm_75", (7, 5), True)),
        *(("sm_103", (10, 3), True),),
    ],
)
def test_which_code_runs_where(target, capability, runs):
    """PTX manual, section .target: ``a`` is this architecture alone, ``f`` later ones of its family."""
    plan = plan_launch(spec(), f".target {target}")
    driver = FakeDriver(now=replace(H100, capability=capability))
    if runs:
        perform(driver, plan, b"", {})
    else:
        with pytest.raises(GpuError, match=f"the kernel is for {target}"):
            perform(driver, plan, b"", {})


def test_a_structure_without_bytes_is_as_long_as_its_last_field_and_zero_between():
    fields = (
        StructField(at=8, param=ScalarParam(dtype="u32", value=7)),
        StructField(at=16, param=PointerParam(buffer="b", offset=4)),
    )
    (planned,) = plan_launch(spec(StructParam(fields=fields))).params
    assert planned.data == bytes(8) + (7).to_bytes(4, "little") + bytes(4) + bytes(8)
    assert planned.patches == (Address(at=16, buffer="b", offset=4),)
    assert planned.grows


def test_all_there_is_may_be_asked_for():
    plan = plan_launch(spec(shared_bytes=1000))
    need = plan.bytes + 2 * GUARD
    perform(FakeDriver(now=replace(H100, shared_bytes=1000, free_bytes=need)), plan, b"", {})
    with pytest.raises(GpuError, match="1000 bytes of shared memory, and A Hopper has 999"):
        perform(FakeDriver(now=replace(H100, shared_bytes=999)), plan, b"", {})
    with pytest.raises(LimitError, match=r"the buffers need 12\.1 KiB of the GPU's memory"):
        perform(FakeDriver(now=replace(H100, free_bytes=need - 1)), plan, b"", {})


def test_the_gpu_is_kept_busy_for_as_long_as_launches_are_queued():
    """A row is as long as `MOST_QUEUED` at most, and each launch of it has its cycles in front."""
    driver = FakeDriver(sizes=[8])
    spins: list[int] = []
    real = driver.launch

    def launch(function, plan, params):
        if function == "sm_clock":
            spins.append(int.from_bytes(params[1].tobytes(), "little"))
        real(function, plan, params)

    driver.launch = launch
    repeat = MOST_QUEUED + 20
    done = perform(driver, plan_launch(spec(PointerParam(buffer="b"))), b"", {}, repeat=repeat)
    assert spins == [QUEUE_CYCLES] * repeat + [MOST_QUEUED * QUEUE_CYCLES]
    assert [plan.entry for plan in driver.plans].count("k") == 1 + WARM_UP + repeat + MOST_QUEUED
    assert done.timing is not None
    assert (len(done.timing.microseconds), done.timing.streamed) == (repeat, 10.0)


def test_the_clock_kernel_is_one_thread_with_a_place_for_cycles_and_nanoseconds():
    plan = clock_plan(1000)
    assert (plan.grid, plan.block, plan.target) == ((1, 1, 1), (1, 1, 1), "sm_70")
    assert [param.data for param in plan.params] == [bytes(8), (1000).to_bytes(8, "little")]
    assert plan.buffers == {"out": 16}


@pytest.mark.parametrize(("version", "bits"), [(LAST_DRIVER_TO_FIX, 1), (LAST_DRIVER_TO_FIX + 1, 0)])
def test_the_last_driver_that_errs_is_corrected(version, bits):
    assert (fixed(b"\xff" * 128, 100, version) != b"\xff" * 128) == bits
