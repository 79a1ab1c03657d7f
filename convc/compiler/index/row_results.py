"""The output pixels of lanes that follow a stream: consecutive ones, or those that an im2col copy visits.

A stream may have more places than output pixels: what its rows are longer by, rows that hold no output, places behind
the last image. An im2col copy from global memory walks through a bounding box that may be larger than the tensor, and
fills what lies outside with zeros (PTX manual, tensor im2col mode). A box with the rows and columns of the stream is
walked through place by place, so that a residual arrives in the lanes that need it.
"""

from __future__ import annotations

import msgspec

from convc.compiler.index.changes import Fact
from convc.compiler.index.formulas import Instance, further
from convc.compiler.index.geometry import Geometry
from convc.compiler.index.maps import IndexMap
from convc.ir.arch import SM_100A
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


def first_pixel(shared: Instance, lanes: int, rows: int) -> IndexMap:
    """(tile_m, warp) -> n, p, q, m: the place of the first of a warp's rows, inside the output or not."""
    return further(shared, {"WARP": rows}, warp=lanes // rows).map("first_pixel")


def consecutive_lanes(shared: Instance) -> Fact:
    """That lanes are consecutive output pixels."""
    return Fact("rows of a stream", shared.sizes)


def walked_lanes(shared: Instance, box: ResultBox) -> Fact:
    """That a copy which starts at the first of a tile's or a window's lanes visits the output pixels of all of them."""
    name = "residual of a merged stream" if box.axes == AXES else "residual of a stream a row"
    return Fact(name, {**shared.sizes, "ACROSS": box.columns, "BOX": box.rows})
