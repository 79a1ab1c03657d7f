"""Traces of kernels that are not ours: one warp copies into a ring of stages, two warpgroups multiply, all store.

The kernel is an implicit-GEMM convolution for sm_90a (wgmma), whose text is not here: its trace is built from its
structure. ``reload`` copies 128 pixels (im2col) and a filter tile for each K step; ``slide`` copies 136 pixels
once for the taps of a filter row, and the filter tile for each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from convc.timing.chip import Footprint
from convc.timing.sharing import alike
from convc.timing.tensor_core import MmaShape
from convc.timing.trace import Contribution, Item, Trace, Warp, Work

PRODUCER: Warp = (0, 8)
SMS = 132
GPCS = 8
CONSUMERS: tuple[Warp, Warp] = ((0, 0), (0, 4))
SLIDE_ROWS = 136
SLIDE_STAGES = 3
ALONE_BYTES = 120 * 1024
"""Shared memory of a kernel that is made to have an SM for itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Issue cycles of the kernel, which its trace takes as given.

    Attributes:
        prologue: from a CTA's entry to its first wait for a free stage.
        step: of the copying thread after a K step's copies, beside what the engine knows of waits and copies.
        tap: the same after each filter tap. row: after the copy of a filter row's pixels.
        turn: of the threads that multiply, in each K step, beside what the engine knows.
        store, store_column: of the threads that store, before the bulk store: always, and a column of the tile.
        end: from the last store's reads to the exit.
    """

    prologue: float
    step: float
    tap: float
    row: float
    turn: float
    store: float
    store_column: float
    end: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RingKernel:
    """A row of the recordings: what was launched.

    Attributes:
        slide: else reload. pixels: rows of the product. taps: of a filter row. blocks: of 64 channels.
        tile_n, stages: of the kernel. ctas: of the grid. beside: that an SM holds.
    """

    slide: bool
    pixels: int
    taps: int
    blocks: int
    tile_n: int
    stages: int
    ctas: int
    beside: int

    @classmethod
    def of(cls, row: Mapping[str, str]) -> RingKernel:
        """The kernel of a row of the recordings."""
        height, width, window, stride, pad = (int(row[key]) for key in ("H", "W", "R", "stride", "pad"))
        rows = (height + 2 * pad - window) // stride + 1
        cols = (width + 2 * pad - window) // stride + 1
        return cls(
            slide=row["schedule"] == "slide",
            pixels=int(row["N"]) * rows * cols,
            taps=window,
            blocks=int(row["C"]) // 64,
            tile_n=int(row["tile_n"]),
            stages=int(row["stages"]),
            ctas=int(row["ctas"]),
            beside=int(row["ctas_per_sm"]),
        )

    @property
    def footprint(self) -> Footprint:
        """What lets as many CTAs lie on an SM as did."""
        return Footprint(shared_bytes=233472 // self.beside - 1024, columns=0, threads=288)


@dataclass(slots=True)
class _Builder:
    """A trace that is being written."""

    kernel: RingKernel
    costs: Costs
    trace: Trace

    def item(self, warp: Warp, name: str, step: str, **more: Any) -> None:
        """One instruction more of a warp."""
        items = self.trace.items.setdefault(warp, [])
        items.append(Item(name=name, step=step, line=0, index=len(items), **more))

    def wait(self, warp: Warp, step: str, ring: str, turn: int, stages: int, free: bool) -> None:
        """Wait for a ring's stage: to be full, or to be free again after its last use."""
        number = turn // stages - free
        phase = (0, _address(ring, turn % stages, free), number)
        self.item(warp, "mbarrier.try_wait", step, waits=phase if number >= 0 else None)

    def copy(self, step: str, ring: str, turn: int, stages: int, works: list[Work]) -> None:
        """Copies that fill a stage: the first item arrives and says how many bytes come."""
        self.item(PRODUCER, "mbarrier.arrive", step)
        arrival = Contribution(PRODUCER, len(self.trace.items[PRODUCER]) - 1, ())
        numbers: list[int] = []
        for work in works:
            self.trace.works.append(work)
            numbers.append(len(self.trace.works) - 1)
            self.item(PRODUCER, "cp.async.bulk.tensor", step, works=[numbers[-1]])
        phase = (0, _address(ring, turn % stages, False), turn // stages)
        self.trace.phases[phase] = [arrival, *(Contribution(None, 0, (number,)) for number in numbers)]

    def release(self, warp: Warp, ring: str, turn: int, stages: int) -> None:
        """A consumer gives a stage back."""
        self.item(warp, "mbarrier.arrive", "mma.release")
        phase = (0, _address(ring, turn % stages, True), turn // stages)
        self.trace.phases.setdefault(phase, []).append(Contribution(warp, len(self.trace.items[warp]) - 1, ()))


def _address(ring: str, stage: int, free: bool) -> int:
    """A made-up address of a stage's barrier."""
    return stage + 100 * (ring == "pixels") + 1000 * free


def build(kernel: RingKernel, costs: Costs) -> Trace:
    """The trace of one CTA."""
    trace = Trace(items={}, works=[], phases={}, arrivals={}, ctas=1, prefetches=True)
    builder = _Builder(kernel, costs, trace)
    for warp in (PRODUCER, *CONSUMERS):
        builder.item(warp, "own", "entry", cycles=costs.prologue)
    _produce(builder)
    for warp in CONSUMERS:
        _multiply(builder, warp)
    _store(builder)
    return trace


def _produce(builder: _Builder) -> None:
    kernel = builder.kernel
    costs = builder.costs
    turn = 0
    rows = 0
    blocks = -(-kernel.pixels // 128)
    numbers = range(min(kernel.ctas, SMS))
    filters_of = alike([(cta, cta // blocks) for cta in numbers], GPCS)
    pixels_of = alike([(cta, cta % blocks) for cta in numbers], GPCS)
    for _ in range(kernel.taps):
        outer = kernel.blocks if kernel.slide else kernel.taps
        for _ in range(outer):
            if kernel.slide:
                builder.wait(PRODUCER, "load.wait", "pixels", rows, SLIDE_STAGES, True)
                builder.copy("load.pixels", "pixels", rows, SLIDE_STAGES, [_load(SLIDE_ROWS, "tile", pixels_of)])
                builder.item(PRODUCER, "own", "load.row", cycles=costs.row)
                rows += 1
            for _ in range(kernel.taps if kernel.slide else kernel.blocks):
                builder.wait(PRODUCER, "load.wait", "stage", turn, kernel.stages, True)
                pixels = [] if kernel.slide else [_load(128, "im2col", pixels_of)]
                filters = _load(kernel.tile_n, "tile", filters_of)
                builder.copy("load.stage", "stage", turn, kernel.stages, [*pixels, filters])
                builder.item(PRODUCER, "own", "load.step", cycles=costs.step)
                turn += 1
            if not kernel.slide:
                builder.item(PRODUCER, "own", "load.tap", cycles=costs.tap)


def _load(rows: int, mode: str, readers: float) -> Work:
    """A copy of rows of 128 bytes."""
    return Work(
        kind="load",
        row=0,
        step="load",
        line=0,
        bytes=rows * 128,
        requests=rows,
        mode=mode,
        buffer=mode,
        readers=readers,
    )


def _multiply(builder: _Builder, warp: Warp) -> None:
    kernel = builder.kernel
    shape = MmaShape(m=64, n=kernel.tile_n)
    turns = kernel.taps * kernel.taps * kernel.blocks
    for turn in range(turns):
        if kernel.slide and turn % kernel.taps == 0:
            builder.wait(warp, "mma.wait", "pixels", turn // kernel.taps, SLIDE_STAGES, False)
        builder.wait(warp, "mma.wait", "stage", turn, kernel.stages, False)
        builder.item(warp, "own", "mma.turn", cycles=builder.costs.turn)
        for _ in range(4):
            builder.trace.works.append(Work(kind="mma", row=0, step="mma", line=0, mma=shape))
            builder.item(warp, "wgmma.mma_async", "mma.multiply", works=[len(builder.trace.works) - 1])
        builder.item(warp, "wgmma.commit_group", "mma.multiply", group=True)
        builder.item(warp, "wgmma.wait_group", "mma.multiply", left=1)
        if turn:
            builder.release(warp, "stage", turn - 1, kernel.stages)
            if kernel.slide and turn % kernel.taps == 0:
                builder.release(warp, "pixels", turn // kernel.taps - 1, SLIDE_STAGES)
    builder.item(warp, "wgmma.wait_group", "mma.end", left=0)


def _store(builder: _Builder) -> None:
    kernel = builder.kernel
    meeting = ("cta", 0, 1, 0)
    for warp in CONSUMERS:
        cycles = builder.costs.store + builder.costs.store_column * kernel.tile_n
        builder.item(warp, "own", "store.tile", cycles=cycles)
        builder.item(warp, "bar", "store.meet", meets=meeting, leaves=meeting)
        builder.trace.arrivals.setdefault(meeting, []).append((warp, len(builder.trace.items[warp]) - 1))
    rows = min(128, kernel.pixels)
    for _ in range(kernel.tile_n // 64):
        work = Work(
            kind="store", row=0, step="store", line=0, bytes=rows * 128, requests=rows, mode="tile", buffer="out"
        )
        builder.trace.works.append(work)
        builder.item(CONSUMERS[0], "cp.async.bulk.tensor", "store.bulk", works=[len(builder.trace.works) - 1])
    builder.item(CONSUMERS[0], "cp.async.bulk.commit_group", "store.bulk", group=True)
    builder.item(CONSUMERS[0], "cp.async.bulk.wait_group", "store.bulk", left=0)
    builder.item(CONSUMERS[0], "own", "exit", cycles=builder.costs.end)
