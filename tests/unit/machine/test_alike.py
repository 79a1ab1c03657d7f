"""What is found once for CTAs, stages and steps that are alike is what each of them has by itself."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convc.ir.tensormap import TensorMap
from convc.machine.lazy import evaluate, rows
from convc.machine.lazy.evaluate import _Joint
from convc.machine.lazy.regions import region
from convc.machine.lazy.rows import find_rows
from convc.machine.lazy.widen import Workspace
from convc.machine.memory.init_mask import InitMask
from convc.machine.memory.shared_memory import SharedMemory
from convc.machine.state.barriers import ELSEWHERE, NamedBarrier
from convc.machine.tensor_core.fetch import chunk_index
from convc.machine.tma.cache import WalkCache
from convc.machine.tma.load import TensorLoader
from convc.ptx.descriptors import SharedDescriptor, encode_shared

CTAS = 4
LINES = TensorMap(
    mode="tile", buffer="x", dtype="f16", dims=(64, 40, 9), strides=(128, 5120), element_strides=(1, 1, 1),
    box=(64, 16, 1), swizzle="128B",
)  # fmt: skip


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 4)), max_size=12))
def test_a_barrier_counts_warps_of_all_ctas_as_it_counts_each(arrivals):
    """Whether arrivals are taken together or warp by warp; ``0``: all six warps of a CTA are waited for."""
    together, apart = NamedBarrier(CTAS), NamedBarrier(CTAS)
    everyone = np.arange(CTAS)
    for warps, counted in arrivals:
        generation = together.arrive_alike(warps, 6, counted)
        joining = np.ones((CTAS, warps), bool)
        before = apart.arrived.copy()
        other = (before > 0) & (apart.expected > 0) & (apart.expected != counted)
        expected = np.full(CTAS, counted or 6)
        single = apart.arrive(everyone, joining, expected)
        if generation is None:  # those who do it one by one have something to say, or several generations
            assert (before + warps > expected).any() or (counted and other.any())
            together.arrive(everyone, joining, expected)
            together.expected[:] = apart.expected[:] = counted
            return
        apart.expected[:] = counted
        assert (single == generation).all()
        assert (single != ELSEWHERE).all()
        arrived, now = together.alike
        assert (apart.arrived == arrived).all()
        assert (apart.generation == now).all()


@pytest.mark.parametrize("counted", [0, 6])
def test_a_barrier_that_all_warps_pass_together_is_as_if_each_had_arrived(counted):
    together, apart = NamedBarrier(CTAS), NamedBarrier(CTAS)
    for barrier in (together, apart):
        barrier.arrive_alike(6, 6, counted)
    assert together.pass_together(counted)
    assert apart.arrive_alike(6, 6, counted) == 1
    assert together.alike == apart.alike
    assert (together.expected == apart.expected).all()
    together.arrive_alike(2, 6, counted)
    assert not together.pass_together(counted)
    assert together.alike == (2, 2)


@pytest.mark.parametrize("size", [2, 4, 8, 16])
@pytest.mark.parametrize("some", [None, np.array([1, 3])])
def test_units_are_marked_as_their_places_are(size, some):
    units = np.array([5, 1, 2])
    whole, single = InitMask(CTAS, 128), InitMask(CTAS, 128)
    whole.mark_units(units, size, some)
    single.mark((units[:, None] * size + np.arange(size)).reshape(-1), some)
    assert np.array_equal(whole.map[whole.line], single.map[single.line])
    assert np.count_nonzero(whole.map) == 3 * size


@given(st.lists(st.integers(-2, 2), min_size=CTAS, max_size=CTAS), st.integers(-(1 << 31), (1 << 31) - 1))
def test_ctas_that_move_on_alike_keep_what_they_share(starts, step):
    """The second walk, from coordinates that are all as much larger, and a walk that knows nothing of the first."""
    offsets = np.arange(16)
    moved = (np.array(starts) + step).astype(np.int32).astype(np.int64)
    cache = WalkCache(LINES)
    cache.find((np.array(starts), 3), offsets, CTAS)
    found = cache.find((moved, 4), offsets, CTAS)
    fresh = WalkCache(LINES).find((moved, 4), offsets, CTAS)
    assert np.array_equal(found.base, fresh.base)
    assert (found.members is None) == (fresh.members is None)
    if found.members is not None:
        assert np.array_equal(found.members, fresh.members)


class _Whole:
    """Tiles of numbers that need no gathering."""

    def __init__(self, values: np.ndarray, empty: np.ndarray | None = None) -> None:
        self.values = values
        self.first = np.arange(len(values))
        self.rows = values.shape[1]
        self.count = 1
        self.run = 2 * values.shape[2]
        self.loader = SimpleNamespace(tmap=SimpleNamespace(fill="zero"))
        self.asked: list[int] = []
        self.blank = empty

    def empty(self) -> np.ndarray | None:
        return self.blank

    def gather(self, part: slice, count: int, *_: object) -> np.ndarray:
        self.asked.append(part.stop - part.start)
        return np.ascontiguousarray(self.values[part, :count])


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("used", [5, 3, 0])
@pytest.mark.parametrize(("block", "parts"), [(1 << 20, [7]), (3000, [4, 3]), (2000, [7]), (400, [7])])
def test_tiles_of_b_go_a_few_at_a_time(accumulate, used, block, parts, monkeypatch):
    """With a kept A of 640 bytes; and all at once where that, or the product of 2,800, is more than a block."""
    monkeypatch.setattr(evaluate, "BLOCK", block)
    sizes: list[int] = []
    product = _Joint._product
    monkeypatch.setattr(
        _Joint, "_product", lambda self, a, b, out: (sizes.append(out.nbytes), product(self, a, b, out))
    )
    rng = np.random.default_rng(1)
    a = rng.integers(-4, 5, (2, 5, 16)).astype(np.float32)
    a[:, used:] = 0
    b = rng.integers(-4, 5, (7, 10, 16)).astype(np.float32)
    joint = _Joint.__new__(_Joint)
    joint.left = _Whole(a, np.tile(np.arange(5) >= used, (2, 1)))
    joint.right = _Whole(b)
    joint.target = np.full((7, 2, 5, 10), 3, np.float32)
    joint.accumulate = accumulate
    joint.elements = ("f16", "f16")
    joint.finite = (True, True)
    joint.workspaces = (Workspace(), Workspace())
    joint._side_by_side()
    assert np.array_equal(joint.target, np.einsum("trk,bnk->btrn", a, b) + (3 if accumulate else 0))
    assert joint.right.asked == (parts if used or block <= 2000 else [])
    assert max(sizes, default=0) <= max(block, 4 * used * 70)  # of one tile of A at least


@pytest.mark.parametrize("base_offset", [0, 3])
def test_stages_of_a_ring_have_one_answer(base_offset):
    """Operands of the stages at 0, 2048 and 7168, and each found by itself."""
    data = np.zeros(9 * 5120, np.uint8)
    loader = TensorLoader(LINES, data)
    shared = SharedMemory(1, 16384)
    operands: list[tuple[int, ...]] = []
    for stage, start in enumerate((0, 2048, 7168)):
        waiting = region(loader, shared.padded, start, (0, 8, stage), (), None, 1)
        assert waiting is not None
        shared.remember(waiting)
        words = [SharedDescriptor(start=start + 32 * i, lbo=0, sbo=1024, swizzle="128B") for i in range(4)]
        moved = [encode_shared(word) | base_offset << 49 for word in words]
        operands.append(tuple(moved))
    rows._known.clear()
    found = []
    for start, descriptors in zip((0, 2048, 7168), operands, strict=True):
        single = find_rows(shared, chunk_index, (descriptors, 16), 16)
        same = tuple([word - (start >> 4) for word in descriptors])
        stage = find_rows(shared, chunk_index, (same, 16), 16, start)
        assert (single is None) == (stage is None) == bool(base_offset)
        found.append(stage)
        if single is not None and stage is not None:
            assert np.array_equal(single.rows, stage.rows)
            assert (single.first, single.units, single.full) == (stage.first, stage.units, stage.full) == (0, 8, 8)
            assert single.regions == stage.regions
    assert len(rows._known) == 3  # one of all stages, and two that name a stage
