"""Sharing of activations between filter columns in a plan: lanes, their cost, masks, and the rules that it assumes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from convc.compiler.index.conditions import conditions
from convc.compiler.index.geometry import geometry_of
from convc.compiler.index.maps import Counterexample
from convc.compiler.index.reuse import shared_instance
from convc.compiler.index.row_walk import BORDERS
from convc.compiler.plan.records import Plan, Reuse
from convc.compiler.schedules.base import ROWS
from convc.compiler.schedules.nesting import tile_numbers
from convc.derived.solved import reached, solved
from convc.errors import PlanError


def sharing_lines(plan: Plan) -> Iterator[str]:
    """Nothing where every filter tap loads its own activations."""
    reuse = plan.reuse
    if reuse is None:
        return
    walk = reuse.walk
    rows = "all output rows in one stream" if reuse.stream.merged else "one stream per output row"
    yield f"lanes: {walk.period} per output row of {walk.problem.outputs}, {rows}; {reuse.tiles} tiles per stream"
    yield lane_use(plan, reuse)
    yield from cut_lines(plan)
    for buffer in walk.buffers:
        taps = ", ".join(f"s = {tap.s} at row {tap.lanes}" for tap in buffer.taps)
        yield f"buffer from pixel offset {buffer.offset}, halo {buffer.halo}: {taps}"
    masked = f"filter columns {list(reuse.masked_columns)} and rows {list(reuse.masked_lines)}"
    yield f"border {walk.border}: " + (f"lanes are masked at {masked}" if plan.storage.masks else "no mask")
    if reuse.clear:
        yield "the accumulator is cleared first, because the first tap does not write masked lanes"
    for rule in reuse.assumes:
        yield f"assumes: {rule}"


def lane_use(plan: Plan, reuse: Reuse) -> str:
    """Say how many lanes of all tiles hold an output pixel, and why the others do not."""
    tile = reuse.tile
    stream = reuse.stream
    used = plan.problem.gemm_m
    lanes = reuse.all_tiles * tile.lanes
    causes: list[str] = []
    if reuse.windowed:
        window = tile.lanes // tile.windows
        causes.append(f"{window - tile.useful} of every {window} are halo")
    if reuse.walk.waste:
        causes.append(f"{reuse.walk.waste} of {reuse.walk.period} per row hold no output")
    rows = stream.image_rows - stream.outputs
    if rows:
        causes.append(f"{rows} of {stream.image_rows} rows per image have none")
    places = reached(solved(reuse.form, "TILES"), shared_instance(plan.problem, reuse).sizes)
    if places < reuse.tiles * tile.outputs:
        causes.append(f"the last tile of {'each' if stream.streams > 1 else 'the'} stream is not full")
    why = "; ".join(causes)
    return f"lane use: {used} of {lanes} lanes ({used / lanes:.1%})" + (f": {why}" if why else "")


def cut_lines(plan: Plan) -> Iterator[str]:
    """Each way to cut the output into tiles of a stream: how many, or which condition of a theorem it breaks."""
    windowed = plan.reuse is not None and plan.reuse.windowed
    lanes = plan.tiling.block_m
    for border, rows in itertools.product(BORDERS, ROWS):
        name = f"border {border}, rows {rows}"
        try:
            merged = rows == "merged"
            cut = geometry_of(plan.problem, merged=merged, border=border, lanes=lanes, windowed=windowed)
        except PlanError as error:
            yield f"{name}: {error.message}"
            continue
        instance = shared_instance(plan.problem, cut, "", tile_numbers(plan.layout, plan.tiling, plan.pipeline))
        broken = (each for each in conditions(instance, cut.walk) if isinstance(each, Counterexample))
        first = next(broken, None)
        told = f"{cut.all_tiles} tiles" if first is None else f"it needs {first.claim}: {first.reason}"
        yield f"{name}: {told}, {cut.walk.period} lanes per row"
