"""A CTA of a cluster: its place among the tiles of the cluster says which parts it brings, and for whom.

CTAs beside each other along the pixels share filter tiles, and those along the channels share tiles of pixels. Ranks
count along the pixels first, and a set of CTAs has a bit for each rank. No extent of a cluster is above two, so that a
power of two of a place is a sum: 2**x = x + 1 of x = 0, 1.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from sympy import Expr, Integer

from convc.derive import symbols as z
from convc.derive.kernels import Map
from convc.derive.mainloop import ROW_BYTES
from convc.derive.nests import Place
from convc.derive.shares import Share
from convc.derive.symbols import FloorDiv, Mod, axes, axis, size, sizes
from convc.derive.theorem import Equal, Theorem, below, proved

PIXELS, CHANNELS = sizes("PIXELS CHANNELS")
"""Tiles of a cluster along the pixels and along the channels."""
COLUMN = size("COLUMN")
"""The CTAs of the first place along the pixels, a bit each."""
WHOLE = size("WHOLE")
"""The CTAs of the first place along the channels, a bit each."""
A_PIECE = size("A_PIECE")
"""Pixels of a tile that a CTA brings."""

ALONG, ACROSS, I_ = axes("along across i")
BIT = axis("bit")
SETS: Place = {"a": BIT * COLUMN, "b": BIT * WHOLE}
"""The CTAs that share tiles of pixels (a) and of filters (b) with a CTA, of a bit for its place."""
SHAPES = ((1, 2), (2, 1), (2, 2))


def clusters() -> Iterator[tuple[str, Share]]:
    """Every map, by its name."""
    yield "place in a cluster", _place()
    yield "cluster", _parts()
    yield "set of CTAs", Share(map=Map(axes=(BIT,), results=SETS), theorems=())
    yield "part of a tile", _piece()
    yield "tile of a pair", _pair()


def _place() -> Share:
    places = {"along": Mod(z.tile_m, PIXELS), "across": Mod(z.tile_n, CHANNELS)}
    at = {z.tile_m: z.m * PIXELS + ALONG, z.tile_n: z.n * CHANNELS + ACROSS}
    theorem = proved(
        "tiles of a cluster are neighbours, and each has a place of its own",
        [(places["along"].xreplace(at), ALONG), (places["across"].xreplace(at), ACROSS)],
        [below(ALONG, PIXELS), below(ACROSS, CHANNELS)],
    )
    return Share(map=Map(axes=(z.tile_m, z.tile_n), results=places), theorems=(theorem,))


def _parts() -> Share:
    results = {
        "bit_a": ALONG + 1,
        "bit_b": ACROSS * WHOLE + 1,
        "at_a": ACROSS * (A_PIECE * ROW_BYTES),
        "at_b": ALONG * (z.PIECE * ROW_BYTES),
        "row": 2 - ALONG,
        "column": 4 - 3 * ACROSS,
    }
    pixel = FloorDiv(A_PIECE * ACROSS + I_, A_PIECE)
    channel = FloorDiv(z.PIECE * ALONG + I_, z.PIECE)
    theorems = (
        *(_sets(results, *shape) for shape in SHAPES),
        proved("a row of pixels is brought by one CTA", [(pixel, ACROSS)], [below(I_, A_PIECE)]),
        proved("a filter row is brought by one CTA", [(channel, ALONG)], [below(I_, z.PIECE)]),
    )
    return Share(map=Map(axes=(ALONG, ACROSS), results=results), theorems=theorems)


def _sets(results: Place, pixels: int, channels: int) -> Theorem:
    says: list[Equal] = []
    ranks = list(itertools.product(range(channels), range(pixels)))

    def bits(chosen: Iterator[tuple[int, int]]) -> Expr:
        return Integer(sum(1 << across * pixels + along for across, along in chosen))

    sizes = {COLUMN: bits((a, 0) for a in range(channels)), WHOLE: bits((0, b) for b in range(pixels))}
    for across, along in ranks:
        at = {**sizes, ALONG: Integer(along), ACROSS: Integer(across)}
        say = {
            "a": bits(each for each in ranks if each[1] == along),
            "b": bits(each for each in ranks if each[0] == across),
        }
        for name, found in say.items():
            set_of = SETS[name].xreplace({**sizes, BIT: results[f"bit_{name}"].xreplace(at)})
            says.append(Equal(set_of, found))
        if (pixels, channels) == (2, 2):
            other = bits(iter([(1 - across, 1 - along)]))
            says.append(Equal((results["row"] * results["column"]).xreplace(at), other))
    name = f"sets of CTAs of a cluster of {pixels} x {channels} tiles are those that share a tile with each"
    return proved(name, says)


def _piece() -> Share:
    number = z.tile_m * CHANNELS + ACROSS
    theorem = proved(
        "pixels of the parts of a tile, one after the other, are those of the tile",
        [(number * A_PIECE + I_, z.tile_m * (CHANNELS * A_PIECE) + (ACROSS * A_PIECE + I_))],
    )
    return Share(map=Map(axes=(z.tile_m, ACROSS), results={"tile_m": number}), theorems=(theorem,))


def _pair() -> Share:
    first = z.unit * z.TOGETHER
    theorem = proved(
        "CTAs that multiply as one have tiles that follow each other",
        [(FloorDiv(first + z.rank, z.TOGETHER), z.unit), (Mod(first + z.rank, z.TOGETHER), z.rank)],
        [below(z.rank, z.TOGETHER)],
    )
    return Share(map=Map(axes=(z.tile_m, z.rank), results={"tile_m": z.tile_m + z.rank}), theorems=(theorem,))
