"""Prefetches of filter tiles and biases while the preceding kernel still runs, which does not write them.

The filters of a layer come from memory, as they were not read since the last image; activations were just written,
and lie in L2. So the filter tiles of the first stages are brought to L2 before anybody waits
(``cp.async.bulk.prefetch.tensor``), and then both kinds of tiles come in equal time. The warp that multiplies asks for
them, which has nothing else to do then, and ahead of its tensor memory, which the preceding kernel may still hold.

They are not copied to shared memory so early: a stage has one barrier for both tiles, each loop would need its first
turns once more without filters, and what is saved is a copy from L2 that runs beside that of the activations.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import islice

from convc.compiler.plan.names import MapName, Number
from convc.compiler.plan.records import Plan
from convc.compiler.schedules.features.tile_order import CTA, needed_by, place_steps
from convc.compiler.schedules.skeleton import BIAS, IN_FRONT, maps_of, number
from convc.compiler.tile.steps.base import Compute, Loop, Repeat, Step, Strided
from convc.compiler.tile.steps.copies import PrefetchNumbers, PrefetchTiles, TmaLoad
from convc.compiler.tile.steps.persistent import FetchLoop
from convc.ir.expr import Const, IntExpr, Var, evaluate, substitute

PLACE = ("tile_m", "tile_n")
"""Numbers that say where a CTA's tile is: they are given, or found anew from its number."""

PIECE = 4
"""Numbers of 16 bytes, which a prefetch has whole ones of (PTX manual, "cp.async.bulk.prefetch")."""

Copy = tuple[MapName, tuple[IntExpr, ...]]
"""The map of a copy, and its coordinates by what a role has from the start."""


def early(plan: Plan, load: tuple[Step, ...]) -> tuple[Step, ...]:
    """The steps of a warp that have the first filter tiles brought to L2, as many of each map as there are stages.

    None where the kernel does not begin early. `load`: the role that loads, whose first turns say what it will copy.
    """
    if not plan.launch.dependent:
        return ()
    constant = {
        name
        for name, source in zip(maps_of(plan), plan.indexing.loads.all, strict=True)
        if source.buffer not in IN_FRONT and source.mode == "tile"
    }
    copies = dict.fromkeys(islice(_copies(load, {}, constant), plan.tiling.b_stages * len(constant)))
    steps = (*_prefetches(tuple(copies)), *_numbers(plan))
    own = needed_by(place_steps(plan, "early", Var(CTA)), steps) if plan.launch.persistent else ()
    return (*own, *steps)


def _copies(steps: tuple[Step, ...], known: Mapping[str, IntExpr], constant: set[MapName]) -> Iterator[Copy]:
    """The copies of constant tiles, in order, of the CTA's first tile."""
    values = dict(known)
    for step in steps:
        match step:
            case Compute(dst=dst, expr=expr) if dst not in PLACE:
                values[dst] = substitute(expr, values)
            case TmaLoad(map=name, coords=coords) if name in constant:
                yield name, tuple(values.get(each, Var(each)) for each in coords)
            case Repeat(var=var, body=body):
                for turn in _turns(step):
                    yield from _copies(body, values | {var: turn}, constant)
            case _:
                pass


def _turns(loop: Repeat) -> Iterator[IntExpr]:
    """The values of a loop's variable: those that every CTA has."""
    match loop:
        case Loop(count=count):
            yield from map(Const, range(count))
        case Strided(first=first, stride=stride, limit=limit):
            yield from (Var(first) + turn * stride for turn in range(limit // stride or 1))
        case FetchLoop(first=first):
            yield Var(first)
        case _:
            return


def _numbers(plan: Plan) -> tuple[Step, ...]:
    """The steps that have the numbers of the tile's channels brought to L2, where they are whole pieces of 16 bytes."""
    k = plan.indexing.coordinates.k.value
    columns = plan.arch.limits.tmem_lanes if "lane" in k.variables() else plan.tiling.block_n
    first = substitute(k, {"column": Const(0), "lane": Const(0)})
    *rows, pitch = plan.layout.bias.shape
    if not first.variables() <= {"tile_n"}:
        return ()
    starts = [evaluate(first, {"tile_n": tile}) for tile in range(plan.launch.tiles[1])]
    if max(starts) + columns > pitch or any(each % PIECE for each in (*starts, columns, pitch)):
        return ()
    channel = number("early_k")
    return (
        Compute(id="early.channel", note="first channel of the tile", dst=channel, expr=first),
        PrefetchNumbers(
            id="early.numbers",
            note="the bias",
            buffer=BIAS,
            channel=Number(channel),
            columns=columns,
            rows=math.prod(rows),
            pitch=pitch,
        ),
    )


def _prefetches(copies: tuple[Copy, ...]) -> Iterator[Step]:
    """The step for some copies, behind those that work out coordinates, each once."""
    names: dict[IntExpr, Number] = {}
    for coord in (coord for _, coords in copies for coord in coords):
        if coord not in names:
            name = number(f"early_{len(names)}")
            names[coord] = Number(name)
            yield Compute(id=f"early.{name}", note="a coordinate of early tiles", dst=name, expr=coord)
    tiles = tuple((source, tuple(names[coord] for coord in coords)) for source, coords in copies)
    if tiles:
        yield PrefetchTiles(id="early.tiles", note="the kernel in front does not write them", tiles=tiles)
