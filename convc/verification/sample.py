"""A sample of a launch: which CTAs are run, and which outputs they have to write.

A kernel's debug info (`convc.ir.debug_info`) says which output pixel and channel each lane and column of a tile holds.
So the tiles at the borders of the image are found without running anything, and it is known what a CTA must write: an
output that it leaves out is as wrong as a wrong one. Corners and borders are where padding, masks and the ends of rows
meet; inner tiles are drawn at random.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from convc.host_layout.device_layout import DeviceLayout, output_channels, output_index
from convc.host_layout.transposed import ForwardEquivalent, model_elements
from convc.ir.debug_info import DebugInfo
from convc.ir.expr import evaluate, from_json
from convc.ir.launch import LaunchSpec

SCANNED = 4096
"""Tiles that are looked at together, where a pixel is not found by bisection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """Elements of an output.

    Attributes:
        element: n, k and the pixel's coordinate along each axis, each int64 (count,), as the model counts them.
        place: where they lie in the output buffer, in elements, int64 (count,).
        written: places that the CTA may write besides, such as channels behind the last.
    """

    element: tuple[np.ndarray, ...]
    place: np.ndarray
    written: np.ndarray


class TileMap:
    """The outputs that each CTA of a kernel writes; those that share the K loop of a tile count as one.

    Args:
        info: of the kernel.
        layout: of its convolution.
        launch: of the kernel.
    """

    def __init__(self, info: DebugInfo, layout: DeviceLayout, launch: LaunchSpec) -> None:
        self.grid = info.tiles or launch.grid[:2]
        self.ctas = launch.ctas // launch.cluster[2]
        self._beside, _, self._parts = launch.cluster
        self._info = info
        self._layout = layout
        self._pixel = from_json(info.pixel)
        self._channel = from_json(info.channel)

    def together(self, ctas: Iterable[int]) -> tuple[int, ...]:
        """The CTAs of all clusters that one of these is in, in order."""
        firsts = {cta - cta % self._beside for cta in ctas}
        return tuple(sorted(first + rank for first in firsts for rank in range(self._beside)))

    def clusters(self, ctas: Iterable[int]) -> tuple[int, ...]:
        """The first CTAs of these clusters, as `convc.machine.RunOptions` counts them, those that share a tile too."""
        return tuple(sorted({cta // self._beside * self._beside * self._parts for cta in ctas}))

    def pixels(self, tiles: np.ndarray) -> np.ndarray:
        """Pixels (tiles, lanes or columns) int64 of tiles along M; those of `DebugInfo.pixels` and more are none."""
        held = np.arange(self._info.columns if "column" in self._pixel.variables() else self._info.lanes)
        values = evaluate(self._pixel, {"tile_m": tiles[:, None], "tile_n": 0, "lane": held, "column": held})
        return np.broadcast_to(values, (len(tiles), held.size))

    def tile_of(self, pixel: int) -> int | None:
        """The tile along M that holds a pixel; None where none does."""
        low = 0
        high = self.grid[0] - 1
        while low <= high:
            middle = (low + high) // 2
            held = self.pixels(np.array([middle]))[0]
            held = held[held < self._info.pixels]
            if (held == pixel).any():
                return middle
            if not held.size:
                break
            if pixel < held.min():
                high = middle - 1
            else:
                low = middle + 1
        # Tiles need not hold pixels in their own order: then every one is looked at.
        for first in range(0, self.grid[0], SCANNED):
            tiles = np.arange(first, min(first + SCANNED, self.grid[0]))
            hits = np.flatnonzero((self.pixels(tiles) == pixel).any(axis=1))
            if hits.size:
                return int(tiles[hits[0]])
        return None

    def outputs(self, cta: int) -> Outputs:
        """List what a CTA must write: one tile, or those that it walks over."""
        tiles = [self._outputs(*self._place(tile)) for tile in range(cta, math.prod(self.grid), self.ctas)]
        return Outputs(
            element=tuple(np.concatenate(axis) for axis in zip(*(one.element for one in tiles), strict=True)),
            place=np.concatenate([one.place for one in tiles]),
            written=np.concatenate([one.written for one in tiles]),
        )

    def number(self, tile_m: int, tile_n: int) -> int:
        """The number of a tile, from its place."""
        if self._info.places is None:
            return tile_m + self.grid[0] * tile_n
        return int(self._numbers[tile_m, tile_n])

    @functools.cached_property
    def _numbers(self) -> np.ndarray:
        """The number of each tile, int64 (tiles along M, tiles along N)."""
        every = np.arange(math.prod(self.grid))
        numbers = np.empty(self.grid, np.int64)
        numbers[self._info.place_of(every)] = every
        return numbers

    def _place(self, tile: int) -> tuple[int, int]:
        if self._info.places is None:
            return tile % self.grid[0], tile // self.grid[0]
        m, n = self._info.place_of(np.array([tile]))
        return int(m[0]), int(n[0])

    def _outputs(self, tile_m: int, tile_n: int) -> Outputs:
        layout = self._layout
        env = {
            "lane": np.arange(self._info.lanes)[:, None],
            "column": np.arange(self._info.columns)[None, :],
            "tile_m": tile_m,
            "tile_n": tile_n,
        }
        pixel, channel = np.broadcast_arrays(evaluate(self._pixel, env), evaluate(self._channel, env))
        here = pixel < self._info.pixels
        pixel = pixel[here].astype(np.int64)
        channel = channel[here].astype(np.int64)
        real = channel < layout.k_pitch
        written = pixel[real] * layout.k_pitch + channel[real]
        own = np.full(max(layout.k_pitch, int(channel.max(initial=0)) + 1), -1)
        own[output_channels(layout)] = np.arange(layout.ordinary.out_channels)
        k = own[channel]
        pixel = pixel[k >= 0]
        channel = channel[k >= 0]
        place = pixel * layout.k_pitch + channel
        if layout.summed:
            *at, n = np.unravel_index(pixel, layout.output.shape[:-1])
            kept = n < layout.model.batch
            element = tuple(each[kept] for each in (n, k[k >= 0], *at))
            return Outputs(element=element, place=place[kept], written=written)
        n, *at = np.unravel_index(pixel, (layout.model.batch, *layout.ordinary.out_extent))
        element, kept = _of_model(layout.forward, layout, (n, k[k >= 0], *at))
        return Outputs(element=element, place=place[kept], written=written)


def sample_ctas(tiles: TileMap, layout: DeviceLayout, count: int, seed: int) -> tuple[int, ...]:
    """``count`` CTAs at random, and one for each corner and border of the image, without repetitions, in order.

    CTAs of a cluster come together; of those that share a tile one stands for all. Channel tiles are drawn at random,
    but for the far corner, which gets the last: there all ends meet.
    """
    rng = np.random.default_rng((seed, 2))
    problem = layout.ordinary
    tile_columns = tiles.grid[1]
    chosen: set[int] = set()
    for place in _border_places(problem.out_extent):
        last = all(side == "high" for side in place)
        at = [_along(side, extent, rng) for side, extent in zip(place, problem.out_extent, strict=True)]
        n = problem.batch - 1 if last else int(rng.integers(problem.batch))
        pixel = int(np.ravel_multi_index((n, *at), (problem.batch, *problem.out_extent)))
        if layout.summed:
            pixel = output_index(layout, (n, 0, *at)) // layout.k_pitch
        tile = tiles.tile_of(pixel)
        column = tile_columns - 1 if last else int(rng.integers(tile_columns))
        if tile is not None:
            chosen.add(tiles.number(tile, column) % tiles.ctas)
    inner = rng.choice(tiles.ctas, min(count, tiles.ctas), replace=False)
    return tiles.together(chosen | {int(cta) for cta in inner})


def _border_places(extent: tuple[int, ...]) -> Iterator[tuple[str, ...]]:
    """Every way of lying at a border: the side of each axis, or its middle, of which not all are."""
    sides = (("low", "inner", "high") if size > 2 else ("low", "high")[:size] for size in extent)
    for place in itertools.product(*sides):
        if any(side != "inner" for side in place):
            yield place


def _along(side: str, extent: int, rng: np.random.Generator) -> int:
    """A coordinate on a side of an axis."""
    if side == "inner":
        return int(rng.integers(1, extent - 1))
    return 0 if side == "low" else extent - 1


def _of_model(
    forward: ForwardEquivalent | None, layout: DeviceLayout, element: tuple[np.ndarray, ...]
) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """Elements of the ordinary convolution as those of the model, and which of them the model has."""
    if forward is None:
        return element, np.ones(len(element[0]), bool)
    elements = model_elements(forward, layout.model, element)
    inside = np.ones(len(element[0]), bool)
    for coordinate, extent in zip(elements[2:], layout.model.out_extent, strict=True):
        inside &= coordinate < extent
    return tuple(coordinate[inside] for coordinate in elements), inside
