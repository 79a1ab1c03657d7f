"""Lazy evaluation, which is fast, against eager evaluation, its oracle, on every kernel there is and on broken ones.

Buffers, counters, findings and faults must be equal, also where asynchronous work is performed late or at random, and
what checkers find must be. All numbers are small and whole, so that the order of a sum does
not show. Which kernels have products that do not wait, and why, is in `sabotage_at_once`.
"""

from __future__ import annotations

import itertools
import zlib

import numpy as np
import pytest
from sabotage_at_once import AT_ONCE, OTHERS
from sabotage_changes import Sabotage
from sabotage_kernels import ALL, TESTS, Subject, conv, subject
from support.both_ways import check_both_ways, run_both_ways, same

from convc.errors import ConvcError, LaunchError, PtxSyntaxError, UnmodelledError
from convc.ir.dtypes import ARRAY_TYPES
from convc.ir.launch import load_launch
from convc.machine import RunOptions, RunResult, run
from convc.machine.launch import program_of
from convc.machine.lazy.deferral import Deferral
from convc.sanitizer.run import check_kernel

FOREIGN = sorted(path.parent.name for path in (TESTS / "foreign").glob("*/kernel.ptx"))
REPEATED = {
    "slide, filters beside activations",
    "f16", "bf16, short rows", "1x1, one stage, full tiles", "golden pointwise_f16", "golden same_3x3_f16",
    "golden joined_columns_f16", "golden stem_7x7_bf16", "demo conv1", "demo layer1.0.conv2", "demo layer2.1.conv2",
    "demo layer3.1.conv2", "demo layer4.1.conv2", "bf16 to f32, wide tiles", "rows of 64 bytes",
    "golden tensor_store_f16", "results by tensor copies", "demo layer1.0.conv3",
    "slide in CTA pairs", "shift chain in CTA pairs", "shift windows in CTA pairs", "serpentine tiles",
    "persistent clusters with multicast", "slide, CTAs that share tiles", "CTAs that share full tiles",
    "four split-K CTAs, in order", "persistent CTAs, bias in registers",
}  # fmt: skip
"""Kernels whose launches replay an earlier one: those that touch data in segments and tensor stores alone.
"""

OTHER_WAYS = ("late", "seeded", "checked")
"""Completion policies besides ``eager``, and a full check."""

EVERY = 500
"""One of so many changes of a kernel is tried by default."""


@pytest.fixture
def refused(monkeypatch) -> set[str]:
    """Why products of all cohorts so far were performed at once."""
    found: set[str] = set()
    release = Deferral.release

    def kept(self: Deferral) -> None:
        found.update(self.refused)
        release(self)

    monkeypatch.setattr(Deferral, "release", kept)
    return found


@pytest.mark.one_of(4)
@pytest.mark.parametrize("name", ALL)
def test_a_kernel_runs_the_same_both_ways(name, refused):
    kernel = subject(name)
    result = run_both_ways(kernel.text, kernel.launch, kernel.inputs)
    assert not isinstance(result, ConvcError)
    assert refused == AT_ONCE.get(name, set())


@pytest.mark.one_of(3)
@pytest.mark.parametrize("name", [*ALL][::3])
def test_a_kernel_that_is_watched_or_late_runs_the_same_both_ways(name):
    """Each in one of these ways here; all of them in all where all broken kernels are tried."""
    kernel = subject(name)
    run_in(OTHER_WAYS[zlib.crc32(name.encode()) % len(OTHER_WAYS)], kernel.text, kernel)


def test_sums_that_are_rounded_otherwise_late_are_no_finding():
    kernel = subject("shift windows, lines by tensor copies")
    rng = np.random.default_rng(0)
    inputs = {
        name: rng.standard_normal(array.shape).astype(array.dtype) if array.dtype == np.float16 else array
        for name, array in kernel.inputs.items()
    }
    early, late = (
        run(kernel.text, kernel.launch, inputs, options=RunOptions(policy=policy)) for policy in ("eager", "seeded")
    )
    assert not np.array_equal(early.buffers["output"], late.buffers["output"])
    assert check_kernel(kernel.text, kernel.launch, inputs).findings == ()


