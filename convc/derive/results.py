"""Lanes that tensor copies serve together: rows of a warp, of a tile, of a window.

A copy of results takes rows that are output pixels one after the other. Lanes that follow a stream are, where its rows
are those of the output. Where they are not, a copy of a residual walks through a box with the rows and columns of the
stream, and fills what lies outside of the tensor with zeros (PTX manual, tensor im2col mode).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sympy import Expr, S, Symbol

from convc.derive import symbols as z
from convc.derive.forms import reload, stream_tiles
from convc.derive.kernels import Map
from convc.derive.nests import Nest
from convc.derive.reuse import rows_stay
from convc.derive.symbols import FloorDiv, Mod, dividend
from convc.derive.theorem import Condition, Theorem, at_most, below, proved

ROW = z.axis("row")
FIRST = z.axis("t")
"""The place of the first of the lanes that a copy serves."""
Y_ = z.axis("y")
X_ = z.axis("x")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """Something that an instruction of a kernel takes for granted.

    Attributes:
        name: by which it is found.
        says: for people.
        theorems: why it is so.
        conditions: that a problem has to meet.
        maps: numbers that it is about.
    """

    name: str
    says: str
    theorems: tuple[Theorem, ...]
    conditions: tuple[Condition, ...] = ()
    maps: Mapping[str, Map] = field(default_factory=dict[str, Map])


def equal(one: Expr, two: Expr, words: str) -> tuple[Condition, ...]:
    """Two sizes are the same."""
    return at_most(one, two, words), at_most(two, one, words)


ACROSS = equal(z.ACROSS, z.T, "a row of the box is one of the stream")


def pixel_number(nest: Nest) -> Expr:
    """The number of the output pixel of an iteration."""
    space = nest.space
    return (space["n"] * z.P + space["p"]) * z.Q + space["q"]


def following(name: str, number: Expr, first: Expr, values: Mapping[Symbol, Expr]) -> Theorem:
    """Lanes from a first one on have numbers that follow each other.

    Args:
        name: of the theorem.
        number: of lane `lane`.
        first: lane. values: in place of symbols.
    """
    at = number.xreplace(dict(values))
    rows = at.xreplace({z.lane: first + ROW})
    return proved(name, [(rows, at.xreplace({z.lane: first}) + ROW)])


def warp_rows() -> Fact:
    """Rows of a warp, of tiles of output pixels."""
    m = pixel_number(reload())
    lane = z.warp * z.WARP + ROW
    once = proved(
        "a lane is one row of one warp",
        [(FloorDiv(lane, z.WARP), z.warp), (Mod(lane, z.WARP), ROW)],
        [below(ROW, z.WARP)],
    )
    return Fact(
        name="rows of a warp",
        says="the rows of a warp are consecutive output pixels",
        theorems=(following("row i of a warp is i output pixels behind its first", m, z.warp * z.WARP, {}), once),
        conditions=equal(z.WARPS * z.WARP, z.BM, "warps make up the lanes of a tile"),
    )


def tile_rows() -> Fact:
    """Rows of a tile of output pixels."""
    m = pixel_number(reload())
    return Fact(
        name="rows of a tile",
        says="the rows of a tile are consecutive output pixels",
        theorems=(following("row i of a tile is i output pixels behind its first", m, S.Zero, {}),),
    )


def stream_rows() -> Fact:
    """Lanes of a stream whose rows are those of the output."""
    nest = stream_tiles("merged", "contiguous")
    same = {z.T: z.Q, z.Y: z.P}
    m = pixel_number(nest).xreplace(same)
    place = dividend(nest.space["q"])
    return Fact(
        name="rows of a stream",
        says="lanes are consecutive output pixels, and those behind the last one have none",
        theorems=(
            proved("with T = Q and Y = P places of the stream are output pixels", [(m, place)]),
            following("row i of a warp is i places behind its first", place, z.warp * z.WARP, {}),
        ),
        conditions=(
            *equal(z.T, z.Q, "a row of the stream is one of the output"),
            *equal(z.Y, z.P, "an image has as many rows in the stream as in the output"),
            at_most(z.BM, z.WINDOWS * z.USEFUL, "every lane has an output"),
        ),
    )


def rows_inside() -> Fact:
    """Lanes of a stream of several images of which none finds a row of another image than its own."""
    inside, conditions = rows_stay(stream_tiles("merged", "contiguous"))
    return Fact(
        name="rows inside of their image",
        says="no filter row leaves its image, so that no lane has to be masked because of its row",
        theorems=(inside,),
        conditions=conditions,
    )


def walked_images() -> Fact:
    """Copies that walk through the rows of all images."""
    number = (FloorDiv(FIRST, z.T * z.Y) * z.Y + Mod(FloorDiv(FIRST, z.T), z.Y)) * z.T + Mod(FIRST, z.T) + ROW
    at = FIRST + ROW
    digits = (
        (Mod(number, z.T), Mod(at, z.T)),
        (Mod(FloorDiv(number, z.T), z.Y), Mod(FloorDiv(at, z.T), z.Y)),
        (FloorDiv(number, z.T * z.Y), FloorDiv(at, z.T * z.Y)),
    )
    return Fact(
        name="residual of a merged stream",
        says="pixels of a copy of the residual are those of its lanes, and lie outside where lanes have none",
        theorems=(
            proved(
                "pixel i of a copy from a lane's place is that of the lane i behind it: columns, rows, images", digits
            ),
            *_lanes_follow("merged"),
        ),
        conditions=(*equal(z.BOX, z.Y, "the box has the rows of the stream"), *ACROSS),
    )


def walked_rows() -> Fact:
    """Copies that walk through an output row of all images, and on to the next output row."""
    number = (z.p * z.BOX + FloorDiv(FIRST, z.T)) * z.T + Mod(FIRST, z.T) + ROW
    place = (z.p * z.BOX + Y_) * z.T + X_
    return Fact(
        name="residual of a stream a row",
        says="pixels of a copy of the residual are those of its lanes, and lie outside where lanes have none",
        theorems=(
            proved("a copy counts on from the place of a lane", [(number, z.p * z.BOX * z.T + (FIRST + ROW))]),
            proved(
                "place y*T + x of a stream is column x of image y, and of the same output row",
                [
                    (Mod(place, z.T), X_),
                    (Mod(FloorDiv(place, z.T), z.BOX), Y_),
                    (FloorDiv(place, z.T * z.BOX), z.p),
                ],
                [below(X_, z.T), below(Y_, z.BOX)],
            ),
            *_lanes_follow("outer"),
        ),
        conditions=(
            *ACROSS,
            at_most(z.N, z.BOX, "the box has all images"),
            at_most(z.TILES * z.WINDOWS * z.USEFUL, z.BOX * z.T, "no place of a stream lies behind the box"),
        ),
    )


def _lanes_follow(rows: str) -> Iterator[Theorem]:
    """Places of lanes follow each other: of a tile, and in a window up to its last output."""
    plain = dividend(stream_tiles(rows, "contiguous").space["q"])
    yield following("lanes of a tile are places that follow each other", plain, S.Zero, {})
    window = dividend(stream_tiles(rows, "overlapping").space["q"])
    first = z.window * z.WINDOW
    yield proved(
        "lanes of a window are places that follow each other, up to the last output",
        [(window.xreplace({z.lane: first + ROW}), window.xreplace({z.lane: first}) + ROW)],
        [below(ROW, z.USEFUL), at_most(z.USEFUL, z.WINDOW)],
    )


def facts() -> Iterator[Fact]:
    """All of them."""
    yield from (warp_rows(), tile_rows(), stream_rows(), rows_inside(), walked_images(), walked_rows())
