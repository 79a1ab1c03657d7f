"""Orders in which the tiles of an output are made, with the numbers of a grid put in.

What the orders are, and that each is a permutation of the tiles of every grid, is derived once (`convc.derive.orders`).
Of a curve that is looked up (`convc.compiler.index.hilbert`) every entry is looked at here.

The grid may be cut along M into groups, which differ by one row at most: those that have one more come first.
"""

from __future__ import annotations

import msgspec
import numpy as np
from msgspec.structs import replace

from convc.compiler.index.changes import Change
from convc.compiler.index.conditions import conditions
from convc.compiler.index.hilbert import hilbert
from convc.compiler.index.maps import Counterexample, Outcome, Proof
from convc.compiler.index.order_names import HILBERT, ROWS, OrderName
from convc.ir.expr import IntExpr, from_json, to_json
from convc.ir.tile_order import ENTRY_BITS, TilePlaces

MOST_ENTRIES = 4096
"""Entries of a table: 16 KiB, of the 64 KiB of constant memory that a kernel has (CUDA programming guide)."""


class RasterOrder(msgspec.Struct, frozen=True, kw_only=True):
    """A rasterization order of a grid.

    Attributes:
        name: which.
        tiles: of the grid, along M and along N.
        together: neighbours along M that have numbers one behind the other, and begin at a multiple of so many.
        groups: how many the grid is cut into.
        change: its derivation, with the numbers of the grid.
        table: the place of every unit, of an order that is looked up.
    """

    name: OrderName
    tiles: tuple[int, int]
    together: int = 1
    groups: int = 1
    change: Change
    table: tuple[tuple[int, int], ...] = ()

    @property
    def formulas(self) -> tuple[IntExpr, IntExpr]:
        """The place of a tile along M and along N."""
        return self.change.let("tile_m"), self.change.let("tile_n")

    def at(self, tiles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Places along M and along N, as of `TilePlaces.at`."""
        return self.places.of(*self.formulas, tiles)

    @property
    def places(self) -> TilePlaces:
        """The formulas of the kernel."""
        m, n = map(to_json, self.formulas)
        if not self.table:
            return TilePlaces(m=m, n=n)
        packed = tuple(m + (n << ENTRY_BITS) for m, n in self.table)
        return TilePlaces(m=m, n=n, table=packed, together=self.together)

    def prove(self) -> Outcome:
        """Whether every tile is visited once."""
        rows, columns = self.tiles
        claim = f"order {self.name} visits each of {rows} x {columns} tiles once"
        theorem = ""
        for outcome in conditions(self.change):
            theorem = outcome.theorem
            if isinstance(outcome, Counterexample):
                return Counterexample(claim, outcome.point, f"{outcome.claim}: {outcome.value}", theorem)
        if self.table:
            found = _every_entry(claim, self.table, rows // self.together, columns)
            return replace(found, theorem=theorem)
        return Proof(claim, "a unit's number leads back to it, and there are as many numbers as units", theorem)


def order_of(name: OrderName, tiles: tuple[int, int], *, together: int = 1, groups: int = 1) -> RasterOrder:
    """A rasterization order of a grid.

    Args:
        name: which.
        tiles: along M and along N; ``together`` divides the first.
        together, groups: see `RasterOrder`; no more groups than units.
    """
    units = tiles[0] // together
    low, many = divmod(units, groups)
    sizes = {
        "TILES_M": tiles[0],
        "TILES_N": tiles[1],
        "UNITS": units,
        "TOGETHER": together,
        "MANY": many,
        "HIGH": low + 1,
        "FEW": groups - many,
        "LOW": low,
        "ENTRY": 2**ENTRY_BITS,
    }
    looked_up = name == HILBERT
    return RasterOrder(
        name=name,
        tiles=tiles,
        together=together,
        groups=groups,
        change=Change("order table" if looked_up else f"order {name}", sizes),
        table=hilbert(units, tiles[1]) if looked_up else (),
    )


def formulas_of(places: TilePlaces | None, tiles: tuple[int, int]) -> tuple[IntExpr, IntExpr]:
    """The place of a tile along M and along N, as a launch has it; None: along M first."""
    if places is None:
        return order_of(ROWS, tiles).formulas
    return from_json(places.m), from_json(places.n)


def unit_of(together: int) -> IntExpr:
    """The number of the unit of a tile, by which its place is looked up."""
    return Change("order table", {"TOGETHER": together}).let("unit")


def _every_entry(claim: str, table: tuple[tuple[int, int], ...], rows: int, columns: int) -> Outcome:
    seen: set[tuple[int, int]] = set()
    for index, (m, n) in enumerate(table):
        if not (0 <= m < rows and 0 <= n < columns) or (m, n) in seen:
            return Counterexample(claim, (("entry", index),), f"({m}, {n}) is no unit, or has come before")
        seen.add((m, n))
    if len(seen) != rows * columns:
        return Counterexample(claim, (), f"the table has {len(seen)} of {rows * columns} units")
    return Proof(claim, "every entry is another one")
