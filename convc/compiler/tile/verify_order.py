"""Tiles that are made in an order: each once, and all roles of a CTA at the same place, whatever the order is called.

The formulas are not trusted: they are computed here for every number of a tile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np

from convc.compiler.plan.names import NewNumber, Number
from convc.compiler.tile.program import Role, TileProgram
from convc.compiler.tile.steps.base import Compute, LookUp, Step
from convc.compiler.tile.steps.persistent import FetchLoop, TileLoop
from convc.errors import TileError
from convc.ir.expr import evaluate

PLACE = (NewNumber(Number("tile_m")), NewNumber(Number("tile_n")))
"""Row and column of a tile."""

Values = dict[str, np.ndarray]
"""Numbers of a role, each for every tile."""


def every_place_once(program: TileProgram) -> Iterator[str]:
    """Each tile has one number, each role finds the same place for it, and the CTAs are as many as the tiles."""
    if program.ordered is None:
        return
    extents = program.ordered
    tiles = extents[0] * extents[1]
    across, height, _ = program.launch.grid
    if program.visits is None and (across, height) != (tiles, 1):
        yield f"{tiles} tiles are made in an order, each by its own CTA, and the grid is {across} x {height}"
    agreed: dict[str, tuple[Role, list[int]]] = {}
    for role in program.all_roles:
        try:
            found = _places_of(program, role, tiles)
        except TileError as error:
            yield error.message
            return
        for name in PLACE:
            if name not in found:
                continue
            first, others = agreed.setdefault(name, (role, found[name]))
            if others != found[name]:
                yield f"roles {first.name} and {role.name} find other places for a tile: {name} differs"
    missing = [name for name, extent in zip(PLACE, extents, strict=True) if name not in agreed and extent > 1]
    if missing:
        yield f"nobody finds {missing[0]} of a tile"
        return
    m, n = (agreed[name][1] if name in agreed else [0] * tiles for name in PLACE)
    times = Counter(zip(m, n, strict=True))
    for (row, column), count in times.items():
        if not (0 <= row < extents[0] and 0 <= column < extents[1]):
            yield f"a number leads to tile ({row}, {column}) of {extents[0]} x {extents[1]}"
            return
        if count > 1:
            yield f"tile ({row}, {column}) has {count} numbers, and another one has none"
            return


def _places_of(program: TileProgram, role: Role, tiles: int) -> dict[str, list[int]]:
    """List the numbers that a role works out from the number of a tile alone, by their names, for so many tiles.

    Raises:
        TileError: an entry is looked up that there is not, or a number is not below what it is said to be.
    """
    steps = role.steps
    name = "cta"
    if program.visits is not None:
        loops = [step for step in steps if isinstance(step, TileLoop | FetchLoop)]
        steps = loops[0].body if loops else ()
        name = loops[0].var if loops else name
    values: Values = {name: np.arange(tiles)}
    for step in steps:
        made = _made(program, step, values)
        if made is not None:
            values[made[0]] = np.broadcast_to(made[1], tiles)
    return {name: value.tolist() for name, value in values.items()}


def _made(program: TileProgram, step: Step, values: Values) -> tuple[str, np.ndarray] | None:
    """The number that a step makes of those that are known; None where it makes another, or none."""
    if isinstance(step, LookUp) and step.index in values:
        index = values[step.index]
        if index.max() >= len(program.table):
            raise TileError(f"{step.id} looks up entry {index.max()} of {len(program.table)}")
        return step.dst, np.asarray(program.table, np.int64)[index]
    if isinstance(step, Compute) and step.expr.variables() <= values.keys():
        value = np.asarray(evaluate(step.expr, values))
        if step.below is not None and (value.min() < 0 or value.max() >= step.below):
            raise TileError(f"{step.id} is {value.min()} .. {value.max()}, and said to be below {step.below}")
        return step.dst, value
    return None


ORDER_CHECKS: tuple[Callable[[TileProgram], Iterator[str]], ...] = (every_place_once,)
