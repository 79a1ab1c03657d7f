"""Launches leave the memory that they worked in to the next: no two have the same, and it stays bounded."""

from __future__ import annotations

import numpy as np
import pytest

from convc.machine.lazy import widen
from convc.machine.lazy.widen import Rooms, keep_rooms, kept_rooms

WORDS = np.dtype(np.float32)


@pytest.fixture(autouse=True)
def _nothing_kept(monkeypatch):
    monkeypatch.setattr(widen, "_kept", [])


def test_the_next_launch_has_what_the_last_one_left():
    first = kept_rooms()
    room = first[0].room("widened", 100, WORDS)
    keep_rooms(first)
    assert np.shares_memory(kept_rooms()[0].room("widened", 60, WORDS), room)


def test_two_launches_at_once_have_rooms_of_their_own():
    keep_rooms(kept_rooms())
    one, other = kept_rooms(), kept_rooms()
    rooms = [both.room("raw", 64, WORDS) for both in (*one, *other)]
    assert not any(np.shares_memory(a, b) for i, a in enumerate(rooms) for b in rooms[:i])


def test_no_more_stays_than_is_said(monkeypatch):
    monkeypatch.setattr(widen, "MOST_KEPT", 400)
    large = kept_rooms()
    large[1].room("widened", 101, WORDS)
    keep_rooms(large)
    assert not widen._kept
    just = kept_rooms()
    just[1].room("widened", 100, WORDS)
    keep_rooms(just)
    assert widen._kept == [just]


def test_a_name_is_one_room_whatever_lies_in_it():
    rooms = Rooms()
    for size in (16, 32, 64, 16):
        assert rooms.room("raw", 4, np.dtype((np.void, size))).shape == (4,)
    assert rooms.bytes == 4 * 64
