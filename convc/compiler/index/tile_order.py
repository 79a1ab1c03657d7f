"""Orders in which the tiles of an output are made, each proved to visit every tile once.

The output is a grid of tiles, along M (output pixels) and along N (output channels). Tiles whose numbers are close are
made at the same time, so what they have in common comes from memory once: those of a row of the grid have activations
in common, those of a column a filter.

    rows            along M first, then along N
    columns         along N first, then along M
    grouped         the grid is cut along M into groups that differ by one row at most; each is visited along M first
    boustrophedon   along M first, every other column backwards, so that a column begins where the last one has ended
    hilbert         along a curve that stays close to where it was (`convc.compiler.index.hilbert`)

All but the last are arithmetic: an order is a list of cases, and in each the number of a tile is a mixed-radix number
of the axes that count the case's tiles. `Order.prove` shows that the cases make up the grid, and that the formulas that
the kernel computes lead from each number back to its tile: then no two tiles have the same number, and as there are as
many numbers as tiles, each number has one. For a curve that is looked up, every entry is looked at.

CTAs that multiply as one have numbers that follow each other, and tiles that are neighbours along M: what is ordered
are their units.
"""

from __future__ import annotations

import itertools
import math

import msgspec
from msgspec.structs import replace

from convc.compiler.index.hilbert import hilbert
from convc.compiler.index.linear import Expr, Integer
from convc.compiler.index.lower import translate
from convc.compiler.index.maps import Counterexample, IndexMap, Outcome, Proof, prove_equal
from convc.compiler.index.order_names import BOUSTROPHEDON, GROUPED, HILBERT, ROWS, OrderName
from convc.compiler.index.presburger import clash, find
from convc.compiler.index.symbols import Axis, FloorDiv, Mod
from convc.ir.expr import Const, IntExpr, Less, Select, floor_div, to_json
from convc.ir.expr import Var as Variable
from convc.ir.tile_order import ENTRY, ENTRY_BITS, TILE, Places

MOST_ENTRIES = 4096
"""Entries of a table: 16 KiB, of the 64 KiB of constant memory that a kernel has (CUDA programming guide)."""

