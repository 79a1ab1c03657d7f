"""Every theorem by its name, with its proof, and what uses it."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from convc.derive.changes import changes
from convc.derive.clusters import clusters
from convc.derive.columns import layouts
from convc.derive.forms import forms
from convc.derive.gradients import GRADIENTS
from convc.derive.hosted import hosted
from convc.derive.results import facts
from convc.derive.shares import shares
from convc.derive.solve import solved
from convc.derive.theorem import Condition, Theorem


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """Something that uses theorems.

    Attributes:
        words: for people.
        theorems: those, the first of them under conditions on a problem.
        conditions: what a problem has to meet for it.
    """

    words: str
    theorems: tuple[Theorem, ...]
    conditions: tuple[Condition, ...] = ()


@functools.cache
def uses() -> tuple[Use, ...]:
    """Everything that uses theorems: rewrites, what kernels read off nests, changes of loops, facts, shares."""
    return tuple(_uses())


def _uses() -> Iterator[Use]:
    for form in forms():
        title, nest = form.algorithms[-1]
        for step in nest.steps:
            yield Use(words=f"the rewrite {step.name}", theorems=step.theorems, conditions=step.conditions)
        yield Use(words=f"what a kernel reads off {title}", theorems=tuple(form.theorems))
        for each in solved(nest):
            yield Use(words=f"{each.symbol}, which is solved for in {title}", theorems=each.theorems)
    for chain in GRADIENTS.values():
        *_, (title, nest) = chain()
        for step in nest.steps:
            yield Use(words=f"the rewrite {step.name}, in {title}", theorems=step.theorems, conditions=step.conditions)
    for change in changes():
        yield Use(words=change.title, theorems=change.step.theorems, conditions=change.step.conditions)
    for fact in (*facts(), *layouts(), *hosted()):
        yield Use(words=fact.says, theorems=fact.theorems, conditions=fact.conditions)
    for name, share in (*shares(), *clusters()):
        yield Use(words=f"{name}: {', '.join(share.map.results)}", theorems=share.theorems)


def theorems(found: Iterable[Use]) -> dict[str, tuple[Theorem, ...]]:
    """Theorems by their names; those of one name say the same of different nests."""
    known: dict[str, dict[Theorem, None]] = {}
    for use in found:
        for theorem in use.theorems:
            known.setdefault(theorem.name, {})[theorem] = None
    return {name: tuple(each) for name, each in known.items()}


def users_of(name: str, found: Iterable[Use]) -> dict[str, tuple[Condition, ...]]:
    """Find what uses a theorem, in words, each with the conditions on a problem that the theorem has there."""
    resting: dict[str, dict[Condition, None]] = {}
    for use in found:
        if any(theorem.name == name for theorem in use.theorems):
            asked = resting.setdefault(use.words, {})
            asked.update(dict.fromkeys(use.conditions if use.theorems[0].name == name else ()))
    return {words: tuple(each) for words, each in resting.items()}
