"""Loops that a kernel counts in another way than its schedule: in their place stand others, and *lets* inside of these.

A let is a number that the kernel works out from those of its loops: the place of a tile by its number, a tap of the
filter by the number of a step. What the iterations are about does not change, so no expression of the nest does: it
reads the let as it has read the loop. Which iterations there are does not change either; that is what the theorems of
the step say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from sympy import Expr, Symbol

from convc.derive.kernels import Map
from convc.derive.nests import Case, Let, Loop, Nest, RewriteStep
from convc.derive.rewrites import done, statements
from convc.derive.text import let_text
from convc.derive.theorem import Bound, Refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Reindexed:
    """Loops in the place of others.

    Attributes:
        name: by which it is found.
        title: for people.
        old: the loops that go, neighbours.
        loops: those that come.
        lets: what the old ones are, and numbers on the way to them; those of a loop in the order of their need.
        step: why that is right, and what a problem has to meet.
        guard: where one of these fails, there is no iteration.
        inside: the loop inside of which stands what stood inside of an old one, by the old one.
        added: the new loop whose iterations have sums of their own, which are added up.
        maps: what the kernel computes besides the lets.
    """

    name: str
    title: str
    old: tuple[Symbol, ...]
    loops: tuple[Loop, ...]
    lets: tuple[Let, ...]
    step: RewriteStep
    guard: tuple[Bound, ...] = ()
    inside: Mapping[Symbol, Symbol]
    added: Symbol | None = None
    maps: Mapping[str, Map] = field(default_factory=dict[str, Map])


def single(inside: Symbol, axis: Symbol, value: Expr) -> Let:
    """A let without cases."""
    return Let(inside=inside, axis=axis, cases=(Case(value=value),))


def reindexed(nest: Nest, change: Reindexed) -> Nest:
    """The nest with other loops; `Refused` where the old ones are no neighbours, or a statement loses its loop."""
    name = change.step.name
    for axis in change.old:
        nest.loop(axis, name)
    first = nest.axes.index(change.old[0])
    if nest.axes[first : first + len(change.old)] != change.old:
        olds = ", ".join(map(str, change.old))
        raise Refused(name, f"{olds} are no neighbours in {', '.join(map(str, nest.axes))}")
    kept = {loop.axis for loop in change.loops}
    gone = [axis for axis in change.old if axis not in kept]
    lost = [axis for axis in gone if axis not in {let.axis for let in change.lets}]
    if lost:
        raise Refused(name, f"nothing says what {', '.join(map(str, lost))} is")
    for what, around in statements(nest):
        if around in change.old and around not in change.inside:
            raise Refused(name, f"a {what} stands inside of {around}, which is counted with others")

    def within(around: Symbol) -> Symbol:
        return change.inside.get(around, around)

    accumulate = None if nest.accumulate is None else within(nest.accumulate)
    if change.added is not None:
        if accumulate is None or nest.axes.index(accumulate) + 1 != first:
            raise Refused(name, f"sums are not kept around {change.old[0]}: accumulate first")
        accumulate = change.added
    return done(
        nest,
        change.step,
        loops=(*nest.loops[:first], *change.loops, *nest.loops[first + len(change.old) :]),
        lets=(*change.lets, *(replace(let, inside=within(let.inside)) for let in nest.lets)),
        guard=(*nest.guard, *change.guard),
        accumulate=accumulate,
        added=change.added if change.added is not None else nest.added,
        load=None if nest.load is None else replace(nest.load, inside=within(nest.load.inside)),
        move=None if nest.move is None else replace(nest.move, inside=within(nest.move.inside)),
    )


def let_lines(lets: Iterable[Let]) -> Iterator[tuple[str, str]]:
    """(loop, line) of lets, for people."""
    for let in lets:
        yield let.inside.name, let_text(str(let.axis), [(x.value, x.key, x.limit) for x in let.cases], let.found)
