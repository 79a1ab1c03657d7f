"""The index arithmetic of a kernel: what plan and tile program exchange, one field for each number.

Every coordinate is an integer expression with the map that it is a result of. Which there are depends on how
activations arrive: a tile for every filter tap, or one that the filter columns of a row share.
"""

from __future__ import annotations

import msgspec

from convc.compiler.plan.names import Number
from convc.ir.expr import IntExpr, substitute


class Coordinate(msgspec.Struct, frozen=True, kw_only=True):
    """One integer that the kernel computes, with the derivation that says why it is right.

    Attributes:
        name: register that holds it; the name of its field below.
        value: the expression to compute.
        meaning: the index map it comes from, for people.
        theorem: the name of the one that proves it.
    """

    name: Number
    value: IntExpr
    meaning: str
    theorem: str = ""


class FactorCoordinates(msgspec.Struct, frozen=True, kw_only=True):
    """The places of scale factors in a step of the K loop (`convc.compiler.plan.scale_factors`).

    Attributes:
        factor_a, factor_b: first factor that the copies of a step bring, of a pixel and of a tap.
        factor_byte: where in a row of shared memory the factors of a step start.
    """

    factor_a: Coordinate
    factor_b: Coordinate
    factor_byte: Coordinate


class TapCoordinates(msgspec.Struct, frozen=True, kw_only=True):
    """The coordinates of a kernel whose filter taps load an activation tile each.

    Attributes:
        start_w, start_h, start_n: where the tile's im2col copy begins, for the first tap.
        first_k: output channel of the first filter row that the CTA brings: the tile's, or that of its half.
        off_w, off_h: offset of a filter tap, in pixels.
        tap: number of the filter tap.
        c: first channel of a block, in the group.
        pack_c: first activation channel of a block, where there are groups: `c` counts the channels of one.
        factors: of block-scaled operands.
        m, k: output pixel of a lane, and output channel of a column.
        first_m: output pixel of a warp's first row, where results leave through tensor copies.
        out_byte: where (m, k) lies in the output, in bytes.
    """

    start_w: Coordinate
    start_h: Coordinate
    start_n: Coordinate
    first_k: Coordinate
    off_w: Coordinate
    off_h: Coordinate
    tap: Coordinate
    c: Coordinate
    pack_c: Coordinate | None
    factors: FactorCoordinates | None
    first_m: Coordinate | None
    m: Coordinate
    k: Coordinate
    out_byte: Coordinate


class RowCoordinates(msgspec.Struct, frozen=True, kw_only=True):
    """The coordinates of a kernel whose activation tile is a piece of image rows, shared by filter columns.

    Attributes:
        start_w: where the tile's copy begins along W.
        start_h, start_n: the same along H at filter row r, and along N, where a stream is one output row; along H for
            the first filter row, and along N, where the rows are those of a box.
        off_h: offset of a filter row in the box, in pixels.
        start_row: the input row, all images counted through, where a stream is all output rows.
        first_k, tap, c, pack_c, m, k, out_byte: as of `TapCoordinates`; `m` is past the last pixel where the lane has
            none.
        column_mask, line_mask: whether filter column s, and filter row r, masks the lane; None: none does.
        first_m: as of `TapCoordinates`, where the lanes of a warp are consecutive output pixels.
        first_pixel: where they are not: place of a warp's first row along the axes of the map over a residual that is
            copied, innermost first.
    """

    start_w: Coordinate
    start_h: Coordinate | None
    start_n: Coordinate | None
    start_row: Coordinate | None
    first_k: Coordinate
    tap: Coordinate
    c: Coordinate
    pack_c: Coordinate | None
    m: Coordinate
    k: Coordinate
    out_byte: Coordinate
    off_h: Coordinate | None = None
    column_mask: Coordinate | None
    line_mask: Coordinate | None
    first_pixel: tuple[Coordinate, ...]
    first_m: Coordinate | None = None


class SummedCoordinates(msgspec.Struct, frozen=True, kw_only=True):
    """The coordinates of a kernel that sums over pixels, and whose lanes are weights of an output channel.

    Attributes:
        start_w, start_h, start_n: where the im2col copies of a block of pixels begin.
        pixel: number of its first pixel.
        off_w, off_h: offset of the filter column of a span of lanes, in pixels.
        c: first channel of the span.
        first_k: output channel of the first column of a span of columns.
        m, k: weight of a lane, and output channel of a column.
        first_m, out_byte: as of `TapCoordinates`.
    """

    start_w: Coordinate
    start_h: Coordinate
    start_n: Coordinate
    pixel: Coordinate
    off_w: Coordinate
    off_h: Coordinate
    c: Coordinate
    first_k: Coordinate
    first_m: Coordinate | None
    m: Coordinate
    k: Coordinate
    out_byte: Coordinate


Coordinates = TapCoordinates | RowCoordinates | SummedCoordinates


def in_order(coordinates: Coordinates | FactorCoordinates) -> tuple[Coordinate, ...]:
    """The coordinates that there are, in the order of their fields."""
    found: list[Coordinate] = []
    for field in coordinates.__struct_fields__:
        value: Coordinate | FactorCoordinates | tuple[Coordinate, ...] | None = getattr(coordinates, field)
        if isinstance(value, Coordinate):
            found.append(value)
        elif isinstance(value, tuple):
            found += value
        elif value is not None:
            found += in_order(value)
    return tuple(found)


def moved(coordinate: Coordinate, **values: IntExpr) -> Coordinate:
    """A coordinate with other numbers in the place of some that it is computed from."""
    return msgspec.structs.replace(coordinate, value=substitute(coordinate.value, values)) if values else coordinate


def coordinate(name: str, value: IntExpr, meaning: str, theorem: str = "") -> Coordinate:
    """A coordinate of that name."""
    return Coordinate(name=Number(name), value=value, meaning=meaning, theorem=theorem)
