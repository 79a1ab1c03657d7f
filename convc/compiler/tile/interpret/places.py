"""The places that a role finds for its CTAs' tiles, for all numbers at once."""

from __future__ import annotations

import numpy as np

from convc.compiler.tile.program import Role, TileProgram
from convc.compiler.tile.steps.base import Compute, Step
from convc.compiler.tile.steps.order import LookUp
from convc.compiler.tile.steps.persistent import FetchLoop, TileLoop
from convc.errors import TileError
from convc.ir.expr import evaluate

Values = dict[str, np.ndarray]
"""Numbers of a role, each for every tile."""


def places_of(program: TileProgram, role: Role, tiles: int) -> dict[str, list[int]]:
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
