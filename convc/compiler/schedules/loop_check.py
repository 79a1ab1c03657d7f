"""The loop check: a kernel multiplies every filter tap and channel block once, each with the tiles loaded for it.

A theorem speaks of a nest, and the loops of a kernel are read off that nest. Here the steps that came of it are looked
at again, as loops: how often each turns, which filter column a copy and a product are about, how many rows further on
the product reads. Nothing of the derivation is asked, only the problem.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from convc.compiler.index.presburger import apart
from convc.compiler.plan.names import PART
from convc.compiler.plan.records import Plan
from convc.compiler.plan.validation import wrong_number
from convc.compiler.schedules.base import Roles
from convc.compiler.schedules.skeleton import MAP_A, MAP_B, TURN
from convc.compiler.tile.steps.base import Compute, Repeat, Step
from convc.compiler.tile.steps.copies import TensorCopy
from convc.compiler.tile.steps.mma import MmaStationary, Multiply, SharedMma
from convc.compiler.tile.steps.split import ShareLoop
from convc.ir.debug_info import WALK
from convc.ir.expr import Interval, IntExpr, Var, evaluate

OUTER = ("r", "block")
"""Loops that copies and products have in common; those further in count the columns of a buffer, or windows."""
HOIST = "row lane + tap*d of the tile is of the lane's row, and the pixel that column tap*u + buffer needs"
"""The theorem about the rows that a product reads (`convc.derive.reuse`)."""
PER_TAP = "k_step"
"""The only loop of products that have a tile each: it counts copies in the order in which they come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A step, the loops around it, and the steps that compute numbers in these."""

    step: Step
    loops: tuple[Repeat, ...]
    computed: Mapping[str, Compute]

    @property
    def outer(self) -> tuple[tuple[str, int], ...]:
        """The loops around that others have too, and how often each turns."""
        return tuple((loop.var, loop.count) for loop in self.loops if loop.var in OUTER)

    @property
    def columns(self) -> list[int]:
        """The filter columns that it is about, in order."""
        if self.step.column is None:
            return []
        return [int(evaluate(self.step.column, point)) for point in self.points()]

    def points(self) -> Iterator[dict[str, int]]:
        """The numbers of the inner loops, iteration by iteration."""
        inner = [loop for loop in self.loops if loop.var not in OUTER]
        for numbers in itertools.product(*(range(loop.count) for loop in inner)):
            yield dict(zip((loop.var for loop in inner), numbers, strict=True))

    def numbers(self, name: str) -> list[int]:
        """A computed number, iteration by iteration."""
        return [int(evaluate(self.computed[name].expr, point)) for point in self.points()]


def check_loops(plan: Plan, roles: Roles) -> None:
    """Look at the loops of a kernel.

    Raises:
        DerivationError: a loop turns too often or not often enough, a tap is left out or comes twice, or a product
            reads other rows than those of its filter column.
    """
    if plan.layout.summed:
        _check_summed(plan, roles)
        return
    problem = plan.problem
    taps_h, taps_w = problem.kernel
    blocks = -(-plan.layout.c_pitch // plan.pipeline.channels)
    copies = list(_places(roles.load))
    a = [each for each in copies if isinstance(each.step, TensorCopy) and each.step.map == MAP_A]
    b = [each for each in copies if isinstance(each.step, TensorCopy) and each.step.map == MAP_B]
    products = [each for each in _places(roles.multiply) if isinstance(each.step, Multiply)]
    if any(loop.var == PER_TAP for each in products for loop in each.loops):
        turns = sum(each.loops[-1].count for each in products)
        if turns != taps_h * taps_w * blocks:
            raise wrong_number(problem, f"{turns} products of a tile, and {taps_h}*{taps_w} taps of {blocks} blocks")
        wanted = {"r": taps_h, "s": taps_w, "block": blocks}
        for each in (*a, *b):
            found = {loop.var: loop.count for loop in each.loops}
            if found != wanted:
                raise wrong_number(problem, f"{each.step.id} is in loops {found}, and the problem has {wanted}")
        return
    for each in (*a, *b, *products):
        if dict(each.outer) != {"r": taps_h, "block": blocks} or each.outer != products[0].outer:
            why = f"{each.step.id} is in loops {dict(each.outer)}, and the problem has {taps_h} rows, {blocks} blocks"
            raise wrong_number(problem, why)
    loaded, multiplied = ([s for each in places for s in each.columns] for places in (b, products))
    if loaded != multiplied or sorted(loaded) != list(range(taps_w)):
        why = f"filter columns {loaded} are loaded and {multiplied} multiplied, and the problem has {taps_w}"
        raise wrong_number(problem, why)
    for each in products:
        _check_rows(plan, each)


def _check_summed(plan: Plan, roles: Roles) -> None:
    """Whether every block of pixels is loaded and multiplied once, and a copy brings each span of a tile."""
    gradient = plan.layout.model
    pixels = gradient.in_channels * math.prod(gradient.kernel)
    blocks = -(-pixels // plan.pipeline.channels)
    found = [
        (each.step.id, [loop.count for loop in each.loops])
        for each in _places((*roles.load, *roles.multiply))
        if isinstance(each.step, Multiply) or (isinstance(each.step, TensorCopy) and each.step.map in (MAP_A, MAP_B))
    ]
    for name, turns in found:
        if turns != [blocks]:
            raise wrong_number(plan.problem, f"{name} is in loops of {turns} turns, and {blocks} blocks have pixels")
    span = plan.tiling.row_bytes // gradient.operand_dtype.bytes
    wanted = plan.tiling.block_m // span + -(-plan.tiling.block_n // span) + 1
    if len(found) != wanted:
        raise wrong_number(plan.problem, f"{len(found)} copies and products of a stage, and its spans need {wanted}")


def _check_rows(plan: Plan, product: Place) -> None:
    """Whether a product that reads rows further on reads those of its filter column."""
    step = product.step
    if isinstance(step, SharedMma):
        rows = product.numbers(step.row) if step.row else [0] * len(product.columns)
    elif isinstance(step, MmaStationary):
        rows = [step.shift] * len(product.columns)
    else:
        return  # rows that move come to the lane
    problem = plan.problem
    assert plan.reuse is not None
    offset = {tap.s: buffer.offset for buffer in plan.reuse.walk.buffers for tap in buffer.taps}
    for s, row in zip(product.columns, rows, strict=True):
        needed = s * problem.dilation[1] - offset[s]
        if row * problem.stride[1] != needed:
            why = f"filter column {s} reads {row} rows on, {row * problem.stride[1]} pixels, and needs {needed}"
            raise wrong_number(problem, why, HOIST)


def check_shares(plan: Plan, roles: Roles) -> None:
    """Look at the loops of CTAs that share the steps of a tile: every step is that of one of them.

    Raises:
        DerivationError: a step is left out or comes twice, or is about another filter tap than it counts.
    """
    parts = plan.launch.parts
    blocks = -(-plan.layout.c_pitch // plan.pipeline.channels)
    extents = {"r": plan.problem.kernel[0], "s": plan.problem.kernel[1], "block": blocks}
    if plan.layout.summed:
        extents = {"block": -(-plan.layout.model.gemm_k // plan.pipeline.channels)}
    extents[PER_TAP] = math.prod(extents.values())
    for place in _places((*roles.load, *roles.multiply)):
        if not place.loops or not isinstance(place.loops[0], ShareLoop):
            continue
        loop = place.loops[0]
        units = math.prod(count for _, count in loop.nest)
        if any(count != extents[name] for name, count in loop.nest):
            raise wrong_number(plan.problem, f"{loop.id} shares loops {dict(loop.nest)}, and the problem has {extents}")
        if (loop.first, loop.stride, loop.limit, loop.count) != (PART, parts, units, -(-units // parts)):
            why = f"{loop.id} takes every {loop.stride}th of {loop.limit} steps, and {parts} CTAs share {units}"
            raise wrong_number(plan.problem, why)
        step = place.step
        if isinstance(step, Compute):
            wanted = {TURN: Var(loop.var) // parts, **_digits(Var(loop.var), loop.nest)}
            if step.dst in wanted:
                _same(plan, step, wanted[step.dst], {loop.var: (0, units - 1)})


def check_persistent(plan: Plan, roles: Roles) -> None:
    """Look at the places of the tiles of persistent CTAs, where tiles are counted along the pixels first.

    Raises:
        DerivationError: a number counts another tile.
    """
    rows, columns = plan.launch.tiles
    if plan.launch.order.places is not None:
        return
    wanted: dict[str, IntExpr] = {"tile_m": Var(WALK) % rows, "tile_n": Var(WALK) // rows}
    for place in _places((*roles.load, *roles.multiply, *roles.epilogue)):
        step = place.step
        if isinstance(step, Compute) and step.dst in wanted and step.expr.variables() <= {WALK}:
            _same(plan, step, wanted[step.dst], {WALK: (0, rows * columns - 1)})


def _digits(number: IntExpr, nest: tuple[tuple[str, int], ...]) -> dict[str, IntExpr]:
    """The numbers of loops that are counted by one, the innermost fastest."""
    found: dict[str, IntExpr] = {}
    for name, count in reversed(nest):
        found[name] = number % count
        number = number // count
    return found


def _same(plan: Plan, step: Compute, wanted: IntExpr, ranges: dict[str, Interval]) -> None:
    """Hold a computed number against what it means."""
    found = apart(ranges, [(step.expr, wanted)])
    if found is not None:
        at = ", ".join(f"{name} = {number}" for name, number in found[1].items())
        raise wrong_number(plan.problem, f"{step.dst} = {step.expr} at {at}, and its meaning is {wanted}")


def _places(
    steps: tuple[Step, ...], loops: tuple[Repeat, ...] = (), before: Mapping[str, Compute] | None = None
) -> Iterator[Place]:
    computed = dict(before or {})
    for step in steps:
        if isinstance(step, Compute):
            computed[step.dst] = step
        if isinstance(step, Repeat):
            yield from _places(step.body, (*loops, step), computed)
        else:
            yield Place(step=step, loops=loops, computed=computed)
