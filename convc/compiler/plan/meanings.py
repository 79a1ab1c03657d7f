"""The numbers of a kernel, said once more: in the numbers of the problem, without the derivation.

The formulas of a kernel come from theorems, and theorems hold for all sizes. Which number stands for which size is up
to code: it takes the padding of one axis and not of the other, the period of the walk, the tiles of the grid. What is
said here uses none of that code. It is what a theorem's formula says, written with what the user gave (`ConvProblem`)
and what the planner decided, so that `convc.compiler.plan.validation` can hold one against the other.

Variables are those of tile programs: ``tile_m``, ``lane``, ``tile_n``, ``column``, ``r``, ``s``, ``block``, ``window``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from convc.compiler.index.geometry import Geometry
from convc.compiler.index.row_stream import WINDOW
from convc.compiler.plan.names import RANK
from convc.compiler.plan.records import Pipeline, Tiling
from convc.host_layout.device_layout import DeviceLayout
from convc.ir.expr import And, Const, IntExpr, Less, Select, Var
from convc.ir.problem import ConvProblem

LANE, BLOCK, COLUMN, K, M, R, S = map(Var, ("lane", "block", "column", "k", "m", "r", "s"))
TILE_M = Var("tile_m")
TILE_N = Var("tile_n")

WALK = "the im2col walk from start(tile_m) is at the window of pixel (tile_m, lane)"
WALK_W = "pixel i of the walk from start is place t0 + i of the stream: both count T pixels a row"
TAPS = "window + (off_w, off_h) is the pixel that tap (r, s) reads"
TAP = "tap numbers the weights w[k, r, s, ...] of a filter once"
CHANNELS = "A and B hold the same channel of the group in column e"
FILTERS = "row `column` of the filter tile is output channel k"
PARTS = "row i of what CTA `rank` of a cluster brings is row rank*PIECE + i of the filter tile, each of them once"
PIXELS = "m numbers the output pixels"
PLACES = "t is the number of its digits"
STORE = "an output element (m, k) has a place of its own"
BEGIN = "a copy begins at the first pixel that the nest loads, where the walk leaves nothing out"
MASK_S = "the mask of filter axis s is that of the nest"
MASK_R = "the mask of filter axis r is that of the nest"
LANES_TILED = "m = BM*tile_m + lane is one (tile_m, lane)"
COLUMNS_TILED = "k = BN*tile_n + column is one (tile_n, column)"
"""Names of theorems, as `convc.derive` gives them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """A number of the kernel, and what it has to be.

    Attributes:
        name: the field of the coordinates.
        theorem: on whose formula it rests.
        value: the number.
    """

    name: str
    theorem: str
    value: IntExpr


