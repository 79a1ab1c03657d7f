"""CTAs that load for each other: each gets whole tiles of its own, and gives stages back to all that fill them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping

from convc.compiler.tile.program import Role, TileProgram, walk
from convc.compiler.tile.steps.base import Compute
from convc.compiler.tile.steps.copies import TensorCopy, TmaLoad
from convc.compiler.tile.steps.persistent import ReleaseLast
from convc.compiler.tile.steps.rings import Commit, WarpCommit
from convc.ir.expr import evaluate
from convc.ir.launch import TensorMapParam
from convc.ir.tensormap import TensorMap

Place = tuple[int, int]
"""Tile of pixels and tile of channels of a CTA, counted in its cluster."""


def clusters_are_whole(program: TileProgram) -> Iterator[str]:
    """A cluster has the tiles that it shares the loads of, and the grid whole clusters."""
    pixels, channels = program.multicast
    if program.multicast == (1, 1):
        return
    launch = program.launch
    along = (pixels, channels) if program.visits is None else (pixels * channels, 1)
    if launch.cluster[:2] != along or any(
        size % extent for size, extent in zip(launch.grid, launch.cluster, strict=True)
    ):
        shape = " x ".join(map(str, program.multicast))
        yield f"loads are shared by clusters of {shape} tiles, the launch has {launch.cluster}, grid {launch.grid}"


def tiles_come_whole(program: TileProgram) -> Iterator[str]:
    """Of the parts that reach a CTA each byte of a tile comes once, from CTAs that have the same tile.

    Which tiles are the same is known of the coordinates: those of a copy depend on the pixels or on the channels alone.
    """
    maps = dict(zip(program.params, program.launch.params, strict=True))
    for role in program.roles:
        for step in walk(role.steps):
            source = maps[step.map] if isinstance(step, TmaLoad) else None
            if isinstance(step, TmaLoad) and step.ctas is not None and isinstance(source, TensorMapParam):
                yield from _whole(
                    step, step.ctas, source.map, {place: _numbers(role, place) for place in _places(program)}
                )


def _whole(step: TmaLoad, ctas: str, source: TensorMap, known: Mapping[Place, Mapping[str, int]]) -> Iterator[str]:
    """What is wrong with the parts that a step brings; ``known``: what each CTA computes from its place."""
    size = step.bytes_through(source)
    axis = 1 if source.mode == "tile" else 0  # filters depend on the channels, activations on the pixels
    wanted = [part * size for part in range(step.bringers)]
    found: dict[Place, list[int]] = {place: [] for place in known}
    for place, numbers in known.items():
        for other in _named(numbers.get(ctas, 0), list(known)):
            if place[axis] != other[axis]:
                yield f"{step.id} brings CTA {other} of the cluster a tile of CTA {place}, not its own"
            found[other].append(0 if step.at is None else numbers.get(step.at, -1))
    for place, begins in found.items():
        if sorted(begins) != wanted:
            yield f"{step.id} brings CTA {place} parts at {sorted(begins)} of its tile, they should begin at {wanted}"


def stages_are_told(program: TileProgram) -> Iterator[str]:
    """A CTA gives a stage back to just those that copy into it, so that each waits for all that it copies into."""
    if program.multicast == (1, 1):
        return
    for ring in program.storage.rings:
        if (ring.producer, ring.consumer) != ("mma", "load"):
            continue
        tiles = {tile.name for tile in program.storage.smem if tile.state == ring.state}
        fill: set[tuple[Place, Place]] = set()
        tellers: dict[str, set[tuple[Place, Place]]] = {}
        for role, place in itertools.product(program.roles, _places(program)):
            for step in walk(role.steps):
                if isinstance(step, TensorCopy) and step.tile in tiles:
                    ctas = step.ctas if isinstance(step, TmaLoad) else None
                    fill |= {(place, other) for other in _reached(program, role, place, ctas)}
                if isinstance(step, Commit | WarpCommit | ReleaseLast) and step.ring == ring.name:
                    tellers.setdefault(step.id, set()).update(
                        (other, place) for other in _reached(program, role, place, step.ctas)
                    )
        told = set[tuple[Place, Place]]().union(*tellers.values())
        by_all = told.intersection(*tellers.values())  # the last stage of a tile is given back by a step of its own
        for writer, reader in sorted(fill - by_all):
            yield f"ring {ring.name}: CTA {writer} of the cluster fills stages of CTA {reader}, which does not tell it"
        for writer, reader in sorted(told - fill):
            yield f"ring {ring.name}: CTA {reader} of the cluster tells CTA {writer}, which fills none of its stages"


def _reached(program: TileProgram, role: Role, place: Place, ctas: str | None) -> list[Place]:
    """The CTAs that a mask of a CTA names; itself where there is none."""
    return [place] if ctas is None else _named(_numbers(role, place).get(ctas, 0), _places(program))


def _places(program: TileProgram) -> list[Place]:
    """The CTAs of a cluster, by their ranks."""
    pixels = program.multicast[0]
    return [(rank % pixels, rank // pixels) for rank in range(math.prod(program.multicast))]


def _named(mask: int, places: list[Place]) -> list[Place]:
    """The CTAs of a mask; a bit behind the last one names the first, which then has one too many."""
    return [places[rank % len(places)] for rank in range(mask.bit_length()) if mask >> rank & 1]


def _numbers(role: Role, place: Place) -> Mapping[str, int]:
    """What a role computes from its place in the cluster alone."""
    known: dict[str, int] = {"tile_m": place[0], "tile_n": place[1]}
    for step in walk(role.steps):
        if isinstance(step, Compute) and step.dst not in known and step.expr.variables() <= set(known):
            known[step.dst] = int(evaluate(step.expr, known))
    return known


MULTICAST_CHECKS: tuple[Callable[[TileProgram], Iterator[str]], ...] = (
    clusters_are_whole,
    tiles_come_whole,
    stages_are_told,
)
