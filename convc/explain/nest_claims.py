"""Claims that the rewrites of `convc.explain.reuse_rewrites` rest on, about a nest and the maps of its stream."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from msgspec.structs import replace

from convc.compiler.index.algebra import equal
from convc.compiler.index.linear import Expr, Integer
from convc.compiler.index.maps import Counterexample, IndexMap, Outcome, Proof, at_most, less, simplify_guards
from convc.compiler.index.reuse import ReuseMaps
from convc.compiler.index.reuse_claims import prove_border, prove_held, prove_lines, prove_moves, prove_walk
from convc.compiler.index.row_stream import WINDOW
from convc.compiler.index.symbols import Axis, FloorDiv, Mod
from convc.explain.lanes import why_masked
from convc.explain.nests import Move, Nest


def prove_stream(nest: Nest, maps: ReuseMaps) -> Outcome:
    """Whether lanes count the stream of the maps: place t is column t mod P of row t // P, and rows are n or (n, p)."""
    claim = f"lane of tile is place t = tile*{maps.tile.outputs} + lane of the stream, with {maps.walk.period} per row"
    tile = nest.loop("tile")
    lane = nest.loop("lane")
    t = Axis("t", maps.length)
    row = FloorDiv(t.symbol, maps.walk.period)
    sought = {"n": row, "q": Mod(t.symbol, maps.walk.period)}
    if maps.stream.merged:
        sought |= {"n": FloorDiv(row, maps.stream.image_rows), "p": Mod(row, maps.stream.image_rows)}
    _, at = _place(maps, tile.symbol, lane.symbol)
    place = IndexMap(name="place", domain=(tile, lane), results=(("t", at),))
    # Simplified before and after: t keeps below its length, which is gone once it is written in tile and lane.
    stream = IndexMap(name="stream", domain=(t,), results=tuple(sought.items())).simplified()
    stream = stream.compose(place).simplified()
    for name, wanted in stream.results:
        if not equal(nest.space[name], wanted):
            # The algebra does not show it: try whether the two differ anywhere.
            difference = replace(stream, results=(("difference", nest.space[name] - wanted),))
            outcome = difference.prove_in({"difference": (0, 0)}, claim)
            if not isinstance(outcome, Proof):
                return outcome
    return Proof(claim, "equal expressions")


def prove_taps(nest: Nest, maps: ReuseMaps) -> Outcome:
    """Whether the loops over buffers and taps name the filter columns as the walk does, j lanes apart."""
    claim = "filter column s is a tap of the buffer that it shares"
    buffers = maps.walk.buffers
    step = max(buffer.step for buffer in buffers)
    loops = (nest.loop("buffer"), nest.loop("tap"))
    space = IndexMap(name="s", domain=loops, results=(("s", nest.space["s"]),))
    for number, buffer in enumerate(buffers):
        for place, tap in enumerate(buffer.taps):
            point = {"buffer": number, "tap": place}
            found = (space.evaluate(point)["s"], number * maps.problem.dilation[1], place * step)
            visited = number < loops[0].extent and place < loops[1].extent
            if not visited or found != (tap.s, buffer.offset, tap.lanes):
                text = f"filter column {tap.s} belongs there, {tap.lanes} lanes from the first"
                return Counterexample(claim, tuple(point.items()), text)
    return Proof(claim, f"{len(buffers)} buffers, {step} lanes from tap to tap")


def prove_masks(nest: Nest, maps: ReuseMaps) -> Outcome:
    """Whether only lanes are masked whose product is zero."""
    claim = "a masked lane needs padding, so its product is zero"
    outcomes = [prove_stream(nest, maps)]
    outcomes += [prove_border(maps, tap) for buffer in maps.walk.buffers for tap in buffer.taps]
    return _failed(outcomes) or Proof(claim, "the pixel that they need lies outside its image")


