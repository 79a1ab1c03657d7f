"""Derivations for people, for all sizes: the chain of algorithms, each rewrite with its theorems and their proofs."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping

from sympy import Expr, latex

from convc.derive.forms import SOURCE, LoweredForm
from convc.derive.nests import OUTPUT, PIXEL, WEIGHT, Nest, RewriteStep
from convc.derive.reindex import Reindexed, let_lines
from convc.derive.results import Fact
from convc.derive.shares import Share
from convc.derive.solve import Solved, solved
from convc.derive.text import NestText, indented
from convc.derive.theorem import Bound, Condition, Either, Equal, Statement, Theorem

Chain = Iterable[tuple[str, Nest]]
"""Titles and nests, each behind the one that it is made from."""


def nest_text(nest: Nest) -> NestText:
    """A nest with symbols."""
    load = nest.load
    pixel = nest.pixel() if load is None else load.pixel
    return NestText(
        loops=tuple((loop.axis.name, str(loop.extent), loop.words) for loop in nest.loops),
        space={name: str(expr) for name, expr in nest.space.items()},
        guard=tuple(str(each) for each in nest.guard if not _of_sum(nest, each)),
        summed=tuple(str(each) for each in nest.guard if _of_sum(nest, each)),
        accumulate="" if nest.accumulate is None else nest.accumulate.name,
        pixel=tuple(str(pixel[name]) for name in PIXEL),
        load=None
        if load is None
        else (load.inside.name, load.row.name, str(load.rows), _or_none(load.since), load.words),
        read=_or_none(nest.read),
        move=None if nest.move is None else (nest.move.inside.name, str(nest.move.lanes), nest.move.words),
        masks=tuple(
            (str(mask.need), str(mask.end), str(mask.held), str(mask.held_end), _or_none(mask.since))
            for mask in nest.masks
        ),
        swapped=nest.swapped,
        updates=nest.updates,
        output=None if nest.output is None else tuple(str(nest.output[name]) for name in PIXEL),
    )


def _of_sum(nest: Nest, condition: Bound) -> bool:
    """Whether a condition leaves out terms of a sum, not outputs."""
    outputs = {
        symbol for axis in (WEIGHT if nest.updates == "w" else OUTPUT) for symbol in nest.space[axis].free_symbols
    }
    return bool((condition.low.free_symbols | condition.high.free_symbols) & set(nest.axes) - outputs)


def _or_none(expr: Expr | None) -> str:
    return "" if expr is None else str(expr)


def form_lines(form: LoweredForm, *, known: set[str]) -> Iterator[str]:
    """The chain to a form, and what a kernel reads off its last nest.

    Args:
        form: which.
        known: titles and theorems that were shown before, by their names; those shown here are added.
    """
    yield from chain_lines(form.algorithms, known=known)
    new = [theorem for theorem in form.theorems if theorem.name not in known]
    if new:
        yield "what the kernel reads off the nest, and why its instructions do what the nest says:"
    for theorem in new:
        known.add(theorem.name)
        yield from theorem_lines(theorem)
    for number in solved(form.nest):
        yield from solved_lines(number, known)


def chain_lines(chain: Chain, *, known: set[str]) -> Iterator[str]:
    """Titles and nests, each behind the rewrites that lead to it, with their proofs; ``known`` as of `form_lines`."""
    for title, nest, steps in _further(chain):
        told = f"{title}, {', '.join(step.name for step in steps)}"
        if told in known:
            continue
        known.add(told)
        for number, step in enumerate(steps, 1):
            yield from step_lines(number, step, known)
        yield ""
        yield f"-- {title} --"
        yield from nest_text(nest).lines()
        yield ""


def _further(chain: Chain) -> Iterator[tuple[str, Nest, tuple[RewriteStep, ...]]]:
    """Titles and nests, with the rewrites that the nest before has not: a chain may go back to an earlier one."""
    before: tuple[RewriteStep, ...] = ()
    for title, nest in chain:
        pairs = zip(nest.steps, before, strict=False)
        same = len(list(itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)))
        yield title, nest, nest.steps[same:]
        before = nest.steps


def solved_lines(number: Solved, known: set[str]) -> Iterator[str]:
    """A number that is chosen: what the nest asks for, and why the next one would be wrong, as far as it is new."""
    told = f"{number.symbol} is the {'largest' if number.greatest else 'smallest'} that is legal:"
    asked = [str(demand.condition) for demand in number.demands]
    if f"{told} {asked}" in known:
        return
    known.add(f"{told} {asked}")
    yield told
    yield from (f"   needs {each}" for each in asked)
    yield from _theorems((each for each in number.theorems if each.name not in known), known)


def change_lines(change: Reindexed, *, known: set[str]) -> Iterator[str]:
    """A change of loops that any schedule may have: its theorems, and the loops that come in place of others."""
    yield from step_lines(1, change.step, known)
    yield ""
    yield f"-- {change.title}: in place of the loops over {', '.join(map(str, change.old))} --"
    lets = list(let_lines(change.lets))
    for depth, loop in enumerate(change.loops):
        yield indented(depth, f"for {loop.axis} in 0..{loop.extent} - 1:  # {loop.words}")
        yield from (indented(depth + 1, line) for inside, line in lets if inside == loop.axis.name)
    for each in change.guard:
        yield indented(len(change.loops), f"where {each}")
    yield ""


def fact_lines(fact: Fact, *, known: set[str]) -> Iterator[str]:
    """Something that instructions take for granted, with its theorems and what a problem has to meet."""
    yield f"{fact.says}:"
    yield from _theorems(fact.theorems, known)
    for condition in fact.conditions:
        yield f"   needs {condition}  ({condition.words})"


def share_lines(name: str, share: Share, *, known: set[str]) -> Iterator[str]:
    """A share of threads, chunks or CTAs, with the theorems that say that each element has one."""
    yield f"{name} ({', '.join(map(str, share.map.axes))}):"
    yield from (f"   {result} = {expr}" for result, expr in share.map.results.items())
    yield from _theorems(share.theorems, known)


def step_lines(number: int, step: RewriteStep, known: set[str]) -> Iterator[str]:
    """A rewrite: its theorems with proofs, as far as they are new, and what a problem has to meet."""
    yield f"{number}. {step.name}"
    if step.why:
        yield f"   {step.why}"
    yield from _theorems(step.theorems, known)
    for condition in step.conditions:
        yield f"   needs {condition}  ({condition.words})"


def _theorems(theorems: Iterable[Theorem], known: set[str]) -> Iterator[str]:
    for theorem in theorems:
        if theorem.name in known:
            yield f"   theorem as above: {theorem.name}"
            continue
        known.add(theorem.name)
        yield from theorem_lines(theorem)


def theorem_lines(theorem: Theorem) -> Iterator[str]:
    """A theorem: what it says, its conditions, its proof."""
    yield f"   theorem: {theorem.name}"
    says = [each for each in theorem.says if not isinstance(each, Equal) or each.left != each.right]
    yield f"     {'; '.join(map(str, says or theorem.says[:1]))}"
    if theorem.given:
        yield f"     given {' and '.join(map(str, theorem.given))}"
    for line in theorem.proof():
        yield f"     | {line}"


def known_lines(known: Iterable[Theorem], resting: Mapping[str, Iterable[Condition]]) -> Iterator[str]:
    """Theorems of one name, and what uses them, with the conditions that a problem has to meet there."""
    for theorem in known:
        yield from (line.removeprefix("   ") for line in theorem_lines(theorem))
    yield "used by:"
    for words, conditions in resting.items():
        yield f"  {words}"
        yield from (f"    needs {condition}  ({condition.words})" for condition in conditions)


# ---- LaTeX -----------------------------------------------------------------------------------------------------------

PREAMBLE = r"""\documentclass{article}
\usepackage{amsmath,amsthm}
\newtheorem*{fact}{Theorem}
\begin{document}
"""


def document(
    forms: Iterable[LoweredForm] = (),
    changes: Iterable[Reindexed] = (),
    alone: Iterable[Theorem] = (),
    chains: Iterable[Chain] = (),
) -> str:
    """The theorems of some forms, and of changes of loops, as a LaTeX document, in the order of the chain.

    Args:
        forms: which.
        changes: of loops.
        alone: theorems that follow by themselves.
        chains: titles and nests that are no form of a schedule.
    """
    parts = [PREAMBLE, _escaped(f"In the order of {SOURCE}.") + "\n"]
    known: set[str] = set()
    for chain in chains:
        parts += _chain(chain, known)
    for form in forms:
        parts += _chain(form.algorithms, known)
        parts += [_fact(theorem) for theorem in form.theorems if theorem.name not in known]
        known |= {theorem.name for theorem in form.theorems}
    for change in changes:
        parts += _section(change.title, [change.step])
    return "\n".join([*parts, *map(_fact, alone), r"\end{document}", ""])


def _chain(chain: Chain, known: set[str]) -> Iterator[str]:
    for title, _, further in _further(chain):
        steps = [step for step in further if step.name not in known]
        if steps:
            yield from _section(title, steps)
        known |= {step.name for step in steps}


def _section(title: str, steps: Iterable[RewriteStep]) -> Iterator[str]:
    yield rf"\section*{{{_escaped(title)}}}" + "\n"
    for step in steps:
        yield rf"\paragraph{{{_escaped(step.name)}}} {_escaped(step.why)}" + "\n"
        yield from map(_fact, step.theorems)


def _fact(theorem: Theorem) -> str:
    given = rf"For ${', '.join(map(_statement, theorem.given))}$:" if theorem.given else ""
    says = r" \\ ".join(_statement(each) for each in theorem.says)
    title = rf"\begin{{fact}}[{_escaped(theorem.name)}]"
    return "\n".join([title, given, rf"\begin{{gather*}} {says} \end{{gather*}}", r"\end{fact}", ""])


def _statement(statement: Statement | Either) -> str:
    match statement:
        case Equal(left, right):
            return f"{latex(left)} = {latex(right)}"
        case Bound(low, high, strict):
            sign = "<" if strict else r"\le"
            return f"{latex(low)} {sign} {latex(high)}"
        case Either(bounds):
            return r" \lor ".join(map(_statement, bounds))


def _escaped(text: str) -> str:
    """A text with what LaTeX reads otherwise."""
    for character in "\\&%$#_{}":
        text = text.replace(character, r"\textbackslash " if character == "\\" else f"\\{character}")
    return text
