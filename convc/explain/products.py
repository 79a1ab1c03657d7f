"""The products that a loop nest really adds up: run it, and list those that every output received.

Running means running: loops in their order, loads, moves, masks and accumulators with their state, so that a load that
stands at the wrong place or a row that did not come along shows up as a wrong product. Elements are numbers, not
values: a product is (output element, activation element, weight element), and two nests are the same if they add the
same products to the same outputs. Products with padding are zero and do not count.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from convc.compiler.index.lower import translate
from convc.compiler.index.maps import Counterexample, IndexMap, Outcome, Proof
from convc.explain.nests import Accumulate, Load, Move, Nest, Read
from convc.explain.shared_rows import needed_pixel
from convc.ir import expr
from convc.ir.problem import ConvProblem

POINTS = 1 << 20
"""Iterations that a nest is run for."""

PADDING = -1
"""In place of an activation element: the product is zero, because it lies outside the image or its lane is masked."""

NOTHING = -2
"""In place of an activation element that nobody has loaded."""


@dataclass(frozen=True, slots=True, eq=False)
class Products:
    """The products of all outputs, sorted by output, then by term.

    Attributes:
        out: int64 (products,), number of the output element, n outermost, then p, q, k.
        term: int64 (products,), activation element * number of weights + weight element.
        point: int64 (products,), number of the iteration, in the extents of the loops.
    """

    out: np.ndarray
    term: np.ndarray
    point: np.ndarray

    def key(self, at: int) -> tuple[int, int] | None:
        """(output, term) of one product, in the order of the list; None behind its end."""
        return (int(self.out[at]), int(self.term[at])) if at < self.out.size else None


def same_products(before: Nest, after: Nest, claim: str) -> Outcome:
    """Whether both nests add the same products to the same outputs; both are run."""
    one = products(before)
    two = products(after)
    count = min(one.out.size, two.out.size)
    differs = (one.out[:count] != two.out[:count]) | (one.term[:count] != two.term[:count])
    if not differs.any() and one.out.size == two.out.size:
        return Proof(claim, f"ran: {count} products are the same")
    # Both lists are sorted, so at the first difference the smaller product is the one that the other nest lacks.
    at = int(np.argmax(differs)) if differs.any() else count
    wanted = one.key(at)
    found = two.key(at)
    if wanted is not None and (found is None or wanted < found):
        return Counterexample(claim, _loops(before, one.point[at]), _says(before.problem, wanted, "lacks"))
    assert found is not None, "at the first difference one of the lists goes on"
    twice = at > 0 and found == two.key(at - 1)
    return Counterexample(claim, _loops(after, two.point[at]), _says(after.problem, found, "gets", twice))


@lru_cache(maxsize=2)
def products(nest: Nest) -> Products:
    """Run a nest; `POINTS` says for how large a one this is quick."""
    run = _Run(nest)
    run.loop(0, {})
    out, term, point = run.kept()
    order = np.lexsort((point, term, out))
    return Products(out[order], term[order], point[order])


class _Run:
    """A nest while it runs. Loops without statements further in are done at once, as arrays."""

    def __init__(self, nest: Nest) -> None:
        self.nest = nest
        self.problem = nest.problem
        self.at = {axis.name: [each for each in nest.body if each.inside == axis.name] for axis in nest.loops}
        # Loops without statements further in do nothing but multiply: their iterations are one array.
        deepest = max((nest.names.index(each.inside) for each in nest.body), default=-1)
        self.serial = nest.loops[: deepest + 1]
        self.iterations = _Iterations(nest)
        # The tile as it is now, as its last load left it, and how often it has moved by one since.
        self.rows = np.zeros((0, 0), np.int64)
        self.loaded = self.rows
        self.moved = 0
        self.stored: list[np.ndarray] = []
        self.sums: list[np.ndarray] = []

    def loop(self, depth: int, point: dict[str, int]) -> None:
        """Run the loops from `depth` inwards; `point` has the values of those around them."""
        if depth == len(self.serial):
            self.sums.append(self.multiply(tuple(point.values())))
            return
        axis = self.serial[depth]
        for value in range(axis.extent):
            point[axis.name] = value
            for statement in self.at[axis.name]:
                if isinstance(statement, Load):
                    self.load(statement, point)
                elif isinstance(statement, Accumulate):
                    self.sums = []
            self.loop(depth + 1, point)
            for statement in self.at[axis.name]:
                if isinstance(statement, Move) and value < axis.extent - 1:
                    self.move(statement)
                elif isinstance(statement, Accumulate):
                    self.stored.append(np.concatenate(self.sums, axis=1))
        del point[axis.name]

    def load(self, load: Load, point: Mapping[str, int]) -> None:
        """Fill the tile; element numbers (rows, channels)."""
        channels = self.nest.loop("e").extent
        axes = {load.rows.name: np.arange(load.rows.extent)[:, None], "e": np.arange(channels)[None, :]}
        found = _elements(self.problem, load.map, {**point, **axes})
        self.rows = self.loaded = np.broadcast_to(found, (load.rows.extent, channels))
        self.moved = 0

    def move(self, move: Move) -> None:
        """Move the rows, `step` times by one."""
        last = np.arange(move.group - 1, move.lanes, move.group)
        for _ in range(move.step):
            rows = self.rows.copy()
            rows[: move.lanes - 1] = self.rows[1 : move.lanes]
            rows[last] = self.loaded[last + 1 + self.moved] if move.refreshed else self.rows[last]
            self.rows = rows
            self.moved += 1

    def multiply(self, at: tuple[int, ...]) -> np.ndarray:
        """(output, term, iteration) of each product, zeros included: int64 (3, products); ``at``: the serial loops."""
        found = self.iterations
        done = found.done[at]
        out = found.out[at][done]
        number = found.number[at][done]
        if found.element is not None:
            x = found.element[at][done]
        else:
            x = self.operand(found.row[at][done], found.channel[at][done])
            x = np.where(found.masked[at][done], PADDING, x)
        # One number says both factors; what is no element (padding, nothing) stays the negative number that it is.
        term = np.where(x < 0, x, x * _weights(self.problem) + found.weight[at][done])
        return np.stack([out, term, number])

    def operand(self, row: np.ndarray, channel: np.ndarray) -> np.ndarray:
        """Numbers of the activation elements in rows and channels of the tile."""
        # A wrong rewrite may read a row that the tile does not have: that is a finding, not an IndexError.
        inside = (row >= 0) & (row < self.rows.shape[0])
        return np.where(inside, self.rows[np.where(inside, row, 0), channel], NOTHING)

    def kept(self) -> np.ndarray:
        """What stays: of an output that was stored more than once, the last sum; of that, what is not zero."""
        if not any(isinstance(each, Accumulate) for each in self.nest.body):
            self.stored.append(np.concatenate(self.sums, axis=1))
        last = np.full(_outputs(self.problem), -1)  # number of the last store to each output
        for number, found in enumerate(self.stored):
            last[found[0]] = number
        kept = [found[:, last[found[0]] == number] for number, found in enumerate(self.stored)]
        found = np.concatenate(kept, axis=1)
        return found[:, found[1] != PADDING]


class _Iterations:
    """What every iteration of a nest has by itself, whatever happened before: arrays in the extents of the loops.

    Attributes:
        done: bool, whether it multiplies.
        out, weight: int64, numbers of the output and of the weight element. number: of the iteration.
        element: int64, number of the activation element; None where it is read from a tile:
        row, channel: int64, place in the tile. masked: bool, whether a mask leaves it out.
    """

    def __init__(self, nest: Nest) -> None:
        shape = tuple(axis.extent for axis in nest.loops)
        grids = np.meshgrid(*map(np.arange, shape), indexing="ij", sparse=True)
        points = dict(zip(nest.names, grids, strict=True))
        values = nest.space.evaluate(points)

        def of_each(value: int | np.ndarray) -> np.ndarray:
            return np.broadcast_to(np.asarray(value), shape)

        problem = nest.problem
        out_h, out_w = problem.out_extent
        taps_h, taps_w = problem.kernel
        out = ((values["n"] * out_h + values["p"]) * out_w + values["q"]) * problem.out_channels + values["k"]
        taps = (values["k"] * taps_h + values["r"]) * taps_w + values["s"]
        self.done = of_each(nest.space.holds(points))
        self.out = of_each(out)
        self.weight = of_each(taps * problem.in_channels + values["c"])
        self.number = np.arange(math.prod(shape)).reshape(shape)
        self.element = of_each(_elements(problem, nest.activation(), points)) if nest.read is None else None
        if nest.read is not None:
            self.row = of_each(expr.evaluate(translate(nest.read.row), points))
            self.channel = of_each(points["e"])
            self.masked = of_each(_masked(nest, nest.read, points, values))


def _masked(nest: Nest, read: Read, points: Mapping, values: Mapping) -> bool | np.ndarray:
    """Whether a mask leaves the iteration out."""
    names = {"lane": points[nest.pixels], "r": values["r"], "s": values["s"]} if read.masks else {}
    if read.masks and read.tile_m is not None:
        names["tile_m"] = expr.evaluate(translate(read.tile_m), points)
    found: bool | np.ndarray = False
    for mask in read.masks:
        found = found | np.asarray(expr.evaluate(mask, names), bool)
    return found


def _elements(problem: ConvProblem, index_map: IndexMap, points: Mapping) -> np.ndarray:
    """Number of the activation element that a map leads to, n outermost, then h, w, c; `PADDING` outside its guard."""
    height, width = problem.in_extent
    found = index_map.evaluate(points)
    number = ((found["n"] * height + found["h"]) * width + found["w"]) * problem.in_channels + found["c"]
    return np.where(index_map.holds(points), number, PADDING)


def _weights(problem: ConvProblem) -> int:
    """How many elements the filter has."""
    return problem.out_channels * problem.kernel[0] * problem.kernel[1] * problem.in_channels


def _outputs(problem: ConvProblem) -> int:
    """How many elements the output has."""
    return problem.gemm_m * problem.out_channels


def _loops(nest: Nest, number: int) -> tuple[tuple[str, int], ...]:
    """Value of each loop in an iteration."""
    found = np.unravel_index(int(number), [axis.extent for axis in nest.loops])
    return tuple((name, int(value)) for name, value in zip(nest.names, found, strict=True))


def _says(problem: ConvProblem, key: tuple[int, int], verb: str, twice: bool = False) -> str:
    """A product in words, and what the output needs for that tap if it is another one."""
    out, term = key
    n, p, q, k = _place(out, (problem.batch, *problem.out_extent, problem.out_channels))
    target = f"out[{n}, {p}, {q}, {k}] {verb}"
    if term == NOTHING:
        return f"{target} an element that nobody loaded"
    x, weight = divmod(term, _weights(problem))
    has = _place(x, (problem.batch, *problem.in_extent, problem.in_channels))
    of, r, s, c = _place(weight, (problem.out_channels, *problem.kernel, problem.in_channels))
    needs = needed_pixel(problem, (n, p, q), r, s)
    text = f"{target} x{has} * w{[of, r, s, c]}" + (" twice" if twice else "")
    needed = [needs.n, needs.h, needs.w, c]
    if has == needed:
        return text
    return f"{text}, where x{needed}{'' if needs.real else ', padding,'} is needed"


def _place(number: int, shape: tuple[int, ...]) -> list[int]:
    """The indices of an element of an array of that shape."""
    return [int(index) for index in np.unravel_index(number, shape)]
