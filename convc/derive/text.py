"""A loop nest as text, whether its sizes are symbols or numbers: all parts come as texts.

A loop or a statement a line; behind a loop what is known about it. Nothing here needs sympy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class NestText:
    """The parts of a nest.

    Attributes:
        loops: (axis, extent, words), outermost first.
        space: n, p, q, k, c, r, s and group of an iteration.
        guard: conditions without which there is no iteration.
        accumulate: the loop inside which sums are kept; "" where each product goes to its output.
        pixel: n, h, w, c that are read where there is no tile; else those of a row of the tile.
        load: (loop, row, how many, since, words) of the tile; None: there is none.
        read: the row of the tile that is multiplied.
        move: (loop, lanes, words); None: rows stay.
        masks: (what a lane needs, its end, what it holds, its end, since), of each axis of the filter.
        swapped: whether weights are the first operand.
        lets: (loop, line) of numbers that are worked out inside of loops.
        added: the loop whose sums are added up; "" where none is.
    """

    loops: tuple[tuple[str, str, str], ...]
    space: dict[str, str]
    guard: tuple[str, ...]
    accumulate: str
    pixel: tuple[str, ...]
    load: tuple[str, str, str, str, str] | None
    read: str
    move: tuple[str, str, str] | None
    masks: tuple[tuple[str, str, str, str, str], ...]
    swapped: bool
    lets: tuple[tuple[str, str], ...] = ()
    added: str = ""

    def lines(self) -> list[str]:
        """The nest, indented."""
        loops = enumerate(self.loops)
        heads = [indented(depth, f"for {axis} in 0..{_last(extent)}:") for depth, (axis, extent, _) in loops]
        width = max(map(len, heads))
        lines: list[str] = []
        after: list[str] = []
        for depth, ((axis, _, words), head) in enumerate(zip(self.loops, heads, strict=True), 1):
            lines.append(f"{head:<{width}}  # {words}" if words else head)
            lines += [indented(depth, line) for inside, line in self.lets if inside == axis]
            if axis == self.accumulate:
                lines.append(indented(depth, "acc[lane, column] = 0"))
                after.insert(0, indented(depth, self._stored()))
            if self.load is not None and axis == self.load[0]:
                lines += [indented(depth, line) for line in self._loaded(self.load)]
            if self.move is not None and axis == self.move[0]:
                _, lanes, how = self.move
                after.insert(0, indented(depth, f"A[lane, e] = A[lane + {lanes}, e]  # {how}"))
        inner = [indented(len(heads), line) for line in self._multiplied()]
        return [*lines, *inner, *after]

    def _stored(self) -> str:
        """The store of the sums: conditions on outputs are about it alone."""
        where = " and ".join(self.guard)
        output = ", ".join(self.space[axis] for axis in "npqk")
        found = f"the sum of acc[lane, column] of every {self.added}, 0 first" if self.added else "acc[lane, column]"
        return f"y[{output}] = {found}" + (f"  where {where}" if where else "")

    def _loaded(self, load: tuple[str, str, str, str, str]) -> list[str]:
        _, row, rows, since, words = load
        line = f"A[{row}, e] = x[{', '.join(self.pixel)}] for {row} in 0..{_last(rows)}"
        line += f"  # {words}" if words else ""
        return [line, f"    zero where {since} < 0"] if since else [line]

    def _multiplied(self) -> list[str]:
        k, c, r, s = (self.space[axis] for axis in "kcrs")
        weight = f"w[{k}, {r}, {s}, {c}]"
        x = f"A[{self.read}, e]" if self.load else f"x[{', '.join(self.pixel)}]"
        product = f"{weight} * {x}" if self.swapped else f"{x} * {weight}"
        if not self.accumulate:
            where = " and ".join(self.guard)
            output = ", ".join(self.space[axis] for axis in "npqk")
            line = f"y[{output}] += {product}"
            return [f"if {where}:", f"  {line}"] if where else [line]
        lines: list[str] = []
        for need, end, held, held_end, since in self.masks:
            found = f"0 <= {held} < {held_end}" + (f" and 0 <= {since}" if since else "")
            how = "zero-column mask" if self.swapped else "disable-output-lane"
            lines.append(f"leave the lane out unless 0 <= {need} < {end},  # {how}")
            lines.append(f"  where {found}")
        return [*lines, f"acc[lane, column] += {product}"]


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
