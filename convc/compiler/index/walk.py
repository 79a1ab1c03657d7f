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

from collections.abc import Iterator, Mapping

import msgspec

from convc.compiler.index.linear import Integer
from convc.compiler.index.lower import translate
from convc.compiler.index.maps import Counterexample, IndexMap, Outcome, Proof
from convc.compiler.index.presburger import Point, find
from convc.compiler.index.symbols import Axis, FloorDiv, Mod
from convc.ir.expr import Const, IntExpr, Less, Var, evaluate
from convc.ir.problem import ConvProblem

Case = tuple[tuple[IntExpr, ...], tuple[IntExpr, IntExpr, IntExpr]]
"""Conditions, and the coordinates (w, h, n) of a walk where they hold."""

AXES = ("w", "h", "n")
"""Coordinates of a copy, in the order in which it counts."""


class Im2colBox(msgspec.Struct, frozen=True, kw_only=True):
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
        columns, rows = (
            max(0, (size + upper - lower - 1) // stride + 1)
            for size, lower, upper, stride in zip(self.size, self.lower, self.upper, self.stride, strict=True)
        )
        return columns, rows

    @property
    def last(self) -> tuple[int, int]:
        """Last coordinate inside the box, along W and H."""
        return self.size[0] + self.upper[0] - 1, self.size[1] + self.upper[1] - 1


def im2col_box(problem: ConvProblem) -> Im2colBox:
    """The box of a convolution: lower = -pad_lo, upper = pad_hi - (taps - 1)*dilation, the same stride."""
    height, width = problem.in_extent
    top, left = problem.pad_lo
    bottom, right = problem.pad_hi
    span_h, span_w = problem.span
    down, across = problem.stride
    return Im2colBox(
        size=(width, height),
        lower=(-left, -top),
        upper=(right - span_w + 1, bottom - span_h + 1),
        stride=(across, down),
    )


def walk_digits(box: Im2colBox, images: int, j: Axis) -> IndexMap:
    """Where the walk is after j steps from position (x, y) of the box: (image, y, x, j) -> w, h, n.

    ValueError for an empty box.
    """
    columns, rows = box.positions
    if not columns or not rows:
        raise ValueError(f"the im2col box is empty: {columns} positions per row, {rows} rows")
    image = Axis("image", images)
    y = Axis("y", rows)
    x = Axis("x", columns)
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


def prove_walk(box: Im2colBox, start: IndexMap, window: IndexMap) -> Outcome:
    """Whether the walk from each tile's start meets the filter windows of the tile's pixels, lane by lane.

    Args:
        start: (tile_m) -> w, h, n: the coordinates that the copy is given.
        window: (tile_m, lane) -> w, h, n: where the window of that lane's pixel begins, guarded to real ones.
    """
    tile, lane = window.domain
    claim = "the im2col walk from start(tile_m) is at the window of pixel (tile_m, lane) for "
    claim += f"lane = 0..{lane.extent - 1}"
    begin = {name: translate(expr) for name, expr in start.results}
    outside = _start_outside(box, begin, tile)
    end = tile.extent if outside is None else outside["tile_m"]  # up to there, copies start inside the box
    missed = _missed_window(box, begin, window, end) if end else None
    if missed is not None:
        point, here = missed
        there = tuple(evaluate(translate(window[name]), point) for name in AXES)
        text = f"the walk is at (w, h, n) = {here}, the window begins at {there}"
        return Counterexample(claim, tuple(point.items()), text)
    if outside is not None:
        name, low, high = next(
            each for each in _limits(box) if not each[1] <= evaluate(begin[each[0]], outside) <= each[2]
        )
        value = f"the start has {name} = {evaluate(begin[name], outside)}, and the box reaches from {low} to {high}"
        return Counterexample(claim, ((tile.name, end), (lane.name, 0)), value)
    columns, rows = box.positions
    return Proof(claim, f"both count tile_m*{lane.extent} + lane in the digits n, {rows} rows, {columns} columns")


def _limits(box: Im2colBox) -> Iterator[tuple[str, int, int]]:
    """(axis, first, last) coordinate inside the box."""
    return zip("wh", box.lower, box.last, strict=True)


def _start_outside(box: Im2colBox, begin: Mapping[str, IntExpr], tile: Axis) -> Point | None:
    """The first tile whose start is not in the box."""
    beyond: list[IntExpr] = []
    for name, low, high in _limits(box):
        beyond += [Less(begin[name], Const(low)), Less(Const(high), begin[name])]
    return find({tile.name: tile.range}, (), beyond)


def _missed_window(
    box: Im2colBox, begin: Mapping[str, IntExpr], window: IndexMap, end: int
) -> tuple[Point, tuple[int, int, int]] | None:
    """The first lane of the tiles before `end` at which the walk is not at the lane's window, and where it is."""
    tile, lane = window.domain
    ranges = {tile.name: (0, end - 1), lane.name: lane.range}
    found: list[tuple[Point, tuple[int, int, int]]] = []
    for conditions, place in _walk_cases(box, begin, tile, end, Var(lane.name)):
        apart: list[IntExpr] = []
        for here, name in zip(place, AXES, strict=True):
            there = translate(window[name])
            apart += [Less(here, there), Less(there, here)]
        point = find(ranges, (*window.conditions, *conditions), apart)
        if point is not None:
            w, h, n = place
            found.append((point, (evaluate(w, point), evaluate(h, point), evaluate(n, point))))
    return min(found, key=lambda each: tuple(each[0].values()), default=None)


def _walk_cases(box: Im2colBox, begin: Mapping[str, IntExpr], tile: Axis, end: int, j: IntExpr) -> list[Case]:
    """Where the walks of the tiles before `end`, which start inside the box, are after j steps."""
    beside = [
        Less(Const(0), (begin[name] - low) % step)
        for name, low, step in zip("wh", box.lower, box.stride, strict=True)
        if step > 1
    ]
    if beside and find({tile.name: (0, end - 1)}, (), beside) is not None:
        return _between_positions(box, begin, j)
    columns, rows = box.positions
    x, y = ((begin[name] - low) // step for name, low, step in zip("wh", box.lower, box.stride, strict=True))
    number = (begin["n"] * rows + y) * columns + x + j
    w = number % columns * box.stride[0] + box.lower[0]
    h = number // columns % rows * box.stride[1] + box.lower[1]
    return [((), (w, h, number // (columns * rows)))]


def _between_positions(box: Im2colBox, begin: Mapping[str, IntExpr], j: IntExpr) -> list[Case]:
    """Where a walk is after j steps from any coordinates inside the box.

    If it starts between positions it stays between them, to the end of its first row and of its first image.
    """
    left, top = box.lower
    across, down = box.stride
    columns, rows = box.positions
    to_end = (Const(box.last[0]) - begin["w"]) // across + 1  # steps to the end of the first row
    to_bottom = (Const(box.last[1]) - begin["h"]) // down + 1  # rows to the end of the first image
    after = j - to_end
    row = after // columns + 1
    below = row - to_bottom
    w = after % columns * across + left
    return [
        ((Less(j, to_end),), (begin["w"] + j * across, begin["h"], begin["n"])),
        ((Less(to_end - 1, j), Less(row, to_bottom)), (w, begin["h"] + row * down, begin["n"])),
        (
            (Less(to_end - 1, j), Less(to_bottom - 1, row)),
            (w, below % rows * down + top, begin["n"] + below // rows + 1),
        ),
    ]
