"""The rewrites that keep something between iterations: sums, loaded pixels, and at last the rows themselves.

    accumulate               each output is summed in one place, zeroed before and stored after
    stage                    the activations of one filter tap are loaded as a tile
    mask_lanes               lanes whose pixel is padding are left out, where another pixel could take its place
    hoist                    one load serves all filter columns of a buffer: what lane i needs next, lane i + 1 has now
    shift_instead_of_load    the rows move to their lanes, and only the missing ones are fetched
    swap_operands            pixels become columns: the transposed product

`hoist` is the step that saves traffic, and the one that can go wrong: it is legal by the claims of
`convc.compiler.index.reuse_claims`, which say that the lane holds the right pixel, or needs padding and is masked.
"""

from __future__ import annotations

from msgspec.structs import replace

from convc.compiler.index.lane_masks import column_mask, line_mask, masked_columns, masked_lines
from convc.compiler.index.maps import Counterexample, IndexMap, Proof
from convc.compiler.index.reuse import ReuseMaps
from convc.compiler.index.row_stream import WINDOW
from convc.compiler.index.symbols import Axis
from convc.explain.nest_claims import fetched_map, prove_masks, prove_move, prove_reuse
from convc.explain.nests import Accumulate, Load, Move, Nest, Read
from convc.explain.rewrites import Step, checked
from convc.ir.expr import IntExpr

SUMMED = ("c", "r", "s")
"""What an output is summed over: input channel, filter row and filter column."""


def accumulate(nest: Nest, inside: str) -> Step:
    """Keep the sums of an iteration of loop `inside` in an accumulator: zeroed before it, stored after it."""
    name = f"accumulate inside {inside}"
    claim = f"an output is summed within one iteration of {inside}"
    after = replace(nest, body=(Accumulate(inside), *nest.body))
    summing = {symbol for axis in SUMMED for symbol in nest.space[axis].free_symbols}
    around = [nest.loop(each) for each in nest.outside(inside)]
    outside = [axis for axis in around if axis.symbol in summing and axis.extent > 1]
    if outside:
        at = tuple((axis.name, 1) for axis in outside)
        return Step(name, after, Counterexample(claim, at, "its sum goes on after it was stored, and begins with zero"))
    return checked(name, nest, after, Proof(claim, "the loops of its sum run inside"))


def stage(nest: Nest, inside: str) -> Step:
    """Load the activations that an iteration of loop `inside` multiplies as a tile: a row per lane."""
    lane = nest.loop("lane")
    activation = nest.activation()
    # Conditions on other loops (a column of the tile that has no output channel) are not about the activation.
    known = {nest.loop(each).symbol for each in (*nest.outside(inside), "lane", "e")}
    guard = tuple(condition for condition in activation.guard if condition.free_symbols <= known)
    load = Load(inside, lane, replace(activation, guard=guard), f"{lane.extent} pixels, padding is zero")
    after = replace(nest, body=(*nest.body, load), read=Read(row=lane.symbol))
    claim = f"inside {inside} an activation depends on lane and e alone"
    return checked(f"stage activations inside {inside}", nest, after, Proof(claim, "the axes of its index map"))


def mask_lanes(nest: Nest, maps: ReuseMaps) -> Step:
    """Leave out lanes that need padding, where another pixel may come to stand in its place."""
    read = _staged(nest)
    masks: list[IntExpr] = []
    where: list[str] = []
    if columns := masked_columns(maps):
        masks.append(column_mask(maps))
        where.append(f"filter columns {', '.join(map(str, columns))}")
    if rows := masked_lines(maps):
        masks.append(line_mask(maps))
        where.append(f"filter rows {', '.join(map(str, rows))}")
    # The masks number the tiles of all streams; with a stream for each output row, its tiles come after those of p - 1.
    tile = nest.loop("tile").symbol
    tile_m = tile if maps.stream.merged else nest.loop("p").symbol * maps.tiles + tile
    after = replace(nest, read=replace(read, masks=tuple(masks), tile_m=tile_m))
    return checked(f"mask_lanes at {' and '.join(where) or 'no filter tap'}", nest, after, prove_masks(nest, maps))


