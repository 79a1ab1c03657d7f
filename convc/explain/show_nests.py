"""Loop nests and how they were derived, as text: plain lines, no markup."""

from __future__ import annotations

from sympy.core.relational import Relational

from convc.compiler.index.lower import translate
from convc.compiler.index.maps import IndexMap, guard_text
from convc.compiler.index.symbols import Axis
from convc.explain.derivation import Derivation
from convc.explain.nests import Accumulate, Load, Move, Nest


def derivation_lines(derivation: Derivation, since: int = 0) -> list[str]:
    """The algorithms of a derivation from number `since` on; before each, the rewrites that led there, with proofs."""
    lines: list[str] = []
    for algorithm in derivation.algorithms[since:]:
        for number, step in enumerate(algorithm.steps, 1):
            lines += [f"{number}. {step.name}", f"   {step.outcome}", *([f"   {step.ran}"] if step.ran else [])]
        lines += [*([""] if lines else []), f"-- {algorithm.title} --", *nest_lines(algorithm.nest), ""]
    if derivation.tried != derivation.problem:
        lines.append(f"the smaller problem: {derivation.tried.describe()}")
    return lines


def nest_lines(nest: Nest) -> list[str]:
    """The nest as indented text, a loop or a statement per line, with what is known about the loop beside it."""
    notes, lines, after = dict(nest.notes), [], []
    heads = ["  " * depth + f"for {axis.name} in 0..{axis.extent - 1}:" for depth, axis in enumerate(nest.loops)]
    width = max(map(len, heads))
    for depth, (axis, head) in enumerate(zip(nest.loops, heads, strict=True), 1):
        lines.append(f"{head:<{width}}  # {notes[axis.name]}" if notes.get(axis.name) else head)
        for statement in (each for each in nest.body if each.inside == axis.name):
            match statement:
                case Accumulate():
                    lines.append("  " * depth + "acc[...] = 0")
                    after.insert(0, "  " * depth + _store(nest))
                case Load():
                    lines.append("  " * depth + _load(statement))
                case Move():
                    after.insert(0, "  " * depth + _move(statement, axis))
    lines += ["  " * depth + line for depth, line in enumerate(_multiply(nest), len(heads))]
    return lines + after


def _multiply(nest: Nest) -> list[str]:
    """The multiply-add, below the conditions under which it is done."""
    accumulated = any(isinstance(each, Accumulate) for each in nest.body)
    k, c, r, s = (translate(nest.space[name]) for name in "kcrs")
    stored = set(_stored(nest)) if accumulated else set()
    conditions = [f"if {guard_text(each)}:" for each in nest.space.guard if each not in stored]
    x, weight = f"x[{_results(nest.activation())}]", f"w[{k}, {r}, {s}, {c}]"
    if nest.read is not None:
        x = f"A[{translate(nest.read.row)}, e]"
    if nest.read is not None and nest.read.masks:
        how = "zero-column mask" if nest.swapped else "disable-output-lane"
        tile_m = translate(nest.read.tile_m)
        conditions.append(f"if not masked(tile_m = {tile_m}, lane = {nest.pixels}, r = {r}, s = {s}):  # {how}")
    target = "acc[lane, column]" if accumulated else f"out[{_output(nest)}]"
    product = f"{weight} * {x}" if nest.swapped else f"{x} * {weight}"
    return [*conditions, f"{target} += {product}"]


def _stored(nest: Nest) -> tuple[Relational, ...]:
    """The conditions that are about outputs, not about terms of a sum."""
    outputs = set().union(*(nest.space[name].free_symbols for name in "npqk"))
    return tuple(condition for condition in nest.space.guard if condition.free_symbols <= outputs)


def _store(nest: Nest) -> str:
    where = " and ".join(map(guard_text, _stored(nest)))
    return f"out[{_output(nest)}] = acc[lane, column]{' where ' + where if where else ''}"


def _load(load: Load) -> str:
    row = load.rows
    return f"A[{row.name}, e] = x[{_results(load.map)}] for {row.name} in 0..{row.extent - 1}  # {load.how}"


def _move(move: Move, axis: Axis) -> str:
    line = f"if {axis.name} < {axis.extent - 1}: A[lane, e] = A[lane + 1, e] in each group g of {move.group} lanes"
    if move.refreshed:
        line += f", A[{move.group}*g + {move.group - 1}, e] = next of halo g"
    if move.step > 1:
        line += f"; {move.step} times"
    return f"{line}  # tcgen05.shift or .ashift{', tcgen05.cp.4x256b' if move.refreshed else ''}"


def _output(nest: Nest) -> str:
    return ", ".join(str(translate(nest.space[name])) for name in "npqk")


def _results(index_map: IndexMap) -> str:
    return ", ".join(str(translate(expr)) for _, expr in index_map.results)
