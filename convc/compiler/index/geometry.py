"""How a problem whose filter columns share activations is cut into tiles."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from convc.compiler.index.row_stream import WINDOW, LaneTile, RowStream, boxed_stream, merged_stream, outer_stream
from convc.compiler.index.row_walk import Border, RowProblem, RowWalk, row_walk
from convc.errors import PlanError
from convc.ir.problem import ConvProblem


class Geometry(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The walk, the stream, the lanes of a tile, tiles per stream, and spare tiles behind all, without an output."""

    walk: RowWalk
    stream: RowStream
    tile: LaneTile
    tiles: int
    spare: int = 0

    @property
    def all_tiles(self) -> int:
        """Tiles of all streams, and the spare ones."""
        return self.stream.streams * self.tiles + self.spare

    @property
    def several(self) -> bool:
        """Whether the number of a tile says which stream it belongs to; a spare one to a stream that is none."""
        return self.stream.streams > 1 or (self.spare > 0 and not self.stream.merged)

    @property
    def length(self) -> int:
        """Places of a stream, from the first output to the last."""
        return self.stream.last_row * self.walk.period + self.walk.problem.outputs

    @property
    def windowed(self) -> bool:
        """Whether a tile is made of overlapping windows of 32 lanes."""
        return self.tile.windows > 1


def row_problem(problem: ConvProblem) -> RowProblem:
    """The convolution along W."""
    return RowProblem(
        width=problem.in_extent[1],
        outputs=problem.out_extent[1],
        taps=problem.kernel[1],
        stride=problem.stride[1],
        dilation=problem.dilation[1],
        pad=problem.pad_lo[1],
    )


def lane_tile(walk: RowWalk, lanes: int, windowed: bool) -> LaneTile:
    """Contiguous lanes, or windows of 32 that overlap by the halo; PlanError where a window has no lane left."""
    if not windowed:
        return LaneTile(lanes=lanes, windows=1, useful=lanes)
    halo = max(buffer.halo for buffer in walk.buffers)
    if halo >= WINDOW:
        raise PlanError(f"windows of {WINDOW} lanes cannot overlap by a halo of {halo}")
    return LaneTile(lanes=lanes, windows=lanes // WINDOW, useful=WINDOW - halo)


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
    if boxed:
        stream: RowStream | str = boxed_stream(problem)
    else:
        stream = merged_stream(problem) if merged else outer_stream(problem)
    if isinstance(stream, str):
        raise PlanError(f"the output rows cannot be one stream: {stream}", where=f"convolution {problem.name!r}")
    walk = row_walk(row_problem(problem), border)
    tile = lane_tile(walk, lanes, windowed)
    one = Geometry(walk=walk, stream=stream, tile=tile, tiles=1)
    return replace(one, tiles=-(-one.length // tile.outputs))
