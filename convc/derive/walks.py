"""CTAs that make several tiles each: by the number of the CTA and that of its turn, or as tiles are given to them."""

from __future__ import annotations

from collections.abc import Iterator

from convc.derive import symbols as z
from convc.derive.kernels import Map
from convc.derive.nests import Let, Loop, RewriteStep
from convc.derive.reindex import Reindexed, single
from convc.derive.symbols import FloorDiv, Mod
from convc.derive.theorem import Condition, Theorem, at_most, below, proved

WORDS = "the tiles of the grid"
TILES: tuple[Condition, ...] = (
    at_most(z.TILES_M * z.TILES_N, z.GRID, WORDS),
    at_most(z.GRID, z.TILES_M * z.TILES_N, WORDS),
)


def strided() -> Reindexed:
    """CTAs that walk: each begins with the tile of its own number, and goes on by the number of CTAs."""
    number = z.turn * z.CTAS + z.cta
    step = RewriteStep(
        name=f"walk: tile = {number}, as long as there are tiles",
        theorems=(_once(), _further()),
        conditions=(*TILES, at_most(z.GRID, z.TURNS * z.CTAS, f"{z.TURNS} turns of {z.CTAS} CTAs reach the last tile")),
    )
    return Reindexed(
        name="walk",
        title="persistent CTAs, which walk over tiles",
        old=(z.tile,),
        loops=(
            Loop(axis=z.cta, extent=z.CTAS, words="the grid"),
            Loop(axis=z.turn, extent=z.TURNS, words="tiles of the CTA"),
        ),
        lets=(single(z.turn, z.tile, number),),
        step=step,
        guard=(below(number, z.GRID),),
        inside={z.tile: z.turn},
        maps={
            "tile": Map(axes=(z.turn, z.cta), results={"first": z.cta, "stride": z.CTAS, "limit": z.GRID}),
            "following": Map(axes=(z.tile,), results={"tile": Mod(z.tile + z.CTAS, z.GRID)}),
        },
    )


def _once() -> Theorem:
    number = z.turn * z.CTAS + z.cta
    return proved(
        "every tile belongs to one turn of one CTA, and its first tile has the number of the CTA",
        [
            (FloorDiv(number, z.CTAS), z.turn),
            (Mod(number, z.CTAS), z.cta),
            (FloorDiv(z.tile, z.CTAS) * z.CTAS + Mod(z.tile, z.CTAS), z.tile),
            (number.xreplace({z.turn: z.turn * 0}), z.cta),
        ],
        [below(z.cta, z.CTAS)],
    )


def _further() -> Theorem:
    number = z.turn * z.CTAS + z.cta
    following = number.xreplace({z.turn: z.turn + 1})
    return proved(
        "the tile of the next turn is CTAS further on, if there is one",
        [(following, number + z.CTAS), (Mod(number + z.CTAS, z.GRID), following)],
        [below(following, z.GRID)],
    )


def _numbered() -> Theorem:
    number = z.tile_m * z.TILES_N + z.tile_n
    return proved(
        "the tiles of a grid have TILES_M*TILES_N numbers, each of them one",
        [(FloorDiv(number, z.TILES_N), z.tile_m), (Mod(number, z.TILES_N), z.tile_n), below(number, z.GRID)],
        [below(z.tile_m, z.TILES_M), below(z.tile_n, z.TILES_N), at_most(z.TILES_M * z.TILES_N, z.GRID)],
    )


def fetched() -> Reindexed:
    """CTAs that go on to the tiles of CTAs that have not begun, as the hardware gives them."""
    step = RewriteStep(
        name="fetch: a CTA makes its own tile, and those that it is given",
        why="a CTA of the grid begins, or is given to one that asks, and never both "
        "(PTX manual, clusterlaunchcontrol.try_cancel); its number is that of its tile",
        theorems=(_numbered(),),
        conditions=TILES,
    )
    return Reindexed(
        name="fetch",
        title="CTAs that fetch tiles",
        old=(z.tile,),
        loops=(Loop(axis=z.turn, extent=z.GRID, words="tiles, in the order in which they are begun"),),
        lets=(Let(inside=z.turn, axis=z.tile, found="the CTA's own number, then clusterlaunchcontrol.try_cancel"),),
        step=step,
        inside={z.tile: z.turn},
    )


def walks() -> Iterator[Reindexed]:
    """Both ways."""
    yield from (strided(), fetched())