def sizes_meant(
    layout: DeviceLayout, tiling: Tiling, pipeline: Pipeline, tiles_m: int, geometry: Geometry | None
) -> dict[str, int]:
    """The numbers of sizes, by their names in `convc.derive.symbols`.

    tiles_m: tiles of output pixels of the launch; geometry: of a kernel that walks along image rows.
    """
    problem = layout.problem
    extents = (*problem.in_extent, *problem.out_extent, *problem.kernel)
    sizes = dict(zip(("H", "W", "P", "Q", "R", "S"), extents, strict=True))
    common = math.gcd(problem.stride[1], problem.dilation[1])
    tiles = -(-problem.out_channels // tiling.block_n)
    sizes |= {"N": problem.batch, "C": problem.in_channels // problem.groups, "K": problem.out_channels}
    sizes |= {"K_g": problem.out_channels // problem.groups, "GROUP_TILES": tiles // problem.groups or 1}
    sizes |= {"u_h": problem.stride[0], "d_h": problem.dilation[0], "pad_h": problem.pad_lo[0]}
    sizes |= {"u": problem.stride[1] // common, "d": problem.dilation[1] // common, "pad_w": problem.pad_lo[1]}
    sizes |= {"g": common, "BM": tiling.block_m, "BN": tiling.block_n, "BK": pipeline.channels}
    sizes |= {"BLOCKS": -(-layout.c_pitch // pipeline.channels), "TILES_M": tiles_m, "TILES_N": tiles}
    sizes |= {"C_PITCH": layout.c_pitch, "K_PITCH": layout.k_pitch, "ELEMENT": problem.out_dtype.bytes}
    sizes |= {"B_ROWS": tiling.block_n // tiling.ctas, "ROW_BYTES": tiling.row_bytes}
    sizes["PIECE"] = sizes["B_ROWS"] // tiling.multicast[0]
    return sizes if geometry is None else sizes | _sizes_of_walk(geometry)


def _sizes_of_walk(geometry: Geometry) -> dict[str, int]:
    walk = geometry.walk
    tile = geometry.tile
    last = [buffer.taps[-1].lanes for buffer in walk.buffers]
    return {
        "T": walk.period,
        "lead": walk.lead,
        "Y": geometry.stream.image_rows,
        "TILES": geometry.tiles,
        "WINDOW": WINDOW,
        "WINDOWS": tile.windows,
        "USEFUL": tile.useful,
        "BUFFERS": len(walk.buffers),
        "TAPS": max(len(buffer.taps) for buffer in walk.buffers),
        "HALO": max(last),
    }


def common(layout: DeviceLayout, tiling: Tiling, pipeline: Pipeline) -> Iterator[Meaning]:
    """The numbers that every schedule has: filter taps, channels, filter rows."""
    problem = layout.problem
    channel = BLOCK * pipeline.channels
    yield Meaning(name="tap", theorem=TAP, value=R * problem.kernel[1] + S)
    yield Meaning(name="c", theorem=CHANNELS, value=channel)
    if problem.groups > 1:
        tiles = problem.out_channels // problem.groups // tiling.block_n
        yield Meaning(name="pack_c", theorem=CHANNELS, value=TILE_N // tiles * layout.c_pitch + channel)
    first = TILE_N * tiling.block_n
    yield Meaning(name="k", theorem=FILTERS, value=first + COLUMN)
    if tiling.ctas > 1:
        yield Meaning(name="first_k", theorem=PARTS, value=first + Var(RANK) * tiling.b_piece)
    elif tiling.multicast[0] > 1:
        yield Meaning(name="first_k", theorem=PARTS, value=first + TILE_M % tiling.multicast[0] * tiling.b_piece)
    else:
        yield Meaning(name="first_k", theorem=FILTERS, value=first)


def of_taps(layout: DeviceLayout, tiling: Tiling) -> Iterator[Meaning]:
    """The numbers of a kernel that loads pixels for every filter tap: an im2col copy, and the offset of the tap."""
    problem = layout.problem
    height, width = problem.out_extent
    down, across = problem.stride
    top, left = problem.pad_lo
    begins = TILE_M * tiling.block_m
    if tiling.multicast[1] > 1:
        begins += TILE_N % tiling.multicast[1] * tiling.a_piece
    pixel = TILE_M * tiling.block_m + LANE
    element = problem.out_dtype.bytes
    yield Meaning(name="start_w", theorem=WALK, value=begins % width * across - left)
    yield Meaning(name="start_h", theorem=WALK, value=begins // width % height * down - top)
    yield Meaning(name="start_n", theorem=WALK, value=begins // (width * height))
    yield Meaning(name="off_w", theorem=TAPS, value=S * problem.dilation[1])
    yield Meaning(name="off_h", theorem=TAPS, value=R * problem.dilation[0])
    yield Meaning(name="m", theorem=PIXELS, value=pixel)
    channel = TILE_N * tiling.block_n + COLUMN
    yield Meaning(name="out_byte", theorem=STORE, value=(pixel * layout.k_pitch + channel) * element)


class LanePlaces:
    """The places of the lanes of a tile in the stream of output pixels.

    Attributes:
        stream: which stream.
        first, t: places of the first lane of a window, and of the lane.
        inside: number of the lane in its window.
        row, n, p, q: of the lane's place; q beyond the outputs of a row maybe.
    """

    def __init__(self, geometry: Geometry, window: IntExpr) -> None:
        stream = geometry.stream
        tile = geometry.tile
        period = geometry.walk.period
        self.stream: IntExpr = Const(0) if stream.merged else TILE_M // geometry.tiles
        of_stream = TILE_M - self.stream * geometry.tiles
        self.first = of_stream * tile.outputs + window * tile.useful
        self.inside = LANE - window * WINDOW
        self.t = self.first + self.inside
        self.row = self.t // period
        self.q = self.t % period
        self.n = self.row // stream.image_rows if stream.merged else self.row
        self.p = self.row % stream.image_rows if stream.merged else self.stream


def of_rows(layout: DeviceLayout, geometry: Geometry, *, masks: bool) -> Iterator[Meaning]:
    """The numbers of a kernel that walks along image rows: copies, pixels, and the masks of lanes if it has any."""
    problem = layout.problem
    yield from _copies(problem, geometry)
    places = LanePlaces(geometry, LANE // WINDOW if geometry.windowed else Const(0))
    real = _real(problem, geometry, places)
    number = (places.n * problem.out_extent[0] + places.p) * problem.out_extent[1] + places.q
    yield Meaning(name="m", theorem=PLACES, value=Select(real, number, Const(problem.gemm_m)))
    yield Meaning(name="out_byte", theorem=STORE, value=(M * layout.k_pitch + K) * problem.out_dtype.bytes)
    if masks and geometry.walk.border == "mask":
        yield Meaning(name="column_mask", theorem=MASK_S, value=_column_mask(problem, geometry, places, real))
    if masks and geometry.stream.masked:
        yield Meaning(name="line_mask", theorem=MASK_R, value=_line_mask(problem, places, real))


def _copies(problem: ConvProblem, geometry: Geometry) -> Iterator[Meaning]:
    """Where the copy of a window begins: `lead` pixels behind its first place, padding that the walk leaves out."""
    down, across = problem.stride
    top, left = problem.pad_lo
    places = LanePlaces(geometry, Var("window") if geometry.windowed else Const(0))
    row = places.first // geometry.walk.period
    below = R * problem.dilation[0]
    stream = geometry.stream
    yield Meaning(name="start_w", theorem=WALK_W, value=places.first % geometry.walk.period * across - left)
    if stream.boxed:
        yield Meaning(name="start_h", theorem=BEGIN, value=row % stream.image_rows * down - top)
        yield Meaning(name="start_n", theorem=BEGIN, value=row // stream.image_rows)
        yield Meaning(name="off_h", theorem=BEGIN, value=below)
    elif stream.merged:
        yield Meaning(name="start_row", theorem=BEGIN, value=row * down + below - top)
    else:
        yield Meaning(name="start_h", theorem=BEGIN, value=places.stream * down + below - top)
        yield Meaning(name="start_n", theorem=BEGIN, value=row)


def _real(problem: ConvProblem, geometry: Geometry, places: LanePlaces) -> And:
    """Whether a lane has an output pixel."""
    height, width = problem.out_extent
    ends = ((places.q, width), (places.p, height), (places.n, problem.batch), (places.inside, geometry.tile.useful))
    return And(tuple(Less(value, Const(end)) for value, end in ends))


def _within(value: IntExpr, end: int) -> tuple[Less, Less]:
    return Less(Const(-1), value), Less(value, Const(end))


def _column_mask(problem: ConvProblem, geometry: Geometry, places: LanePlaces, real: And) -> IntExpr:
    """1 where a lane needs padding at filter column s and finds a pixel of another row, else 0."""
    stride = problem.stride[1]
    dilation = problem.dilation[1]
    left = problem.pad_lo[1]
    width = problem.in_extent[1]
    walk = geometry.walk
    shared = len(walk.buffers)  # column s is in buffer s mod `shared`, each `shared` columns a whole number of lanes on
    buffer = S % shared
    number = places.t + S // shared * (shared * dilation // stride) - walk.lead
    need = places.q * stride + S * dilation - left
    held = number % walk.period * stride + (walk.lead * stride - left) + buffer * dilation
    passed = number - places.first // walk.period * walk.period
    found = And((*real.args, Less(Const(-1), passed), *_within(held, width)))
    return Select(And(_within(need, width)), Const(0), Select(found, Const(1), Const(0)))


def _line_mask(problem: ConvProblem, places: LanePlaces, real: And) -> IntExpr:
    """1 where a lane needs padding at filter row r and finds a row of another image, else 0."""
    below = R * problem.dilation[0] - problem.pad_lo[0]
    height = problem.in_extent[0]
    need, held = (row * problem.stride[0] + below for row in (places.p, places.row))
    found = And((*real.args, *_within(held, problem.batch * height)))
    return Select(And(_within(need, height)), Const(0), Select(found, Const(1), Const(0)))
