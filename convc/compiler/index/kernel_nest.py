"""The loop nest of a kernel: the last one of its derivation, with the numbers of a problem put in.

A schedule makes its steps from it: which loops there are, in which order and how often they turn, and what the kernel
computes from their numbers. Nothing about positions is left for it to work out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import msgspec

from convc.compiler.index.formulas import Instance
from convc.compiler.index.maps import Axis
from convc.derived.record import Division, Formula, MapRecord, NestRecord, Sizes, derived
from convc.ir.expr import Const, Interval, IntExpr, substitute

INSTRUCTION = ("lane", "column", "e")
"""The loops that one instruction runs by itself (`convc.derive.mainloop`)."""
POSITION = "position"
"""Counts the columns of a buffer in the order in which they come."""


class KernelLoop(msgspec.Struct, frozen=True):
    """A loop of the mainloop: what it counts, and how often it turns."""

    axis: str
    count: int


class KernelNest(msgspec.Struct, frozen=True):
    """A nest with numbers.

    Attributes:
        instance: the form, and the numbers that stand for sizes.
        known: loops that are written out, with the number of the iteration that is meant.
    """

    instance: Instance
    known: Mapping[str, int] = {}

    @property
    def record(self) -> NestRecord:
        """The nest as it was derived."""
        return derived().nests[self.instance.record.algorithms[-1][1]]

    @property
    def mainloop(self) -> tuple[KernelLoop, ...]:
        """The loops that a role of a CTA goes through for each tile, outermost first."""
        axes = [axis for axis, _, _ in self.record.loops]
        first = axes.index(self.record.accumulate or "") + 1
        last = min(axes.index(axis) for axis in INSTRUCTION if axis in axes)
        return tuple(KernelLoop(axis, self.count(axis)) for axis in axes[first:last])

    @property
    def loaded(self) -> str:
        """The loop in whose iterations pixels are loaded."""
        assert self.record.load is not None
        return self.record.load.inside

    @property
    def around(self) -> tuple[KernelLoop, ...]:
        """The loops of the mainloop around the one in which pixels are loaded."""
        loops = self.mainloop
        return loops[: [loop.axis for loop in loops].index(self.loaded)]

    @property
    def turns(self) -> int:
        """Iterations of the mainloop, all its loops together."""
        return math.prod(loop.count for loop in self.mainloop)

    def count(self, axis: str) -> int:
        """Turns of a loop: as far as its extent, and the guard of the nest among the loops that are known."""
        extent = next(extent for name, extent, _ in self.record.loops if name == axis)
        sizes = {**self.instance.sizes, **self.known}
        formulas = derived().expressions
        count = formulas[extent].number(sizes)
        for bound in self.record.guard:
            low = formulas[bound.low]
            if axis in self.known or not _about(low, axis, {*self.known, axis}):
                continue
            first = low.number({**sizes, axis: 0})
            step = low.number({**sizes, axis: 1}) - first
            room = formulas[bound.high].number(sizes) - first - (bound.sign == "<")
            count = min(count, room // step + 1)
        return count

    def buffers(self) -> Iterator[KernelNest]:
        """The nest of each buffer: its columns of the filter, and the halo that they need."""
        own = self.instance.form.find("rows boxed") < 0  # one map over the pixels of all buffers: one halo for all
        for number in range(self.count("buffer")):
            one = KernelNest(self.instance, {**self.known, "buffer": number})
            taps = one.count("tap")
            sizes = {**self.instance.sizes, "TAPS": taps}
            axes = {**self.instance.axes, POSITION: Axis(POSITION, taps)}
            nest = KernelNest(msgspec.structs.replace(self.instance, sizes=sizes, axes=axes), one.known)
            if own:
                sizes["HALO"] = nest.number("halo", "rows")
            yield nest

    def sized(self, **sizes: int) -> KernelNest:
        """The nest with further numbers, or with others, in place of sizes."""
        return KernelNest(msgspec.structs.replace(self.instance, sizes={**self.instance.sizes, **sizes}), self.known)

    def innermost(self, name: str, result: str) -> str:
        """The innermost loop of the mainloop whose number a result of a map needs; "" where it needs none."""
        axes = set(_axes(formula_of(self.instance.record.maps[name], result)))
        return next((loop.axis for loop in reversed(self.mainloop) if loop.axis in axes), "")

    def value(self, name: str, result: str, **axes: IntExpr | int) -> IntExpr:
        """A result of a map as a role computes it.

        Args:
            name, result: of the map.
            axes: what stands for its axes; by default loops that are written out are numbers, others variables.
        """
        record = self.instance.record.maps[name]
        ranges = {axis: self.instance.axes[axis].range for axis in record.axes if axis in self.instance.axes}
        given = {axis: Const(number) for axis, number in self.known.items()}
        given |= {axis: Const(each) if isinstance(each, int) else each for axis, each in axes.items()}
        return value_of(record, result, self.instance.sizes, ranges, given)

    def number(self, name: str, result: str, **axes: int) -> int:
        """A result of a map as a number."""
        found = self.value(name, result, **axes)
        assert isinstance(found, Const), f"{result} of {name} is {found}"
        return found.value


def value_of(
    record: MapRecord, result: str, sizes: Sizes, ranges: Mapping[str, Interval], axes: Mapping[str, IntExpr]
) -> IntExpr:
    """A result of a map with numbers in place of sizes, and expressions in place of some of its axes."""
    expr = formula_of(record, result).at(sizes, ranges)
    return substitute(expr, axes) if axes else expr


def formula_of(record: MapRecord, result: str) -> Formula:
    """The formula of a result."""
    return derived().expressions[dict(record.results)[result]]


def _axes(formula: Formula) -> Iterator[str]:
    for term in formula.terms:
        if isinstance(term.atom, Division):
            yield from _axes(term.atom.dividend)
        else:
            yield term.atom


def _about(formula: Formula, axis: str, known: set[str]) -> bool:
    """Whether a sum without divisions is about a loop, and about no other that is not known."""
    atoms = [term.atom for term in formula.terms]
    return axis in atoms and all(isinstance(atom, str) and atom in known for atom in atoms)
