"""The output pixels of lanes that follow a stream: consecutive ones, or those that an im2col copy visits.

A stream may have more places than output pixels: what its rows are longer by, rows that hold no output, places behind
the last image. An im2col copy from global memory walks through a bounding box that may be larger than the tensor, and
fills what lies outside with zeros (PTX manual, tensor im2col mode). A box with the rows and columns of the stream is
walked through place by place, so that a residual arrives in the lanes that need it.
"""

from __future__ import annotations

import msgspec

from convc.compiler.index.geometry import Geometry
from convc.compiler.index.lower import translate
from convc.compiler.index.maps import Counterexample, IndexMap, Outcome, Proof
from convc.compiler.index.presburger import differ
from convc.compiler.index.reuse import ReuseMaps
from convc.compiler.index.symbols import Axis
from convc.ir.arch import SM_100A
from convc.ir.expr import Interval, IntExpr, Var, evaluate, substitute
from convc.ir.problem import ConvProblem

AXES = ("q", "p", "n")
"""The axes of the output, those of channels left out, innermost first."""


class ResultBox(msgspec.Struct, frozen=True, kw_only=True):
    """The box that a copy walks through.

    Attributes:
        axes: of the output, innermost first: rows of a stream are output rows of one image after the other, or the same
            output row of all images.
        columns, rows: of the box: places of a row of the stream, and rows before the outermost axis moves on.
        upper: by how much it is larger than the tensor along its first two axes.
    """

    axes: tuple[str, str, str]
    columns: int
    rows: int
    upper: tuple[int, int]


def consecutive(problem: ConvProblem, geometry: Geometry) -> bool:
    """Whether the places of a stream are output pixels one after the other, up to the last one."""
    height, width = problem.out_extent
    stream = geometry.stream
    same = geometry.walk.period == width and stream.merged and stream.image_rows == height
    return same and geometry.tile.outputs == geometry.tile.lanes


def result_box(problem: ConvProblem, geometry: Geometry) -> ResultBox | str:
    """The box of a stream, or why no tensor map has it."""
    height, width = problem.out_extent
    stream = geometry.stream
    axes = AXES
    rows = stream.image_rows
    extent = height
    if not stream.merged:  # images follow each other, and what lies behind the last one still belongs to the same row
        axes = ("q", "n", "p")
        extent = problem.batch
        rows = max(extent, -(-geometry.tiles * geometry.tile.outputs // geometry.walk.period))
    upper = (geometry.walk.period - width, rows - extent)
    _, most = SM_100A.limits.im2col_corner
    if max(upper) > most:
        return (
            f"the stream has {upper[0]} places a row and {upper[1]} rows behind those of the output, and the "
            f"corners of an im2col map go to {most}"
        )
    return ResultBox(axes=axes, columns=geometry.walk.period, rows=rows, upper=upper)


def first_pixel(maps: ReuseMaps, rows: int) -> IndexMap:
    """(tile_m, warp) -> n, p, q, m: the place of the first of a warp's rows, inside the output or not."""
    tile_m, lane = maps.pixel.domain
    warp = Axis("warp", maps.tile.lanes // rows)
    results = tuple((name, expr.xreplace({lane.symbol: warp.symbol * rows})) for name, expr in maps.pixel.results)
    return IndexMap(name="first_pixel", domain=(tile_m, warp), results=results).simplified()


def prove_consecutive(maps: ReuseMaps, rows: int) -> Outcome:
    """Whether so many lanes, from a multiple of that number on, are consecutive output pixels."""
    claim = f"{rows} lanes are consecutive output pixels, and those behind the last one have none"
    first = first_pixel(maps, rows)
    walked = {"m": translate(first["m"]) + Var("row")}
    refuted = _apart(maps, first, rows, rows, walked, claim)
    text = f"rows of the stream are those of the output, {maps.walk.period} pixels each"
    return refuted or Proof(claim, text)


def prove_walked(maps: ReuseMaps, box: ResultBox, rows: int) -> Outcome:
    """Whether a copy that starts at the first of so many lanes visits the output pixels of all of them, in order.

    Args:
        maps: the maps of the stream.
        box: the box that the copy walks through.
        rows: lanes from one copy to the next; those of a window that hold no output may get anything.
    """
    count = min(rows, maps.tile.useful)
    claim = f"{count} pixels of a copy of the residual are those of its lanes, and lie outside where lanes have none"
    first = first_pixel(maps, rows)
    q, inner, outer = (translate(first[axis]) for axis in box.axes)
    number = (outer * box.rows + inner) * box.columns + q + Var("row")
    walked = {
        box.axes[0]: number % box.columns,
        box.axes[1]: number // box.columns % box.rows,
        box.axes[2]: number // (box.columns * box.rows),
    }
    refuted = _apart(maps, first, rows, count, walked, claim)
    return refuted or Proof(claim, f"both count {box.columns} places a row, and {box.rows} rows along {box.axes[1]}")


def _apart(
    maps: ReuseMaps, first: IndexMap, rows: int, count: int, walked: dict[str, IntExpr], claim: str
) -> Counterexample | None:
    """The first lane whose place in the output is not the one that a copy from its warp's first row has."""
    ranges: dict[str, Interval] = {**first.ranges, "row": (0, count - 1)}
    lane = Var("warp") * rows + Var("row")
    for name, place in walked.items():
        found = substitute(translate(maps.pixel[name]), {"lane": lane})
        wrong = differ(ranges, (), place, found)
        if wrong is not None:
            value = f"{name} = {evaluate(place, wrong)}, not {evaluate(found, wrong)}"
            return Counterexample(claim, tuple(wrong.items()), value)
    return None
