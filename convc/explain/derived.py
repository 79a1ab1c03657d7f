"""Algorithms, rewrites and loop nests that `convc.derive` has derived, with the numbers of a layer put in.

The nests are those that a kernel's coordinates are read off (`convc.compiler.index.formulas`), so that what is shown
is what runs. Sizes in the names of rewrites are numbers too; theorems stay as they were shown, for all sizes.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping

import msgspec
import numpy as np
from msgspec.structs import replace

from convc.compiler.index.changes import Change, changed
from convc.compiler.index.conditions import conditions
from convc.compiler.index.formulas import Instance
from convc.compiler.index.maps import Axis, Guard, Outcome, needed_guards
from convc.compiler.index.row_walk import RowWalk
from convc.compiler.index.smaller import smaller
from convc.derive.text import NestText, let_text
from convc.derived.record import LetRecord, NestRecord, derived, number_of
from convc.ir import expr as intexpr
from convc.ir.epilogue import describe
from convc.ir.expr import Const, IntExpr, substitute
from convc.ir.problem import ConvProblem


class _Step(msgspec.Struct, frozen=True):
    name: str
    why: str
    theorems: list[int]
    conditions: list[int]


class _Theorem(msgspec.Struct, frozen=True):
    name: str
    says: list[str]
    given: list[str]


class Rewrite(msgspec.Struct, frozen=True):
    """A rewrite: why it is right, the theorems that it rests on, and what a problem has to meet, with numbers."""

    name: str
    why: str
    theorems: tuple[str, ...]
    conditions: tuple[Outcome, ...]


class Algorithm(msgspec.Struct, frozen=True):
    """A nest with numbers under the title of its algorithm, and the rewrites that made it from the one before."""

    title: str
    rewrites: tuple[Rewrite, ...]
    nest: FilledNest


@functools.cache
def _record() -> tuple[list[_Step], list[_Theorem]]:
    """The parts of the record that are for people alone."""
    found = derived()
    return (
        msgspec.json.decode(found.steps, type=list[_Step]),
        msgspec.json.decode(found.theorems, type=list[_Theorem]),
    )


def algorithms(instance: Instance, walk: RowWalk | None = None) -> tuple[Algorithm, ...]:
    """The chain to a form, the definition first; walk: of a form whose pixels are shared."""
    met = {outcome.claim: outcome for outcome in conditions(instance, walk)}
    nests = derived().nests
    return tuple(
        Algorithm(title, tuple(_rewrite(step, instance, met) for step in taken), FilledNest(instance, nests[nest]))
        for title, nest, taken in instance.record.algorithms
    )


def changed_by(algorithm: Algorithm, change: Change) -> Algorithm:
    """The algorithm with its loops counted in another way (`convc.derive.reindex`)."""
    before = algorithm.nest
    instance = replace(before.instance, sizes={**before.instance.sizes, **change.sizes})
    met = {outcome.claim: outcome for outcome in conditions(change)}
    nest = FilledNest(instance, changed(before.record, change.record), before.extents)
    return Algorithm(change.record.title, (_rewrite(change.record.step, instance, met),), nest)


def _rewrite(number: int, instance: Instance, met: Mapping[str, Outcome]) -> Rewrite:
    steps, theorems = _record()
    step = steps[number]
    words = dict.fromkeys(derived().conditions[each].words for each in step.conditions)
    names = tuple(theorems[each].name for each in step.theorems)
    return Rewrite(spelt(step.name, instance), step.why, names, tuple(met[each] for each in words))


def kernel_nest(instance: Instance) -> FilledNest:
    """The last nest of a form, from whose expressions the numbers of the kernel are read."""
    return FilledNest(instance, derived().nests[instance.record.algorithms[-1][1]])


def definition(instance: Instance) -> FilledNest:
    """The nest of the definition, with the numbers of a form."""
    return FilledNest(instance, derived().nests[instance.record.algorithms[0][1]])


def kernel_theorems(instance: Instance) -> Iterator[str]:
    """The theorems by which the kernel's numbers are those of its last nest."""
    yield from (_record()[1][number].name for number in instance.record.theorems)


def spelt(text: str, instance: Instance) -> str:
    """A text with numbers in place of sizes."""

    def number(found: re.Match[str]) -> str:
        name = found[0]
        return str(instance.sizes[name]) if name in instance.sizes else name

    return re.sub(r"\b[A-Za-z_]+\b", number, text)


