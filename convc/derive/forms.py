"""The forms of the schedules: from the definition of a convolution, by named rewrites, to the loops of a kernel.

    Algorithm 1      n, p, q, k, c, r, s: the definition
    Algorithm 2      tiles for the tensor core; every column of the filter loads its own pixels    (reload)
                     and pixels are summed: gradients of weights                                   (reload)
    Algorithm 3      one load for all columns of a buffer, read at a later row                     (slide)
                     and the operands change places                                                (stationary)
    Algorithm 3.b    one load, and the rows move to their lanes                                    (shift)

The numbers are those of Pei Luo's note "Blackwell SM_100a tensor core architecture".
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from convc.derive import symbols as z
from convc.derive.gradients import wgrad
from convc.derive.kernels import Map, plain_maps, shared_maps
from convc.derive.mainloop import MainloopMaps, plain_mainloop, shared_mainloop
from convc.derive.nests import Loop, Nest, definition
from convc.derive.reuse import Rows, hoist, mask, rows_inside, rows_masked, shift, zeroed
from convc.derive.rewrites import (
    accumulate,
    flatten,
    interchange,
    lengthen,
    one_group,
    split,
    stage,
    swap,
    tile,
    tile_windows,
)
from convc.derive.summed import summed_maps
from convc.derive.symbols import FloorDiv
from convc.derive.theorem import Refused, Theorem, below

SOURCE = 'Pei Luo, "Blackwell SM_100a tensor core architecture"'

Border = Literal["mask", "zero"]
Lanes = Literal["contiguous", "overlapping"]
"""Whether the pixels of a tile are one run, or windows that overlap by the halo."""
Reading = Literal["read further on", "operands exchanged", "rows moved"]
"""How a lane comes to the pixel that a column of the filter needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoweredForm:
    """A schedule in one of its forms.

    Attributes:
        name: by which it is found.
        algorithms: titles and nests, the definition first; the last is what the kernel runs.
        maps: what the kernel computes, read off the last nest.
        theorems: those that prove the maps, besides those of the nests.
    """

    name: str
    algorithms: tuple[tuple[str, Nest], ...]
    maps: dict[str, Map]
    theorems: tuple[Theorem, ...]

    def __post_init__(self) -> None:
        if self.nest.owes:
            raise Refused(self.name, f"it owes {', and '.join(self.nest.owes)}")

    @property
    def nest(self) -> Nest:
        """The last."""
        return self.algorithms[-1][1]


PIXELS = Loop(axis=z.lane, extent=z.BM, words="tensor core: pixels")


def matrix_tiles(nest: Nest) -> Nest:
    """Tiles of the output channels and of the input channels, the same in every schedule."""
    outer = Loop(axis=z.tile_n, extent=z.TILES_N, words=f"{z.BN} output channels each")
    inner = Loop(axis=z.column, extent=z.BN, words="tensor core: output channels")
    nest = tile(nest, z.k, outer, inner)
    outer = Loop(axis=z.block, extent=z.BLOCKS, words=f"{z.BK} input channels each")
    nest = tile(nest, z.c, outer, Loop(axis=z.e, extent=z.BK, words="tensor core: the sum"))
    return one_group(nest)


def reload() -> Nest:
    """Algorithm 2 as `reload` runs it: tiles of all output pixels, a load for every tap."""
    nest = flatten(definition(), (z.n, z.p, z.q), z.m, (z.P, z.Q), "output pixels")
    nest = tile(nest, z.m, Loop(axis=z.tile_m, extent=z.TILES_M, words=f"{z.BM} output pixels each"), PIXELS)
    nest = matrix_tiles(nest)
    nest = interchange(nest, (z.tile_m, z.tile_n, z.r, z.s, z.block, z.lane, z.column, z.e))
    return stage(accumulate(nest, z.tile_n), z.block, "im2col")


