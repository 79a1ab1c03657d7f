"""Reads of the stream of output pixels, and what they ask of the numbers that a schedule chooses.

Column tap*u + buffer of the filter reads row lane + tap*d of the tile: place x = q + tap*d of the lane's row. All
columns of a buffer need one and the same pixel there, further right the larger x is. So what a walk leaves out, and
what lies behind its period, is padding for all lanes where it is for the last of those places: conditions are made of
the nest's reads at the ends, none is written by hand.

Each has a theorem that it is needed too: where it is broken by one, some lane finds a pixel of another row in place of
one of the image, reads a row that was not loaded, or has no output that it should have.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sympy import Add, Expr, S, Symbol

from convc.derive import symbols as z
from convc.derive.algebra import expanded
from convc.derive.nests import Nest
from convc.derive.symbols import FloorDiv, Mod, size
from convc.derive.theorem import Bound, Either, Refused, Theorem, at_most, below, proved

X = z.axis("x")
"""A place of a row of the stream."""
LINE = z.axis("y")
"""A row of the stream."""
LAST = size("LAST", least=0)
"""The last column of a buffer."""
FIRST_Q = size("FIRST_Q", least=0)
LAST_Q = size("LAST_Q", least=0)
"""The first and the last output column that need a pixel of the image, at a column of the filter: lanes in front of the
one and behind the other need padding."""
END = size("END")
"""Iterations of a loop that is cut."""
REACH = z.Q + z.HALO
"""Behind the last place that a lane with an output reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """The rows of a tile that lanes multiply, and the pixels that they need.

    Attributes:
        row: of the tile, by the lane and the column of the buffer.
        turn: how many lanes further on than that of the first column.
        need: the pixel along W that place `X` of the stream needs.
    """

    row: Expr
    turn: Expr
    need: Expr

    def at(self, place: Expr) -> Expr:
        """The pixel along W that a place needs."""
        return self.need.xreplace({X: place})

    def before(self, place: Expr) -> Bound:
        """The bound that what a place needs, and all places in front of it, lies in front of the image."""
        need, less = _parted(self.at(place))
        return below(need, less)

    def behind(self, place: Expr) -> Bound:
        """The bound that what a place needs, and all places behind it, lies behind the image."""
        need, less = _parted(self.at(place))
        return at_most(z.W + less, need)


def _parted(expr: Expr) -> tuple[Expr, Expr]:
    """An expression as one sum less another, terms without a minus each."""
    less = [term for term in Add.make_args(expr) if term.as_coeff_Mul()[0] < 0]
    return expr + Add(*(-term for term in less)), Add(*(-term for term in less))


def reads(nest: Nest, who: str) -> Reads:
    """Find what the lanes of a nest read.

    who: asks, and is named where that is refused.

    Raises:
        Refused: columns of a buffer need two pixels at one place.
    """
    assert nest.read is not None
    lane = z.column if nest.swapped else z.lane
    moved = S.Zero if nest.move is None else nest.move.inside * nest.move.lanes
    row = expanded(nest.read + moved)
    turn = expanded(row - lane)
    need = expanded(nest.pixel()["w"].xreplace({nest.space["q"]: X - turn}))
    if need.has(z.tap):
        raise Refused(who, f"place {X} needs pixel {need}, another for each column of a buffer")
    return Reads(row=row, turn=turn, need=need)


# ---- what is asked of the walk ---------------------------------------------------------------------------------------


def left_out(found: Reads, lead: Expr) -> Either:
    """Whatever the walk leaves out at the left of a row is padding."""
    return Either((at_most(lead, 0), found.before(lead - 1)), "what the walk leaves out is padding")


def cut_off(found: Reads, lead: Expr) -> Either:
    """Whatever a lane reads behind the pixels of its row should be padding, or none does."""
    return Either(
        (at_most(REACH, z.T + lead), found.behind(z.T + lead)), f"behind {z.T} pixels a row has padding alone"
    )


def begun(found: Reads) -> Either:
    """Whatever a lane finds of the row behind its own is padding, or none does."""
    return Either((at_most(REACH, z.T), found.before(REACH - 1 - z.T)), "the next row begins with as much padding")


def padding_before(found: Reads, asked: Either) -> Theorem:
    """Of what is asked at the left of a row follows that no lane misses a pixel there."""
    none, padding = asked.bounds
    place = z.q + found.turn
    proved("a walk that leaves nothing out has every place of a row", [at_most(z.lead, place)], [none])
    return proved(
        "a lane that would read in front of its row needs padding",
        [below(found.at(place), 0)],
        [below(place, z.lead), padding],
    )


