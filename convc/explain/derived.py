"""The derivation of a layer's kernel: the chain of `convc.derive`, with the numbers of the layer put in.

The nests are those that the kernel's coordinates are read off (`convc.compiler.index.formulas`), so that what is shown
is what runs. Sizes in the names of rewrites are numbers too; theorems stay as they were shown, for all sizes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec
from msgspec.structs import replace

from convc.compiler.index.algebra import simplify
from convc.compiler.index.conditions import conditions
from convc.compiler.index.formulas import Bound, ChangeRecord, Instance, LetRecord, NestRecord, derived, number_of
from convc.compiler.index.linear import Expr, Integer, Symbol
from convc.compiler.index.lower import translate
from convc.compiler.index.maps import Counterexample, Outcome
from convc.compiler.plan.records import Plan
from convc.compiler.schedules.changes import changes_of
from convc.compiler.schedules.nesting import nest_of
from convc.derive.text import NestText, let_text

SOURCE = 'algorithms as in Pei Luo, "Blackwell SM_100a tensor core architecture"'


class _Step(msgspec.Struct, frozen=True):
    name: str
    why: str
    theorems: list[int]
    conditions: list[int]


class _Theorem(msgspec.Struct, frozen=True):
    name: str
    says: list[str]
    given: list[str]


def derivation_of(plan: Plan) -> Iterator[str]:
    """The chain of algorithms to a plan's kernel, each with the rewrites that lead there, theorems and numbers."""
    instance = nest_of(plan).instance
    nests = derived().nests
    steps = msgspec.json.decode(derived().steps, type=list[_Step])
    theorems = msgspec.json.decode(derived().theorems, type=list[_Theorem])
    walk = None if plan.reuse is None else plan.reuse.walk
    met = {outcome.claim: outcome for outcome in conditions(instance, walk)}
    yield SOURCE
    last = nests[0]
    for title, nest, taken in instance.record.algorithms:
        for place, number in enumerate(taken, 1):
            yield from _step(place, steps[number], theorems, instance, met)
        yield ""
        yield f"-- {title} --"
        last = nests[nest]
        yield from _text(last, instance).lines()
        yield ""
    for place, change in enumerate(changes_of(plan), 1):
        instance = Instance(instance.form, {**instance.sizes, **change.sizes}, instance.axes)
        made = {outcome.claim: outcome for outcome in conditions(change)}
        yield from _step(place, steps[change.record.step], theorems, instance, made)
        last = changed(last, change.record)
        yield ""
        yield f"-- {change.record.title} --"
        yield from _text(last, instance).lines()
        yield ""
    yield "read off the last nest:"
    for number in instance.record.theorems:
        yield f"   theorem: {theorems[number].name}"


def _step(
    place: int, step: _Step, theorems: list[_Theorem], instance: Instance, met: Mapping[str, Outcome]
) -> Iterator[str]:
    """A rewrite: its theorems, and what the numbers of the layer make of its conditions."""
    yield f"{place}. {_spelt(step.name, instance)}"
    yield from (f"   theorem: {theorems[each].name}" for each in step.theorems)
    yield from (f"   {step.why}" for _ in range(1 if step.why else 0))
    for words in dict.fromkeys(derived().conditions[each].words for each in step.conditions):
        outcome = met[words]
        sign = "BROKEN" if isinstance(outcome, Counterexample) else "met"
        text = outcome.value if isinstance(outcome, Counterexample) else getattr(outcome, "how", "")
        yield f"   {sign}: {words} [{text}]"


def changed(nest: NestRecord, change: ChangeRecord) -> NestRecord:
    """A nest whose loops are counted in another way, as `convc.derive.reindex` does it."""
    axes = [axis for axis, _, _ in nest.loops]
    first = axes.index(change.old[0])

    def within(around: str) -> str:
        return change.inside.get(around, around)

    return replace(
        nest,
        loops=[*nest.loops[:first], *change.loops, *nest.loops[first + len(change.old) :]],
        lets=[*nest.lets, *change.lets],
        guard=[*nest.guard, *change.guard],
        accumulate=change.added or (nest.accumulate and within(nest.accumulate)),
        added=change.added or nest.added,
        load=nest.load and replace(nest.load, inside=within(nest.load.inside)),
        move=nest.move and replace(nest.move, inside=within(nest.move.inside)),
    )


def _spelt(text: str, instance: Instance) -> str:
    """A text with numbers in place of sizes."""

    def number(found: re.Match[str]) -> str:
        name = found[0]
        return str(instance.sizes[name]) if name in instance.sizes else name

    return re.sub(r"\b[A-Za-z_]+\b", number, text)


def _text(nest: NestRecord, instance: Instance) -> NestText:
    """A nest with numbers."""
    formulas = derived().expressions
    extents = {axis: formulas[extent].number(instance.sizes) for axis, extent, _ in nest.loops}
    ranges = {axis: (0, max(1, extent) - 1) for axis, extent in extents.items()}
    if nest.load is not None:
        ranges[nest.load.row] = (0, formulas[nest.load.rows].number(instance.sizes) - 1)
    lets = [let.axis for let in nest.lets]
    symbols: dict[str, Expr] = {axis: Symbol(axis) for axis in lets}
    symbols |= {axis: Integer(0) if high == 0 else Symbol(axis) for axis, (_, high) in ranges.items()}
    known = {Symbol(axis) for axis in ranges}

    known = {Symbol(axis) for axis in ranges}

    def text(formula: int | None) -> str:
        if formula is None:
            return ""
        made = formulas[formula].at(instance.sizes, symbols)
        return str(translate(simplify(made, ranges) if made.free_symbols <= known else made))

    def bound(each: Bound) -> str:
        return f"{text(each.low)} {each.sign} {text(each.high)}"

    def cases(let: LetRecord) -> Iterator[tuple[str, str, int]]:
        """The cases of a let, without those that no number belongs to."""
        for case in let.cases:
            limit = number_of(case.limit or [], instance.sizes)
            if case.key is None or limit > 0:
                yield text(case.value), text(case.key), limit

    load = nest.load
    pixel = dict(load.pixel) if load is not None else {}
    return NestText(
        loops=tuple((axis, str(extents[axis]), _spelt(words, instance)) for axis, _, words in nest.loops),
        space={name: text(formula) for name, formula in nest.space},
        guard=tuple(map(bound, nest.guard)),
        accumulate=nest.accumulate or "",
        pixel=tuple(text(pixel[name]) for name in "nhwc") if load is not None else _plain(instance),
        load=None if load is None else (load.inside, load.row, text(load.rows), text(load.since), load.words),
        read=text(nest.read),
        move=None if nest.move is None else (nest.move.inside, text(nest.move.lanes), nest.move.words),
        masks=tuple(
            (text(one.need), text(one.end), text(one.held), text(one.held_end), text(one.since)) for one in nest.masks
        ),
        swapped=nest.swapped,
        lets=tuple((let.inside, let_text(let.axis, list(cases(let)), let.found)) for let in nest.lets),
        added=nest.added or "",
    )


def _plain(instance: Instance) -> tuple[str, ...]:
    """The pixel of the definition."""
    sizes = instance.sizes
    h = Symbol("p") * sizes["u_h"] + Symbol("r") * sizes["d_h"] - sizes["pad_h"]
    w = Symbol("q") * (sizes["g"] * sizes["u"]) + Symbol("s") * (sizes["g"] * sizes["d"]) - sizes["pad_w"]
    return "n", str(translate(h)), str(translate(w)), "c" if sizes["K"] == sizes["K_g"] else "c of the group of k"