T = Axis(TILE, 1).symbol


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """Some of the tiles.

    Attributes:
        axes: count them.
        m, n: the place of each, of the axes.
        number: its number, of the axes.
        place_m, place_n: the same place, of the number (the symbol `T`).
        key, limit: numbers for which an expression of `T` is less than ``limit`` belong to this case, of those that
            belong to none before it; None: all of them.
    """

    axes: tuple[Axis, ...]
    m: Expr
    n: Expr
    number: Expr
    place_m: Expr
    place_n: Expr
    key: Expr | None = None
    limit: int = 0


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """An order of the tiles of a grid.

    Attributes:
        name: which.
        tiles: of the grid, along M and along N.
        together: neighbours along M that have numbers one behind the other, and begin at a multiple of so many.
        groups: how many the grid is cut into.
        cases: the formulas. table: in place of them, the place of every unit.
    """

    name: OrderName
    tiles: tuple[int, int]
    together: int = 1
    groups: int = 1
    cases: tuple[Case, ...] = ()
    table: tuple[tuple[int, int], ...] = ()

    @property
    def places(self) -> Places:
        """The formulas, lowered."""
        if self.table:
            entry = Variable(ENTRY)
            rank = Variable(TILE) % self.together
            m = (entry % 2**ENTRY_BITS) * self.together + rank
            n = floor_div(entry, 2**ENTRY_BITS)
            packed = tuple(m + (n << ENTRY_BITS) for m, n in self.table)
            return Places(m=to_json(m), n=to_json(n), table=packed, together=self.together)
        m = self._lowered([case.place_m for case in self.cases])
        n = self._lowered([case.place_n for case in self.cases])
        return Places(m=to_json(m), n=to_json(n))

    def _lowered(self, exprs: list[Expr]) -> IntExpr:
        """One expression of those of the cases."""
        found = translate(exprs[-1])
        for case, expr in zip(reversed(self.cases[:-1]), reversed(exprs[:-1]), strict=True):
            assert case.key is not None
            one = translate(expr)
            found = one if one == found else Select(Less(translate(case.key), Const(case.limit)), one, found)
        return found

    def prove(self) -> Outcome:
        """Whether every tile is visited once."""
        rows, columns = self.tiles
        claim = f"order {self.name} visits each of {rows} x {columns} tiles once"
        if self.table:
            return _every_entry(claim, self.table, rows // self.together, columns)
        for outcome in (_make_up(claim, self.cases, rows, columns), *self._lead_back(claim)):
            if isinstance(outcome, Counterexample):
                return outcome
        return Proof(claim, "the place of a tile's number is that tile, and there are as many numbers as tiles")

    def _lead_back(self, claim: str) -> list[Outcome]:
        """Whether the place of every tile's number is that tile."""
        last = self.tiles[0] * self.tiles[1] - 1
        found: list[Outcome] = []
        for index, case in enumerate(self.cases):
            at = {T: case.number}
            results = [("number", case.number)]
            extents = {"number": (0, last)}
            for other, before in enumerate(self.cases[: index + 1]):
                if before.key is not None:
                    results.append((f"key{other}", before.key.xreplace(at)))
                    extents[f"key{other}"] = (0, before.limit - 1) if other == index else (before.limit, last)
            found += [
                IndexMap(name=self.name, domain=case.axes, results=tuple(results)).prove_in(extents, claim),
                prove_equal(claim, case.place_m.xreplace(at), case.m, case.axes),
                prove_equal(claim, case.place_n.xreplace(at), case.n, case.axes),
            ]
        return found


def order_of(name: OrderName, tiles: tuple[int, int], *, together: int = 1, groups: int = 1) -> Order:
    """Derive an order for a grid.

    Args:
        name: which.
        tiles: along M and along N; ``together`` divides the first.
        together, groups: see `Order`; no more groups than units.
    """
    rows = tiles[0] // together
    columns = tiles[1]
    made = Order(name=name, tiles=tiles, together=together, groups=groups)
    if name == HILBERT:
        return replace(made, table=hilbert(rows, columns))
    if name == GROUPED:
        cases = _grouped(rows, columns, groups)
    elif name == BOUSTROPHEDON:
        cases = _boustrophedon(rows, columns)
    else:
        cases = (_plain(rows, columns, along_m=name == ROWS),)
    return replace(made, cases=tuple(_together(case, together) for case in cases))


def _plain(rows: int, columns: int, *, along_m: bool) -> Case:
    """One axis of the grid first, then the other."""
    m = Axis("m", rows)
    n = Axis("n", columns)
    first, then = (m, n) if along_m else (n, m)
    inner = Mod(T, Integer(first.extent))
    outer = FloorDiv(T, Integer(first.extent))
    return Case(
        axes=(m, n),
        m=m.symbol,
        n=n.symbol,
        number=then.symbol * first.extent + first.symbol,
        place_m=inner if along_m else outer,
        place_n=outer if along_m else inner,
    )


def _grouped(rows: int, columns: int, groups: int) -> tuple[Case, ...]:
    """Groups of rows, those that have one more first."""
    size, larger = divmod(rows, groups)
    n = Axis("n", columns)
    cases: list[Case] = []
    row = 0
    for count, height in ((larger, size + 1), (groups - larger, size)):
        if not count:
            continue
        group = Axis("group", count)
        i = Axis("i", height)
        number = row * columns
        behind = T - number
        cases.append(
            Case(
                axes=(group, n, i),
                m=group.symbol * height + i.symbol + row,
                n=n.symbol,
                number=(group.symbol * columns + n.symbol) * height + i.symbol + number,
                place_m=FloorDiv(behind, Integer(height * columns)) * height + Mod(behind, Integer(height)) + row,
                place_n=Mod(FloorDiv(behind, Integer(height)), Integer(columns)),
                key=T,
                limit=number + count * height * columns,
            )
        )
        row += count * height
    return (*cases[:-1], replace(cases[-1], key=None))


def _boustrophedon(rows: int, columns: int) -> tuple[Case, ...]:
    """There and back, as the ox turns in ploughing."""
    i = Axis("i", rows)
    place = Mod(T, Integer(rows))
    column = FloorDiv(T, Integer(rows))
    cases: list[Case] = []
    for back in range(min(2, columns)):
        turn = Axis("turn", (columns + 1 - back) // 2)
        n = turn.symbol * 2 + back
        cases.append(
            Case(
                axes=(turn, i),
                m=rows - 1 - i.symbol if back else i.symbol,
                n=n,
                number=n * rows + i.symbol,
                place_m=rows - 1 - place if back else place,
                place_n=column,
                key=Mod(column, Integer(2)),
                limit=1 + back,
            )
        )
    return (*cases[:-1], replace(cases[-1], key=None))


def _together(case: Case, count: int) -> Case:
    """The case of single tiles, where the one given is that of units of so many tiles."""
    if count == 1:
        return case
    rank = Axis("rank", count)
    unit = {T: FloorDiv(T, Integer(count))}
    return replace(
        case,
        axes=(*case.axes, rank),
        m=case.m * count + rank.symbol,
        number=case.number * count + rank.symbol,
        place_m=case.place_m.xreplace(unit) * count + Mod(T, Integer(count)),
        place_n=case.place_n.xreplace(unit),
        key=None if case.key is None else case.key.xreplace(unit),
    )


def _make_up(claim: str, cases: tuple[Case, ...], rows: int, columns: int) -> Outcome:
    """Whether cases have every tile of the grid, and none twice."""
    tiles = sum(math.prod(axis.extent for axis in case.axes) for case in cases)
    if tiles != rows * columns:
        return Counterexample(claim, (), f"the cases have {tiles} tiles")
    for case in cases:
        place = IndexMap(name="place", domain=case.axes, results=(("m", case.m), ("n", case.n)))
        inside = place.prove_in({"m": (0, rows - 1), "n": (0, columns - 1)}, claim)
        if isinstance(inside, Counterexample):
            return inside
        twice = clash(place.ranges, (), (translate(case.m), translate(case.n)))
        if twice is not None:
            return Counterexample(claim, tuple(twice[0].items()), "another tile of the case has this place")
    for one, other in itertools.combinations(cases, 2):
        axes = {axis.symbol: Axis(f"{axis.name}_", axis.extent).symbol for axis in other.axes}
        ranges = {axis.name: axis.range for axis in one.axes} | {f"{x.name}_": x.range for x in other.axes}
        same = [
            condition
            for here, there in ((one.m, other.m.xreplace(axes)), (one.n, other.n.xreplace(axes)))
            for condition in (Less(translate(here - there), Const(1)), Less(Const(-1), translate(here - there)))
        ]
        both = find(ranges, same)
        if both is not None:
            return Counterexample(claim, tuple(both.items()), "two cases have this tile")
    return Proof(claim, "the cases make up the grid")


def _every_entry(claim: str, table: tuple[tuple[int, int], ...], rows: int, columns: int) -> Outcome:
    """Whether a table has every unit once."""
    seen: set[tuple[int, int]] = set()
    for index, (m, n) in enumerate(table):
        if not (0 <= m < rows and 0 <= n < columns) or (m, n) in seen:
            return Counterexample(claim, (("entry", index),), f"({m}, {n}) is no unit, or has come before")
        seen.add((m, n))
    if len(seen) != rows * columns:
        return Counterexample(claim, (), f"the table has {len(seen)} of {rows * columns} units")
    return Proof(claim, "every entry is another one")
