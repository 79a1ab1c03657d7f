"""The loop test: run a derived nest with numbers, as it is written down, and compare its sums with the definition."""

from __future__ import annotations

import msgspec
import numpy as np

from convc.compiler.index.changes import Change, changed
from convc.compiler.index.formulas import Instance
from convc.derived.record import derived, number_of
from convc.ir.problem import ConvProblem


def value(formula, sizes, points):
    """A formula at points: arrays in place of axes."""
    total = number_of(formula.constant, sizes)
    for term in formula.terms:
        atom = term.atom
        if isinstance(atom, str):
            found = points[atom]
        else:
            dividend = value(atom.dividend, sizes, points)
            divisor = number_of(atom.divisor, sizes)
            found = dividend // divisor if atom.sign == "//" else dividend % divisor
        total = total + number_of(term.times, sizes) * found
    return total


class Ran:
    """A nest on arrays of whole numbers.

    Attributes:
        y: the sums that it makes.
    """

    def __init__(
        self, problem: ConvProblem, instance: Instance, nest: dict, x: np.ndarray, w: np.ndarray, looked_up=None
    ) -> None:
        self.sizes = instance.sizes
        self.formulas = derived().expressions
        extents = [self.number(extent) for _, extent, _ in nest["loops"]]
        names = [name for name, _, _ in nest["loops"]]
        grid = np.meshgrid(*(np.arange(extent) for extent in extents), indexing="ij", sparse=True)
        self.points = dict(zip(names, grid, strict=True))
        shape = tuple(extents)
        for inside, axis, cases, found in nest.get("lets", ()):
            assert inside in names
            self.points[axis] = looked_up[found][self.points["unit"]] if found else self.let(cases)
        space = {name: self.at(formula) for name, formula in nest["space"]}
        real = np.ones(shape, bool)
        for sign, low, high in nest["guard"]:
            one, two = self.at(low), self.at(high)
            real = real & (one < two if sign == "<" else one <= two)
        for mask in nest["masks"]:
            need, end, held, held_end = (self.at(mask[side]) for side in ("need", "end", "held", "held_end"))
            found = (held >= 0) & (held < held_end)
            if mask["since"] is not None:
                found = found & (self.at(mask["since"]) >= 0)
            real = real & ~(found & ((need < 0) | (need >= end)))
        values = self.pixels(problem, nest, space, x, shape)
        k, c, r, s = (np.broadcast_to(space[name], shape)[real] for name in "kcrs")
        n, p, q = (np.broadcast_to(space[name], shape)[real] for name in "npq")
        self.y = np.zeros((problem.batch, *problem.out_extent, problem.out_channels), np.int64)
        np.add.at(self.y, (n, p, q, k), values[real] * w[k, r, s, c])

    def let(self, cases):
        """A number that is worked out: the first case whose key is below its limit."""
        *some, (last, _, _) = cases
        found = self.at(last)
        for case, key, limit in reversed(some):
            found = np.where(self.at(key) < number_of(limit, self.sizes), self.at(case), found)
        return found

    def number(self, formula):
        return int(value(self.formulas[formula], self.sizes, {}))

    def at(self, formula):
        return value(self.formulas[formula], self.sizes, self.points)

    def pixels(self, problem, nest, space, x, shape):
        """The pixel of each iteration, zero where it is padding: from memory, or from a row of the tile."""
        load = nest["load"]
        if load is None:
            down, across = problem.stride
            h = space["p"] * down + space["r"] * problem.dilation[0] - problem.pad_lo[0]
            v = space["q"] * across + space["s"] * problem.dilation[1] - problem.pad_lo[1]
            place = {"n": space["n"], "h": h, "w": v, "c": space["group"] * problem.group_channels + space["c"]}
            inside = True
        else:
            row = self.at(nest["read"])
            if nest["move"] is not None:  # after so many turns a row has moved by so many lanes
                row = row + self.points[nest["move"]["inside"]] * self.number(nest["move"]["lanes"])
            self.points[load["row"]] = row
            place = {name: self.at(formula) for name, formula in load["pixel"]}
            inside = row < self.number(load["rows"])  # what is not loaded is nothing
            inside = inside if load["since"] is None else inside & (self.at(load["since"]) >= 0)
        ends = {"n": problem.batch, "h": problem.in_extent[0], "w": problem.in_extent[1], "c": problem.in_channels}
        for name, end in ends.items():
            inside = inside & (place[name] >= 0) & (place[name] < end)
        at = tuple(np.broadcast_to(np.where(inside, place[name], 0), shape) for name in "nhwc")
        return np.where(np.broadcast_to(inside, shape), x[at], 0)


def changed_computes(problem: ConvProblem, instance: Instance, *changes: Change, looked_up=None) -> bool:
    """Whether the last nest of a form, its loops changed, makes the sums of the definition."""
    drawn = np.random.default_rng(1)
    x = drawn.integers(1, 90, (problem.batch, *problem.in_extent, problem.in_channels))
    w = drawn.integers(1, 90, (problem.out_channels, *problem.kernel, problem.group_channels))
    nests = derived().nests
    last = nests[instance.record.algorithms[-1][1]]
    sizes = dict(instance.sizes)
    for change in changes:
        last = changed(last, change.record)
        sizes |= change.sizes
    nest = msgspec.to_builtins(last)
    definition = msgspec.to_builtins(nests[0])
    wanted = Ran(problem, instance, definition, x, w).y
    try:
        return np.array_equal(
            wanted, Ran(problem, Instance(instance.form, sizes, instance.axes), nest, x, w, looked_up).y
        )
    except IndexError:  # an iteration that is about no output or no weight
        return False


def computes(problem: ConvProblem, instance: Instance, right: Instance | None = None) -> bool:
    """Whether every nest of a form, with its numbers, makes the sums of the definition, with the right ones."""
    drawn = np.random.default_rng(1)
    x = drawn.integers(1, 90, (problem.batch, *problem.in_extent, problem.in_channels))
    w = drawn.integers(1, 90, (problem.out_channels, *problem.kernel, problem.group_channels))
    nests = msgspec.to_builtins(derived().nests)
    definition, *chain = (nests[number] for _, number, _ in instance.record.algorithms)
    wanted = Ran(problem, right or instance, definition, x, w).y
    try:
        return all(np.array_equal(wanted, Ran(problem, instance, nest, x, w).y) for nest in chain)
    except IndexError:  # an iteration that is about no output or no weight
        return False
