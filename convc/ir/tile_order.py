"""The order in which the tiles of an output are made, as a kernel's text has it: from a tile's number to its place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from convc.ir.expr import IntExpr, evaluate, from_json

Expr = Any
"""An integer expression as JSON, see `convc.ir.expr.to_json`."""

TILE = "tile"
"""Variable: the number of a tile."""

ENTRY = "entry"
"""Variable: what the table has for it."""

ENTRY_BITS = 16
"""Bits of an entry for the place along M; those above are the place along N."""


class OrderTraffic(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about a rasterization order that a timer needs, and cannot see in a few CTAs.

    A plan that an older convc wrote has more fields, which are not read.

    Attributes:
        fetched: bytes that all reads of operands bring from memory, where L2 does not hold all.
        reached: bytes of operands that are read at all; None: not known (a plan of an older convc).
    """

    fetched: int
    reached: int | None = None


class TilePlaces(msgspec.Struct, frozen=True, kw_only=True):
    """The place of the tile of each number.

    Attributes:
        m, n: its place along M and along N, of the variables `TILE` and, where there is a table, `ENTRY`.
        table: entries, of which tile t has that of t // together; empty: there is none.
        together: tiles that follow each other and have an entry in common.
    """

    m: Expr
    n: Expr
    table: tuple[int, ...] = ()
    together: int = 1

    def at(self, tiles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Places along M and along N, int64 of the shape of ``tiles``, of tiles by their numbers."""
        return self.of(from_json(self.m), from_json(self.n), tiles)

    def of(self, m: IntExpr, n: IntExpr, tiles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Places of tiles by formulas that are expressions already; arrays as of `at`."""
        tiles = np.asarray(tiles, np.int64)
        values: Mapping[str, np.ndarray] = {TILE: tiles}
        if self.table:
            values = {TILE: tiles, ENTRY: np.asarray(self.table, np.int64)[tiles // self.together]}
        along_m, along_n = (np.broadcast_to(evaluate(expr, values), tiles.shape) for expr in (m, n))
        return along_m, along_n
