"""How an im2col copy walks over an image, and why that walk is the row of output pixels that a tile needs.

In im2col mode the tensor memory accelerator does not copy a box: it copies a *sequence of pixels*. The
sequence starts at given coordinates and moves by the convolution's stride inside a bounding box, which the
tensor map gives by its corners, one pair per spatial axis: positions lower, lower + stride, ... below
``size + upper``. After each pixel W advances; past the end of the box it returns to ``lower`` and H advances;
past the end of H, N does. (PTX manual, tensor im2col mode; confirmed pixel by pixel on sm_90a hardware.) The
filter offsets of an instruction are added when a pixel is read and never move the walk.

For a convolution the corners are ``lower = -pad_lo`` and ``upper = pad_hi - (S - 1)*dilation``: the box then
holds the positions of the filter window's first tap. The walk is a number counting up in a mixed radix, with
digits (n, y, x): position j after a start at (n, y, x) is the number ``(n*rows + y)*columns + x + j`` taken
apart again. The output pixels of a tile are consecutive numbers ``(n*P + p)*Q + q``. So the two sequences are
the same exactly if ``columns = Q`` and ``rows = P`` (where a tile gets far enough to notice), and
`prove_walk` shows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import sympy
from sympy import Integer

from convc.compiler.index.algebra import equal
from convc.compiler.index.maps import Counterexample, IndexMap, Outcome, Proof, Unknown, at_most
from convc.compiler.index.symbols import Axis, FloorDiv, Mod
from convc.ir.problem import ConvProblem

SEARCH_LIMIT = 1 << 17
"""Walk positions that are compared one by one when the algebra does not show a claim."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Im2colBox:
    """The bounding box of an im2col tensor map; pairs are (W, H), as in the tensor map.

    Attributes:
        size: extent of the tensor.
        lower: first position along each axis.
        upper: the box ends before ``size + upper``.
        stride: step from one position to the next (the tensor map's element strides).
    """

    size: tuple[int, int]
    lower: tuple[int, int]
    upper: tuple[int, int]
    stride: tuple[int, int]

    @property
    def positions(self) -> tuple[int, int]:
        """(positions per row, rows per image): floor((size + upper - lower - 1) / stride) + 1, at least 0."""
        return tuple(
            max(0, (size + upper - lower - 1) // stride + 1)
            for size, lower, upper, stride in zip(self.size, self.lower, self.upper, self.stride, strict=True)
        )

    @property
    def last(self) -> tuple[int, int]:
        """Last coordinate inside the box, along W and H."""
        return tuple(size + upper - 1 for size, upper in zip(self.size, self.upper, strict=True))


def im2col_box(problem: ConvProblem) -> Im2colBox:
    """The box of a convolution: lower = -pad_lo, upper = pad_hi - (taps - 1)*dilation, the same stride."""
    return Im2colBox(
        size=problem.in_extent[::-1],
        lower=tuple(-pad for pad in problem.pad_lo[::-1]),
        upper=tuple(
            pad - (taps - 1) * dilation
            for pad, taps, dilation in zip(
                problem.pad_hi[::-1], problem.kernel[::-1], problem.dilation[::-1], strict=True
            )
        ),
        stride=problem.stride[::-1],
    )


def follow_walk(box: Im2colBox, start: tuple[int, int, int], count: int) -> Iterator[tuple[int, int, int]]:
    """The first ``count`` positions (w, h, n) of the walk from ``start``, by the rule, one step at a time."""
    w, h, n = start
    for _ in range(count):
        yield w, h, n
        w += box.stride[0]
        if w > box.last[0]:
            w = box.lower[0]
            h += box.stride[1]
            if h > box.last[1]:
                h = box.lower[1]
                n += 1


def walk_digits(box: Im2colBox, images: int, j: Axis) -> IndexMap:
    """Where the walk is after j steps from position (x, y) of the box: (image, y, x, j) -> w, h, n.

    ValueError for an empty box.
    """
    columns, rows = box.positions
    if not columns or not rows:
        raise ValueError(f"the im2col box is empty: {columns} positions per row, {rows} rows")
    image, y, x = Axis("image", images), Axis("y", rows), Axis("x", columns)
    number = (image.symbol * rows + y.symbol) * columns + x.symbol + j.symbol
    return IndexMap(
        name="walk",
        domain=(image, y, x, j),
        results=(
            ("w", box.lower[0] + box.stride[0] * Mod(number, Integer(columns))),
            ("h", box.lower[1] + box.stride[1] * Mod(FloorDiv(number, Integer(columns)), Integer(rows))),
            ("n", FloorDiv(number, Integer(columns * rows))),
        ),
    )


def walk_position(box: Im2colBox, images: int, j: Axis) -> IndexMap:
    """Where the walk is after j steps from coordinates (w, h, n): (n, h, w, j) -> w, h, n.

    The guard says that the start lies on the grid of positions, which is where the walk returns to after a
    row. ValueError for an empty box.
    """
    w, h = (Axis(name, last - lower + 1, lower) for name, lower, last in zip("wh", box.lower, box.last, strict=True))
    n = Axis("n", images)
    from_left, from_top = w.symbol - box.lower[0], h.symbol - box.lower[1]
    across, down = Integer(box.stride[0]), Integer(box.stride[1])
    counted = IndexMap(
        name="count",
        domain=(n, h, w),
        results=(("image", n.symbol), ("y", FloorDiv(from_top, down)), ("x", FloorDiv(from_left, across))),
        guard=(at_most(Mod(from_left, across), 0), at_most(Mod(from_top, down), 0)),
    )
    return walk_digits(box, images, j).compose(counted, "walk")


def prove_walk(box: Im2colBox, start: IndexMap, window: IndexMap) -> Outcome:
    """Whether the walk from each tile's start meets the filter windows of the tile's pixels, lane by lane.

    Args:
        start: (tile_m) -> w, h, n: the coordinates that the copy is given.
        window: (tile_m, lane) -> w, h, n: where the window of that lane's pixel begins, guarded to real ones.
    """
    tile, lane = window.domain
    claim = "the im2col walk from start(tile_m) is at the window of pixel (tile_m, lane) for "
    claim += f"lane = 0..{lane.extent - 1}"
    columns, rows = box.positions
    if columns and rows:
        walk = walk_position(box, 1 + start.bounds()["n"][1], lane).compose(start)
        if _always(walk) and all(equal(walk[name], expr) for name, expr in window.results):
            return Proof(
                claim,
                f"both count tile_m*{lane.extent} + lane in the digits n, {rows} rows, {columns} columns",
            )
    return _compare(box, start, window, tile, lane, claim)


def _always(walk: IndexMap) -> bool:
    """Whether the guard of a walk from a given start holds: it is in the box (no condition), on its grid."""
    return all(isinstance(each, sympy.LessThan) and equal(each.lhs, each.rhs) for each in walk.guard)


def _compare(box: Im2colBox, start: IndexMap, window: IndexMap, tile: Axis, lane: Axis, claim: str) -> Outcome:
    """Follow the walk tile by tile and compare; the first lane that differs is the counterexample."""
    tiles = min(tile.extent, max(1, SEARCH_LIMIT // lane.extent))
    lanes = np.arange(lane.extent)
    for tile_m in range(tiles):
        first = start.evaluate({"tile_m": tile_m})
        position = (first["w"], first["h"], first["n"])
        for axis, value, lower, last in zip("wh", position, box.lower, box.last, strict=False):
            if not lower <= value <= last:
                outside = f"the start has {axis} = {value}, and the box reaches from {lower} to {last}"
                return Counterexample(claim, (("tile_m", tile_m), ("lane", 0)), outside)
        points = {"tile_m": tile_m, "lane": lanes}
        needed = np.stack([np.broadcast_to(window.evaluate(points)[name], lanes.shape) for name in ("w", "h", "n")], 1)
        visited = np.array(list(follow_walk(box, position, lane.extent)))
        wrong = (visited != needed).any(1) & window.holds(points)
        if wrong.any():
            index = int(np.argmax(wrong))
            here, there = tuple(visited[index].tolist()), tuple(needed[index].tolist())
            text = f"the walk is at (w, h, n) = {here}, the window begins at {there}"
            return Counterexample(claim, (("tile_m", tile_m), ("lane", index)), text)
    if tiles == tile.extent:
        return Proof(claim, f"followed through all {tiles} tiles")
    return Unknown(claim, f"the first {tiles} of {tile.extent} tiles agree, the algebra does not show the rest")