def padding_behind(found: Reads, asked: Either, lead: Expr) -> Theorem:
    """Of what is asked at the right of a row follows that no lane misses a pixel there."""
    none, padding = asked.bounds
    place = z.q + found.turn
    proved(
        "no lane reads behind the halo of its row",
        [below(place, z.T + lead)],
        [below(z.q, z.Q), at_most(found.turn, z.HALO), none],
    )
    return proved(
        "a lane that would read behind its row needs padding",
        [at_most(z.W, found.at(place))],
        [at_most(z.T + lead, place), padding],
    )


def padding_of_next(found: Reads, asked: Either) -> Theorem:
    """The pixels at the beginning of the next row are padding, as far as lanes read them."""
    place = z.q + found.turn
    return proved(
        "a lane that reads behind its row finds padding",
        [below(found.at(Mod(LINE * z.T + place, z.T)), 0)],
        [at_most(z.T, place), below(place, 2 * z.T), at_most(place, REACH - 1), asked.bounds[1]],
    )


def two_rows(right: Either, following: Either) -> Theorem:
    """Of padding at both ends of a row follows that no lane reads two rows on: that is no condition of its own.

    If one did, the row behind its own would be all padding, which is as long as the image and more.
    """
    behind = right.bounds[1]
    return proved(
        "a lane that read past the next row would find a pixel there",
        [broken(following.bounds[1])],
        [at_most(2 * z.T, REACH - 1), below(behind.low.xreplace({z.W: S.Zero}), behind.high)],
    )


def broken(bound: Bound) -> Bound:
    """The bound that holds where another does not."""
    return at_most(bound.high, bound.low) if bound.strict else below(bound.high, bound.low)


# ---- why it is needed ------------------------------------------------------------------------------------------------


def last_needed(nest: Nest, asked: Bound) -> Iterator[Theorem]:
    """Columns of a buffer end where those of the filter do."""
    last = nest.space["s"].xreplace({z.tap: LAST})
    yield proved("the last column of a buffer is one of the filter", [below(last, z.S)], [asked])
    yield proved(
        "no column behind the last of a buffer is one of the filter",
        [at_most(z.S, nest.space["s"])],
        [below(LAST, z.tap), broken(_at(asked, LAST, LAST + 1))],
    )


def halo_needed(nest: Nest, found: Reads, asked: Bound) -> Iterator[Theorem]:
    """The halo is as long as the last column of the buffer is further on than the first."""
    assert nest.load is not None
    lane = z.column if nest.swapped else z.lane
    rows = nest.load.rows
    yield proved(
        "every row that a lane multiplies is loaded",
        [below(found.row, rows)],
        [below(lane, z.BM), at_most(z.tap, LAST), asked],
    )
    last = found.row.xreplace({z.tap: LAST, lane: z.BM - 1})
    yield proved("a row of halo less, and the last lane multiplies none", [at_most(rows, last)], [broken(asked)])


def inside_needed(need: Expr, first: Bound, last: Bound) -> Iterator[Theorem]:
    """Lanes are left out, if they find a pixel, from the first column on that needs padding; and no lane before.

    need: the pixel along W of output column q, at column s of the filter.
    """
    yield proved(
        "columns in front of FIRST_Q need padding",
        [below(need, 0)],
        [below(z.q, FIRST_Q), broken(_at(first, FIRST_Q, FIRST_Q - 1))],
    )
    yield proved(
        "column FIRST_Q and those behind it do not lie in front of the image",
        [at_most(0, need)],
        [at_most(FIRST_Q, z.q), first],
    )
    yield proved(
        "columns behind LAST_Q need padding",
        [at_most(z.W, need)],
        [below(LAST_Q, z.q), broken(_at(last, LAST_Q, LAST_Q + 1))],
    )
    yield proved(
        "column LAST_Q and those in front of it do not lie behind the image",
        [below(need, z.W)],
        [at_most(z.q, LAST_Q), last],
    )


def _at(bound: Bound, symbol: Symbol, value: Expr) -> Bound:
    """A bound for another number."""
    at = {symbol: value}
    return replace(bound, low=bound.low.xreplace(at), high=bound.high.xreplace(at))


