"""Which lanes a tap must not write: those that need padding and hold a pixel of another image row.

The mask of filter column s and that of filter row r are computed apart and joined: a lane is masked where its *column*
needs padding and the lane holds a real pixel, or where its *row* lies outside its image and the lane finds a real row.
Together these are all lanes whose product would not be zero, and only lanes that need zero. Lanes without an output are
never masked, so that a tap without any mask writes every lane.

Bit j of word i is lane 32*i + j (PTX manual, tcgen05.mma, disable-output-lane).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec
import numpy as np

from convc.compiler.index.maps import IndexMap
from convc.compiler.index.presburger import find
from convc.compiler.index.reuse import ReuseMaps
from convc.derived.record import derived
from convc.derived.solved import mapped
from convc.ir import expr
from convc.ir.expr import And, Const, IntExpr, Less, Select


class MaskRule(msgspec.Struct, frozen=True):
    """When a lane is masked: it holds something real, and what it needs is padding.

    Attributes:
        real: conditions that all hold where the lane has an output and finds a real pixel or row.
        needed, end: what it needs is padding outside of 0..end-1.
    """

    real: tuple[IntExpr, ...]
    needed: IntExpr
    end: int

    @property
    def value(self) -> IntExpr:
        """1 where the lane is masked, else 0."""
        masked = Select(And(self.real), Const(1), Const(0))
        return Select(And(_within(self.needed, self.end)), Const(0), masked)

    @property
    def padding(self) -> tuple[IntExpr, IntExpr]:
        """The two ways to need padding."""
        return Less(self.needed, Const(0)), Less(Const(self.end - 1), self.needed)


def _column_rule(maps: ReuseMaps) -> MaskRule:
    width = maps.problem.in_extent[1]
    need, held, passed = (maps.column[name] for name in ("need", "held", "passed"))
    return MaskRule((*maps.pixel.conditions, Less(Const(-1), passed), *_within(held, width)), need, width)


def _line_rule(maps: ReuseMaps) -> MaskRule:
    height = maps.problem.in_extent[0]
    need, held = (maps.line[name] for name in ("need", "held"))
    return MaskRule((*maps.pixel.conditions, *_within(held, maps.problem.batch * height)), need, height)


def column_mask(maps: ReuseMaps) -> IntExpr:
    """1 where lane `lane` of tile `tile_m` is masked at filter column `s`, else 0."""
    return _column_rule(maps).value


def line_mask(maps: ReuseMaps) -> IntExpr:
    """1 where lane `lane` of tile `tile_m` is masked at filter row `r`, else 0."""
    return _line_rule(maps).value


def masked_columns(maps: ReuseMaps) -> tuple[int, ...]:
    """Filter columns at which some lane of some tile is masked."""
    if maps.walk.border == "zero":
        return ()
    return _taps_with_masks(_column_rule(maps), maps.column, "s")


def masked_lines(maps: ReuseMaps) -> tuple[int, ...]:
    """Filter rows at which some lane of some tile is masked."""
    if not maps.stream.masked:
        return ()
    return _taps_with_masks(_line_rule(maps), maps.line, "r")


def _taps_with_masks(rule: MaskRule, index_map: IndexMap, tap: str) -> tuple[int, ...]:
    """The values of a filter axis at which some lane of some tile is masked."""
    ranges = index_map.ranges
    first, last = ranges.pop(tap)
    found: list[int] = []
    for value in range(first, last + 1):
        at = {tap: Const(value)}
        real, padding = ([expr.substitute(each, at) for each in some] for some in (rule.real, rule.padding))
        if find(ranges, real, padding) is not None:
            found.append(value)
    return tuple(found)


def tiles_with_masks(maps: ReuseMaps, tap: Literal["r", "s"], value: int) -> Iterator[int]:
    """The tiles with a lane that is masked at a filter row (r) or at a filter column (s), in order, one by one.

    Each is found by the solver, so that the first of them is known without a look at all tiles of a large image.
    """
    column = tap == "s"
    rule = _column_rule(maps) if column else _line_rule(maps)
    ranges = (maps.column if column else maps.line).ranges
    del ranges[tap]
    at = {tap: Const(value)}
    real, padding = ([expr.substitute(each, at) for each in some] for some in (rule.real, rule.padding))
    first, last = ranges["tile_m"]
    while first <= last:
        found = find({**ranges, "tile_m": (first, last)}, real, padding)
        if found is None:
            return
        yield found["tile_m"]
        first = found["tile_m"] + 1


def words(mask: np.ndarray) -> tuple[int, ...]:
    """The mask of a tile's lanes as words of 32 bits, lane 0 lowest."""
    place = derived().shares["word of a mask"].map
    lanes = [(mapped(place, "word", {"lane": lane}), mapped(place, "bit", {"lane": lane})) for lane in range(mask.size)]
    found = [0] * (lanes[-1][0] + 1)
    for (word, bit), off in zip(lanes, mask.tolist(), strict=True):
        found[word] |= off << bit
    return tuple(found)


def _within(value: IntExpr, end: int) -> tuple[IntExpr, IntExpr]:
    return Less(Const(-1), value), Less(value, Const(end))
