"""Writes to shared memory that wait, and of which a part is written before anybody looks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convc.machine.memory.shared_memory import SharedMemory

START = 1024
STOP = 1024 + 256


@dataclass
class Sevens:
    """Writes sevens in some CTAs, and counts how often."""

    start: int = START
    stop: int = STOP
    times: int = 0
    rows: np.ndarray | None = None

    def perform(self, memory: np.ndarray) -> None:
        self.times += 1
        memory[slice(None) if self.rows is None else self.rows, self.start : self.stop] = 7


def overwrite(shared: SharedMemory, places: np.ndarray, value: int) -> None:
    room = shared.to_overwrite(places, 16)
    room.reshape(len(room), -1, 16)[:, places // 16] = value


@pytest.mark.parametrize(
    ("first", "second", "times"),
    [([1], [1], 0), ([0], [1], 1), (None, [1], 1), ([1], None, 0), ([0, 1], [1], 1), ([1], [0, 1], 1)],
)
def test_a_write_of_some_ctas_forgets_no_write_of_others(first, second, times):
    shared = SharedMemory(3, 4096)
    old, new = (Sevens(rows=None if rows is None else np.array(rows)) for rows in (first, second))
    shared.remember(old)
    shared.remember(new)
    assert (old.times, new.times) == (times, 0)
    seen = shared.bytes[:, START:STOP]
    assert (old.times, new.times) == (times, 1)
    written = {0, 1, 2} if first is None or second is None else {*first, *second}
    assert [bool((line == 7).all()) for line in seen] == [cta in written for cta in range(3)]
    assert [bool((line == 0xFF).all()) for line in seen] == [cta not in written for cta in range(3)]


@pytest.mark.parametrize(("rows", "times"), [(None, 1), ([0], 1), ([1], 0)])
def test_some_ctas_write_over_their_own_bytes_alone(rows, times):
    shared = SharedMemory(2, 4096)
    write = Sevens(rows=None if rows is None else np.array(rows))
    shared.remember(write)
    room = shared.to_overwrite(np.arange(START, STOP, 16), 16, np.array([1]))
    room[1, START:STOP] = 1
    assert write.times == times
    seen = shared.part(START, STOP)[:, START:STOP]
    assert (seen[1] == 1).all()
    assert (seen[0] == (0xFF if rows == [1] else 7)).all()


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
    assert not shared.deferred


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


def test_two_writes_from_one_address_on_may_be_written_over_one_after_the_other(waiting):
    shared, write = waiting
    shared.remember(Sevens(stop=START + 64))
    overwrite(shared, np.array([START + 16]), 2)
    seen = shared.part(START, STOP)[:, START:STOP].reshape(2, -1, 16)
    assert (seen[:, [0, 2, 3]] == 7).all()
    assert (seen[:, 1] == 2).all()
    assert (seen[:, 4::2] == 1).all()
    assert (seen[:, 5::2] == 7).all()
    assert write.times == 1


SIZE = 1024
FIRST = np.array([0])
SECOND = np.array([1])


@dataclass
class Bytes:
    """Writes bytes that tell where they are, and whose they are."""

    start: int
    stop: int
    value: int
    rows: np.ndarray | None = None

    def perform(self, memory: np.ndarray) -> None:
        rows = slice(None) if self.rows is None else self.rows
        memory[rows, self.start : self.stop] = np.arange(self.start, self.stop) * 7 + self.value


def spans(draw: st.DrawFn) -> tuple[int, int]:
    """Few that may be drawn, so that their ends and starts often meet."""
    start = draw(st.integers(0, 2))
    return 64 * start, 64 * draw(st.integers(start + 1, 4))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_bytes_are_those_of_writes_performed_at_once(data):
    """Writes that wait, writes of units among them, and looks at a part, in any order and over one another."""
    shared = SharedMemory(2, SIZE)
    eager = np.full((2, SIZE), 0xFF, np.uint8)
    for value in range(1, data.draw(st.integers(2, 16)) + 1):
        low, high = data.draw(st.composite(spans)())
        match data.draw(st.sampled_from(["wait", "units", "part", "look"])):
            case "wait":
                write = Bytes(low, high, value, data.draw(st.sampled_from([None, FIRST, SECOND])))
                shared.remember(write)
                write.perform(eager)
            case "units":
                size = data.draw(st.sampled_from([4, 8, 16]))
                every = data.draw(st.integers(1, 3))
                places = np.arange(low, high, size)[:: every * data.draw(st.sampled_from([-1, 1]))]
                units = np.full((2, len(places), size), value, np.uint8)
                shared.to_overwrite(places, size).reshape(2, -1, size)[:, places // size] = units
                eager.reshape(2, -1, size)[:, places // size] = units
            case "part":  # somebody looks, and writes what he looked at
                shared.part(low, high)[0, low:high] = value
                eager[0, low:high] = value
            case "look":
                assert np.array_equal(shared.part(low, high)[:, low:high], eager[:, low:high])
    assert np.array_equal(shared.bytes[:, :SIZE], eager)