def prove_reuse(nest: Nest, maps: ReuseMaps) -> Outcome:
    """Whether one copy per buffer serves its filter columns: the claims about walk, moves and borders, as one."""
    claim = "row lane + j(s) holds the pixel that lane needs for filter column s, or the lane is masked or finds a zero"
    taps = [tap for buffer in maps.walk.buffers for tap in buffer.taps]
    outcomes = [prove_stream(nest, maps), prove_taps(nest, maps), prove_walk(maps), prove_lines(maps)]
    outcomes += prove_moves(maps)
    outcomes += [prove(maps, tap) for tap in taps for prove in (prove_held, prove_border)]
    if failed := _failed(outcomes):
        return failed
    masked = nest.read is not None and nest.read.masks
    if not masked and (foreign := why_masked(maps)):
        return replace(foreign[0], claim=claim)
    return Proof(claim, f"{len(outcomes)} claims about loops, walk, moves and borders")


def _failed(outcomes: Iterable[Outcome]) -> Outcome | None:
    """The first that is no proof."""
    return next((outcome for outcome in outcomes if not isinstance(outcome, Proof)), None)


def _place(maps: ReuseMaps, tile: Expr, row: Expr) -> tuple[Expr, Expr]:
    """(first place of its window, place) in the stream of a row of a tile."""
    first = tile * maps.tile.outputs
    if maps.tile.windows == 1:
        return first, first + row
    first += FloorDiv(row, WINDOW) * maps.tile.useful
    return first, first + Mod(row, WINDOW)


def fetched_map(nest: Nest, maps: ReuseMaps, rows: Axis) -> IndexMap:
    """(loops, row, e) -> n, h, w, c of the pixel that the copy of a buffer brings to a row of the tile."""
    problem = maps.problem
    walk = maps.walk
    tile, buffer, r = (nest.loop(name).symbol for name in ("tile", "buffer", "r"))
    height, width = problem.in_extent
    first, place = _place(maps, tile, rows.symbol)
    # Pixels are counted from the first that is walked over: `lead` pixels of the padding on the left are not.
    number = place - walk.lead
    row = FloorDiv(number, walk.period)
    offset = buffer * problem.dilation[1] - problem.pad_lo[1]
    w = problem.stride[1] * (walk.lead + Mod(number, walk.period)) + offset
    down = r * problem.dilation[0] - problem.pad_lo[0]
    n: Expr
    if not maps.stream.merged:
        n = row
        h = nest.loop("p").symbol * problem.stride[0] + down
    elif maps.stream.boxed:
        n = FloorDiv(row, maps.stream.image_rows)
        h = Mod(row, maps.stream.image_rows) * problem.stride[0] + down
    elif problem.batch == 1:
        n = Integer(0)
        h = row * maps.stream.step + down
    else:
        # Rows of all images are one sequence, and padding above an image is the last rows of the one before.
        line = row * maps.stream.step + down
        n = FloorDiv(line, height)
        h = Mod(line, height)
    inside = [at_most(0, n), less(n, problem.batch), at_most(0, h), less(h, height), at_most(0, w), less(w, width)]
    inside.append(less(nest.space["c"], problem.in_channels))
    if walk.lead:
        # A copy that starts in an image row finds zeros left of it, not the end of the row before.
        inside.append(at_most(walk.period * FloorDiv(first, walk.period), number))
    loops = tuple(nest.loop(name) for name in nest.outside("buffer"))
    found = IndexMap(
        name="fetched",
        domain=(*loops, rows, nest.loop("e")),
        results=(("n", n), ("h", h), ("w", w), ("c", nest.space["c"])),
        guard=tuple(inside),
    )
    return simplify_guards(found.simplified()).map


def prove_move(maps: ReuseMaps, move: Move, claim: str) -> Outcome:
    """Whether moving and refreshing the rows brings row i + j to lane i, followed move by move."""
    lanes = np.arange(move.lanes)
    last = np.arange(move.group - 1, move.lanes, move.group)
    needed = lanes % move.group < maps.tile.useful if maps.tile.windows > 1 else lanes >= 0
    halo = max(buffer.halo for buffer in maps.walk.buffers)
    rows = lanes
    for done in range(1, halo + 1):
        kept = last + done if move.refreshed else rows[last]
        rows = np.append(rows[1:], 0)
        rows[last] = kept
        wrong = needed & (rows != lanes + done)
        if wrong.any():
            lane = int(np.argmax(wrong))
            return Counterexample(claim, (("j", done), ("lane", lane)), f"it holds row {rows[lane]}")
    return Proof(claim, f"followed through {halo} moves of {move.lanes} rows")