@pytest.mark.one_of(3)
@pytest.mark.parametrize("name", ALL)
def test_a_second_launch_may_replay_the_first(name):
    """It has other data, of any kind, and gives what a launch gives that knows no other."""
    kernel = subject(name)
    others = {buffer: np.roll(array, 1) for buffer, array in kernel.inputs.items()}
    run(kernel.text, kernel.launch, kernel.inputs)
    again = run(kernel.text, kernel.launch, others)
    decoded = program_of(kernel.text, "kernel.ptx", kernel.launch.entry)
    assert bool(decoded.kept) == (name in REPEATED)
    if decoded.kept:
        decoded.kept.clear()
        same(run(kernel.text, kernel.launch, others), again)


def test_whole_numbers_of_any_size_are_summed_exactly():
    """Sums far above 2^24, where float32 skips numbers: 4,608 products of 255 by -128, and random ones."""
    kernel = conv("u8", "s32", filter_operand="s8", in_channels=512, out_channels=32)
    rng = np.random.default_rng(7)
    inputs = {name: np.zeros(b.shape, ARRAY_TYPES[b.dtype]) for name, b in kernel.launch.buffers.items()}
    inputs["activation"][...] = 255
    inputs["filter"][...] = -128
    inputs["activation"][..., ::2] = rng.integers(0, 256, inputs["activation"][..., ::2].shape)
    inputs["filter"][1] = rng.integers(-128, 128, inputs["filter"][1].shape)
    result = run_both_ways(kernel.text, kernel.launch, inputs)
    assert isinstance(result, RunResult)
    assert result.buffers["output"].min() < -(1 << 26)


@pytest.mark.parametrize("step", [4, 5, 6, 7])
def test_operand_a_may_begin_anywhere_among_columns_that_wait(step):
    """Also within the four columns that a unit of 16 bytes fills."""
    kernel = subject("shift windows")
    head, last, tail = kernel.text.rpartition("add.u32 %a, %a, 8;")
    assert last
    result = run_both_ways(f"{head}add.u32 %a, %a, {step};{tail}", kernel.launch, kernel.inputs)
    assert isinstance(result, RunResult)


@pytest.mark.one_of(2)
@pytest.mark.parametrize("name", FOREIGN)
def test_a_kernel_of_another_compiler_runs_the_same_both_ways(name, refused):
    folder = TESTS / "foreign" / name
    launch = load_launch(folder / "launch.json")
    rng = np.random.default_rng(7)
    inputs = {name: rng.integers(0, 4, b.shape).astype(ARRAY_TYPES[b.dtype]) for name, b in launch.buffers.items()}
    run_both_ways((folder / "kernel.ptx").read_text(), launch, inputs)
    assert refused == OTHERS.get(name, set())


def test_kernels_that_multiply_at_once_are_among_those_that_run():
    assert set(AT_ONCE) <= set(ALL)
    assert set(OTHERS) <= set(FOREIGN)


@pytest.mark.one_of(6)
@pytest.mark.parametrize("name", ALL)
def test_a_broken_kernel_runs_the_same_both_ways(name):
    try_changes(name, EVERY, ("eager",))


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_every_broken_kernel_runs_the_same_both_ways(name):
    try_changes(name, 1, ("eager",))


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_a_broken_kernel_is_the_same_watched_and_late(name):
    for way in OTHER_WAYS:
        run_in(way, subject(name).text, subject(name))
    try_changes(name, EVERY, OTHER_WAYS)


def try_changes(name: str, every: int, ways: tuple[str, ...]) -> None:
    """Break a kernel in one of ``every`` ways, from another one on for each kernel, and run it in these ways."""
    kernel = subject(name)
    changes = Sabotage(kernel.text, kernel.ours).changes()
    for change in itertools.islice(changes, zlib.crc32(name.encode()) % every, None, every):
        for way in ways:
            run_in(way, change.text, kernel)


def run_in(way: str, text: str, kernel: Subject) -> None:
    """Run a kernel under a completion policy, or check it, both ways; a text that is refused is refused twice."""
    if way != "checked":
        run_both_ways(text, kernel.launch, kernel.inputs, policy=way)
        return
    try:
        check_both_ways(text, kernel.launch, kernel.inputs)
    except (PtxSyntaxError, UnmodelledError, LaunchError):
        return