@functools.cache
def stream_tiles(rows: Rows, lanes: Lanes) -> Nest:
    """Algorithm 2 on a stream of output rows: rows outside, or all in one stream; columns of the filter innermost."""
    nest = definition()
    tiles = Loop(axis=z.tile if rows == "outer" else z.tile_m, extent=z.TILES, words="places of the stream")
    if rows == "outer":
        nest = interchange(nest, (z.p, z.n, z.q, z.k, z.c, z.r, z.s))
        nest = flatten(nest, (z.n, z.q), z.t, (z.T,), "the stream of an output row of all images")
    else:
        nest = flatten(nest, (z.n, z.p, z.q), z.t, (z.Y, z.T), "the stream of all output rows")
    nest = (tile if lanes == "contiguous" else tile_windows)(nest, z.t, tiles, PIXELS)
    nest = matrix_tiles(nest)
    outer = (z.p,) if rows == "outer" else ()
    nest = interchange(nest, (*outer, tiles.axis, z.tile_n, z.r, z.block, z.s, z.lane, z.column, z.e))
    if rows == "outer":
        nest = flatten(nest, (z.p, z.tile), z.tile_m, (z.TILES,), "tiles of all output rows")
        nest = lengthen(nest, z.tile_m, z.TILES_M, [below(FloorDiv(z.tile_m, z.TILES), z.P)])
    return stage(accumulate(nest, z.tile_n), z.s, "im2col::w, a copy for each column of the filter")


@functools.cache
def shared(rows: Rows, border: Border, lanes: Lanes, *, exchanged: bool) -> Nest:
    """Algorithm 3: one load a buffer, and a column of the filter reads it some rows on."""
    words = "one copy for all columns of the buffer, its halo behind it"
    if lanes == "overlapping":
        words = "a copy a window, which overlaps the next by the halo"
    columns = Loop(axis=z.tap, extent=z.TAPS, words="columns of the buffer, d lanes apart")
    nest = split(stream_tiles(rows, lanes), z.s, columns, Loop(axis=z.buffer, extent=z.BUFFERS, words="buffers"), z.u)
    nest = hoist(nest, rows, words)
    nest = mask(nest) if border == "mask" else zeroed(nest)
    if rows != "merged":
        return nest
    return rows_inside(nest) if exchanged else rows_masked(nest)  # columns of an accumulator have no masks by rows


def reload_form() -> LoweredForm:
    """The schedule `reload`."""
    nest = reload()
    maps, theorems = _joined(plain_maps(nest), plain_mainloop(nest))
    chain = (("Algorithm 1: the definition", definition()), ("Algorithm 2: reload", nest))
    return LoweredForm(name="reload", algorithms=chain, maps=maps, theorems=theorems)


def summed_form() -> LoweredForm:
    """The gradient of the weights, as `reload` runs it where pixels are summed."""
    *before, (title, nest) = wgrad()
    maps, theorems = summed_maps(nest)
    chain = (*before[:2], (title, nest))
    return LoweredForm(name="pixels summed", algorithms=chain, maps=maps, theorems=theorems)


def shared_form(reading: Reading, rows: Rows, border: Border, lanes: Lanes = "contiguous") -> LoweredForm:
    """A form of a schedule that shares pixels: of ``slide``, ``stationary`` or ``shift``."""
    exchanged = reading == "operands exchanged"
    tiles = stream_tiles(rows, lanes)
    slide = shared(rows, border, lanes, exchanged=exchanged)
    chain = [
        ("Algorithm 1: the definition", definition()),
        ("Algorithm 2: reload", tiles),
        ("Algorithm 3: slide", slide),
    ]
    if exchanged:
        chain.append(("Algorithm 3: stationary", swap(slide)))
    if reading == "rows moved":
        chain.append(("Algorithm 3.b: shift", shift(slide, overlapping=lanes == "overlapping")))
    nest = chain[-1][1]
    maps, theorems = _joined(shared_maps(nest, rows), shared_mainloop(nest, overlapping=lanes == "overlapping"))
    return LoweredForm(
        name=form_name(reading, rows, border, lanes), algorithms=tuple(chain), maps=maps, theorems=theorems
    )


def _joined(*parts: MainloopMaps) -> MainloopMaps:
    """Maps and theorems of several parts of a kernel."""
    maps = {name: found for some, _ in parts for name, found in some.items()}
    return maps, tuple(theorem for _, some in parts for theorem in some)


def form_name(reading: str, rows: str, border: str, lanes: str) -> str:
    """The name of a form: how lanes find their pixels, and how it cuts the output."""
    return ", ".join((reading, f"rows {rows}", f"border {border}", lanes))


def forms() -> Iterator[LoweredForm]:
    """Every form of every schedule."""
    yield reload_form()
    yield summed_form()
    borders: tuple[Border, ...] = ("mask", "zero")
    streams: tuple[Rows, ...] = ("outer", "merged")
    for rows, border in itertools.product(streams, borders):
        yield shared_form("read further on", rows, border)
        yield shared_form("operands exchanged", rows, border)
        yield shared_form("rows moved", rows, border)
        yield shared_form("rows moved", rows, border, "overlapping")
    yield shared_form("read further on", "boxed", "zero")
