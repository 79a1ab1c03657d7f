"""How a problem whose filter columns share activations is cut into tiles."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from convc.compiler.index.row_stream import WINDOW, LaneTile, RowStream, boxed_stream, merged_stream, outer_stream
from convc.compiler.index.row_walk import Border, RowProblem, RowWalk, row_walk
from convc.derived.numbers import problem_sizes
from convc.derived.record import Sizes
from convc.derived.solved import chosen, solved
from convc.errors import PlanError
from convc.ir.problem import ConvProblem

ADDRESSED = "read further on"
EXCHANGED = "operands exchanged"
MOVED = "rows moved"
"""How a lane comes to the pixel that a filter column needs (`convc.derive.forms`)."""


class Geometry(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How a problem is cut.

    Attributes:
        form: of a schedule that cuts the output so (`convc.derive.forms`).
        walk, stream, tile: along image rows; which of them follow each other; lanes of a tile.
        tiles: of a stream. grid: of all streams.
        spare: tiles behind all of them, without an output.
    """

    form: str
    walk: RowWalk
    stream: RowStream
    tile: LaneTile
    tiles: int
    grid: int
    spare: int = 0

    @property
    def all_tiles(self) -> int:
        """Tiles of all streams, and the spare ones."""
        return self.grid + self.spare

    @property
    def several(self) -> bool:
        """Whether the number of a tile says which stream it belongs to; a spare one to a stream that is none."""
        return self.stream.streams > 1 or (self.spare > 0 and not self.stream.merged)

    @property
    def windowed(self) -> bool:
        """Whether a tile is made of overlapping windows of 32 lanes."""
        return self.tile.windows > 1


def row_problem(problem: ConvProblem, sizes: Sizes) -> RowProblem:
    """The convolution along W."""
    return RowProblem(
        width=sizes["W"],
        outputs=sizes["Q"],
        taps=sizes["S"],
        stride=problem.stride[1],
        dilation=problem.dilation[1],
        pad=sizes["pad_w"],
    )


@lru_cache(maxsize=256)
def lane_tile(form: str, lanes: int, halo: int, windowed: bool) -> LaneTile:
    """Contiguous lanes, or windows of 32 that overlap by the halo; PlanError where a window has no lane left."""
    if not windowed:
        return LaneTile(lanes=lanes, windows=1, useful=lanes)
    sizes = {"BM": lanes, "WINDOW": WINDOW, "HALO": halo}
    useful = chosen(solved(form, "USEFUL"), sizes)
    if useful < 1:
        raise PlanError(f"windows of {WINDOW} lanes cannot overlap by a halo of {halo}")
    return LaneTile(lanes=lanes, windows=chosen(solved(form, "WINDOWS"), sizes), useful=useful)


def form_of(geometry: Geometry, reading: str = "") -> str:
    """The form of a schedule that cuts the output so, and whose lanes come to their pixels in this way, or in any."""
    return read_so(geometry.form, reading) if reading else geometry.form


def read_so(form: str, reading: str) -> str:
    """The form that cuts the output as another, and whose lanes come to their pixels in this way."""
    return reading + form[form.index(",") :]


def geometry_of(
    problem: ConvProblem,
    *,
    merged: bool,
    border: Border,
    lanes: int = 128,
    windowed: bool = False,
    boxed: bool = False,
) -> Geometry:
    """Cut a problem into tiles.

    Args:
        problem: the convolution that the kernel runs (two spatial axes).
        merged: whether all output rows are in one stream (see `convc.compiler.index.row_stream`).
        border: how lanes whose pixel is padding get their zero.
        lanes: output pixels of a tile.
        windowed: whether a tile is made of overlapping windows of 32 lanes.
        boxed: whether copies walk through whole images, of merged rows.

    Raises:
        PlanError: the rows do not merge, or the windows have no lane left; the message has the numbers.
    """
    reading = MOVED if windowed else ADDRESSED  # no number of the cut depends on it
    rows = "boxed" if boxed else "merged" if merged else "outer"
    form = f"{reading}, rows {rows}, border {border}, {'overlapping' if windowed else 'contiguous'}"
    sizes = problem_sizes(problem)
    if boxed:
        stream: RowStream | str = boxed_stream(sizes)
    else:
        stream = merged_stream(sizes, form) if merged else outer_stream(sizes)
    if isinstance(stream, str):
        raise PlanError(f"the output rows cannot be one stream: {stream}", where=f"convolution {problem.name!r}")
    walk = row_walk(row_problem(problem, sizes), border, form)
    tile = lane_tile(form, lanes, max(buffer.halo for buffer in walk.buffers), windowed)
    sizes |= {"T": walk.period, "Y": stream.image_rows, "BM": lanes, "WINDOWS": tile.windows, "USEFUL": tile.useful}
    tiles = chosen(solved(form, "TILES"), sizes)
    grid = tiles if stream.merged else chosen(solved(form, "TILES_M"), sizes | {"TILES": tiles})
    return Geometry(form=form, walk=walk, stream=stream, tile=tile, tiles=tiles, grid=grid)
