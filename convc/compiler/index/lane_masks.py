"""Which lanes a tap must not write: those that need padding and hold a pixel of another image row.

The mask of filter column s and that of filter row r are computed apart and joined: a lane is masked where its *column*
needs padding and the lane holds a real pixel, or where its *row* lies outside its image and the lane finds a real row.
Together these are all lanes whose product would not be zero, and only lanes that need zero. Lanes without an output are
never masked, so that a tap without any mask writes every lane.

Bit j of word i is lane 32*i + j (PTX manual, tcgen05.mma, disable-output-lane).
"""

from __future__ import annotations

import numpy as np

from convc.compiler.index.lower import lower, translate
from convc.compiler.index.maps import IndexMap
from convc.compiler.index.reuse import ReuseMaps
from convc.ir import expr
from convc.ir.expr import And, Const, IntExpr, Less, Select

WORD = 32


def column_mask(maps: ReuseMaps) -> IntExpr:
    """1 where lane `lane` of tile `tile_m` is masked at filter column `s`, else 0."""
    width, column = maps.problem.in_extent[1], maps.column
    need, held, passed = (lower(column[name], column.ranges) for name in ("need", "held", "passed"))
    real = And((*_outputs(maps), Less(Const(-1), passed), *_within(held, width)))
    return Select(And(_within(need, width)), Const(0), Select(real, Const(1), Const(0)))


def line_mask(maps: ReuseMaps) -> IntExpr:
    """1 where lane `lane` of tile `tile_m` is masked at filter row `r`, else 0."""
    height, line = maps.problem.in_extent[0], maps.line
    need, held = (lower(line[name], line.ranges) for name in ("need", "held"))
    real = And((*_outputs(maps), *_within(held, maps.problem.batch * height)))
    return Select(And(_within(need, height)), Const(0), Select(real, Const(1), Const(0)))


def masked_columns(maps: ReuseMaps) -> tuple[int, ...]:
    """Filter columns at which some lane of some tile is masked."""
    if maps.walk.border == "zero":
        return ()
    return tuple(s for s in range(maps.problem.kernel[1]) if masked_lanes(column_mask(maps), maps.column, s=s).any())


def masked_lines(maps: ReuseMaps) -> tuple[int, ...]:
    """Filter rows at which some lane of some tile is masked."""
    if not maps.stream.masked:
        return ()
    return tuple(r for r in range(maps.problem.kernel[0]) if masked_lanes(line_mask(maps), maps.line, r=r).any())


def masked_lanes(mask: IntExpr, index_map: IndexMap, **tap: int) -> np.ndarray:
    """Bool (tiles, lanes): where a mask holds at one tap."""
    tiles, lanes = (axis.extent for axis in index_map.domain[:2])
    points = {"tile_m": np.arange(tiles)[:, None], "lane": np.arange(lanes)[None, :], **tap}
    return np.broadcast_to(np.asarray(expr.evaluate(mask, points), bool), (tiles, lanes))


def tile_mask(maps: ReuseMaps, tile_m: int, r: int, s: int) -> np.ndarray:
    """Bool (lanes,): the lanes of one tile that tap (r, s) does not write."""
    found = np.zeros(maps.tile.lanes, bool)
    if maps.walk.border == "mask":
        found |= masked_lanes(column_mask(maps), maps.column, s=s)[tile_m]
    if maps.stream.masked:
        found |= masked_lanes(line_mask(maps), maps.line, r=r)[tile_m]
    return found


def words(mask: np.ndarray) -> tuple[int, ...]:
    """The mask of a tile's lanes as words of 32 bits, lane 0 lowest."""
    padded = np.zeros(-(-mask.size // WORD) * WORD, bool)
    padded[: mask.size] = mask
    return tuple(int(word) for word in np.packbits(padded, bitorder="little").view("<u4"))


def _outputs(maps: ReuseMaps) -> tuple[IntExpr, ...]:
    """The conditions under which a lane has an output."""
    return tuple(translate(condition) for condition in maps.pixel.guard)


def _within(value: IntExpr, end: int) -> tuple[IntExpr, IntExpr]:
    """0 <= value < end."""
    return Less(Const(-1), value), Less(value, Const(end))
