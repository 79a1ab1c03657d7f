"""Formulas that `convc.derive` has derived, as expressions with the numbers of a problem.

With numbers in place of sizes, a formula of the record (`convc.derived.record`) is an expression (`convc.ir.expr`), as
small as the ranges of its axes make it (`convc.compiler.index.smaller`).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from convc.compiler.index.maps import Axis, Guard, IndexMap, needed_guards
from convc.compiler.index.smaller import smaller, tidy
from convc.derived.record import FormRecord, MapRecord, Sizes, atom_at, derived, number_of
from convc.ir import expr as intexpr
from convc.ir.expr import Const, IntExpr, substitute

GRID = ("tile_m", "window")
"""The axes of which the number of an iteration is known where they have one, in every loop."""


class Instance(msgspec.Struct, frozen=True):
    """A form with the numbers of a problem.

    Attributes:
        form: its name.
        sizes: the numbers that stand for sizes.
        axes: the loops by their names.
        known: formulas that were made before: maps have many of theirs in common.
    """

    form: str
    sizes: Sizes
    axes: Mapping[str, Axis]
    known: dict[tuple[int, tuple[str, ...], bool], IntExpr] = msgspec.field(default_factory=dict)

    @property
    def record(self) -> FormRecord:
        """What was derived."""
        return derived().forms[self.form]

    @property
    def conditions(self) -> list[int]:
        """The numbers of the conditions that the sizes have to meet."""
        return self.record.conditions

    def map_record(self, name: str) -> MapRecord:
        """A map for all sizes, of a form or of a fact."""
        found = derived()
        known = found.forms[self.form] if self.form in found.forms else found.facts[self.form]
        return known.maps[name]

    def map(self, name: str, *, called: str = "", without: tuple[str, ...] = (), small: bool = True) -> IndexMap:
        """An index map.

        Args:
            name: by which the form has it. called: another name for people.
            without: axes that it does not depend on, here.
            small: whether it is made smaller by the ranges of its axes, without conditions that these make true.
        """
        record = self.map_record(name)
        domain = tuple(self.axes[axis] for axis in record.axes if axis not in without)
        zero = {axis for axis in record.axes if axis in without or (small and self.axes[axis].extent == 1)}
        known = dict.fromkeys(zero, Const(0))
        ranges = {axis.name: axis.range for axis in domain}
        formulas = derived().expressions

        def made(formula: int) -> IntExpr:
            key = formula, without, small
            if key not in self.known:
                expr = formulas[formula].at(self.sizes)
                expr = substitute(expr, known) if known else expr
                self.known[key] = smaller(expr, ranges) if small else tidy(expr)
            return self.known[key]

        results = tuple((result, made(formula)) for result, formula in record.results)
        guard = tuple(Guard(made(each.low), made(each.high), each.sign == "<") for each in record.guard)
        guard, dropped = needed_guards(guard, ranges) if small else (guard, ())
        return IndexMap(name=called or name, domain=domain, results=results, guard=guard, dropped=dropped)

    def coordinate(self, name: str, result: str) -> IntExpr:
        """A result of a map as a tile program computes it: terms in the order of loops, each as small as it gets.

        Loops are variables, also where they have one iteration; only what the grid and the windows of a tile decide is
        a number then. What is about loops that the instance does not have stays as it is.
        """
        record = self.map_record(name)
        formula = derived().expressions[dict(record.results)[result]]
        ranges = {axis: self.axes[axis].range for axis in record.axes if axis in self.axes}
        known = {axis: Const(0) for axis in GRID if ranges.get(axis) == (0, 0)}
        parts: list[IntExpr] = []
        for term in formula.terms:
            atom = substitute(atom_at(term.atom, self.sizes, {}), known)
            atom = smaller(atom, ranges) if atom.variables() <= ranges.keys() else tidy(atom)
            parts.append(intexpr.mul(atom, number_of(term.times, self.sizes)))
        return intexpr.add(*parts, number_of(formula.constant, self.sizes))


def further(instance: Instance, sizes: Sizes, **extents: int) -> Instance:
    """An instance with further sizes, and with axes of these extents."""
    axes = {name: Axis(name, extent) for name, extent in extents.items()}
    return Instance(instance.form, {**instance.sizes, **sizes}, {**instance.axes, **axes})
