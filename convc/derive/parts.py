"""Split K: the CTAs of some clusters share the sum of a tile, each has a part of its steps, and the parts are added up.

Steps are counted through the loops around a step. CTA `part` takes the steps part, part + PARTS, part + 2*PARTS and so
on; or, of channel blocks that PARTS divides, every PARTS-th block of every tap. A sum may be taken in any order, so all
there is to show is that every step has one turn of one CTA. The columns of the tile are shared then too: each CTA adds
the parts of its own cluster. Where there are several clusters, each keeps what it has added in global memory, at a
place of its own, and one of them adds what all have kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sympy import Expr, S, Symbol

from convc.derive import symbols as z
from convc.derive.kernels import Map
from convc.derive.nests import Let, Loop, RewriteStep
from convc.derive.reindex import Reindexed, single
from convc.derive.symbols import FloorDiv, Mod
from convc.derive.theorem import Condition, Theorem, at_most, below, proved

TAPS = ((z.r, z.R, "filter rows"), (z.s, z.S, "filter columns"))
BLOCKS = (z.block, z.BLOCKS, "channel blocks")
PARTS = Loop(axis=z.part, extent=z.PARTS, words="the CTAs that share a tile")
CLUSTER = z.axis("cluster")
QUAD = 4
"""Columns that a lane keeps side by side, 16 bytes of them."""
LANES = 32
"""Lanes of a warp."""

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
    step = RewriteStep(
        name=f"share the {weight} steps of a tile between {z.PARTS} CTAs",
        theorems=(counted, _once(z.step), *_columns()),
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
    step = RewriteStep(
        name=f"share the {blocks} channel blocks of a tile between {z.PARTS} CTAs",
        theorems=(_once(block), *_columns()),
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
    """The turn of a step, the first column of a chunk that a CTA adds, where its sum is kept and who counts that."""
    tile = z.tile_n * z.TILES_M + z.tile_m
    between = z.TILES_N * z.TILES_M * z.BN * z.BM * QUAD
    first = (tile * z.BN + z.column) * z.BM * QUAD + z.lane * QUAD * QUAD
    kept = {"first": first, "own": FloorDiv(z.part, z.RANKS) * between + first, "between": between}
    counter = (tile * z.RANKS + z.rank) * z.WARPS + z.warp
    return {
        "counted": Map(axes=(z.part,), results={"first": z.part, "stride": z.PARTS, "limit": extent}),
        "turn": Map(axes=(counted,), results={"turn": FloorDiv(counted, z.PARTS)}),
        "rank": Map(axes=(z.part,), results={"rank": Mod(z.part, z.RANKS)}),
        "column": Map(axes=(z.rank, z.chunk), results={"column": z.rank * z.OWN + z.chunk * z.SOME}),
        "kept": Map(axes=(z.tile_m, z.tile_n, z.part, z.column, z.lane), results=kept),
        "counter": Map(axes=(z.tile_m, z.tile_n, z.rank, z.warp), results={"counter": counter}),
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


def _columns() -> Iterator[Theorem]:
    """Whose a column is, where its sums are kept, and who counts that."""
    row = z.axis("row")
    place = z.rank * z.OWN + (z.chunk * z.SOME + row)
    inside = z.chunk * z.SOME + row
    yield proved(
        "every column of a tile is one of one chunk of one CTA of a cluster",
        [
            (FloorDiv(place, z.OWN), z.rank),
            (FloorDiv(Mod(place, z.OWN), z.SOME), z.chunk),
            (Mod(inside, z.SOME), row),
        ],
        [below(row, z.SOME), below(inside, z.OWN)],
    )
    part = CLUSTER * z.RANKS + z.rank
    yield proved(
        "every part is one rank of one cluster",
        [(FloorDiv(part, z.RANKS), CLUSTER), (Mod(part, z.RANKS), z.rank)],
        [below(z.rank, z.RANKS)],
    )
    quads = z.size("QUADS")
    quad = z.axis("quad")
    yield _told_apart(
        "every lane of every cluster keeps four columns where no other does",
        [(CLUSTER, None), (z.tile_n, z.TILES_N), (z.tile_m, z.TILES_M), (quad, quads), (z.lane, z.BM)],
    )
    yield _told_apart(
        "every warp that adds counts with those of the other clusters that add the same, and no others",
        [(z.tile_n, None), (z.tile_m, z.TILES_M), (z.rank, z.RANKS), (z.warp, z.WARPS)],
    )


def _told_apart(words: str, digits: Sequence[tuple[Symbol, Expr | None]]) -> Theorem:
    """Loops, outermost first, are counted by one number, from which each can be had."""
    number: Expr = S.Zero
    for axis, extent in digits:
        number = axis if extent is None else number * extent + axis
    says: list[tuple[Expr, Expr]] = []
    rest = number
    for axis, extent in reversed(digits):
        says.append((rest if extent is None else Mod(rest, extent), axis))
        rest = rest if extent is None else FloorDiv(rest, extent)
    return proved(words, says, [below(axis, extent) for axis, extent in digits if extent is not None])


def _own_columns() -> tuple[Condition, ...]:
    tile = "the columns of the CTAs of a cluster are those of the tile"
    clusters = "the CTAs that share a tile are whole clusters"
    warps = "every lane of the tile is one of a warp that adds"
    chunks = "the chunks of a CTA are its columns"
    return (
        at_most(z.RANKS * z.OWN, z.BN, tile),
        at_most(z.BN, z.RANKS * z.OWN, tile),
        at_most(z.CHUNKS * z.SOME, z.OWN, chunks),
        at_most(z.OWN, z.CHUNKS * z.SOME, chunks),
        at_most(z.PARTS, z.CLUSTERS * z.RANKS, clusters),
        at_most(z.CLUSTERS * z.RANKS, z.PARTS, clusters),
        at_most(z.BM, z.WARPS * LANES, warps),
        at_most(z.WARPS * LANES, z.BM, warps),
    )


def shares() -> Iterator[Reindexed]:
    """Every way: of pixels loaded for every tap, for every row of the filter, and summed in blocks."""
    for digits in ((*TAPS, BLOCKS), (TAPS[0], BLOCKS), (BLOCKS,)):
        yield by_steps(digits)
        yield by_blocks(digits)
