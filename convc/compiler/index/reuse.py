"""The index maps of a convolution whose filter columns share their activations.

    stream      (tile_m, lane)       -> t              place in the stream of output pixels, padding of rows included
    place       t                    -> row, q         row = t // P, q = t mod P, where P is the walk's period
    pixel       (tile_m, lane)       -> n, p, q, m     the output pixel of a lane, guarded to real ones
    start       (tile_m, window)     -> w, row         where the copy of a window begins
    needed      (row, q, s)          -> row, w         what filter column s needs in lane t = row*P + q
    held        (row, q, s)          -> row, w         what that lane holds after j(s) moves
    column      (tile_m, lane, s)    -> need, held, passed    the same for the lanes of a tile, for the mask of s
    line        (tile_m, lane, r)    -> need, held     the row that filter row r needs there, and the one that it finds

`convc.compiler.index.row_walk` derives the numbers in them.
"""

from __future__ import annotations

from collections.abc import Mapping

from convc.compiler.index.formulas import Instance
from convc.compiler.index.geometry import Geometry, form_of
from convc.compiler.index.maps import Axis, IndexMap, Outcome
from convc.compiler.index.row_stream import WINDOW
from convc.derived.numbers import problem_sizes
from convc.ir.expr import And, Const, IntExpr, Select
from convc.ir.problem import ConvProblem


class ReuseMaps(Geometry, frozen=True, kw_only=True):
    """A geometry with the maps of the table above, what they were derived from, and what was proved about them."""

    problem: ConvProblem
    pixel: IndexMap
    start: IndexMap
    column: IndexMap
    line: IndexMap
    proofs: tuple[Outcome, ...] = ()

    @property
    def maps(self) -> tuple[IndexMap, ...]:
        """All maps, in reading order."""
        shared = shared_instance(self.problem, self)
        place, needed, held = (shared.map(name, small=False) for name in ("place", "needed", "held"))
        return (place, self.pixel, self.start, needed, held, self.column, self.line)


def reuse_maps(problem: ConvProblem, geometry: Geometry) -> ReuseMaps:
    """Give the maps of a problem (two spatial axes) that `geometry_of` cuts into tiles."""
    shared = shared_instance(problem, geometry)
    return ReuseMaps(
        problem=problem,
        form=geometry.form,
        walk=geometry.walk,
        stream=geometry.stream,
        tile=geometry.tile,
        tiles=geometry.tiles,
        grid=geometry.grid,
        spare=geometry.spare,
        pixel=shared.map("pixel"),
        start=shared.map("start"),
        column=shared.map("lanes_s", called="column"),
        line=shared.map("lanes_r", called="line"),
    )


def output_pixel(maps: ReuseMaps) -> IntExpr:
    """Number of the lane's output pixel; a number past the last one where it has none."""
    number = maps.pixel["m"]
    if not maps.pixel.guard:
        return number
    return Select(And(maps.pixel.conditions), number, Const(maps.problem.gemm_m))


def shared_instance(
    problem: ConvProblem, geometry: Geometry, form: str = "", tiling: Mapping[str, int] | None = None
) -> Instance:
    """The derivation of a schedule that shares activations, with the numbers of a problem and of its cut.

    Args:
        form: of the schedule; by default one that can cut the output so.
        tiling: the numbers of a tile's channels, for what depends on them.
    """
    walk = geometry.walk
    stream = geometry.stream
    tile = geometry.tile
    sizes = problem_sizes(problem)
    sizes |= {
        "BM": tile.lanes,
        "T": walk.period,
        "Y": stream.image_rows,
        "lead": walk.lead,
        "TILES": geometry.tiles,
        "TILES_M": geometry.all_tiles,
        "WINDOW": WINDOW,
        "WINDOWS": tile.windows,
        "USEFUL": tile.useful,
        "BUFFERS": len(walk.buffers),
        "TAPS": max(len(buffer.taps) for buffer in walk.buffers),
        "HALO": max(buffer.halo for buffer in walk.buffers),
    }
    extents = {
        "tile_m": geometry.all_tiles,
        "lane": tile.lanes,
        "window": tile.windows,
        "t": geometry.tiles * tile.outputs,
        "row": stream.rows,
        "q": sizes["Q"],
        "r": sizes["R"],
        "s": sizes["S"],
        "buffer": sizes["BUFFERS"],
        "tap": sizes["TAPS"],
    }
    axes = {name: Axis(name, extent) for name, extent in extents.items()}
    return Instance(form or form_of(geometry), sizes | dict(tiling or {}), axes)
