"""Copies and products of CTA pairs, and of CTAs that share a K loop, deferred: against the same performed at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.both_ways import run_both_ways

from convc.build.writer import layer_of
from convc.compiler.compile import compile_problem
from convc.compiler.kernels import kernel_of
from convc.compiler.options import ScheduleOptions
from convc.errors import ConvcError
from convc.ir.dtypes import ARRAY_TYPES
from convc.ir.launch import load_launch
from convc.ir.problem import ConvProblem
from convc.machine.lazy.deferral import Deferral
from convc.machine.memory.mbarrier import MBarrier
from convc.machine.tma.cache import Walk
from convc.runtime.layer import input_buffers
from convc.verification.data import integer_data

GOLDEN = Path(__file__).parents[2] / "golden"


@pytest.fixture
def late(monkeypatch) -> list[bool]:
    """For each run of instructions that was multiplied lazily, whether it waited."""
    found: list[bool] = []
    product = Deferral.product

    def noted(*args) -> bool:
        found.append(product(*args))
        return found[-1]

    monkeypatch.setattr(Deferral, "product", noted)
    return found


def run_golden(name: str, *changes: tuple[str, str]):
    """Run a golden kernel with some text replaced, both ways, on small whole numbers."""
    text = (GOLDEN / name / "kernel.ptx").read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    launch = load_launch(GOLDEN / name / "launch.json")
    rng = np.random.default_rng(7)
    inputs = {name: rng.integers(0, 4, b.shape).astype(ARRAY_TYPES[b.dtype]) for name, b in launch.buffers.items()}
    return run_both_ways(text, launch, inputs)


@pytest.mark.parametrize("changes", [(), (("0x10180010", "0x08180010"),)], ids=["M = 256", "M = 128, two banks"])
def test_products_of_pairs_wait(late, changes):
    """With M = 128 the kernel reads what nobody wrote: an epilogue for 256 rows."""
    assert not isinstance(run_golden("pair_f16", *changes), ConvcError)
    assert late
    assert all(late)


@pytest.mark.parametrize("amount", [16384, 38912, 45040, 90112])
def test_wrong_counts_of_bytes_show_as_ever(amount):
    """Those of A in one CTA alone, all but those of B in one (both end phases early), 16 too few, twice as many."""
    run_golden("pair_f16", (", 45056;", f", {amount};"))


def test_products_of_ctas_with_channels_of_their_own_wait(late):
    assert not isinstance(run_golden("split_k_f16"), ConvcError)
    assert late
    assert all(late)


@pytest.mark.parametrize(
    ("pending", "tx", "together"), [(0, 64, True), (0, 63, False), (1, 0, True), (1, -(1 << 20) + 63, False)]
)
def test_bytes_that_complete_no_phase_on_the_way_may_come_at_once(pending, tx, together):
    barrier = MBarrier(0, 1)
    barrier.pending = pending
    barrier.tx = tx
    assert barrier.takes_together(None, 64) is together
    barrier.tx = np.array([tx, 64])
    assert barrier.takes_together(np.array([0]), 64) is together
    assert barrier.takes_together(np.array([1]), 64)


@pytest.mark.parametrize("members", [None, np.array([0, 0, 1, 1])])
def test_ctas_that_start_at_other_channels_walk_the_same_rows(members):
    rows = 4 if members is None else 2
    base = 100 * np.arange(rows)[:, None] + np.arange(3)
    walk = Walk(at=base[None].astype(np.int32), base=base, ctas=4, members=members)
    chunks = np.array([0, 8, 0, 8])
    found = walk.from_channels(chunks)
    own = np.arange(4) if members is None else members
    which = found.members
    assert which is not None
    assert np.array_equal(found.base[which], base[own] + chunks[:, None])
    assert np.array_equal(found.at[0][which], base[own])
    assert walk.from_channels(chunks.copy()) is found
    alone = Walk(at=base[None, :1].astype(np.int32), base=base[:1], ctas=4, members=None).from_channels(chunks)
    assert len(alone.base) == 2


def test_the_last_turn_of_pairs_that_walk_waits(late):
    """Three pairs of tiles for two pairs of CTAs: in the second turn one of them copies and multiplies alone."""
    problem = ConvProblem(
        batch=4, in_channels=16, out_channels=16, in_extent=(12, 12), kernel=(3, 3), pad_lo=(1, 1), pad_hi=(1, 1)
    )
    options = ScheduleOptions(schedule="reload", cta_group="2", persistent="on", ctas=4)
    kernel = kernel_of(compile_problem(problem, options=options))
    x, w, b = integer_data(problem, 3)
    layer = layer_of(problem, kernel, w, b)
    assert (layer.launch.grid, layer.launch.cluster) == ((4, 1, 1), (2, 1, 1))
    assert not isinstance(run_both_ways(layer.ptx, layer.launch, input_buffers(layer, x)), ConvcError)
    assert late
    assert all(late)
