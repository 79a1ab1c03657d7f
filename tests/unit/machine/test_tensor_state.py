"""Allocations, the record of written cells where CTAs do different things, and writes of shared memory that wait."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from convc.machine.base.values import distinct_columns
from convc.machine.memory.init_mask import InitMask
from convc.machine.memory.shared_memory import SharedMemory
from convc.machine.tensor_core.fetch import operand_cells
from convc.machine.tensor_core.tensor_memory import LANES, TensorMemory

ROWS = np.array([0, 2])


def test_a_question_without_a_name_is_never_remembered():
    written = InitMask(2, 8)
    written.mark(slice(0, 4), None)
    assert written.missing(None, np.arange(4), None) == 0
    assert written.missing(None, np.arange(8), None) == 4
    assert written.missing("first", np.arange(4), None) == 0
    assert written.known == {"first"}


def test_as_many_are_missing_however_the_record_is_kept():
    """Of one CTA, whether all of them share a map or each has its own."""
    shared, own = InitMask(3, 8), InitMask(3, 8)
    shared.mark(slice(0, 4), None)
    for row in range(3):
        own.mark(slice(0, 4), np.array([row]))
    assert (len(shared.map), len(own.map)) == (1, 3)
    assert shared.missing(None, np.arange(6), None) == own.missing(None, np.arange(6), None) == 2
    own.mark(slice(4, 5), np.array([0]))
    own.mark(slice(4, 6), np.array([2]))
    assert own.missing(None, np.arange(6), ROWS) == 1
    assert own.missing(None, np.arange(6), np.array([2])) == 0


def test_moving_what_is_written_in_some_ctas():
    written = InitMask(3, 4)
    written.mark(slice(0, 2), None)
    assert written.missing("key", np.arange(2), None) == 0
    written.move(np.array([0, 1]), np.array([1, 2]), ROWS)
    assert written.known == set()
    assert [line.tolist().count(True) for line in written.map[written.line]] == [1, 2, 1]
    assert len(written.map) == 2
    assert written.missing("key", np.arange(2), None) == 1


def test_ctas_allocate_and_free_apart():
    memory = TensorMemory(3)
    assert memory.allocate(256, None, False).tolist() == [0, 0, 0]
    assert memory.allocate(128, ROWS, False).tolist() == [256, 256]
    assert memory.free(0, 256, ROWS)
    assert not memory.free(0, 256, None)
    assert memory.allocate(32, None, False).tolist() == [0, 256, 0]
    assert memory.holds(256, 32)
    assert not memory.holds(256, 64)
    assert memory.holds(256, 64, ROWS)
    assert memory.allocated == {0: 256, 256: 128}
    assert memory.allocated_in(np.array([1])) == {0: 256, 256: 32}
    assert memory.allocate(512, None, False).tolist() == [-1, -1, -1]
    assert memory.cells.shape == (3, LANES, 384)


def test_those_get_columns_who_can():
    memory = TensorMemory(3)
    assert memory.allocate(512, np.array([1]), False).tolist() == [0]
    assert memory.allocate(256, None, False).tolist() == [0, -1, 0]
    assert memory.last.tolist() == [256, 512, 256]


def test_the_last_free_columns_come_first_where_a_switch_says_so():
    memory = TensorMemory(2, "last")
    assert memory.allocate(128, None, False).tolist() == [384, 384]
    assert memory.allocate(64, np.array([1]), False).tolist() == [320]
    assert memory.allocate(256, None, False).tolist() == [128, 64]
    assert memory.holds(128, 192, np.array([0]))


def test_freeing_forgets_what_was_written_in_that_cta_only():
    memory = TensorMemory(2)
    memory.allocate(32, None, False)
    places = memory.places(np.arange(LANES), 0, 32)
    memory.written.mark(places, None)
    assert memory.free(0, 32, np.array([1]))
    assert memory.written.missing(None, places, np.array([0])) == 0
    assert memory.written.missing(None, places, np.array([1])) == places.size


@given(st.lists(st.tuples(st.sampled_from([32, 64, 128, 256]), st.booleans(), st.integers(0, 3)), max_size=12))
def test_allocations_never_overlap(steps):
    memory, held = TensorMemory(4), {}
    for columns, pair, row in steps:
        rows = np.array([row & ~1, row | 1]) if pair else np.array([row])
        bases = memory.allocate(columns, rows, pair)
        if bases[0] < 0:
            continue
        assert not pair or bases[0] == bases[1]
        for own, base in zip(rows.tolist(), bases.tolist(), strict=True):
            mine = set(range(base, base + columns))
            assert base % 32 == 0
            assert max(mine) < 512
            assert not mine & held.setdefault(own, set())
            held[own] |= mine
    for row, columns in held.items():
        total = sum(memory.allocated_in(np.array([row])).values())
        assert total == len(columns)


@given(st.lists(st.tuples(st.sampled_from(["panel", "cells"]), st.integers(0, 63), st.integers(1, 64)), max_size=12))
def test_panels_and_all_cells_are_the_same_memory(accesses):
    """Whoever writes columns through one view is read through every other."""
    memory, plain = TensorMemory(2), np.full((2, LANES, 64), 0xFFFFFFFF, np.uint32)
    memory.allocate(64, None, False)
    for number, (view, column, width) in enumerate(accesses):
        width = min(width, 64 - column)
        found = memory.panel(column, width) if view == "panel" else memory.cells[:, :, column : column + width]
        assert np.array_equal(found, plain[:, :, column : column + width])
        found[...] = plain[:, :, column : column + width] = number
    assert np.array_equal(memory.cells, plain)


def test_tensor_memory_that_grows_keeps_its_panels():
    memory = TensorMemory(1)
    memory.allocate(32, None, False)
    memory.panel(8, 8)[...] = 5
    memory.allocate(32, None, False)
    assert (memory.cells[0, :, 8:16] == 5).all()
    assert memory.cells.shape == (1, LANES, 64)


@dataclass
class Write:
    """A write of one number that waits."""

    start: int
    stop: int
    number: int
    rows: None = None

    def perform(self, memory: np.ndarray) -> None:
        memory[:, self.start : self.stop] = self.number


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(1, 20), st.none() | st.integers(0, 7)), max_size=12))
@example([(0, 20, None), (0, 1, 2)])  # what is read lies below, behind the end of the later one
def test_writes_that_wait_come_in_their_order(steps):
    """Whatever of the one below another still shows is there, and what somebody reads on the way too."""
    shared = SharedMemory(1, 1024)
    expected = np.full(1024, 0xFF, np.uint8)
    for number, (start, count, read) in enumerate(steps):
        write = Write(128 * start, min(128 * start + 16 * count, 1024), number)  # none leaves the memory
        shared.remember(write)
        write.perform(expected[None])
        if read is not None:
            place = slice(128 * read, 128 * read + 80)
            assert np.array_equal(shared.part(place.start, place.stop)[0, place], expected[place])
    assert np.array_equal(shared.bytes[0], expected)


@given(st.integers(1, 3), st.lists(st.sampled_from([-(2**31), -1, 0, 5, 2**31 - 1]), min_size=6, max_size=30))
def test_distinct_columns_are_those_of_numpy(axes, numbers):
    table = np.array(numbers[: len(numbers) // axes * axes], np.int32).reshape(axes, -1)
    _, first, which = np.unique(table, axis=1, return_index=True, return_inverse=True)
    got = distinct_columns(table)
    assert [part.tolist() for part in got] == [first.tolist(), which.reshape(-1).tolist()]


def test_a_place_between_others_that_some_cta_lacks_is_missing():
    written = InitMask(3, 16)
    written.mark(slice(0, 12), None)
    written.mark(slice(12, 16), np.array([1]))
    scattered = np.array([9, 3, 11])
    assert written.missing(None, scattered, None) == 0
    assert written.missing(None, np.array([3, 14, 15]), np.array([1])) == 0
    assert written.missing(None, np.array([3, 14, 15]), np.array([1, 2])) == 2
    written.map[0, 5] = False
    assert written.missing(None, scattered, None) == 0
    assert written.missing(None, np.array([9, 5]), None) == 1


@given(st.data())
def test_a_record_says_what_a_map_of_each_cta_says(data):
    """Marks, oblivion and moves of some CTAs or of all, in any order."""
    written, plain = InitMask(4, 6), np.zeros((4, 6), bool)
    some = st.none() | st.lists(st.integers(0, 3), min_size=1, max_size=4, unique=True).map(np.array)
    places = st.lists(st.integers(0, 5), min_size=2, max_size=6, unique=True).map(np.array)
    for what in data.draw(st.lists(st.sampled_from(["mark", "clear", "move"]), max_size=8)):
        rows, where = data.draw(some), data.draw(places)
        every = (np.arange(4) if rows is None else rows)[:, None]
        if what == "mark":
            written.mark(where, rows)
            plain[every, where] = True
        elif what == "clear":
            written.clear(where, rows)
            plain[every, where] = False
        else:
            written.move(where, where[::-1], rows)
            plain[every, where] = plain[every, where[::-1]]
        assert np.array_equal(written.map[written.line], plain)
        rows, where = data.draw(some), data.draw(places)
        every = np.arange(4) if rows is None else rows
        lacks = (~plain[every[:, None], where]).sum(axis=1)
        assert written.missing(None, where, rows) == next((n for n in lacks.tolist() if n), 0)
        if lacks.any():
            assert written.lacking(where, rows) == every[lacks.nonzero()[0][0]]


@pytest.mark.parametrize("columns", [(8,), (0, 8, 16), (8, 16, 32), (40, 8), (8, 8, 16), (16, 8, 0)])
def test_cells_of_an_operand_are_those_of_its_columns(columns):
    """Of instructions of one sum, whose columns lie side by side, or only some of them, or not in order."""
    memory = TensorMemory(2)
    memory.allocate(64, None, False)
    memory.cells[:, :, :64] = np.arange(2 * 128 * 64, dtype=np.uint32).reshape(2, 128, 64)
    want = [[[(c * 128 + lane) * 64 + first + i for first in columns for i in range(8)] for lane in range(128)]
            for c in range(2)]  # fmt: skip
    assert operand_cells(memory, columns).tolist() == want
