"""The index maps of a convolution whose filter columns share their activations.

    stream      (tile_m, lane)       -> t              place in the stream of output pixels, padding of rows included
    place       t                    -> row, q         row = t // P, q = t mod P, where P is the walk's period
    pixel       (tile_m, lane)       -> n, p, q, m     the output pixel of a lane, guarded to real ones
    start       (tile_m, window)     -> w, row         where the copy of a window begins
    needed      (row, q, s)          -> row, w         what filter column s needs in lane t = row*P + q
    held        (row, q, s)          -> row, w         what that lane holds after j(s) moves
    column      (tile_m, lane, s)    -> need, held, passed    the same for the lanes of a tile, for the mask of s
    line        (tile_m, lane, r)    -> need, held     the row that filter row r needs there, and the one that it finds

`convc.compiler.index.row_walk` derives the numbers in them, `convc.compiler.index.reuse_claims` proves them.
"""

from __future__ import annotations

import math

import msgspec

from convc.compiler.index.geometry import Geometry
from convc.compiler.index.linear import Expr, Integer
from convc.compiler.index.maps import IndexMap, Outcome, less, simplify_guards
from convc.compiler.index.row_stream import WINDOW
from convc.compiler.index.symbols import Axis, FloorDiv, Mod
from convc.ir.problem import ConvProblem


class ReuseMaps(Geometry, frozen=True, kw_only=True):
    """A geometry with the maps of the table above, what they were derived from, and what was proved about them."""

    problem: ConvProblem
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


def reuse_maps(problem: ConvProblem, geometry: Geometry) -> ReuseMaps:
    """Derive the maps of a problem (two spatial axes) that `convc.compiler.index.geometry.geometry_of` cuts into tiles.

    They are not proved yet: see `convc.compiler.index.reuse_claims.prove`.
    """
    maker = _Maker(problem, geometry)
    pixel = simplify_guards(maker.pixel().simplified())
    return ReuseMaps(
        problem=problem,
        walk=geometry.walk,
        stream=geometry.stream,
        tile=geometry.tile,
        tiles=geometry.tiles,
        spare=geometry.spare,
        place=maker.place(),
        pixel=pixel.map,
        start=maker.start().simplified(),
        needed=maker.needed(),
        held=maker.held(),
        column=maker.column().simplified(),
        line=maker.line().simplified(),
        dropped=pixel.dropped,
    )


