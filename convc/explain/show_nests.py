"""Loop nests and how they were derived, as text: plain lines, no markup."""

from __future__ import annotations

from dataclasses import dataclass

from convc.compiler.index.linear import Guard
from convc.compiler.index.lower import translate
from convc.compiler.index.maps import IndexMap, guard_text
from convc.compiler.index.symbols import Axis
from convc.explain.derivation import Derivation
from convc.explain.nests import Accumulate, Load, Move, Nest
from convc.ir.epilogue import describe


@dataclass(frozen=True, slots=True)
class NestLine:
    """A line of a nest as text.

    Attributes:
        words: the line, indented.
        does: ``clear``, ``load``, ``move``, ``multiply`` or ``store``; of a loop ``loop-`` and the number that it
            counts; "" for a condition.
    """

    words: str
    does: str = ""


def derivation_lines(derivation: Derivation, since: int = 0) -> list[str]:
    """The algorithms of a derivation from number `since` on; before each, the rewrites that led there, with proofs."""
    lines: list[str] = []
    for algorithm in derivation.algorithms[since:]:
        for number, step in enumerate(algorithm.steps, 1):
            lines += [f"{number}. {step.name}", f"   {step.outcome}"]
            if step.ran:
                lines.append(f"   {step.ran}")
        if lines:
            lines.append("")
        lines += [f"-- {algorithm.title} --", *nest_lines(algorithm.nest), ""]
    if derivation.tried != derivation.problem:
        lines.append(f"the smaller problem: {derivation.tried.describe()}")
    return lines


def nest_lines(nest: Nest) -> list[str]:
    """The nest as indented text, a loop or a statement per line, with what is known about the loop beside it."""
    return [line.words for line in marked_lines(nest)]


def marked_lines(nest: Nest) -> list[NestLine]:
    """The lines of `nest_lines`, each with what it does."""
    notes = dict(nest.notes)
    heads = [_indented(depth, f"for {axis.name} in 0..{axis.extent - 1}:") for depth, axis in enumerate(nest.loops)]
    width = max(map(len, heads))
    lines: list[NestLine] = []
    after: list[NestLine] = []  # what comes after the loops further in: the innermost loop's first
    for depth, (axis, head) in enumerate(zip(nest.loops, heads, strict=True), 1):
        words = f"{head:<{width}}  # {notes[axis.name]}" if notes.get(axis.name) else head
        lines.append(NestLine(words, f"loop-{axis.name}"))
        for statement in nest.body:
            if statement.inside != axis.name:
                continue
            match statement:
                case Accumulate():
                    lines.append(NestLine(_indented(depth, "acc[...] = 0"), "clear"))
                    after.insert(0, NestLine(_indented(depth, _store(nest)), "store"))
                case Load():
                    lines.append(NestLine(_indented(depth, _load(statement)), "load"))
                case Move():
                    after.insert(0, NestLine(_indented(depth, _move(statement, axis)), "move"))
    *conditions, multiply = (_indented(depth, line) for depth, line in enumerate(_multiply(nest), len(heads)))
    lines += [NestLine(words) for words in conditions]
    return [*lines, NestLine(multiply, "multiply"), *after]


def _indented(depth: int, line: str) -> str:
    """The line inside so many loops and conditions."""
    return "  " * depth + line


def _multiply(nest: Nest) -> list[str]:
    """The multiply-add, below the conditions under which it is done."""
    accumulated = any(isinstance(each, Accumulate) for each in nest.body)
    k, c, r, s = (translate(nest.space[name]) for name in "kcrs")
    # Conditions on outputs guard the store, where there is one: sums that nobody stores may hold anything.
    stored = set(_stored(nest)) if accumulated else set()
    conditions = [f"if {guard_text(each)}:" for each in nest.space.guard if each not in stored]
    read = nest.read
    weight = f"w[{k}, {r}, {s}, {c}]"
    x = f"x[{_results(nest.activation())}]" if read is None else f"A[{translate(read.row)}, e]"
    if read is not None and read.masks and read.tile_m is not None:
        how = "zero-column mask" if nest.swapped else "disable-output-lane"
        tile_m = translate(read.tile_m)
        conditions.append(f"if not masked(tile_m = {tile_m}, lane = {nest.pixels}, r = {r}, s = {s}):  # {how}")
    target = "acc[lane, column]" if accumulated else f"out[{_output(nest)}]"
    product = f"{weight} * {x}" if nest.swapped else f"{x} * {weight}"
    return [*conditions, f"{target} += {product}"]


def _stored(nest: Nest) -> tuple[Guard, ...]:
    """The conditions that are about outputs, not about terms of a sum."""
    outputs = {symbol for name in "npqk" for symbol in nest.space[name].free_symbols}
    return tuple(condition for condition in nest.space.guard if condition.free_symbols <= outputs)


def _store(nest: Nest) -> str:
    """The store of the sums with bias and epilogue, and the conditions under which there is an output."""
    where = " and ".join(map(guard_text, _stored(nest)))
    line = f"out[{_output(nest)}] = acc[lane, column] + bias[{translate(nest.space['k'])}]"
    epilogue = nest.problem.epilogue
    note = f"  # then {describe(epilogue)}" if epilogue else ""
    return f"{line} where {where}{note}" if where else f"{line}{note}"


def _load(load: Load) -> str:
    """The copy that fills the rows of the tile."""
    row = load.rows
    return f"A[{row.name}, e] = x[{_results(load.map)}] for {row.name} in 0..{row.extent - 1}  # {load.how}"


def _move(move: Move, axis: Axis) -> str:
    """The move of the rows, and the instructions that do it."""
    line = f"if {axis.name} < {axis.extent - 1}: A[lane, e] = A[lane + 1, e] in each group g of {move.group} lanes"
    if move.refreshed:
        line += f", A[{move.group}*g + {move.group - 1}, e] = next of halo g"
    if move.step > 1:
        line += f"; {move.step} times"
    return f"{line}  # tcgen05.shift or .ashift{', tcgen05.cp.4x256b' if move.refreshed else ''}"


def _output(nest: Nest) -> str:
    """The indices of the output."""
    return ", ".join(str(translate(nest.space[name])) for name in "npqk")


def _results(index_map: IndexMap) -> str:
    """What a map computes, in order."""
    return ", ".join(str(translate(expr)) for _, expr in index_map.results)
