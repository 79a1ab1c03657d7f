"""Cohorts leave their shared memory to the next: nobody sees what another wrote, and no two have the same."""

from __future__ import annotations

import os

import numpy as np

from convc.machine.memory import shared_memory
from convc.machine.memory.shared_memory import ArrayPool, SharedMemory


def _left(size: int) -> SharedMemory:
    """Shared memory of two CTAs that wrote all of it, and have ended."""
    shared = SharedMemory(2, size)
    shared.bytes[...] = 7
    shared.release()
    return shared


def test_what_a_cohort_left_is_poison_for_the_next(monkeypatch):
    monkeypatch.setattr(shared_memory, "_kept", [])
    before = _left(4096)
    again = SharedMemory(1, 3000)
    assert np.shares_memory(again.bytes, before._room)
    assert (again.bytes == 0xFF).all()


def test_two_that_run_have_memory_of_their_own(monkeypatch):
    monkeypatch.setattr(shared_memory, "_kept", [])
    _left(4096)
    one = SharedMemory(2, 4096)
    other = SharedMemory(2, 4096)
    assert not np.shares_memory(one.bytes, other.bytes)


def test_no_more_stays_than_is_said(monkeypatch):
    monkeypatch.setattr(shared_memory, "_kept", [])
    monkeypatch.setattr(shared_memory, "MOST_KEPT", 4096)
    _left(4096)
    assert not shared_memory._kept
    pool = ArrayPool()
    large = SharedMemory(2, 4096, pool)
    large.release()
    assert np.shares_memory(SharedMemory(2, 4096, pool).bytes, large._room)


def test_what_a_forked_process_writes_stays_its_own(monkeypatch):
    monkeypatch.setattr(shared_memory, "_kept", [])
    _left(4096)
    [kept] = shared_memory._kept
    child = os.fork()
    if not child:
        kept[:] = 9
        os._exit(0)
    os.waitpid(child, 0)
    assert (kept[:4096] == 7).all()
