"""Shadow memory: places that become finer, parts that are cut, pages on demand, and what an access comes after."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.examples import some

from convc.machine.base.values import fixed
from convc.sanitizer.parts import Cuts, Parts
from convc.sanitizer.shadow import PAGE, Access, Shadow, Sparse, Tables
from convc.sanitizer.strength import RELAXED

INSTR = SimpleNamespace(index=0, step=None, span=None)
SIZES = st.sampled_from([1, 2, 4, 8, 16, 48, 128])
ACCESSES = st.tuples(
    SIZES,
    st.lists(st.integers(0, 300), min_size=1, max_size=4, unique=True),
    st.booleans(),
    st.booleans(),
    st.integers(0, 2),
    st.sampled_from([0, 5 * PAGE - 64]),
)
"""(bytes, multiples of them to start at, write, strong, component, where the multiples count from)."""

READ_AND_WRITTEN = [
    (False, False, 0), (True, True, 1), (True, False, 0), (False, False, 2), (True, False, 1), (True, False, 1),
]  # fmt: skip
"""(write, strong, component) of accesses of one place: a write makes an end of all before it."""


def access(component: int, write: bool, strong: bool) -> Access:
    return Access(
        component=component,
        time=0,
        actor="",
        kind="st",
        write=write,
        generic=True,
        row=0,
        warp=0,
        lane=None,
        home=0,
        stream=None,
        after={},
        strength=RELAXED if strong else None,
        instr=INSTR,
        nth=0,
    )


def test_places_become_finer_and_keep_what_they_hold():
    tables = Sparse()
    places, offsets = tables.find(np.array([0, 64]), 32)
    assert (tables.unit, places.shape, offsets.tolist()) == (16, (2, 2), [[0, 16], [64, 80]])
    tables.get("a")[places] = [[1, 2], [3, 4]]
    places, offsets = tables.find(np.array([20, 84]), 4)
    assert (tables.unit, offsets.tolist()) == (4, [[20], [84]])
    assert tables.get("a")[places].tolist() == [[2], [4]]
    places, _ = tables.find(np.array([12, 32]), 4)
    assert tables.get("a")[places].tolist() == [[1], [-1]]


def test_only_pages_that_are_looked_at_take_memory():
    tables = Sparse()
    tables.find(np.array([10 << 30]), 16)
    tables.get("a")
    tables.find(np.array([0]), 16)
    assert tables.get("a").size == 2 * PAGE // 16
    assert [start for start, _ in tables.known()] == [0, 10 << 30]


@settings(max_examples=some(150), deadline=None)
@example([(4, [0], write, strong, by, 0) for write, strong, by in READ_AND_WRITTEN])
@given(st.lists(ACCESSES, min_size=1, max_size=12))
def test_it_remembers_what_a_table_of_single_bytes_does(accesses):
    """By byte: the last plain write, and since then the last read and atomic of every component."""
    sparse, plain, parts = Shadow(Sparse()), Shadow(Tables(8 * PAGE)), Shadow(Parts(Cuts(8 * PAGE)))
    known: dict[int, dict] = {}
    for number, (size, multiples, write, strong, component, base) in enumerate(accesses):
        starts = np.array([base + size * m for m in multiples if base + size * (m + 1) <= 8 * PAGE], np.int64)
        if not starts.size:
            continue
        entry, lanes = access(component, write, strong), np.arange(len(starts))[:, None]
        places, _ = sparse.tables.find(starts, size)
        wide = starts[:, None] + np.arange(size)
        want = set()
        for byte in wide.reshape(-1).tolist():
            for (kind, _), other in known.get(byte, {}).items():
                want |= {other} if write or kind != "read" else set()
        found, owners = parts.tables.find(lanes[:, 0], wide)
        assert sparse.before(places, write) == plain.before(wide, write) == sorted(want)
        assert parts.before(found, write) == sorted(want)
        for other in want:
            here, by = plain.entries(wide, other)
            assert sparse.entries(places, other)[1].tolist() == by.tolist()
            same, by_parts = parts.entries(parts.tables.number(wide), other)
            assert by_parts.tolist() == by.tolist()
            assert np.array_equal(same, here)
        sparse.record(places, number, lanes, entry)
        parts.record(found, number, owners, entry)
        plain.record(wide, number, lanes, entry)
        for byte in wide.reshape(-1).tolist():
            if write and not strong:
                known[byte] = {("write", None): number}
            else:
                known.setdefault(byte, {})["atomic" if write else "read", component] = number


def test_a_memory_is_cut_where_accesses_end_and_no_further():
    cuts = Cuts(64)
    parts, other = Parts(cuts), Parts(cuts)
    lane = np.array([3])
    tile = fixed(np.arange(16, 48))
    [one], _ = parts.find(lane, tile)
    parts.get("a")[one] = 7
    other.get("a")[one] = 8
    assert [part.tolist() for part in parts.find(lane, tile)] == [[one], [3]]
    halves, owners = parts.find(np.array([0, 1]), np.array([[16, 17], [46, 47]]))
    assert (parts.get("a")[halves].tolist(), owners.tolist()) == ([7, 7], [0, 1])
    assert other.get("a")[halves].tolist() == [8, 8]
    assert Parts(cuts).get("a").size == other.size
    again, _ = parts.find(lane, tile)
    assert set(again.tolist()) == {one, *halves.tolist()}
    assert parts.find(lane, np.arange(60, 70)) is None
    assert parts.find(lane, np.empty(0, np.int64)) is None
    assert np.bincount(parts.number(np.arange(64))).tolist() == cuts.sizes[: cuts.used].tolist()
