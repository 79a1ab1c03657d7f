"""Traces of GEMMs that others published, built from the structure of their kernels; their sources are not in here.

C = A B, A of M x K and B of N x K in 16 bits. A CTA computes tiles of 128 rows (of each accumulator) and some columns;
in a pair of CTAs each copies half of B's rows and both multiply together.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from convc.timing.chip import Footprint, Operands, TimedLaunch, time_launch
from convc.timing.parameters import Chip
from convc.timing.tensor_core import MmaShape
from convc.timing.trace import Contribution, Item, Phase, Trace, Warp, Work

TOGETHER = 18.0
"""SMs of a GPC, which are taken to read the same rows of A."""

ROWS = 128
"""Rows of a CTA's accumulator."""

LOADS = 0
"""The warp that copies."""

MULTIPLIES = 1
"""The warp that multiplies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gemm:
    """A kernel.

    Attributes:
        n: columns of a tile. k: of A and B that a stage holds. stages: of the ring.
        order: ``serial``: one warp copies and multiplies, and waits for both; ``turns``: it has copied ahead, but
            waits for each product; ``ahead``: it has copied two stages less than there are ahead, and waits for a
            product when it needs its stage; ``roles``: two warps, with a ring between them.
        pair: two CTAs multiply together.
        accumulators: of a CTA, side by side in M.
        persistent: CTAs that are launched; they store a tile while they multiply the next one. 0: one for each tile.
        bulk: columns that are stored together through TMA; 0: each thread stores its row, 16 bytes at a time.
        out_bytes: of an element of C. row_bytes: of contiguous memory that a copy takes at once.
    """

    n: int
    k: int
    stages: int
    order: Literal["serial", "turns", "ahead", "roles"] = "roles"
    pair: bool = False
    accumulators: int = 1
    persistent: int = 0
    bulk: int = 0
    out_bytes: int = 2
    row_bytes: int = 128

    @property
    def ctas(self) -> int:
        """CTAs of a cluster."""
        return 2 if self.pair else 1

    @property
    def warps(self) -> tuple[int, ...]:
        """The warps of a CTA that store, for each accumulator four."""
        first = 4 if self.persistent or self.accumulators > 1 else 0
        return tuple(range(first, first + 4 * self.accumulators))

    def tiles(self, m: int, n: int) -> int:
        """Tiles of a product, each the work of a cluster."""
        return -(-m // (ROWS * self.accumulators * self.ctas)) * -(-n // self.n)


def timed(gemm: Gemm, m: int, n: int, k: int, chip: Chip, fetched: int | None = None) -> TimedLaunch:
    """The launch of a product; ``fetched``: bytes that its reads bring from memory, where somebody counted them."""
    tiles = gemm.tiles(m, n)
    clusters = min(tiles, gemm.persistent // gemm.ctas) if gemm.persistent else tiles
    trace = _Builder(gemm, -(-k // gemm.k)).build(-(-tiles // clusters))
    footprint = Footprint(shared_bytes=200 * 1024, columns=512, threads=32 * (max(gemm.warps) + 1))
    operands = Operands(read=2 * k * (m + n), written=gemm.out_bytes * m * n, fetched=fetched)
    return time_launch(trace, clusters * gemm.ctas, footprint, chip, operands=operands)


@dataclass(slots=True)
class _Builder:
    """A trace that is being written.

    Barriers are at made-up addresses: full and free stages, sums that are ready, accumulators that are free.
    """

    gemm: Gemm
    steps: int
    trace: Trace = field(init=False)

    def build(self, tiles: int) -> Trace:
        """The trace of a cluster that computes some tiles."""
        gemm = self.gemm
        self.trace = Trace(items={}, works=[], phases={}, arrivals={}, ctas=gemm.ctas, prefetches=False)
        for row in range(gemm.ctas):
            self._enter(row)
        for tile in range(tiles):
            if gemm.order == "roles":
                for row in range(gemm.ctas):
                    for step in range(self.steps):
                        self._copy(row, LOADS, tile * self.steps + step)
                self._multiply(tile)
            else:
                self._alternate()
            for row in range(gemm.ctas):
                for warp in gemm.warps:
                    self._store(row, warp, tile)
        return self.trace

    def item(self, warp: Warp, name: str, step: str, **more: Any) -> int:
        """One instruction more of a warp; its number."""
        items = self.trace.items.setdefault(warp, [])
        items.append(Item(name=name, step=step, line=0, index=len(items), **more))
        return len(items) - 1

    def meet(self, warp: Warp, step: str, place: object) -> None:
        """A barrier of several warps of a CTA."""
        meeting = ("cta", warp[0], place)
        number = self.item(warp, "bar", step, meets=meeting, leaves=meeting)
        self.trace.arrivals.setdefault(meeting, []).append((warp, number))

    def wait(self, warp: Warp, step: str, phase: Phase) -> None:
        """Wait for a phase; one before the first is over."""
        self.item(warp, "mbarrier.try_wait", step, waits=phase if phase[2] >= 0 else None)

    def arrive(self, phase: Phase, contribution: Contribution) -> None:
        """An arrival at a phase."""
        self.trace.phases.setdefault(phase, []).append(contribution)

    def _enter(self, row: int) -> None:
        """Make barriers, get tensor memory, and meet."""
        warps = sorted({LOADS, MULTIPLIES, *self.gemm.warps})
        for warp in warps:
            if warp == MULTIPLIES:
                self.item((row, warp), "tcgen05.alloc", "setup")
            self.meet((row, warp), "setup", "setup")

    def _copy(self, row: int, warp: int, turn: int) -> None:
        """Fill a stage; those of a pair tell the first of its CTAs."""
        gemm = self.gemm
        stage = turn % gemm.stages
        who = (row, warp)
        if gemm.order in ("ahead", "roles"):
            self.wait(who, "load.wait", (row, 100 + stage, turn // gemm.stages - 1))
        full = (0, stage, turn // gemm.stages)
        number = self.item(who, "mbarrier.arrive", "load.copy")
        self.arrive(full, Contribution(who, number, ()))
        sizes = [(ROWS, True)] * gemm.accumulators + [(gemm.n // gemm.ctas, False)]
        for rows, of_a in sizes:
            size = 2 * rows * gemm.k
            self.trace.works.append(
                Work(
                    kind="load", row=row, step="load", line=0, bytes=size, requests=size // gemm.row_bytes, mode="tile",
                    buffer="A" if of_a else "B", readers=TOGETHER if of_a else 1.0,
                )
            )  # fmt: skip
            self.item(who, "cp.async.bulk.tensor", "load.copy", works=[len(self.trace.works) - 1])
            self.arrive(full, Contribution(None, 0, (len(self.trace.works) - 1,)))

    def _products(self, who: Warp) -> None:
        """The MMAs of a stage."""
        gemm = self.gemm
        shape = MmaShape(m=ROWS * gemm.ctas, n=gemm.n, pair=gemm.pair)
        for _ in range(gemm.accumulators * gemm.k // 16):
            self.trace.works.append(Work(kind="mma", row=0, step="mma", line=0, mma=shape, pair=gemm.pair))
            self.item(who, "tcgen05.mma", "mma.multiply", works=[len(self.trace.works) - 1])

    def _commit(self, who: Warp, address: int, number: int) -> None:
        """Tell all CTAs of the cluster that the products so far are done."""
        item = self.item(who, "tcgen05.commit", "mma.commit")
        for row in range(self.gemm.ctas):
            self.arrive((row, address, number), Contribution(who, item, (len(self.trace.works) - 1,)))

    def _multiply(self, tile: int) -> None:
        """All products of a tile, by a warp that does nothing else; of two accumulators one is free."""
        gemm = self.gemm
        who = (0, MULTIPLIES)
        self.wait(who, "mma.accumulator", (0, 300 + tile % 2, tile // 2 - 1))
        for step in range(self.steps):
            turn = tile * self.steps + step
            self.wait(who, "mma.wait", (0, turn % gemm.stages, turn // gemm.stages))
            self._products(who)
            self._commit(who, 100 + turn % gemm.stages, turn // gemm.stages)
        self._commit(who, 200 + tile % 2, tile // 2)

    def _alternate(self) -> None:
        """A warp that copies and multiplies, and waits for both."""
        gemm = self.gemm
        who = (0, LOADS)
        waits = gemm.order != "ahead"
        ahead = gemm.stages - (1 if waits else 2)
        for step in range(min(ahead, self.steps)):
            self._copy(0, LOADS, step)
        for step in range(self.steps):
            if step + ahead < self.steps:
                self._copy(0, LOADS, step + ahead)
            self.wait(who, "mma.wait", (0, step % gemm.stages, step // gemm.stages))
            self._products(who)
            if waits:
                self._commit(who, 100, step)
                self.wait(who, "mma.done", (0, 100, step))
            else:
                self._commit(who, 100 + step % gemm.stages, step // gemm.stages)
        self._commit(who, 200, 0)

    def _store(self, row: int, warp: int, tile: int) -> None:
        """A warp's 32 rows of a tile."""
        gemm = self.gemm
        who = (row, warp)
        self.wait(who, "epilogue.wait", (row, 200 + tile % 2, tile // 2))
        columns = gemm.bulk or 16 // gemm.out_bytes
        for chunk in range(gemm.n // columns):
            load = self.item(who, "tcgen05.ld", "epilogue.load", cells=columns, shape="32x32b")
            self.item(who, "tcgen05.wait", "epilogue.load", needs=(load,))
            for _ in range(columns // 2 if gemm.out_bytes == 2 else 0):
                self.item(who, "cvt", "epilogue.convert")
            if gemm.bulk:
                self._bulk(who, (tile, chunk))
            else:
                self.item(who, "st", "epilogue.store", sectors=(0, 32))
        if gemm.persistent:
            number = self.item(who, "mbarrier.arrive", "epilogue.free")
            self.arrive((0, 300 + tile % 2, tile // 2), Contribution(who, number, ()))

    def _bulk(self, who: Warp, place: tuple[int, int]) -> None:
        """Four warps put columns into shared memory, and the first of them stores them through TMA."""
        gemm = self.gemm
        group = (who[1] - gemm.warps[0]) // 4
        first = gemm.warps[4 * group] == who[1]
        if first:
            self.item(who, "cp.async.bulk.wait_group", "epilogue.space", left=1)
        self.meet(who, "epilogue.space", ("space", group, place))
        for _ in range(gemm.bulk * gemm.out_bytes // 16):
            self.item(who, "st", "epilogue.shared", wavefronts=4)
        self.meet(who, "epilogue.shared", ("full", group, place))
        if first:
            size = ROWS * gemm.bulk * gemm.out_bytes
            self.trace.works.append(
                Work(kind="store", row=who[0], step="store", line=0, bytes=size, requests=ROWS, mode="tile", buffer="C")
            )
            self.item(who, "cp.async.bulk.tensor", "epilogue.bulk", works=[len(self.trace.works) - 1])
            self.item(who, "cp.async.bulk.commit_group", "epilogue.bulk", group=True)
