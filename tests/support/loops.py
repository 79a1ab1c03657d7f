"""Traces of measured loops that are not kernels of convc: a ring that feeds the tensor core, and chains."""

from __future__ import annotations

from convc.timing.tensor_core import MmaShape
from convc.timing.trace import Contribution, Item, Trace, Warp, Work

PRODUCER: Warp = (0, 0)
CONSUMER: Warp = (0, 1)
FULL = 0
FREE = 1000
READY = 8.0
"""Cycles of a wait that is ready, in a loop that is unrolled (B200 microbenchmarks)."""


def _empty(warps: tuple[Warp, ...]) -> Trace:
    """A trace without instructions."""
    return Trace(items={warp: [] for warp in warps}, works=[], phases={}, arrivals={}, ctas=1, prefetches=True)


def _add(trace: Trace, warp: Warp, item: Item) -> Contribution:
    """Append an item, and give its arrival."""
    item.index = len(trace.items[warp])
    trace.items[warp].append(item)
    return Contribution(warp, item.index, ())


def _work(trace: Trace, work: Work) -> int:
    trace.works.append(work)
    return len(trace.works) - 1


def mainloop(shape: MmaShape, slices: int, stages: int, turns: int) -> Trace:
    """A ring of ``stages``, each with ``slices`` of 32 bytes of K for both operands, that feeds MMAs of one shape."""
    trace = _empty((PRODUCER, CONSUMER))
    for turn in range(turns):
        stage, use = turn % stages, turn // stages
        before = (0, FREE + stage, use - 1) if use else None
        _add(trace, PRODUCER, Item(name="mbarrier.try_wait", step="wait", line=0, index=0, waits=before, cycles=READY))
        arrived = [_add(trace, PRODUCER, Item(name="mbarrier.arrive", step="copy", line=0, index=0))]
        for rows in (shape.m, shape.n):
            size = rows * slices * 32
            number = _work(
                trace, Work(kind="load", row=0, step="copy", line=0, bytes=size, requests=size // 128, mode="tile")
            )
            _add(trace, PRODUCER, Item(name="cp.async.bulk.tensor", step="copy", line=0, index=0, works=[number]))
            arrived.append(Contribution(None, 0, (number,)))
        trace.phases[0, FULL + stage, use] = arrived
        full = (0, FULL + stage, use)
        _add(trace, CONSUMER, Item(name="mbarrier.try_wait", step="wait", line=0, index=0, waits=full, cycles=READY))
        for _ in range(slices):
            number = _work(trace, Work(kind="mma", row=0, step="mma", line=0, mma=shape))
            _add(trace, CONSUMER, Item(name="tcgen05.mma", step="mma", line=0, index=0, works=[number]))
        commit = _add(trace, CONSUMER, Item(name="tcgen05.commit", step="mma", line=0, index=0))
        trace.phases[0, FREE + stage, use] = [Contribution(CONSUMER, commit.item, (number,))]
    return trace


def chain(work: Work, count: int) -> Trace:
    """A thread that issues one operation of the tensor core again and again."""
    trace = _empty((CONSUMER,))
    names = {"mma": "tcgen05.mma", "cp": "tcgen05.cp", "shift": "tcgen05.shift"}
    for _ in range(count):
        number = _work(trace, work)
        _add(trace, CONSUMER, Item(name=names[work.kind], step="", line=0, index=0, works=[number]))
    return trace


def tensor_store(cells: int) -> Trace:
    """A tcgen05.st of that many cells a lane, and a wait for it."""
    trace = _empty((CONSUMER,))
    _add(trace, CONSUMER, Item(name="tcgen05.st", step="", line=0, index=0, cells=cells))
    _add(trace, CONSUMER, Item(name="tcgen05.wait", step="", line=0, index=0, needs=(0,)))
    return trace


def copies(rows: int, in_flight: int, turns: int) -> Trace:
    """A thread that keeps some copies of rows of 128 bytes in flight."""
    trace = _empty((PRODUCER,))
    for turn in range(turns):
        stage, use = turn % in_flight, turn // in_flight
        before = (0, stage, use - 1) if use else None
        _add(trace, PRODUCER, Item(name="mbarrier.try_wait", step="wait", line=0, index=0, waits=before, cycles=READY))
        number = _work(
            trace, Work(kind="load", row=0, step="copy", line=0, bytes=rows * 128, requests=rows, mode="tile")
        )
        _add(trace, PRODUCER, Item(name="cp.async.bulk.tensor", step="copy", line=0, index=0, works=[number]))
        trace.phases[0, stage, use] = [Contribution(None, 0, (number,))]
    return trace


def beside_shared(shape: MmaShape, access: str, groups: int, chains: int) -> Trace:
    """Groups of warps that multiply in chains of 32, beside four warps that access shared memory, 16 bytes a lane.

    Those look every 16 accesses whether the others have ended; they have more to do than the others.
    """
    others: tuple[Warp, ...] = tuple((0, 4 * groups + warp) for warp in range(4))
    trace = _empty((*((0, 4 * group) for group in range(groups)), *others))
    for group in range(groups):
        for _ in range(chains):
            for _ in range(32):
                number = _work(trace, Work(kind="mma", row=0, step="mma", line=0, mma=shape))
                item = Item(name="wgmma.mma_async", step="mma", line=0, index=0, works=[number], cycles=8)
                _add(trace, (0, 4 * group), item)
            _add(trace, (0, 4 * group), Item(name="wgmma.commit_group", step="mma", line=0, index=0, group=True))
            _add(trace, (0, 4 * group), Item(name="wgmma.wait_group", step="mma", line=0, index=0, left=0))
    for warp in others:
        for _ in range(groups * chains * shape.n // 8 + 1):
            for _ in range(16):
                _add(trace, warp, Item(name=access, step="other", line=0, index=0, wavefronts=4))
            _add(trace, warp, Item(name="own", step="other", line=0, index=0, cycles=45))
    return trace