def lead_needed(found: Reads, asked: Either) -> Iterator[Theorem]:
    """A pixel more left out, and a lane misses it."""
    first = z.lead - 1
    number = LINE * z.T + first - z.lead
    yield proved(
        "a pixel that is left out and is one of the image: a lane finds the row before in its place",
        [(FloorDiv(number, z.T), LINE - 1), at_most(0, found.at(first))],
        [at_most(1, z.T), broken(asked.bounds[1])],
    )


def period_needed(found: Reads, right: Either, following: Either | None) -> Iterator[Theorem]:
    """A period that is one shorter: a lane finds the next row where it needs a pixel, or one where it needs padding.

    That some lane reads the place is a theorem where columns of a buffer are not further apart than a row is long.
    """
    rest = z.axis("i")
    yield proved(
        "in a period below Q, column T of a row is column 0 of the next",
        [(LINE * z.T + z.T, (LINE + 1) * z.T)],
        [below(z.T, z.Q)],
    )
    yield proved(
        "output x mod d reads place x at column x // d, where columns of a buffer are Q lanes apart or less",
        [(FloorDiv(rest + found.turn, z.d), z.tap), (Mod(rest + found.turn, z.d), rest), below(rest, z.Q)],
        [below(rest, z.d), at_most(z.d, z.Q)],
    )
    lead = S.Zero if following else z.lead
    place = z.T + lead
    yield proved(
        "a place behind the period that needs a pixel: a lane finds the next row there",
        [(FloorDiv(LINE * z.T + place - lead, z.T), LINE + 1), below(found.at(place), z.W)],
        [broken(right.bounds[1])],
    )
    if following:
        yield proved(
            "the last lane needs padding, and finds a pixel of the next row",
            [
                (FloorDiv(LINE * z.T + REACH - 1, z.T), LINE + 1),
                at_most(z.W, found.at(REACH - 1)),
                at_most(0, found.at(REACH - 1 - z.T)),
            ],
            [
                at_most(z.T, REACH - 1),
                below(REACH - 1, 2 * z.T),
                right.bounds[1],
                broken(following.bounds[1]),
            ],
        )


def image_rows_needed() -> Iterator[Theorem]:
    """Rows of a stream that an image has: as many as keep it in step with the rows that are walked over."""
    inside = z.d_h * z.r - z.pad_h
    read = z.u_h * z.Y + inside
    own = z.H + inside
    yield proved(
        "of fewer rows than P, row Y of an image is row 0 of the next",
        [(z.n * z.Y + z.Y, (z.n + 1) * z.Y), below(z.Y, z.P)],
        [below(z.Y, z.P)],
    )
    yield proved("of fewer rows, the second image reads the first", [below(read, own)], [below(z.Y * z.u_h, z.H)])
    yield proved("of more rows, the second image reads further down", [below(own, read)], [below(z.H, z.Y * z.u_h)])


def useful_needed() -> Iterator[Theorem]:
    """A useful lane more, and it reads a row of another window."""
    yield proved(
        "a useful lane more, and the last of them reads a row of another window",
        [at_most(z.WINDOW, z.USEFUL - 1 + z.HALO)],
        [below(z.WINDOW, z.USEFUL + z.HALO)],
    )


def buffers_needed() -> Iterator[Theorem]:
    """As many buffers as there are remainders of columns."""
    yield proved(
        "a buffer less, and column BUFFERS is of none",
        [(Mod(z.BUFFERS, z.u), z.BUFFERS), (FloorDiv(z.BUFFERS, z.u), S.Zero)],
        [below(z.BUFFERS, z.u), below(z.BUFFERS, z.S)],
    )
    number = z.tap * z.u + z.buffer
    yield proved(
        "a buffer more than u, and the first column of it is the second of the first buffer",
        [(number.xreplace({z.tap: S.Zero, z.buffer: z.u}), number.xreplace({z.tap: S.One, z.buffer: S.Zero}))],
    )


def reach_needed(reach: Bound, outer: Expr) -> Iterator[Theorem]:
    """As many tiles as reach the last iteration of the loop that they cut: one less, and none has it.

    reach: what the cut asks for, extent <= outer*by.
    """
    by = expanded(reach.high).coeff(outer)
    number = z.axis("t") * by + z.axis("i")
    yield proved(
        f"of END = {reach.low} the last has none, with {outer} one less",
        [below(number, END - 1)],
        [below(z.axis("i"), by), below(z.axis("t"), outer), at_most(reach.high, END - 1)],
    )