class _Maker(msgspec.Struct, frozen=True):
    """Builds the maps; the expressions that several of them share are methods."""

    problem: ConvProblem
    geometry: Geometry

    # ---- axes and shared expressions ---------------------------------------------------------------------------------

    @property
    def tile_m(self) -> Axis:
        return Axis("tile_m", self.geometry.all_tiles)

    @property
    def lane(self) -> Axis:
        return Axis("lane", self.geometry.tile.lanes)

    def first(self, window: Expr | int) -> Expr:
        """Place of a window's first lane in its stream."""
        inside = Mod(self.tile_m.symbol, Integer(self.geometry.tiles)) if self.geometry.several else self.tile_m.symbol
        return inside * self.geometry.tile.outputs + window * self.geometry.tile.useful

    def window_of(self) -> Expr:
        """Window of a lane."""
        return FloorDiv(self.lane.symbol, Integer(WINDOW)) if self.geometry.windowed else Integer(0)

    def inside_window(self) -> Expr:
        """Number of a lane in its window."""
        return Mod(self.lane.symbol, Integer(WINDOW)) if self.geometry.windowed else self.lane.symbol

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
        stride = self.problem.stride[1]
        dilation = self.problem.dilation[1]
        return stride // math.gcd(stride, dilation)

    # ---- maps --------------------------------------------------------------------------------------------------------

    def place(self) -> IndexMap:
        t = Axis("t", self.geometry.tiles * self.geometry.tile.outputs)
        period = Integer(self.geometry.walk.period)
        return IndexMap(
            name="place", domain=(t,), results=(("row", FloorDiv(t.symbol, period)), ("q", Mod(t.symbol, period)))
        )

    def pixel(self) -> IndexMap:
        out_h, out_w = self.problem.out_extent
        period = Integer(self.geometry.walk.period)
        row = FloorDiv(self.t(), period)
        q = Mod(self.t(), period)
        n = row
        p = FloorDiv(self.tile_m.symbol, Integer(self.geometry.tiles))
        if self.geometry.stream.merged:
            n = FloorDiv(row, Integer(self.geometry.stream.image_rows))
            p = Mod(row, Integer(self.geometry.stream.image_rows))
        return IndexMap(
            name="pixel",
            domain=(self.tile_m, self.lane),
            results=(("n", n), ("p", p), ("q", q), ("m", (n * out_h + p) * out_w + q)),
            guard=(
                less(q, out_w),
                less(p, out_h),
                less(n, self.problem.batch),
                less(self.inside_window(), self.geometry.tile.useful),
            ),
        )

    def start(self) -> IndexMap:
        window = Axis("window", self.geometry.tile.windows)
        t = self.first(window.symbol)
        row = FloorDiv(t, Integer(self.geometry.walk.period))
        q = Mod(t, Integer(self.geometry.walk.period))
        results = [("w", self.problem.stride[1] * q - self.problem.pad_lo[1]), ("row", row)]
        if not self.geometry.stream.merged:
            results.append(("p", FloorDiv(self.tile_m.symbol, Integer(self.geometry.tiles))))
        return IndexMap(name="start", domain=(self.tile_m, window), results=tuple(results))

    def _axes(self) -> tuple[Axis, Axis, Axis]:
        return (
            Axis("row", self.geometry.stream.rows),
            Axis("q", self.problem.out_extent[1]),
            Axis("s", self.problem.kernel[1]),
        )

    def needed(self) -> IndexMap:
        row, q, s = self._axes()
        return IndexMap(
            name="needed", domain=(row, q, s), results=(("row", row.symbol), ("w", self._need(q.symbol, s.symbol)))
        )

    def held(self) -> IndexMap:
        row, q, s = self._axes()
        number = row.symbol * self.geometry.walk.period + q.symbol + self.moves(s.symbol) - self.geometry.walk.lead
        return IndexMap(
            name="held",
            domain=(row, q, s),
            results=(
                ("row", FloorDiv(number, Integer(self.geometry.walk.period))),
                ("w", self._have(number, s.symbol)),
            ),
        )

    def column(self) -> IndexMap:
        s = Axis("s", self.problem.kernel[1])
        period = Integer(self.geometry.walk.period)
        number = self.t() + self.moves(s.symbol) - self.geometry.walk.lead
        begun = period * FloorDiv(self.first(self.window_of()), period)
        return IndexMap(
            name="column",
            domain=(self.tile_m, self.lane, s),
            results=(
                ("need", self._need(Mod(self.t(), period), s.symbol)),
                ("held", self._have(number, s.symbol)),
                ("passed", number - begun),
            ),
        )

    def line(self) -> IndexMap:
        r = Axis("r", self.problem.kernel[0])
        row = FloorDiv(self.t(), Integer(self.geometry.walk.period))
        p = (
            Mod(row, Integer(self.geometry.stream.image_rows))
            if self.geometry.stream.merged
            else FloorDiv(self.tile_m.symbol, Integer(self.geometry.tiles))
        )
        return IndexMap(
            name="line",
            domain=(self.tile_m, self.lane, r),
            results=(("need", self._image_row(p, r.symbol)), ("held", self._image_row(row, r.symbol))),
        )

    def _need(self, q: Expr, s: Expr) -> Expr:
        return self.problem.stride[1] * q + self.problem.dilation[1] * s - self.problem.pad_lo[1]

    def _have(self, number: Expr, s: Expr) -> Expr:
        x = self.geometry.walk.lead + Mod(number, Integer(self.geometry.walk.period))
        return self.problem.stride[1] * x + self.offset(s) - self.problem.pad_lo[1]

    def _image_row(self, p: Expr, r: Expr) -> Expr:
        return self.problem.stride[0] * p + self.problem.dilation[0] * r - self.problem.pad_lo[0]