def hoist(nest: Nest, maps: ReuseMaps) -> Step:
    """Load once per buffer: the pixels of its first filter column and, behind them, those that the others add.

    Filter column s finds in row lane + j(s) what it needs, j(s) lanes from the first column of its buffer.
    """
    read = _staged(nest)
    step = max(buffer.step for buffer in maps.walk.buffers)
    if maps.tile.windows > 1:
        halo = 0  # the last lanes of a window have no output: they are its halo
        how = f"{maps.tile.windows} copies im2col::w of {WINDOW} pixels"
    else:
        halo = max(buffer.halo for buffer in maps.walk.buffers)
        mode = "im2col" if maps.stream.boxed else "im2col::w"
        how = f"{mode}, {maps.tile.lanes} pixels and {halo} of halo"
    rows = Axis("row", maps.tile.lanes + halo)
    if maps.walk.lead:
        how += "; zero left of the image row that it starts in"
    load = Load("buffer", rows, fetched_map(nest, maps, rows), how)
    row = nest.loop("lane").symbol + nest.loop("tap").symbol * step
    body = tuple(load if isinstance(each, Load) else each for each in nest.body)
    after = replace(nest, body=body, read=replace(read, row=row))
    return checked("hoist: one load for all filter columns of a buffer", nest, after, prove_reuse(nest, maps))


def shift_instead_of_load(nest: Nest, maps: ReuseMaps) -> Step:
    """Move the rows instead of reading them further on: lane i always multiplies row i.

    Rows move inside groups of 32 lanes, as in tensor memory; the last row of each comes from the halo of its group.
    """
    read = _staged(nest)
    buffers = maps.walk.buffers
    lanes = maps.tile.lanes
    refreshed = maps.tile.windows == 1
    move = Move("tap", max(buffer.step for buffer in buffers), lanes, min(WINDOW, lanes), refreshed)
    body = nest.body
    who = f"the {maps.tile.useful} lanes of a window that have outputs"
    if refreshed:
        # The rows that come in are loaded with the tile, each behind the group of lanes that it will move into.
        halo = max(buffer.halo for buffer in buffers)
        how = f"im2col::w::128, {lanes} pixels and {halo} of halo for each {move.group}"
        body = tuple(replace(each, how=how) if isinstance(each, Load) else each for each in body)
        who = f"i = 0..{lanes - 1}"
    after = replace(nest, body=(*body, move), read=replace(read, row=nest.loop("lane").symbol))
    claim = f"after j moves lane i holds row i + j of the tile, for {who}"
    return checked("shift_instead_of_load", nest, after, prove_move(maps, move, claim))


def _staged(nest: Nest) -> Read:
    """How the nest reads its tile; ValueError where it has none."""
    if nest.read is None:
        raise ValueError("the activations are read from memory: stage them first")
    return nest.read


def swap_operands(nest: Nest) -> Step:
    """Multiply weights by pixels instead: the transposed product, with a lane per channel and a column per pixel."""
    read = _staged(nest)
    lane = nest.loop("lane")
    column = nest.loop("column")
    # The loops keep their names and places, and take each other's extents: a lane is a row of the accumulator always.
    swap = {lane.symbol: column.symbol, column.symbol: lane.symbol}
    extents = {lane.name: column.extent, column.name: lane.extent}
    space = IndexMap(
        name="space",
        domain=tuple(Axis(axis.name, extents.get(axis.name, axis.extent)) for axis in nest.loops),
        results=tuple((name, expr.xreplace(swap)) for name, expr in nest.space.results),
        guard=tuple(condition.xreplace(swap) for condition in nest.space.guard),
    )
    notes = dict(nest.notes)
    notes["lane"] = "tensor core: rows, output channels"
    notes["column"] = "tensor core: columns, pixels"
    after = replace(
        nest,
        space=space,
        swapped=not nest.swapped,
        notes=tuple(notes.items()),
        read=replace(read, row=read.row.xreplace(swap)),
    )
    return checked("swap_operands", nest, after, Proof("the accumulator is transposed", "(A*B)' = B'*A'"))
