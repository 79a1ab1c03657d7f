"""Which part of a convolution a step of a kernel covers, each time it runs.

A plan says how a CTA's tile is made of output pixels and channels, and how the K loop is cut; a tile program says which
loops stand around a step and what is computed there. From both follows what the n-th execution of a step is about: a
filter tap and some input channels, or a part of the tile. Checkers count executions and know nothing of convolutions;
here the two meet. `convc.compiler.schedules.features.debug_info` makes the record; a build folder keeps it beside the
kernel, as JSON.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np

from convc.ir.expr import evaluate, from_json
from convc.ir.findings import Bounds
from convc.ir.tile_order import TilePlaces

Expr = Any
"""An integer expression as JSON, see `convc.ir.expr.to_json`."""


WALK = "tile"
"""Variable of the loop in which a CTA loops over tiles, of which a `Scope` counts the iterations."""


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """What a step knows when it runs.

    Attributes:
        loops: variable and count of the loops around it, outermost first.
        tap_column: the filter column that it is about, of the loop variables; None: of none, or of several.
        nest: where the split-K CTAs take turns with the steps of a loop: what these are counted through,
            outermost first, each with its count.
        first_column, width: the first of the accumulator's columns that it works on, of the loop variables, and how
            many these are; None: no certain ones.
    """

    loops: tuple[tuple[str, int], ...]
    tap_column: Expr | None
    first_column: Expr | None
    width: int | None
    nest: tuple[tuple[str, int], ...] = ()


class DebugInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The tile of a CTA, and the scopes of the steps.

    Attributes:
        pixel, channel: output pixel (n, p, q counted through) and output channel that a lane and a column of the
            accumulator hold, of the variables tile_m, tile_n, lane and column.
        pixels, channels: how many there are; numbers beyond are none.
        lanes, columns, first_column: the accumulator in tensor memory; its columns count from ``first_column``.
        taps, blocks, block_channels: filter extent (R, S), channel blocks, and channels of a block; 0: what is summed
            are pixels.
        in_channels: channels of the convolution.
        steps: the scope of every step, by its id.
        tiles: along M and along N, where CTAs have the numbers of their tiles: persistent ones begin at their own and
            go on by the number of CTAs; None: each CTA has the tile of its place in the grid.
        places: of the tiles by their numbers; None: along M first.
        parts: split-K CTAs, along the third axis of the grid.
    """

    pixel: Expr
    channel: Expr
    pixels: int
    channels: int
    lanes: int
    columns: int
    first_column: int
    taps: tuple[int, int]
    blocks: int
    block_channels: int
    in_channels: int
    steps: dict[str, Scope]
    tiles: tuple[int, int] | None = None
    parts: int = 1
    places: TilePlaces | None = None

    def outputs(self, tile: tuple[int, int], lanes: Bounds, columns: Bounds) -> tuple[Bounds | None, Bounds | None]:
        """First and last output pixel and channel that lanes and columns of the accumulator hold; None: none at all.

        ``tile`` is its place along M and N; columns count from the accumulator's first.
        """
        env = {
            "tile_m": tile[0],
            "tile_n": tile[1],
            "lane": np.arange(lanes[0], lanes[1] + 1)[:, None],
            "column": np.arange(columns[0], columns[1] + 1)[None, :],
        }
        pixels, channels = (evaluate(from_json(expr), env) for expr in (self.pixel, self.channel))
        return _known(pixels, self.pixels), _known(channels, self.channels)

    def tile_of(self, cta: int, grid: tuple[int, ...], step: str | None, nth: int | None) -> tuple[int, int] | None:
        """The tile that a CTA makes when it executes a step; None where that is not certain."""
        if self.tiles is None:
            return cta % grid[0], cta // grid[0] % grid[1]
        number = cta % grid[0]
        if any(name == WALK for scope in self.steps.values() for name, _ in scope.loops):
            loops = self._loops(step, nth)
            if loops is None or WALK not in loops:
                return None
            number = cta + math.prod(grid) * loops[WALK]
            if number >= math.prod(self.tiles):  # it asked for a tile, and the plan does not know which it was given
                return None
        m, n = self.place_of(np.array([number]))
        return int(m[0]), int(n[0])

    def place_of(self, tiles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Places along M and along N of tiles by their numbers; ValueError where CTAs have no numbers."""
        if self.places is not None:
            return self.places.at(tiles)
        if self.tiles is None:
            raise ValueError("the tile of a CTA is that of its place in the grid")
        return tiles % self.tiles[0], tiles // self.tiles[0]

    def columns_of(self, step: str | None, nth: int | None, part: int = 0) -> Bounds | None:
        """Columns of the accumulator that an execution of a step works on, where they are certain.

        ``part`` is the number of the CTA among those that share its tile.
        """
        loops = self._loops(step, nth, part)
        scope = self.steps.get(step or "")
        if loops is None or scope is None or scope.width is None:
            return None
        first = _value(scope.first_column, loops)
        return None if first is None else (first, first + scope.width - 1)

    def reduction(self, step: str | None, nth: int | None, part: int = 0) -> dict[str, Bounds]:
        """Input channels (c) and filter tap (r, s) of an execution of a step, as far as they are certain."""
        loops = self._loops(step, nth, part)
        scope = self.steps.get(step or "")
        if loops is None or scope is None or not self.block_channels:
            return {}
        r: int | None
        s: int | None
        block: int | None
        if "k_step" in loops:
            apart = self.parts if not scope.nest else 1  # of every tap the CTA has each n-th block
            tap, block = divmod(loops["k_step"], self.blocks // apart)
            block = block * apart + (part if apart > 1 else 0)
            r, s = divmod(tap, self.taps[1])
        else:
            r = loops.get("r")
            s = loops["s"] if "s" in dict(scope.nest) else _value(scope.tap_column, loops)
            block = loops.get("block")
        known = {name: (value, value) for name, value in (("r", r), ("s", s)) if value is not None}
        if block is not None:
            first = block * self.block_channels
            known["c"] = first, min(first + self.block_channels, self.in_channels) - 1
        return known

    def _loops(self, step: str | None, nth: int | None, part: int = 0) -> dict[str, int] | None:
        """Loop variables of a step that has run ``nth`` times before; None where it does not run so often."""
        scope = self.steps.get(step or "")
        if scope is None or nth is None or nth >= math.prod(count for _, count in scope.loops):
            return None
        values: dict[str, int] = {}
        for name, count in reversed(scope.loops):
            nth, values[name] = divmod(nth, count)
        if scope.nest:
            shared = next(name for name in values if name in ("step", "block"))
            unit = values.pop(shared) * self.parts + part
            for name, count in reversed(scope.nest):
                unit, values[name] = divmod(unit, count)
        if self.parts > 1:
            values["part"] = part
        return values


def _value(number: Expr | None, loops: dict[str, int]) -> int | None:
    """A number of the loop variables; None where it depends on the CTA or the thread too."""
    if number is None:
        return None
    expr = from_json(number)
    return int(evaluate(expr, loops)) if expr.variables() <= loops.keys() else None


def _known(numbers: Any, limit: int) -> Bounds | None:
    """First and last of the numbers below a limit."""
    inside = np.asarray(numbers)
    inside = inside[inside < limit]
    return (int(inside.min()), int(inside.max())) if inside.size else None


def dump_debug_info(info: DebugInfo) -> bytes:
    """Indented JSON."""
    return msgspec.json.format(msgspec.json.encode(info), indent=1)


def read_debug_info(data: bytes) -> DebugInfo:
    """The record from its JSON; ValueError (`msgspec.ValidationError` is one) where it is damaged."""
    info = msgspec.json.decode(data, type=DebugInfo)
    scopes = info.steps.values()
    numbers = (number for scope in scopes for number in (scope.tap_column, scope.first_column) if number is not None)
    places = () if info.places is None else (info.places.m, info.places.n)
    for expr in (info.pixel, info.channel, *numbers, *places):
        from_json(expr)
    return info
