"""The index maps of a convolution whose filter columns share their activations.

    stream      (tile_m, lane)       -> t              place in the stream of output pixels, padding of rows included
    place       t                    -> row, q         row = t // P, q = t mod P, where P is the walk's period
    pixel       (tile_m, lane)       -> n, p, q, m     the output pixel of a lane, guarded to real ones
    start       (tile_m, window)     -> w, row         where the copy of a window begins
    needed      (row, q, s)          -> row, w         what filter column s needs in lane t = row*P + q
    held        (row, q, s)          -> row, w         what that lane holds after j(s) moves
    column      (tile_m, lane, s)    -> need, held, passed    the same for the lanes of a tile, for the mask of s
    line        (tile_m, lane, r)    -> need, held     the row that filter row r needs there, and the one that it finds

`convc.index.row_walk` derives the numbers in them, `convc.index.reuse_claims` proves them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from sympy import Expr, Integer

from convc.errors import PlanError
from convc.index.maps import IndexMap, Outcome, less, simplify_guards
from convc.index.row_stream import WINDOW, LaneTile, RowStream, merged_stream, outer_stream
from convc.index.row_walk import Border, RowProblem, RowWalk, row_walk
from convc.index.symbols import Axis, FloorDiv, Mod
from convc.problem import ConvProblem


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """How a problem is cut into tiles: the walk, the stream, the lanes of a tile, and tiles per stream."""

    walk: RowWalk
    stream: RowStream
    tile: LaneTile
    tiles: int

    @property
    def all_tiles(self) -> int:
        """Tiles of all streams."""
        return self.stream.streams * self.tiles


@dataclass(frozen=True, slots=True, kw_only=True)
class ReuseMaps:
    """The maps of the table above, what they were derived from, and what was proved about them."""

    problem: ConvProblem
    walk: RowWalk
    stream: RowStream
    tile: LaneTile
    tiles: int
    place: IndexMap
    pixel: IndexMap
    start: IndexMap
    needed: IndexMap
    held: IndexMap
    column: IndexMap
    line: IndexMap
    dropped: tuple[tuple[str, str], ...]
    proofs: tuple[Outcome, ...] = ()

    @property
    def maps(self) -> tuple[IndexMap, ...]:
        """All maps, in reading order."""
        return (self.place, self.pixel, self.start, self.needed, self.held, self.column, self.line)


def row_problem(problem: ConvProblem) -> RowProblem:
    """The convolution along W."""
    return RowProblem(
        width=problem.in_extent[1], outputs=problem.out_extent[1], taps=problem.kernel[1],
        stride=problem.stride[1], dilation=problem.dilation[1], pad=problem.pad_lo[1],
    )  # fmt: skip


def lane_tile(walk: RowWalk, lanes: int, windowed: bool) -> LaneTile:
    """Contiguous lanes, or windows of 32 that overlap by the halo; PlanError where a window has no lane left."""
    if not windowed:
        return LaneTile(lanes=lanes, windows=1, useful=lanes)
    halo = max(buffer.halo for buffer in walk.buffers)
    if halo >= WINDOW:
        raise PlanError(f"windows of {WINDOW} lanes cannot overlap by a halo of {halo}")
    return LaneTile(lanes=lanes, windows=lanes // WINDOW, useful=WINDOW - halo)


def geometry(
    problem: ConvProblem, *, merged: bool, border: Border, lanes: int = 128, windowed: bool = False
) -> Geometry:
    """Cut a problem into tiles.

    Args:
        problem: the convolution that the kernel runs (two spatial axes).
        merged: whether all output rows are in one stream (see `convc.index.row_stream`).
        border: how lanes whose pixel is padding get their zero.
        lanes: output pixels of a tile.
        windowed: whether a tile is made of overlapping windows of 32 lanes.

    Raises:
        PlanError: the rows do not merge, or the windows have no lane left; the message has the numbers.
    """
    stream = merged_stream(problem) if merged else outer_stream(problem)
    if isinstance(stream, str):
        raise PlanError(f"the output rows cannot be one stream: {stream}", where=f"convolution {problem.name!r}")
    walk = row_walk(row_problem(problem), border)
    tile = lane_tile(walk, lanes, windowed)
    length = _last_row(problem, stream) * walk.period + problem.out_extent[1]
    return Geometry(walk=walk, stream=stream, tile=tile, tiles=-(-length // tile.outputs))


def reuse_maps(
    problem: ConvProblem, *, merged: bool, border: Border, lanes: int = 128, windowed: bool = False
) -> ReuseMaps:
    """Derive the maps of one tiling (arguments and errors as of `geometry`).

    They are not proved yet: see `convc.index.reuse_claims.prove`.
    """
    cut = geometry(problem, merged=merged, border=border, lanes=lanes, windowed=windowed)
    maker = _Maker(problem, cut.walk, cut.stream, cut.tile, cut.tiles)
    pixel = simplify_guards(maker.pixel().simplified())
    return ReuseMaps(
        problem=problem, walk=cut.walk, stream=cut.stream, tile=cut.tile, tiles=cut.tiles,
        place=maker.place(), pixel=pixel.map, start=maker.start().simplified(), needed=maker.needed(),
        held=maker.held(), column=maker.column().simplified(), line=maker.line().simplified(), dropped=pixel.dropped,
    )  # fmt: skip


def with_proofs(maps: ReuseMaps, proofs: tuple[Outcome, ...]) -> ReuseMaps:
    """The same maps with what was proved about them."""
    return replace(maps, proofs=proofs)


def _last_row(problem: ConvProblem, stream: RowStream) -> int:
    """Number of the last row of a stream that holds an output."""
    return stream.rows - stream.image_rows + (problem.out_extent[0] - 1 if stream.merged else 0)


@dataclass(frozen=True, slots=True)
class _Maker:
    """Builds the maps; the expressions that several of them share are methods."""

    problem: ConvProblem
    walk: RowWalk
    stream: RowStream
    tile: LaneTile
    tiles: int

    # ---- axes and shared expressions ---------------------------------------------------------------------------------

    @property
    def tile_m(self) -> Axis:
        return Axis("tile_m", self.stream.streams * self.tiles)

    @property
    def lane(self) -> Axis:
        return Axis("lane", self.tile.lanes)

    def first(self, window: Expr | int) -> Expr:
        """Place of a window's first lane in its stream."""
        inside = Mod(self.tile_m.symbol, Integer(self.tiles)) if self.stream.streams > 1 else self.tile_m.symbol
        return inside * self.tile.outputs + window * self.tile.useful

    def window_of(self) -> Expr:
        """Window of a lane."""
        return FloorDiv(self.lane.symbol, Integer(WINDOW)) if self.tile.windows > 1 else Integer(0)

    def inside_window(self) -> Expr:
        """Number of a lane in its window."""
        return Mod(self.lane.symbol, Integer(WINDOW)) if self.tile.windows > 1 else self.lane.symbol

    def t(self) -> Expr:
        """Place of a lane in its stream."""
        return self.first(self.window_of()) + self.inside_window()

    def offset(self, s: Expr) -> Expr:
        """Offset o of the buffer of filter column s: d times the first column with the same remainder of s*d by u."""
        return self.problem.dilation[1] * Mod(s, Integer(self.cycle))

    def moves(self, s: Expr) -> Expr:
        """Lanes j = (s*d - o) / u that the buffer has moved by when filter column s multiplies."""
        each = self.cycle * self.problem.dilation[1] // self.problem.stride[1]
        return each * FloorDiv(s, Integer(self.cycle))

    @property
    def cycle(self) -> int:
        """Filter columns after which the same buffer comes again: u / gcd(u, d)."""
        stride, dilation = self.problem.stride[1], self.problem.dilation[1]
        return stride // math.gcd(stride, dilation)

    # ---- maps --------------------------------------------------------------------------------------------------------

    def place(self) -> IndexMap:
        t, period = Axis("t", self.tiles * self.tile.outputs), Integer(self.walk.period)
        return IndexMap(
            name="place", domain=(t,), results=(("row", FloorDiv(t.symbol, period)), ("q", Mod(t.symbol, period)))
        )

    def pixel(self) -> IndexMap:
        (out_h, out_w), period = self.problem.out_extent, Integer(self.walk.period)
        row, q = FloorDiv(self.t(), period), Mod(self.t(), period)
        n, p = row, FloorDiv(self.tile_m.symbol, Integer(self.tiles))
        if self.stream.merged:
            n, p = FloorDiv(row, Integer(self.stream.image_rows)), Mod(row, Integer(self.stream.image_rows))
        return IndexMap(
            name="pixel", domain=(self.tile_m, self.lane),
            results=(("n", n), ("p", p), ("q", q), ("m", (n * out_h + p) * out_w + q)),
            guard=(
                less(q, out_w), less(p, out_h), less(n, self.problem.batch),
                less(self.inside_window(), self.tile.useful),
            ),
        )  # fmt: skip

    def start(self) -> IndexMap:
        window = Axis("window", self.tile.windows)
        t = self.first(window.symbol)
        row, q = FloorDiv(t, Integer(self.walk.period)), Mod(t, Integer(self.walk.period))
        results = [("w", self.problem.stride[1] * q - self.problem.pad_lo[1]), ("row", row)]
        if not self.stream.merged:
            results.append(("p", FloorDiv(self.tile_m.symbol, Integer(self.tiles))))
        return IndexMap(name="start", domain=(self.tile_m, window), results=tuple(results))

    def _axes(self) -> tuple[Axis, Axis, Axis]:
        return (
            Axis("row", self.stream.rows), Axis("q", self.problem.out_extent[1]), Axis("s", self.problem.kernel[1])
        )  # fmt: skip

    def needed(self) -> IndexMap:
        row, q, s = self._axes()
        return IndexMap(
            name="needed", domain=(row, q, s), results=(("row", row.symbol), ("w", self._need(q.symbol, s.symbol)))
        )

    def held(self) -> IndexMap:
        row, q, s = self._axes()
        number = row.symbol * self.walk.period + q.symbol + self.moves(s.symbol) - self.walk.lead
        return IndexMap(
            name="held", domain=(row, q, s),
            results=(("row", FloorDiv(number, Integer(self.walk.period))), ("w", self._have(number, s.symbol))),
        )  # fmt: skip

    def column(self) -> IndexMap:
        s, period = Axis("s", self.problem.kernel[1]), Integer(self.walk.period)
        number = self.t() + self.moves(s.symbol) - self.walk.lead
        begun = period * FloorDiv(self.first(self.window_of()), period)
        return IndexMap(
            name="column", domain=(self.tile_m, self.lane, s),
            results=(
                ("need", self._need(Mod(self.t(), period), s.symbol)), ("held", self._have(number, s.symbol)),
                ("passed", number - begun),
            ),
        )  # fmt: skip

    def line(self) -> IndexMap:
        r, row = Axis("r", self.problem.kernel[0]), FloorDiv(self.t(), Integer(self.walk.period))
        p = Mod(row, Integer(self.stream.image_rows)) if self.stream.merged else FloorDiv(
            self.tile_m.symbol, Integer(self.tiles)
        )  # fmt: skip
        return IndexMap(
            name="line", domain=(self.tile_m, self.lane, r),
            results=(("need", self._image_row(p, r.symbol)), ("held", self._image_row(row, r.symbol))),
        )  # fmt: skip

    def _need(self, q: Expr, s: Expr) -> Expr:
        return self.problem.stride[1] * q + self.problem.dilation[1] * s - self.problem.pad_lo[1]

    def _have(self, number: Expr, s: Expr) -> Expr:
        x = self.walk.lead + Mod(number, Integer(self.walk.period))
        return self.problem.stride[1] * x + self.offset(s) - self.problem.pad_lo[1]

    def _image_row(self, p: Expr, r: Expr) -> Expr:
        return self.problem.stride[0] * p + self.problem.dilation[0] * r - self.problem.pad_lo[0]
