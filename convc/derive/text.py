"""A loop nest as text, whether its sizes are symbols or numbers: all parts come as texts.

A loop or a statement a line; behind a loop what is known about it. Nothing here needs sympy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NestLine:
    """A line of a nest.

    Attributes:
        words: the line, indented.
        does: ``clear``, ``load``, ``move``, ``multiply`` or ``store``; of a loop ``loop-`` and the axis that it counts;
            "" for a condition.
    """

    words: str
    does: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NestText:
    """The parts of a nest.

    Attributes:
        loops: (axis, extent, words), outermost first.
        space: n, p, q, k, c, r, s and group of an iteration.
        guard: conditions without which there is no output.
        summed: conditions without which there is no term of the sum.
        accumulate: the loop inside which sums are kept; "" where each product goes to its output.
        pixel: n, h, w, c that are read where there is no tile; else those of a row of the tile.
        load: (loop, row, how many, since, words) of the tile; None: there is none.
        read: the row of the tile that is multiplied.
        move: (loop, lanes, words); None: rows stay.
        masks: (what a lane needs, its end, what it holds, its end, since), of each axis of the filter.
        swapped: whether weights are the first operand.
        lets: (loop, line) of numbers that are worked out inside of loops.
        added: the loop whose sums are added up; "" where none is.
        updates: ``y``; or what products are added to the gradient of, ``x`` or ``w``.
        output: the pixel whose gradient that is, where it is counted otherwise than by ``pixel``.
        bias: what is added to a sum before it is stored. then: what is done with that.
    """

    loops: tuple[tuple[str, str, str], ...]
    space: dict[str, str]
    guard: tuple[str, ...]
    summed: tuple[str, ...]
    accumulate: str
    pixel: tuple[str, ...]
    load: tuple[str, str, str, str, str] | None
    read: str
    move: tuple[str, str, str] | None
    masks: tuple[tuple[str, str, str, str, str], ...]
    swapped: bool
    lets: tuple[tuple[str, str], ...] = ()
    added: str = ""
    updates: str = "y"
    output: tuple[str, ...] | None = None
    bias: str = ""
    then: str = ""

    def lines(self) -> list[str]:
        """The nest, indented."""
        return [line.words for line in self.marked()]

    def marked(self) -> list[NestLine]:
        """The lines of the nest, each with what it does."""
        loops = enumerate(self.loops)
        heads = [indented(depth, f"for {axis} in 0..{_last(extent)}:") for depth, (axis, extent, _) in loops]
        width = max(map(len, heads))
        lines: list[NestLine] = []
        after: list[NestLine] = []  # behind the loops further in: the innermost loop's first
        for depth, ((axis, _, words), head) in enumerate(zip(self.loops, heads, strict=True), 1):
            lines.append(NestLine(f"{head:<{width}}  # {words}" if words else head, f"loop-{axis}"))
            lines += [NestLine(indented(depth, line)) for inside, line in self.lets if inside == axis]
            if axis == self.accumulate:
                lines.append(NestLine(indented(depth, "acc[lane, column] = 0"), "clear"))
                after.insert(0, NestLine(indented(depth, self._stored()), "store"))
            if self.load is not None and axis == self.load[0]:
                lines += [NestLine(indented(depth, line), "load") for line in self._loaded(self.load)]
            if self.move is not None and axis == self.move[0]:
                _, lanes, how = self.move
                after.insert(0, NestLine(indented(depth, f"A[lane, e] = A[lane + {lanes}, e]  # {how}"), "move"))
        *conditions, multiply = (indented(len(heads), line) for line in self._multiplied())
        return [*lines, *map(NestLine, conditions), NestLine(multiply, "multiply"), *after]

    def _stored(self) -> str:
        """The store of the sums: conditions on outputs are about it alone."""
        output = ", ".join(self.space[axis] for axis in ("krsc" if self.updates == "w" else "npqk"))
        found = f"the sum of acc[lane, column] of every {self.added}, 0 first" if self.added else "acc[lane, column]"
        bias = f" + {self.bias}" if self.bias else ""
        then = f"  # then {self.then}" if self.then else ""
        result = "w_grad" if self.updates == "w" else "y"
        return f"{result}[{output}] = {found}{bias}{_where(self.guard)}{then}"

    def _loaded(self, load: tuple[str, str, str, str, str]) -> list[str]:
        _, row, rows, since, words = load
        line = f"A[{row}, e] = x[{', '.join(self.pixel)}] for {row} in 0..{_last(rows)}"
        line += f"  # {words}" if words else ""
        return [line, f"    zero where {since} < 0"] if since else [line]

    def _multiplied(self) -> list[str]:
        k, c, r, s = (self.space[axis] for axis in "kcrs")
        weight = f"w[{k}, {r}, {s}, {c}]"
        if self.updates == "w" and self.accumulate:
            dy = f"y_grad[{', '.join(self.space[axis] for axis in 'npqk')}]"
            return [f"acc[lane, column] += A[{self.read}, e] * {dy}{_where(self.summed)}"]
        if self.updates != "y":
            return [f"{self._gradient(weight)}{_where((*self.guard, *self.summed))}"]
        x = f"A[{self.read}, e]" if self.load else f"x[{', '.join(self.pixel)}]"
        product = f"{weight} * {x}" if self.swapped else f"{x} * {weight}"
        if not self.accumulate:
            output = ", ".join(self.space[axis] for axis in "npqk")
            return [f"y[{output}] += {product}{_where((*self.guard, *self.summed))}"]
        lines: list[str] = []
        for need, end, held, held_end, since in self.masks:
            found = f"0 <= {held} < {held_end}" + (f" and 0 <= {since}" if since else "")
            how = "zero-column mask" if self.swapped else "disable-output-lane"
            lines.append(f"if {found}:  # the lane holds a pixel")
            lines.append(f"  leave the lane out unless 0 <= {need} < {end}  # {how}")
        return [*lines, f"acc[lane, column] += {product}{_where(self.summed)}"]

    def _gradient(self, weight: str) -> str:
        """The product of a gradient, and where it is added."""
        x = f"x[{', '.join(self.pixel)}]"
        dy = f"y_grad[{', '.join(self.space[axis] for axis in 'npqk')}]"
        if self.updates == "w":
            return f"w_grad{weight.removeprefix('w')} += {x} * {dy}"
        return f"x_grad[{', '.join(self.output or self.pixel)}] += {dy} * {weight}"


def _where(conditions: tuple[str, ...]) -> str:
    return f"  where {' and '.join(conditions)}" if conditions else ""


def let_text(axis: str, cases: Sequence[tuple[object, object, object]], found: str) -> str:
    """A number by cases (value, key, limit): the first whose key is below its limit; the last has no key."""
    if not cases:
        return f"{axis} = {found}"
    *some, (last, _, _) = cases
    return f"{axis} = " + "".join(f"{value} if {key} < {limit} else " for value, key, limit in some) + str(last)


def indented(depth: int, line: str) -> str:
    """A line inside of so many loops."""
    return "  " * depth + line


def _last(extent: str) -> str:
    """The last value of a loop."""
    return str(int(extent) - 1) if extent.isdecimal() else f"{extent} - 1"
