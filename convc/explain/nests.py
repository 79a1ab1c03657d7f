"""Loop nests as data: which multiply-adds a convolution does, in which order, and what it loads before them.

A nest is a list of loops and an index map from them to n, p, q, k, c, r, s: the one multiply-add that an iteration of
the innermost loop does (none where the guard fails). Seven plain loops are the definition of a convolution, and each
activation is read from memory as it is needed. Three kinds of statement stand inside a loop, before the loops further
in or after them:

    Accumulate    before: acc = 0; after: acc is stored to the outputs
    Load          before: the rows of the tile A are filled with activations
    Move          after every iteration but the last: the rows of A move, those that are missing come from the halo

and a `Read` says which row of A the multiply-add takes, and which lanes it leaves out. `convc.explain.rewrites`
changes nests, `convc.explain.products` runs them.
"""

from __future__ import annotations

import math

import msgspec

from convc.compiler.index.conv import activation_map
from convc.compiler.index.linear import Expr, Guard, Symbol
from convc.compiler.index.maps import IndexMap
from convc.compiler.index.symbols import Axis
from convc.ir.expr import IntExpr
from convc.ir.problem import ConvProblem

SOURCE = ("n", "p", "q", "k", "c", "r", "s")
"""What an iteration is about: output pixel and channel, and the term of its sum."""

SOURCE_WORDS = (
    "images",
    "output rows",
    "output columns",
    "output channels",
    "input channels",
    "filter rows",
    "filter columns",
)


class Accumulate(msgspec.Struct, frozen=True):
    """The sums of one iteration of loop `inside` are kept apart: zeroed before it, stored after it."""

    inside: str


class Load(msgspec.Struct, frozen=True):
    """Fills the tile of activations before each iteration of loop `inside`.

    Attributes:
        rows: the axis that numbers the rows of the tile.
        map: (loops, rows, channel of the tile) -> n, h, w, c; zero where its guard fails.
        how: the copy, for people.
    """

    inside: str
    rows: Axis
    map: IndexMap
    how: str


class Move(msgspec.Struct, frozen=True):
    """After each iteration of loop `inside` but the last, rows 0..lanes-1 of the tile move `step` lanes down.

    Rows move inside groups of `group` lanes. The last row of each group then comes from the halo: pixel h of the halo
    of group g is the one that stands h + 1 rows behind that group in the stream. Without a halo it keeps its value.
    """

    inside: str
    step: int
    lanes: int
    group: int
    refreshed: bool


class Read(msgspec.Struct, frozen=True):
    """The multiply-add takes row `row` of the tile, unless one of the masks holds.

    Attributes:
        row: in the symbols of the loops.
        masks: 1 where a lane is left out; in tile_m, lane, r, s as in `convc.compiler.index.lane_masks`.
        tile_m: what these call tile_m, in the symbols of the loops.
    """

    row: Expr
    masks: tuple[IntExpr, ...] = ()
    tile_m: Expr | None = None


Statement = Accumulate | Load | Move


class Nest(msgspec.Struct, frozen=True, kw_only=True):
    """A loop nest.

    Attributes:
        problem: the convolution.
        space: (loops, outermost first) -> n, p, q, k, c, r, s, where the guard holds.
        body: the statements.
        read: where the activation comes from; None: from memory.
        swapped: whether the pixels are the columns of the accumulator, and the channels its lanes.
        notes: (loop, words) for people.
    """

    problem: ConvProblem
    space: IndexMap
    body: tuple[Statement, ...] = ()
    read: Read | None = None
    swapped: bool = False
    notes: tuple[tuple[str, str], ...] = ()

    @property
    def loops(self) -> tuple[Axis, ...]:
        """Outermost first."""
        return self.space.domain

    @property
    def names(self) -> tuple[str, ...]:
        """Of the loops, outermost first."""
        return tuple(axis.name for axis in self.space.domain)

    @property
    def points(self) -> int:
        """Iterations of the innermost loop."""
        return math.prod(axis.extent for axis in self.loops)

    @property
    def pixels(self) -> str:
        """Name of the loop over the pixels of a tile."""
        return "column" if self.swapped else "lane"

    def loop(self, name: str) -> Axis:
        """The loop of that name; ValueError where there is none."""
        if name not in self.names:
            raise ValueError(f"the nest has no loop {name!r}; its loops are {', '.join(self.names)}")
        return self.loops[self.names.index(name)]

    def outside(self, inside: str) -> tuple[str, ...]:
        """The loops that a statement inside loop `inside` is in."""
        return self.names[: self.names.index(self.loop(inside).name) + 1]

    def activation(self) -> IndexMap:
        """(loops) -> n, h, w, c of the activation that an iteration multiplies; padding where the guard fails."""
        read = activation_map(self.problem, self.problem.in_channels).compose(self.space, "activation")
        return IndexMap(name=read.name, domain=self.loops, results=read.results, guard=read.guard)

    def out_of_scope(self) -> str:
        """Say what a statement reads of loops that run further in; empty where all is known."""
        for statement in self.body:
            known = {self.loop(name).symbol for name in self.outside(statement.inside)}
            unknown = _reads(statement, self) - known
            if unknown:
                what = type(statement).__name__.lower()
                loops = ", ".join(sorted(map(str, unknown)))
                return f"the {what} inside {statement.inside} depends on {loops}, which is not known there"
        return ""


def _reads(statement: Statement, nest: Nest) -> set[Symbol]:
    """The loops that a statement reads, but for those over its own elements."""
    read: list[Expr | Guard] = []
    match statement:
        case Load():
            read += [expr for _, expr in statement.map.results]
            read += statement.map.guard
            own = {"e", statement.rows.name}
        case Accumulate():
            read += [nest.space[name] for name in "npqk"]
            own = {"lane", "column"}
        case Move():
            return set()
    return {symbol for expr in read for symbol in expr.free_symbols if symbol.name not in own}


def plain(problem: ConvProblem) -> Nest:
    """The definition: n, p, q, k, c, r, s, one multiply-add in each iteration."""
    extents = (problem.batch, *problem.out_extent, problem.out_channels, problem.in_channels, *problem.kernel)
    axes = tuple(Axis(name, extent) for name, extent in zip(SOURCE, extents, strict=True))
    space = IndexMap(name="space", domain=axes, results=tuple((axis.name, axis.symbol) for axis in axes))
    return Nest(problem=problem, space=space, notes=tuple(zip(SOURCE, SOURCE_WORDS, strict=True)))
