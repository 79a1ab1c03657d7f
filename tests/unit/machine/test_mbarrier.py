"""The mbarrier object, uniform and with CTAs that differ; the array path must agree with the int path."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convc.errors import MachineFault
from convc.machine.memory.mbarrier import MAX_COUNT, MBarrier


def test_a_phase_completes_when_arrivals_and_bytes_are_both_in():
    barrier = MBarrier(0x400, 1)
    assert barrier.completed(None, 1) is True  # the phase before the first counts as complete
    assert barrier.completed(None, 0) is False
    barrier.add_tx(4, None, 100)
    barrier.arrive(4, None, 1)
    assert barrier.completed(None, 0) is False
    barrier.add_tx(4, None, -100)
    assert barrier.completed(None, 0) is True
    assert (barrier.phase, barrier.pending, barrier.tx) == (1, 1, 0)


def test_bytes_may_arrive_before_they_are_expected():
    barrier = MBarrier(0x400, 1)
    barrier.add_tx(1, None, -64)
    barrier.add_tx(1, None, 64)
    assert barrier.phase == 0
    barrier.arrive(1, None, 1)
    assert barrier.phase == 1


def test_the_last_bytes_complete_the_phases_of_ctas_that_wait_for_nothing_else():
    barrier = MBarrier(0x400, 1)
    barrier.add_tx(2, None, 16)
    barrier.arrive(2, np.array([1]), 1)
    barrier.add_tx(2, None, -16)
    assert barrier.completed(None, 0).tolist() == [False, True]
    assert barrier.pending == 1


def test_arrive_drop_lowers_later_phases():
    barrier = MBarrier(0, 2)
    barrier.drop(1, None, 1)
    barrier.arrive(1, None, 1)
    assert (barrier.phase, barrier.pending) == (1, 1)


def test_too_many_arrivals_are_refused_with_the_state():
    barrier = MBarrier(0x410, 2)
    with pytest.raises(MachineFault, match=r"0x410: more arrivals than the phase allows \(phase 0"):
        barrier.arrive(1, None, 3)


def test_the_transaction_count_has_a_range():
    with pytest.raises(MachineFault, match="transaction bytes"):
        MBarrier(0, 1).add_tx(1, None, MAX_COUNT + 1)


def test_the_next_phase_leaves_the_expected_count_alone():
    """CTAs of a cohort expect different counts; an arrival of one must not change what it expects."""
    barrier = MBarrier(0, 3)
    barrier.drop(2, np.array([0]), 1)
    barrier.arrive(2, np.array([1]), 1)
    barrier.arrive(2, None, 2)
    assert (barrier.phase, barrier.pending.tolist()) == (1, [2, 3])
    barrier.arrive(2, np.array([0]), 1)
    assert barrier.pending.tolist() == [1, 3]
    assert barrier.expected.tolist() == [2, 3]


operation = st.tuples(
    st.sampled_from(["arrive", "drop", "tx"]), st.lists(st.booleans(), min_size=3, max_size=3), st.integers(-40, 40)
)


@given(st.integers(1, 4), st.lists(operation, max_size=30))
def test_a_cohort_is_the_same_as_single_ctas(count, operations):
    together = MBarrier(0, count)
    alone = [MBarrier(0, count) for _ in range(3)]
    for name, chosen, amount in operations:
        rows = np.flatnonzero(chosen)
        if not len(rows) or (name != "tx" and any(alone[r].pending < 1 for r in rows)):
            continue
        if name == "drop" and any(alone[r].expected < 2 for r in rows):
            continue
        where = None if len(rows) == 3 else rows
        act = {"arrive": MBarrier.arrive, "drop": MBarrier.drop, "tx": MBarrier.add_tx}[name]
        amount = amount if name == "tx" else 1
        act(together, 3, where, amount)
        for r in rows:
            act(alone[r], 1, None, amount)
        for r in range(3):
            assert together.describe(r) == alone[r].describe(0)
            got = together.completed(None, 0)
            assert bool(np.broadcast_to(got, 3)[r]) == alone[r].completed(None, 0)


@given(
    st.lists(st.integers(-3, 12), min_size=3, max_size=3),
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4)), min_size=1, max_size=6),
    st.sampled_from([-4, -1, 2]),
)
def test_threads_that_complete_bytes_do_so_one_after_the_other(outstanding, threads, amount):
    """All have arrived, so that each phase ends where no byte is outstanding, which may be before the last thread."""
    barriers = [MBarrier(0, 1), MBarrier(0, 1)]
    for barrier in barriers:
        for cta, bytes_left in enumerate(outstanding):
            barrier.add_tx(3, np.array([cta]), 4 * bytes_left)
        barrier.arrive(3, None, 1)
    rows = np.array([cta for cta, _ in threads])
    each = np.array([count for _, count in threads])
    barriers[0].add_tx_each(3, rows, each, amount)
    for cta, count in threads:
        for _ in range(count):
            barriers[1].add_tx(3, np.array([cta]), amount)
    for cta in range(3):
        assert barriers[0].describe(cta) == barriers[1].describe(cta)
