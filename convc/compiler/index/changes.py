"""Changes of a kernel's loops, and facts about its copies, as `convc.derive` has them, with numbers of a problem."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from convc.compiler.index.smaller import tidy
from convc.derived.record import ChangeRecord, FactRecord, NestRecord, Sizes, derived, number_of
from convc.ir import expr as intexpr
from convc.ir.expr import IntExpr


class Fact(msgspec.Struct, frozen=True):
    """Something that an instruction of a kernel takes for granted (`convc.derive.results`), with numbers.

    Attributes:
        name: by which it was derived.
        sizes: the numbers that stand for sizes.
    """

    name: str
    sizes: Sizes

    @property
    def record(self) -> FactRecord:
        """The fact for all sizes."""
        return derived().facts[self.name]

    @property
    def conditions(self) -> list[int]:
        """The numbers of the conditions that the sizes have to meet."""
        return self.record.conditions


class Change(msgspec.Struct, frozen=True):
    """A change of loops (`convc.derive.reindex`) with the numbers of a problem; attributes as of `Fact`."""

    name: str
    sizes: Sizes

    @property
    def record(self) -> ChangeRecord:
        """The change for all sizes."""
        return derived().changes[self.name]

    @property
    def conditions(self) -> list[int]:
        """The numbers of the conditions that the sizes have to meet."""
        return self.record.conditions

    def number(self, name: str, result: str) -> int:
        """A result of a map that depends on sizes alone."""
        return derived().expressions[dict(self.record.maps[name].results)[result]].number(self.sizes)

    def value(self, name: str, result: str) -> IntExpr:
        """A result of a map as a tile program computes it: terms in the order of loops."""
        return derived().expressions[dict(self.record.maps[name].results)[result]].at(self.sizes)

    def extent(self, axis: str) -> int:
        """Count the iterations of a loop."""
        formula = next(extent for name, extent, _ in self.record.loops if name == axis)
        return derived().expressions[formula].number(self.sizes)

    def at(self, formula: int) -> IntExpr:
        """A formula with numbers."""
        return tidy(derived().expressions[formula].at(self.sizes))

    def let(self, axis: str) -> IntExpr:
        """A let, as a tile program computes it: cases that no number belongs to are left out."""
        *some, last = self.record.let(axis).cases
        found = self.at(last.value)
        for case in reversed(some):
            assert case.key is not None
            assert case.limit is not None
            limit = number_of(case.limit, self.sizes)
            value = self.at(case.value)
            if limit > 0 and value != found:
                found = intexpr.Select(intexpr.Less(self.at(case.key), intexpr.Const(limit)), value, found)
        return found


def changed(nest: NestRecord, change: ChangeRecord) -> NestRecord:
    """The nest with its loops counted in another way, as `convc.derive.reindex` does it."""
    first = [axis for axis, _, _ in nest.loops].index(change.old[0])

    def within(around: str) -> str:
        return change.inside.get(around, around)

    return replace(
        nest,
        loops=[*nest.loops[:first], *change.loops, *nest.loops[first + len(change.old) :]],
        lets=[*change.lets, *(replace(let, inside=within(let.inside)) for let in nest.lets)],
        guard=[*nest.guard, *change.guard],
        accumulate=change.added or (nest.accumulate and within(nest.accumulate)),
        added=change.added or nest.added,
        load=nest.load and replace(nest.load, inside=within(nest.load.inside)),
        move=nest.move and replace(nest.move, inside=within(nest.move.inside)),
    )
