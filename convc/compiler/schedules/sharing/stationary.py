"""The schedule ``stationary``: weights are the first operand, pixels the columns of the second.

One activation tile serves all filter columns of its buffer: tcgen05.mma.ws reads column j + shift in place of column j,
zeroes the columns whose pixel is padding, and may keep the pixels in its collector buffers, one for each 32 bytes of K.
The accumulator is transposed: its lanes are output channels, its columns output pixels.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from convc.compiler.index.geometry import Geometry
from convc.compiler.index.row_walk import Tap, padding_run
from convc.compiler.index.shares import share
from convc.compiler.plan.constraints import TILING_RULES, TiledProblem, TilingRule
from convc.compiler.plan.issue_cycles import PIXEL_DIVISION, PIXEL_RESIDUAL, PIXEL_STORE, PIXEL_TEST
from convc.compiler.plan.names import ACC, A, B, NewNumber, Number
from convc.compiler.plan.records import Pipeline, Plan, Tiling
from convc.compiler.plan.residency import bytes_alone
from convc.compiler.plan.storage import Storage, TmemTile
from convc.compiler.plan.tiling import Depths
from convc.compiler.plan.work import SECTOR_BYTES, CtaWork
from convc.compiler.schedules.base import Request, Ways
from convc.compiler.schedules.cores.all import core_of
from convc.compiler.schedules.epilogue import epilogue_steps, requantise_lanes, scale_lanes
from convc.compiler.schedules.sharing.base import Sharing
from convc.compiler.schedules.sharing.buffers import SharedTile
from convc.compiler.schedules.sharing.indexing import row_coordinates, shared
from convc.compiler.schedules.sharing.k_loop import k_loop, release_filter, release_tile, wait_for_filter
from convc.compiler.schedules.sharing.storage import largest_halo, ring_uses
from convc.compiler.schedules.skeleton import BIAS, OUT, about, compute, number, pixel_bits
from convc.compiler.tile.steps.base import Compute, Loop, Step
from convc.compiler.tile.steps.channels import AddLaneBias
from convc.compiler.tile.steps.epilogue import TmemLoad
from convc.compiler.tile.steps.mma import MmaStationary
from convc.compiler.tile.steps.stores import PixelStore
from convc.host_layout.device_layout import DeviceLayout
from convc.ir.arch import SM_100A, Arch
from convc.ir.expr import Const

WS_COLUMNS = SM_100A.limits.ws_n
"""N of ``tcgen05.mma.ws`` (PTX manual, tcgen05.mma shapes)."""
WS_ROWS = SM_100A.limits.ws_m
RUN_LIMIT = SM_100A.limits.zero_run
"""Longest run of zeroed, or of used, columns in a zero-column mask (PTX manual, zero-column mask descriptor)."""
ALL_ZEROED = (RUN_LIMIT, 1)
"""The runs that zero every column of the widest tile."""
CHUNK = 8
"""Pixels that the epilogue reads at a time."""


def ws_shape(tiled: TiledProblem) -> str | None:
    """``tcgen05.mma.ws`` with weights of 128 channels takes N = 64, 128 or 256 (PTX manual, tcgen05.mma shapes)."""
    if tiled.tiling.block_n != WS_ROWS:
        return f"{tiled.tiling.block_n} output channels: the weights of a stationary tile are {WS_ROWS} rows"
    return None


@dataclass(frozen=True, kw_only=True)
class Stationary(Sharing):
    """Columns that are shifted and zeroed by the multiplication itself."""

    rules: tuple[TilingRule, ...] = (*TILING_RULES[1:], ws_shape)

    def pixels(self, arch: Arch, request: Request) -> tuple[int, ...]:
        return WS_COLUMNS

    @property
    def alone(self) -> bool:
        return True

    def storage(
        self, layout: DeviceLayout, tiling: Tiling, arch: Arch, geometry: Geometry, ways: Ways | None = None
    ) -> Storage:
        """Lay out one CTA, which has its SM for itself.

        Pixels stay in collector buffers over commits and waits. No public source says what becomes of them where
        another CTA of the SM multiplies meanwhile.
        """
        storage = super().storage(layout, tiling, arch, geometry, ways)
        return replace(storage, smem_bytes=max(storage.smem_bytes, bytes_alone(arch)))

    def refuses(self, geometry: Geometry) -> str | None:
        """The condition that a cut breaks: the padding of a tile is a pattern that a zero-column mask can express."""
        refused = super().refuses(geometry)
        if refused is not None:
            return refused
        if geometry.stream.masked:
            return "several images in one stream need whole rows masked, which no zero-column mask can say"
        return None if geometry.walk.border == "zero" else _no_zero_mask(geometry)

    def tilings(self, layout: DeviceLayout, request: Request, geometry: Geometry) -> Iterator[Depths]:
        """Candidates of the one width that weights can have."""
        fixed = request if request.block_n is not None else dataclasses.replace(request, block_n=WS_ROWS)
        return super().tilings(layout, fixed, geometry)

    def tensor_tiles(self, layout: DeviceLayout, tiling: Tiling, arch: Arch) -> tuple[TmemTile, ...]:
        """The accumulator alone."""
        return (TmemTile(name=ACC, lanes=arch.limits.tmem_lanes, columns=tiling.block_m, column_offset=0),)

    def masks(self, layout: DeviceLayout, geometry: Geometry) -> int:
        """No lane is masked: columns are zeroed."""
        return 0

    def work(self, layout: DeviceLayout, tiling: Tiling, pipeline: Pipeline, geometry: Geometry, arch: Arch) -> CtaWork:
        """Count the K loop; a thread of the epilogue stores every pixel by itself."""
        rounds = pipeline.taps[0] * pipeline.blocks
        taps = rounds * pipeline.taps[1]
        rows = sum(self.tile_rows(geometry, buffer.halo) for buffer in geometry.walk.buffers)
        return CtaWork(
            mmas=taps * pipeline.atoms,
            m=tiling.block_n,
            n=tiling.block_m,
            activation_bytes=rounds * rows * tiling.row_bytes,
            filter_bytes=taps * tiling.block_n * tiling.row_bytes,
            row_bytes=tiling.row_bytes,
            stores=tiling.block_m,
            store_own=_store_own(layout, geometry),
            store_cycles=WS_ROWS * layout.problem.out_dtype.bytes / SECTOR_BYTES * arch.rates.sector_cycles,
            loads=taps + rounds * len(geometry.walk.buffers),
            rings=ring_uses(tiling, pipeline, geometry, loop="none"),
        )

    def multiply(self, plan: Plan) -> tuple[Step, ...]:
        """Multiply the weights of every filter column with the same pixels, shifted."""
        return (compute(row_coordinates(plan).start_w, "mma"), *k_loop(plan, _multiply))

    def epilogue(self, plan: Plan) -> tuple[Step, ...]:
        """Every lane carries one channel, some pixels at a time."""
        return _store(plan)


def _store_own(layout: DeviceLayout, geometry: Geometry) -> float:
    """Issue cycles of a thread for a pixel that it stores, as far as the tiles decide them."""
    own = PIXEL_STORE
    if geometry.stream.streams > 1 or geometry.all_tiles * geometry.tile.outputs > layout.problem.gemm_m:
        own += PIXEL_TEST
    if geometry.walk.waste and geometry.stream.last_row:
        own += PIXEL_DIVISION
    return own + (PIXEL_RESIDUAL if layout.problem.residual else 0.0)


def _no_zero_mask(geometry: Geometry) -> str | None:
    """Why the padding of a row is no pattern that a zero-column mask can express."""
    for buffer in geometry.walk.buffers:
        for tap in buffer.taps:
            zeroed = padding_run(geometry.walk, tap)[1]
            used = geometry.walk.period - zeroed
            if zeroed and used and max(zeroed, used) > RUN_LIMIT:
                return f"rows of {zeroed} columns of padding and {used} pixels; zero-column masks count to {RUN_LIMIT}"
    return None


def _multiply(tile: SharedTile) -> Iterator[Step]:
    """One activation tile with the weights of all its filter columns."""
    for place, tap in enumerate(shared(tile.plan).walk.buffers[tile.index].taps):
        yield from about(tile.column(Const(place)), *_tap(tile, tap, place))
    yield from release_tile(tile)


def _tap(tile: SharedTile, tap: Tap, place: int) -> Iterator[Step]:
    plan = tile.plan
    name = f"s{tap.s}"
    zeroing = _zeroing(tile, tap)
    if zeroing is not None:
        yield zeroing
    counter: NewNumber | None = None
    if tile.index == place == 0:
        counter = number("k_step")
        yield Compute(id="mma.k_step", note="0 in the first step of the tile", dst=counter, expr=tile.round)
    yield wait_for_filter(f"_{name}")
    yield MmaStationary(
        id=f"mma.multiply_{name}",
        note=f"weights of filter column {tap.s} x pixels {tap.lanes} columns on",
        acc=ACC,
        a=A,
        b=B,
        operand=plan.problem.operand,
        m=plan.tiling.block_n,
        n=plan.tiling.block_m,
        atoms=plan.pipeline.atoms,
        counter=counter,
        shift=tile.nest.number("read", "row", tap=place),
        reach=largest_halo(shared(plan)),
        runs=None if zeroing is None else _runs(plan, tap),
        entered=None if zeroing is None else zeroing.dst,
        filter_operand=plan.problem.filter_operand,
        collector=_collector(place, tile.taps),
    )
    yield from release_filter(plan, f"_{name}")


def _zeroed(plan: Plan, tap: Tap) -> tuple[int, int]:
    """First column of every row that a filter column zeroes, and how many."""
    walk = shared(plan).walk
    return padding_run(walk, tap) if walk.border == "mask" else (0, 0)


def _runs(plan: Plan, tap: Tap) -> tuple[int, int]:
    """Columns zeroed and used in turn; all, where a filter column never meets the image."""
    period = shared(plan).walk.period
    _, zeroed = _zeroed(plan, tap)
    return ALL_ZEROED if zeroed == period else (zeroed, period - zeroed)


def _zeroing(tile: SharedTile, tap: Tap) -> Compute | None:
    """The step that computes where in the pattern of zeroed columns a tile begins; None where none is zeroed."""
    walk = shared(tile.plan).walk
    first, zeroed = _zeroed(tile.plan, tap)
    if not zeroed:
        return None
    entered = tile.nest.sized(PADDED=first).value("entered", "place")
    return Compute(
        id=f"mma.entered_s{tap.s}",
        note=f"padding begins at column {first} of every {walk.period}",
        dst=number(f"entered_s{tap.s}"),
        expr=Const(0) if zeroed == walk.period else entered,
    )


def _collector(place: int, count: int) -> str:
    """Pixels are kept from the first filter column of a buffer to its last."""
    if count == 1:
        return "discard"
    if place == 0:
        return "fill"
    return "lastuse" if place == count - 1 else "use"


def _store(plan: Plan) -> tuple[Step, ...]:
    """The epilogue, where a lane has an output channel."""
    coordinates = row_coordinates(plan)
    column = number("column")
    rows = tuple(Number(f"m{i}") for i in range(CHUNK))
    bits = pixel_bits(plan)
    write = PixelStore(
        id="epilogue.write",
        note="one value per lane and pixel",
        buffer=OUT,
        out=plan.problem.out,
        columns=CHUNK,
        rows=rows,
        row_limit=plan.indexing.row_limit,
        row_bytes=plan.layout.k_pitch * plan.problem.out_dtype.bytes,
        channel=coordinates.k.name,
        channel_limit=plan.indexing.channel_limit,
    )
    bias = AddLaneBias(
        id="epilogue.bias",
        note="the lane's channel",
        buffer=BIAS,
        channel=coordinates.k.name,
        columns=CHUNK,
        dtype=plan.problem.sum_dtype.name,
    )
    body = (
        Compute(
            id="epilogue.column",
            note="first pixel of the chunk",
            dst=column,
            expr=share("chunk", "column", CHUNK=CHUNK),
        ),
        TmemLoad(id="epilogue.read", note="each lane reads one channel", acc=ACC, first=column, columns=CHUNK),
        *scale_lanes(plan, CHUNK),
        bias,
        *requantise_lanes(plan, CHUNK),
        *(
            compute(coordinates.m, "epilogue", bits, dst=row, lane=share("column of a chunk", "column", i=Const(i)))
            for i, row in enumerate(rows)
        ),
        *epilogue_steps(plan.problem.epilogue, write),
        write,
    )
    count = plan.tiling.block_m // CHUNK
    chunks = f"{CHUNK} pixels at a time"
    return (
        *core_of(plan.arch).lane(),
        compute(coordinates.k, "epilogue"),
        *core_of(plan.arch).accumulated(),
        Loop(id="epilogue.chunks", note=chunks, var=number("chunk"), count=count, body=body),
    )
