"""Orders in which the tiles of an output are made: each a way to count them, proved to count every tile once.

The output is a grid of tiles, along M and along N. Those whose numbers are close are made at the same time, so what
they have in common comes from memory once.

    rows            along M first, then along N
    columns         along N first, then along M
    grouped         MANY groups of HIGH rows and FEW groups of LOW rows; each is visited along M first
    boustrophedon   along M first, every other column backwards, so that a column begins where the last one has ended
    table           in any order, looked up by number

CTAs that multiply as one have numbers that follow each other, and tiles that are neighbours along M: what is ordered
are their units.

An order is a list of cases. Each says which units it is about, by axes that count them, what their numbers are, and
what leads back from a number to its unit. That the units of all cases are the grid, that their numbers are below that
of all units, and that the way back leads there, makes it a permutation: as many numbers as units, and a number for
each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sympy import Expr, Integer, S, Symbol

from convc.derive import symbols as z
from convc.derive.nests import Case, Let, Loop, RewriteStep
from convc.derive.reindex import Reindexed, single
from convc.derive.symbols import FloorDiv, Mod
from convc.derive.theorem import Bound, Condition, Theorem, at_most, below, proved

I_ = z.axis("i")
M_ = z.axis("m")
"""A unit along M."""
ROW = z.axis("row")


@dataclass(frozen=True, slots=True, kw_only=True)
class Units:
    """Some of the units of a grid.

    Attributes:
        m, n: the place of each, of axes that count them. given: their ranges.
        number: its number.
        place_m, place_n: the way back, of `symbols.unit`.
        key, limit: the numbers of these units have a `key`, of `symbols.unit`, below the limit, and those of the units
            of later cases have none; of the last case there is no key.
    """

    m: Expr
    n: Expr
    given: tuple[Bound, ...]
    number: Expr
    place_m: Expr
    place_n: Expr
    key: Expr | None = None
    limit: Expr = S.Zero


def theorems(name: str, cases: tuple[Units, ...], units: Expr = z.UNITS) -> Iterator[Theorem]:
    """That the way back from a number leads to its unit, in the case that the kernel takes, and numbers have an end."""
    for index, case in enumerate(cases):
        which = f", case {index}" if len(cases) > 1 else ""
        at = {z.unit: case.number}
        yield proved(
            f"order {name}{which}: a unit's number leads back to it, and is below that of all units",
            [
                (case.place_m.xreplace(at), case.m),
                (case.place_n.xreplace(at), case.n),
                below(case.number, units * z.TILES_N),
                *(at_most(one.limit, one.key.xreplace(at)) for one in cases[:index] if one.key is not None),
                *([] if case.key is None else [below(case.key.xreplace(at), case.limit)]),
            ],
            case.given,
        )


def ordered(
    name: str, cases: tuple[Units, ...], *, cover: tuple[Theorem, ...] = (), units: Expr = z.UNITS
) -> Reindexed:
    """Tiles in an order.

    Args:
        name: of the order.
        cases: its units.
        cover: that all cases together have every unit of the grid, where that is more than the ranges of their axes.
        units: along M, as the cases have it.
    """
    conditions: tuple[Condition, ...] = ()
    if units != z.UNITS:
        words = "the groups make up the rows of the grid"
        conditions = (at_most(units, z.UNITS, words), at_most(z.UNITS, units, words))
    unit = {z.unit: FloorDiv(z.tile, z.TOGETHER)}
    rank = Mod(z.tile, z.TOGETHER)

    def let(axis: Symbol, values: list[Expr]) -> Let:
        if len(set(values)) == 1:
            return single(z.tile, axis, values[0])
        found = (
            Case(value=value, key=None if one.key is None else one.key.xreplace(unit), limit=one.limit)
            for one, value in zip(cases, values, strict=True)
        )
        return Let(inside=z.tile, axis=axis, cases=tuple(found))

    step = RewriteStep(
        name=f"count the tiles by one loop, in the order {name}",
        theorems=(*theorems(name, cases, units), *cover, _together()),
        conditions=(*conditions, *_units()),
    )
    return Reindexed(
        name=f"order {name}",
        title=f"tiles in the order {name}",
        old=(z.tile_m, z.tile_n),
        loops=(_tiles(),),
        lets=(
            let(z.tile_m, [one.place_m.xreplace(unit) * z.TOGETHER + rank for one in cases]),
            let(z.tile_n, [one.place_n.xreplace(unit) for one in cases]),
        ),
        step=step,
        inside={z.tile_n: z.tile},
    )


def _tiles() -> Loop:
    return Loop(axis=z.tile, extent=z.TILES_M * z.TILES_N, words="tiles, by their numbers")


def _units() -> tuple[Condition, ...]:
    words = "units make up the tiles along M"
    whole = z.UNITS * z.TOGETHER
    return at_most(whole, z.TILES_M, words), at_most(z.TILES_M, whole, words)


def _together() -> Theorem:
    number = z.unit * z.TOGETHER + z.rank
    return proved(
        "CTAs that multiply as one have tiles that follow each other, one unit",
        [(FloorDiv(number, z.TOGETHER), z.unit), (Mod(number, z.TOGETHER), z.rank)],
        [below(z.rank, z.TOGETHER)],
    )


INSIDE_GRID = (below(M_, z.UNITS), below(z.tile_n, z.TILES_N))


def rows() -> Reindexed:
    """Along M first, then along N: as the hardware counts CTAs."""
    case = Units(
        m=M_,
        n=z.tile_n,
        given=INSIDE_GRID,
        number=z.tile_n * z.UNITS + M_,
        place_m=Mod(z.unit, z.UNITS),
        place_n=FloorDiv(z.unit, z.UNITS),
    )
    return ordered("rows", (case,))


def columns() -> Reindexed:
    """Along N first, then along M."""
    case = Units(
        m=M_,
        n=z.tile_n,
        given=INSIDE_GRID,
        number=M_ * z.TILES_N + z.tile_n,
        place_m=FloorDiv(z.unit, z.TILES_N),
        place_n=Mod(z.unit, z.TILES_N),
    )
    return ordered("columns", (case,))


def grouped() -> Reindexed:
    """MANY groups of HIGH rows, then FEW of LOW."""
    cases: list[Units] = []
    first: Expr = S.Zero
    covered: list[tuple[Expr, Expr]] = []
    for count, height in ((z.MANY, z.HIGH), (z.FEW, z.LOW)):
        behind = z.unit - first * z.TILES_N
        m = first + z.group * height + I_
        covered += [
            (m.xreplace({z.group: S.Zero, I_: S.Zero}), first),
            (FloorDiv(ROW, height) * height + Mod(ROW, height), ROW),
        ]
        first = first + count * height
        covered.append((m.xreplace({z.group: count - 1, I_: height - 1}) + 1, first))
        cases.append(
            Units(
                m=m,
                n=z.tile_n,
                given=(below(z.group, count), below(z.tile_n, z.TILES_N), below(I_, height)),
                number=(z.group * z.TILES_N + z.tile_n) * height + I_ + (z.unit - behind),
                place_m=FloorDiv(behind, height * z.TILES_N) * height
                + Mod(behind, height)
                + (m - z.group * height - I_),
                place_n=Mod(FloorDiv(behind, height), z.TILES_N),
                key=z.unit if not cases else None,
                limit=first * z.TILES_N if not cases else S.Zero,
            )
        )
    cover = proved(
        "order grouped: groups follow each other, from the first row to the last, and are cut into rows", covered
    )
    return ordered("grouped", tuple(cases), cover=(cover,), units=first)


def boustrophedon() -> Reindexed:
    """There and back, as the ox turns in ploughing."""
    place = Mod(z.unit, z.UNITS)
    column = FloorDiv(z.unit, z.UNITS)
    cases: list[Units] = []
    for back in (0, 1):
        n = 2 * z.turn + back
        cases.append(
            Units(
                m=z.UNITS - 1 - I_ if back else I_,
                n=n,
                given=(below(I_, z.UNITS), below(n, z.TILES_N)),
                number=n * z.UNITS + I_,
                place_m=z.UNITS - 1 - place if back else place,
                place_n=column,
                key=None if back else Mod(column, Integer(2)),
                limit=S.Zero if back else S.One,
            )
        )
    cover = proved(
        "order boustrophedon: every column is an even or an odd one, and every row comes up on the way back",
        [
            (2 * FloorDiv(z.tile_n, 2) + Mod(z.tile_n, 2), z.tile_n),
            (z.UNITS - 1 - (z.UNITS - 1 - I_), I_),
        ],
    )
    return ordered("boustrophedon", tuple(cases), cover=(cover,))


def table() -> Reindexed:
    """In any order that a table has: a theorem about its entries; that each unit has one is looked at, per grid."""
    unit = FloorDiv(z.tile, z.TOGETHER)
    packed = z.tile_n * z.ENTRY + M_
    entries = proved(
        "an entry of the table is one unit",
        [(Mod(packed, z.ENTRY), M_), (FloorDiv(packed, z.ENTRY), z.tile_n)],
        [below(M_, z.ENTRY)],
    )
    room = at_most(z.UNITS, z.ENTRY, "an entry has room for a unit")
    step = RewriteStep(
        name="count the tiles by one loop, in the order of a table",
        why="every entry of the table is looked at: each unit has one",
        theorems=(entries, _together()),
        conditions=(room, *_units()),
    )
    return Reindexed(
        name="order table",
        title="tiles in the order of a table",
        old=(z.tile_m, z.tile_n),
        loops=(_tiles(),),
        lets=(
            single(z.tile, z.unit, unit),
            Let(inside=z.tile, axis=z.entry, found="table[unit]"),
            single(z.tile, z.tile_m, Mod(z.entry, z.ENTRY) * z.TOGETHER + Mod(z.tile, z.TOGETHER)),
            single(z.tile, z.tile_n, FloorDiv(z.entry, z.ENTRY)),
        ),
        step=step,
        inside={z.tile_n: z.tile},
    )


def orders() -> Iterator[Reindexed]:
    """Every order."""
    yield from (rows(), columns(), grouped(), boustrophedon(), table())