ANY = 1 << 31
"""More values than a number on the way to another one has."""


class FilledNest:
    """A derived nest with numbers, which can be read and evaluated.

    Attributes:
        record: the nest, whose formulas are numbers of entries.
        extents: iterations of each loop, outermost first; rows of the tile, by the axis that counts them; and how many
            values lets have that stand for loops that were there before.
    """

    def __init__(self, instance: Instance, record: NestRecord, before: Mapping[str, int] | None = None) -> None:
        self.record = record
        self.instance = instance
        self.extents = {axis: self._size(extent) for axis, extent, _ in record.loops}
        if record.load is not None:
            self.extents.setdefault(record.load.row, self._size(record.load.rows))
        for let in record.lets:
            self.extents.setdefault(let.axis, (before or {}).get(let.axis, ANY))

    def _size(self, formula: int) -> int:
        return derived().expressions[formula].number(self.instance.sizes)

    @property
    def _domain(self) -> tuple[Axis, ...]:
        return tuple(Axis(axis, max(1, extent)) for axis, extent in self.extents.items())

    def expr(self, formula: int) -> IntExpr:
        """A formula, as small as the extents make it."""
        axes = self._domain
        known = {one.name: Const(0) for one in axes if one.extent == 1}
        made = substitute(derived().expressions[formula].at(self.instance.sizes), known)
        return smaller(made, {axis.name: axis.range for axis in axes})

    def value(self, formula: int, points: Mapping[str, int | np.ndarray]) -> np.ndarray:
        """A formula at some points; axes that are not named are at 0."""
        at = dict.fromkeys(self.extents, 0) | dict(points)
        return np.asarray(intexpr.evaluate(self.expr(formula), at))

    @functools.cached_property
    def guards(self) -> tuple[Guard, ...]:
        """The conditions that the extents do not make true."""
        found = tuple(Guard(self.expr(one.low), self.expr(one.high), one.sign == "<") for one in self.record.guard)
        return needed_guards(found, {axis.name: axis.range for axis in self._domain})[0]

    def text(self, problem: ConvProblem | None = None) -> NestText:
        """The nest for people; problem: whose bias and epilogue are shown too."""
        record = self.record
        load = record.load
        pixel = dict(record.pixel if load is None else load.pixel)
        result = "krsc" if record.updates == "w" else "npqk"
        outputs = {axis for name, one in record.space if name in result for axis in self.expr(one).variables()}
        about = [(each, each.condition.variables() <= outputs) for each in self.guards]
        written = self._text
        space = {name: written(formula) for name, formula in record.space}
        loops = ((axis, words) for axis, _, words in record.loops)
        sides = ((one.need, one.end, one.held, one.held_end, one.since) for one in record.masks)
        move = record.move
        return NestText(
            loops=tuple((axis, str(self.extents[axis]), spelt(words, self.instance)) for axis, words in loops),
            space=space,
            guard=tuple(str(each) for each, stored in about if stored),
            summed=tuple(str(each) for each, stored in about if not stored),
            accumulate=record.accumulate or "",
            pixel=tuple(written(pixel[name]) for name in "nhwc"),
            load=None if load is None else (load.inside, load.row, written(load.rows), written(load.since), load.words),
            read=written(record.read),
            move=None if move is None else (move.inside, written(move.lanes), move.words),
            masks=tuple(
                (written(need), written(end), written(held), written(held_end), written(since))
                for need, end, held, held_end, since in sides
            ),
            swapped=record.swapped,
            lets=tuple((let.inside, let_text(let.axis, list(self._cases(let)), let.found)) for let in record.lets),
            added=record.added or "",
            updates=record.updates,
            bias="" if problem is None else f"bias[{space['k']}]",
            then="" if problem is None else describe(problem.epilogue),
        )

    def _cases(self, let: LetRecord) -> Iterator[tuple[str, str, int]]:
        """The cases of a let, without those that no number belongs to."""
        for case in let.cases:
            limit = number_of(case.limit or [], self.instance.sizes)
            if case.key is None or limit > 0:
                yield self._text(case.value), self._text(case.key), limit

    def _text(self, formula: int | None) -> str:
        return "" if formula is None else str(self.expr(formula))
