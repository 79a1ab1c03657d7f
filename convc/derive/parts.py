"""Split K: the CTAs of a cluster share the sum of a tile, each has a part of its steps, and the parts are added up.

Steps are counted through the loops around a step. CTA `part` takes the steps part, part + PARTS, part + 2*PARTS and so
on; or, of channel blocks that PARTS divides, every PARTS-th block of every tap. A sum may be taken in any order, so all
there is to show is that every step has one turn of one CTA. The columns of the tile are shared then too: each CTA adds
the parts of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sympy import Expr, S, Symbol

from convc.derive import symbols as z
from convc.derive.kernels import Map
from convc.derive.nests import Let, Loop, Step
from convc.derive.reindex import Reindexed, single
from convc.derive.symbols import FloorDiv, Mod
from convc.derive.theorem import Condition, Theorem, at_most, below, proved

TAPS = ((z.r, z.R, "filter rows"), (z.s, z.S, "filter columns"))
BLOCKS = (z.block, z.BLOCKS, "channel blocks")
PARTS = Loop(axis=z.part, extent=z.PARTS, words="the CTAs of a cluster")

Digits = Sequence[tuple[Symbol, Expr, str]]
"""Loops, outermost first: axis, extent, words."""


def by_steps(digits: Digits) -> Reindexed:
    """Every PARTS-th step, steps counted through all loops."""
    mine = z.turn * z.PARTS + z.part
    weight: Expr = S.One
    number: Expr = S.Zero
    values: dict[Symbol, Expr] = {}
    for axis, extent, _ in reversed(digits):
        above = z.step if weight == 1 else FloorDiv(z.step, weight)
        values[axis] = above if axis == digits[0][0] else Mod(above, extent)
        number = number + axis * weight
        weight = weight * extent
    counted = proved(
        f"step {number} is one ({', '.join(str(axis) for axis, _, _ in digits)}), and below {weight}",
        [*((value.xreplace({z.step: number}), axis) for axis, value in values.items()), below(number, weight)],
        [below(axis, extent) for axis, extent, _ in digits],
    )
    step = Step(
        name=f"share the {weight} steps of a tile between {z.PARTS} CTAs",
        theorems=(counted, _once(z.step), _columns()),
        conditions=(at_most(weight, z.TURNS * z.PARTS, f"{z.TURNS} turns reach the last step"), *_own_columns()),
    )
    lets = tuple(single(z.turn, axis, values[axis]) for axis, _, _ in digits)
    names = ", ".join(str(axis) for axis, _, _ in digits)
    return Reindexed(
        name=f"split K by steps {names}",
        title="CTAs that share the steps of a tile",
        old=tuple(axis for axis, _, _ in digits),
        loops=(PARTS, Loop(axis=z.turn, extent=z.TURNS, words="steps of the CTA")),
        lets=(single(z.turn, z.step, mine), *lets),
        step=step,
        guard=(below(mine, weight),),
        inside={digits[-1][0]: z.turn},
        added=z.part,
        maps=_maps(z.step, weight),
    )


def by_blocks(digits: Digits) -> Reindexed:
    """Every PARTS-th channel block, of every tap."""
    *taps, (block, blocks, _) = digits
    mine = z.turn * z.PARTS + z.part
    words = f"{z.PARTS} divides the channel blocks"
    step = Step(
        name=f"share the {blocks} channel blocks of a tile between {z.PARTS} CTAs",
        theorems=(_once(block), _columns()),
        conditions=(
            at_most(blocks, z.TURNS * z.PARTS, words),
            at_most(z.TURNS * z.PARTS, blocks, words),
            *_own_columns(),
        ),
    )
    names = ", ".join(str(axis) for axis, _, _ in digits)
    return Reindexed(
        name=f"split K by blocks {names}",
        title="CTAs that share the channel blocks of a tile",
        old=tuple(axis for axis, _, _ in digits),
        loops=(
            PARTS,
            *(Loop(axis=axis, extent=extent, words=words) for axis, extent, words in taps),
            Loop(axis=z.turn, extent=z.TURNS, words="channel blocks of the CTA"),
        ),
        lets=(Let(inside=z.turn, axis=block, cases=single(z.turn, block, mine).cases),),
        step=step,
        inside={block: z.turn},
        added=z.part,
        maps=_maps(block, blocks),
    )


def _maps(counted: Symbol, extent: Expr) -> dict[str, Map]:
    """The turn of a step, and the first column of a chunk that a CTA adds."""
    return {
        "counted": Map(axes=(z.part,), results={"first": z.part, "stride": z.PARTS, "limit": extent}),
        "turn": Map(axes=(counted,), results={"turn": FloorDiv(counted, z.PARTS)}),
        "column": Map(axes=(z.part, z.chunk), results={"column": z.part * z.OWN + z.chunk * z.SOME}),
    }


def _once(counted: Symbol) -> Theorem:
    mine = z.turn * z.PARTS + z.part
    return proved(
        f"every {counted} belongs to one turn of one part",
        [
            (FloorDiv(mine, z.PARTS), z.turn),
            (Mod(mine, z.PARTS), z.part),
            (FloorDiv(counted, z.PARTS) * z.PARTS + Mod(counted, z.PARTS), counted),
        ],
        [below(z.part, z.PARTS)],
    )


def _columns() -> Theorem:
    row = z.axis("row")
    place = z.part * z.OWN + (z.chunk * z.SOME + row)
    inside = z.chunk * z.SOME + row
    return proved(
        "every column of a tile is one of one chunk of one CTA",
        [
            (FloorDiv(place, z.OWN), z.part),
            (FloorDiv(Mod(place, z.OWN), z.SOME), z.chunk),
            (Mod(inside, z.SOME), row),
        ],
        [below(row, z.SOME), below(inside, z.OWN)],
    )


def _own_columns() -> tuple[Condition, ...]:
    tile = "the columns of the CTAs are those of the tile"
    chunks = "the chunks of a CTA are its columns"
    return (
        at_most(z.PARTS * z.OWN, z.BN, tile),
        at_most(z.BN, z.PARTS * z.OWN, tile),
        at_most(z.CHUNKS * z.SOME, z.OWN, chunks),
        at_most(z.OWN, z.CHUNKS * z.SOME, chunks),
    )


def shares() -> Iterator[Reindexed]:
    """Every way, for schedules that load pixels for every tap and for those that do for every row of the filter."""
    for digits in ((*TAPS, BLOCKS), (TAPS[0], BLOCKS)):
        yield by_steps(digits)
        yield by_blocks(digits)
