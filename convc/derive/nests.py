"""Loop nests as data: which multiply-adds a convolution does, in which order, and what it keeps between them.

    y[n, p, q, k] += x[n, u_h*p + d_h*r - pad_h, u_w*q + d_w*s - pad_w, group*C_PITCH + c] * w[k, r, s, c]

is the definition, in seven loops. A nest says by `space` which n, p, q, k, c, r, s and which group an iteration of its
innermost loop is about, and where its guard fails that it is none. Four things may stand inside of a loop:

    accumulate   before the loops further in: the sums are cleared; behind them: they are stored
    load         before: rows of a tile A are filled with pixels
    move         behind, after all iterations but the last: the rows of A move
    mask         at the multiply-add: lanes that are left out

and `read` says which row of A a multiply-add takes. `convc.derive.rewrites` changes nests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from sympy import Expr, S, Symbol

from convc.derive import symbols as z
from convc.derive.symbols import FloorDiv
from convc.derive.theorem import Bound, Condition, Refused, Theorem

SPACE = tuple("npqkcrs")
"""What an iteration is about: output pixel and channel, and the term of its sum."""
OUTPUT = tuple("npqk")
WEIGHT = tuple("krsc")
SUMMED = tuple("crs")
GRADIENT_SUMMED = tuple("npq")
"""What an output is summed over, and what the gradient of a weight is."""
PIXEL = tuple("nhwc")

Updates = Literal["y", "x", "w"]
"""What products are added to: outputs, or (`convc.derive.gradients`) gradients of pixels or weights."""

Place = Mapping[str, Expr]
"""Coordinates by their names: those of `SPACE`, or those of `PIXEL`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """A loop from 0 on.

    Attributes:
        axis: what it counts.
        extent: how many iterations.
        words: what they are, for people.
        guarded: whether the guard leaves out whatever lies behind the last iteration.
    """

    axis: Symbol
    extent: Expr
    words: str = ""
    guarded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Fills the rows of the tile A before each iteration of loop `inside`.

    Attributes:
        inside: the loop.
        row: the axis that counts the rows.
        rows: how many.
        pixel: what comes to a row: zero where it lies outside of the image.
        since: zero where this is negative: rows in front of the first pixel of a copy; None: there are none.
        words: the copy that does it.
    """

    inside: Symbol
    row: Symbol
    rows: Expr
    pixel: Place
    since: Expr | None = None
    words: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Brings row i + `lanes` to row i, after each iteration of loop `inside` but the last.

    Attributes:
        words: how, and where the last rows come from.
    """

    inside: Symbol
    lanes: Expr
    words: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mask:
    """Leaves a lane out where what it needs is padding, and what it holds is not.

    Attributes:
        axis: the axis of the filter that decides.
        need: the coordinate that it needs; padding outside of 0..end-1.
        held: the one that it holds; real inside of 0..held_end-1, and where `since` is not negative.
    """

    axis: Symbol
    need: Expr
    end: Expr
    held: Expr
    held_end: Expr
    since: Expr | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A number where `key` is below `limit`; where it is not, the next case says it, and the last has no key."""

    value: Expr
    key: Expr | None = None
    limit: Expr = S.Zero


@dataclass(frozen=True, slots=True, kw_only=True)
class Let:
    """A number in the place of a loop's, worked out inside of another loop (`convc.derive.reindex`).

    Attributes:
        inside: the loop.
        axis: the number.
        cases: what it is. found: where it is found, if no formula says it.
    """

    inside: Symbol
    axis: Symbol
    cases: tuple[Case, ...] = ()
    found: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteStep:
    """A rewrite that was done: its name with what it was told, why it is right, and what a problem has to meet."""

    name: str
    why: str = ""
    theorems: tuple[Theorem, ...] = ()
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Nest:
    """A loop nest.

    Attributes:
        loops: outermost first.
        space: what an iteration is about.
        guard: an iteration that breaks one of these is none.
        accumulate: the loop inside which sums are kept; None: each product goes to its output.
        load, read: the tile, and the row of it that is multiplied; None: pixels are read where they lie.
        move: how the rows of the tile move.
        masks: lanes that are left out.
        swapped: whether the pixels are the columns of the accumulator.
        owes: what a rewrite has left to those behind it: until then some sums are others.
        lets: numbers that are worked out from those of loops.
        added: a loop whose iterations have sums of their own, which are added up; None: there is none.
        updates: what products are added to.
        output: the pixel whose gradient that is, where it is counted otherwise than by `pixel`.
        steps: the rewrites so far.
    """

    loops: tuple[Loop, ...]
    space: Place
    guard: tuple[Bound, ...] = ()
    accumulate: Symbol | None = None
    load: Load | None = None
    read: Expr | None = None
    move: Move | None = None
    masks: tuple[Mask, ...] = ()
    swapped: bool = False
    owes: tuple[str, ...] = ()
    lets: tuple[Let, ...] = ()
    added: Symbol | None = None
    updates: Updates = "y"
    output: Place | None = None
    steps: tuple[RewriteStep, ...] = field(default=(), compare=False)

    @property
    def axes(self) -> tuple[Symbol, ...]:
        """Of the loops, outermost first."""
        return tuple(each.axis for each in self.loops)

    @property
    def theorems(self) -> tuple[Theorem, ...]:
        """Those of all steps."""
        return tuple(theorem for each in self.steps for theorem in each.theorems)

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """Conditions that a problem has to meet."""
        return tuple(dict.fromkeys(condition for each in self.steps for condition in each.conditions))

    def loop(self, axis: Symbol, who: str) -> Loop:
        """A loop; `Refused`, under the name of who asks, where there is none."""
        for each in self.loops:
            if each.axis == axis:
                return each
        raise Refused(who, f"the nest has no loop {axis}; its loops are {', '.join(map(str, self.axes))}")

    def known(self, inside: Symbol) -> set[Symbol]:
        """The axes whose numbers are known inside of a loop, before the loops further in."""
        around = set(self.axes[: self.axes.index(inside) + 1])
        return around | {let.axis for let in self.lets if let.inside in around}

    def pixel(self) -> dict[str, Expr]:
        """The pixel that an iteration reads, by the definition."""
        return pixel_of(self.space)


def pixel_of(space: Place) -> dict[str, Expr]:
    """The pixel that an iteration reads, by the definition of a convolution."""
    return {
        "n": space["n"],
        "h": z.u_h * space["p"] + z.d_h * space["r"] - z.pad_h,
        "w": z.u_w * space["q"] + z.d_w * space["s"] - z.pad_w,
        "c": space["group"] * z.C_PITCH + space["c"],
    }


def put(place: Place, values: Mapping[Expr, Expr] | Mapping[Symbol, Expr]) -> dict[str, Expr]:
    """Coordinates with expressions in place of symbols, all at once."""
    return {name: expr.xreplace(dict(values)) for name, expr in place.items()}


def definition() -> Nest:
    """Algorithm 1: the definition, one multiply-add in each iteration."""
    axes = (z.n, z.p, z.q, z.k, z.c, z.r, z.s)
    extents = (z.N, z.P, z.Q, z.K, z.C, z.R, z.S)
    words = ("images", "output rows", "output columns", "output channels", "input channels", "filter rows", "columns")
    loops = (Loop(axis=a, extent=b, words=c) for a, b, c in zip(axes, extents, words, strict=True))
    space = dict(zip(SPACE, axes, strict=True))
    return Nest(loops=tuple(loops), space={**space, "group": FloorDiv(z.k, z.K_g)})


def at_zero(place: Place, *axes: Symbol) -> dict[str, Expr]:
    """Coordinates of the first iteration of some loops."""
    return put(place, dict.fromkeys(axes, S.Zero))


def unknown(exprs: Iterable[Expr], known: set[Symbol]) -> set[str]:
    """The axes that expressions read and that are not known."""
    return {x.name for expr in exprs for x in expr.free_symbols if x.name in z.AXES and x not in known}
