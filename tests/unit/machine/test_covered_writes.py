"""A write to shared memory that waits, and of which a part is written before anybody looks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from convc.machine.memory.shared_memory import SharedMemory

START = 1024
STOP = 1024 + 256


@dataclass
class Sevens:
    """Writes sevens, and counts how often."""

    start: int = START
    stop: int = STOP
    times: int = 0

    def perform(self, memory: np.ndarray) -> None:
        self.times += 1
        memory[:, self.start : self.stop] = 7


def overwrite(shared: SharedMemory, places: np.ndarray, value: int) -> None:
    room = shared.to_overwrite(places, 16)
    room.reshape(len(room), -1, 16)[:, places // 16] = value


@pytest.fixture
def waiting() -> tuple[SharedMemory, Sevens]:
    """Every other 16 bytes of a write that waits have been written, and some before it."""
    shared = SharedMemory(2, 4096)
    write = Sevens()
    shared.remember(write)
    overwrite(shared, np.arange(START - 32, STOP, 32), 1)
    return shared, write


def test_the_later_write_is_seen_and_the_rest_of_the_earlier_one(waiting):
    shared, write = waiting
    seen = shared.part(START, STOP)[:, START:STOP].reshape(2, -1, 16)
    assert (seen[:, ::2] == 1).all()
    assert (seen[:, 1::2] == 7).all()
    assert (shared.bytes[:, START - 32 : START - 16] == 1).all()
    assert write.times == 1
    assert shared.seen


def test_nobody_performs_it_for_bytes_that_were_written_since(waiting):
    shared, write = waiting
    assert (shared.part(START, START + 16)[:, START : START + 16] == 1).all()
    assert write.times == 0
    overwrite(shared, np.arange(START + 16, STOP, 32), 2)
    assert (shared.bytes[:, START + 16 : START + 32] == 2).all()
    assert write.times == 0
    assert not shared.put_off


def test_a_new_write_of_the_same_bytes_takes_its_place(waiting):
    shared, write = waiting
    later = Sevens()
    shared.remember(later)
    assert (shared.bytes[:, START:STOP] == 7).all()
    assert (write.times, later.times) == (0, 1)


def test_a_new_write_of_some_of_its_bytes_comes_after_it(waiting):
    shared, write = waiting
    later = Sevens(start=START + 128)
    shared.remember(later)
    assert write.times == 1
    assert (shared.bytes[:, START : START + 16] == 1).all()
    assert (shared.bytes[:, START + 128 : STOP] == 7).all()
