"""What a kernel that shares activations takes for granted, claim by claim (maps: `convc.compiler.index.reuse`).

The reuse itself is two claims per filter column: where the needed pixel lies in the image, the lane holds it; where it
does not, the lane is masked or holds a zero. The first is an identity of the algebra: with z = row*P + q + j - lead,
the held row z // P is `row` exactly while q + j - lead stays in 0..P-1, and the ranges of q say whether it does.
"""

from __future__ import annotations

import numpy as np
from sympy import Integer

from convc.compiler.index.algebra import digits, equal, simplify
from convc.compiler.index.maps import Counterexample, IndexMap, Outcome, Proof, Unknown, prove_equal
from convc.compiler.index.reuse import ReuseMaps
from convc.compiler.index.row_stream import WINDOW
from convc.compiler.index.row_walk import Tap
from convc.compiler.index.symbols import Axis, FloorDiv, Mod
from convc.ir.arch import SM_100A

CORNER_LIMITS = SM_100A.limits.wide_corner
OFFSET_LIMIT = SM_100A.limits.wide_offset


def prove(maps: ReuseMaps) -> tuple[Outcome, ...]:
    """Every claim about one tiling."""
    outcomes: list[Outcome] = [prove_walk(maps)]
    for buffer in maps.walk.buffers:
        for tap in buffer.taps:
            outcomes += [prove_held(maps, tap), prove_border(maps, tap)]
    outcomes += [*prove_moves(maps), prove_lines(maps), prove_tiles(maps), *prove_limits(maps)]
    return tuple(outcomes)


def prove_walk(maps: ReuseMaps) -> Outcome:
    """Whether the copy's walk from its start meets the stream, lane by lane.

    The copy starts at q0 = t0 mod P of row t0 // P and counts pixels; the lanes count places t0 + k. Where q0 < lead
    it starts left of its box: that is allowed, and what it reads there is padding.
    """
    walk, period = maps.walk, Integer(maps.walk.period)
    claim = "pixel k of the walk from start is place t0 + k of the stream"
    t, k = Axis("t", maps.tiles * maps.tile.outputs), Axis("k", maps.tile.lanes)
    x = Mod(t.symbol, period) - walk.lead + k.symbol
    counted = FloorDiv(t.symbol, period) * walk.period + x
    if not equal(counted, t.symbol + k.symbol - walk.lead):
        return Unknown(claim, "the two numbers are not seen to be equal")
    for buffer in walk.buffers:
        last = walk.problem.stride * (walk.lead - 1) + buffer.offset - walk.problem.pad
        if walk.lead and last >= 0:
            at = (("q0", walk.lead - 1), ("offset", buffer.offset))
            return Counterexample(claim, at, f"the copy starts at pixel {last}, which is no padding")
    left = f"; the {walk.lead} places left of the box are padding" if walk.lead else ""
    return Proof(claim, f"both count {walk.period} pixels per row{left}")


def prove_held(maps: ReuseMaps, tap: Tap) -> Outcome:
    """Whether lane (row, q) holds the pixel that filter column s needs, wherever that lies in the image."""
    first, last = tap.inside
    claim = f"s = {tap.s}: after {tap.lanes} moves lane (row, q) holds the pixel it needs, for q = {first}..{last}"
    if first > last:
        return Proof(f"s = {tap.s}: every output needs padding", "no q has its pixel in the image")
    needed, held = _restricted(maps, tap, first, last)
    for name, sought in needed.results:
        found = simplify(held[name], held.ranges)
        if not equal(found, sought):
            outcome = prove_equal(claim, found, sought, held.domain)
            if not isinstance(outcome, Proof):
                return outcome
    offset = tap.lanes - maps.walk.lead
    return Proof(claim, f"0 <= {_plus('q', offset)} < {maps.walk.period}, so both are (row, {needed['w']})")


def prove_border(maps: ReuseMaps, tap: Tap) -> Outcome:
    """Whether the other outputs need padding, and get it: by a mask, or because the lane holds padding."""
    problem = maps.walk.problem
    first, last = tap.inside
    outside = [(low, high) for low, high in ((0, first - 1), (last + 1, problem.outputs - 1)) if low <= high]
    text = " and ".join(f"q = {low}..{high}" for low, high in outside)
    claim = (
        f"s = {tap.s}: the pixel needed for {text} is padding" if outside else f"s = {tap.s}: no output needs padding"
    )
    if not outside:
        pixel = _plus(f"{problem.stride}*q" if problem.stride > 1 else "q", problem.dilation * tap.s - problem.pad)
        return Proof(claim, f"0 <= {pixel} < {problem.width}")
    for low, high in outside:
        for q in (low, high):
            if 0 <= problem.pixel(q, tap.s) < problem.width:
                return Counterexample(claim, (("q", q),), f"pixel {problem.pixel(q, tap.s)}")
    if maps.walk.border == "mask":
        return Proof(claim, "the pixel grows with q; the lane is masked where it holds another row's pixel")
    foreign = foreign_columns(maps, tap)
    if foreign.size:
        return Counterexample(
            claim + ", and the lane holds padding", (("q", int(foreign[0])),), "it holds a real pixel"
        )
    return Proof(claim + ", and the lane holds padding", f"held tried for all {problem.outputs} q")


def foreign_columns(maps: ReuseMaps, tap: Tap) -> np.ndarray:
    """The q whose lane holds a real pixel of another row where it needs padding (in a row that a copy enters)."""
    problem = maps.walk.problem
    q = np.arange(problem.outputs)
    needed, held = (
        maps.needed.evaluate({"row": 1, "q": q, "s": tap.s}),
        maps.held.evaluate({"row": 1, "q": q, "s": tap.s}),
    )
    inside = (needed["w"] >= 0) & (needed["w"] < problem.width)
    return q[~inside & (held["w"] >= 0) & (held["w"] < problem.width)]


def prove_moves(maps: ReuseMaps) -> list[Outcome]:
    """Whether lane i needs at one filter column what a later lane had at the column before, in the same buffer."""
    outcomes: list[Outcome] = []
    for buffer in maps.walk.buffers:
        for one, two in zip(buffer.taps, buffer.taps[1:], strict=False):
            moved = two.lanes - one.lanes
            claim = f"what lane i needs for s = {two.s} is what lane i + {moved} had for s = {one.s}"
            s, q = (next(axis.symbol for axis in maps.held.domain if axis.name == name) for name in "sq")
            same = all(
                equal(expr.xreplace({s: Integer(two.s)}), expr.xreplace({s: Integer(one.s), q: q + moved}))
                for _, expr in maps.held.results
            )
            outcomes.append(Proof(claim, "equal expressions") if same else Unknown(claim, "not seen to be equal"))
    return outcomes


def prove_lines(maps: ReuseMaps) -> Outcome:
    """Whether the copies of a tile read the image row that each lane needs, wherever that row exists."""
    problem, stream = maps.problem, maps.stream
    height, images = problem.in_extent[0], problem.batch
    if not stream.merged:
        return Proof("every lane finds the image row p*u_h + r*d_h - top of its own image", "the copy names p and r")
    claim = f"stream row y = n*{stream.image_rows} + p lies at image row y*{stream.step} = n*{height} + p*{stream.step}"
    if images > 1 and stream.image_rows * stream.step != height:
        return Counterexample(claim, (("n", 1),), f"it lies at row {stream.image_rows * stream.step}")
    borders = "masked" if stream.masked else "zero-filled" if images == 1 else "never needed"
    return Proof(
        claim,
        f"{stream.image_rows}*{stream.step} = {height}; rows outside the image are {borders}"
        if images > 1
        else f"there is one image; rows outside of it are {borders}",
    )


def prove_tiles(maps: ReuseMaps) -> Outcome:
    """Whether every output pixel (n, p, q) belongs to exactly one lane of one tile."""
    problem, tile, stream = maps.problem, maps.tile, maps.stream
    claim = "every output pixel (n, p, q) belongs to one lane of one tile"
    inside, window, lane = Axis("tile", maps.tiles), Axis("window", tile.windows), Axis("lane", tile.useful)
    place = inside.symbol * tile.outputs + window.symbol * tile.useful + lane.symbol
    axes = {axis.name: axis.range for axis in (inside, window, lane)}
    if digits(place, axes) is None:
        return Unknown(claim, f"{place} is not seen to count")
    last = maps.length - 1
    if last >= maps.tiles * tile.outputs:
        return Counterexample(claim, (("t", last),), f"the tiles end at place {maps.tiles * tile.outputs - 1}")
    if maps.walk.period < problem.out_extent[1] or (stream.merged and stream.image_rows < problem.out_extent[0]):
        return Counterexample(claim, (), "a row of the stream is shorter than an output row")
    over = f"windows of {WINDOW} lanes, {tile.useful} of them with outputs" if tile.windows > 1 else "lanes"
    return Proof(claim, f"places count tiles and {over}; t = row*{maps.walk.period} + q up to {last} is (row, q) once")


def prove_limits(maps: ReuseMaps) -> tuple[Outcome, ...]:
    """The limits of the tensor map and of the operands of the copies."""
    walk, outcomes = maps.walk, []
    for name, value in (("lower", walk.lower), ("upper", walk.upper)):
        claim = f"the {name} corner fits 16 bits"
        inside = CORNER_LIMITS[0] <= value <= CORNER_LIMITS[1]
        outcomes.append(Proof(claim, str(value)) if inside else Counterexample(claim, (), str(value)))
    claim = f"offsets of the buffers are at most {OFFSET_LIMIT}"
    last = max(buffer.offset for buffer in walk.buffers)
    outcomes.append(
        Proof(claim, f"the largest is {last}") if last <= OFFSET_LIMIT else Counterexample(claim, (), str(last))
    )
    end = walk.problem.width + walk.upper
    outcomes.append(
        maps.start.prove_in({"w": (-walk.problem.pad, end - 1)}, "every copy starts before the end of its box")
    )
    return tuple(outcomes)


def _restricted(maps: ReuseMaps, tap: Tap, first: int, last: int) -> tuple[IndexMap, IndexMap]:
    """`needed` and `held` of one filter column, over q = first..last only."""
    q = Axis("q", last - first + 1, first)
    found = []
    for index_map in (maps.needed, maps.held):
        row, old, s = index_map.domain
        swap = {s.symbol: Integer(tap.s), old.symbol: q.symbol}
        found.append(
            IndexMap(
                name=index_map.name,
                domain=(row, q),
                results=tuple((name, expr.xreplace(swap)) for name, expr in index_map.results),
            )
        )
    return found[0], found[1]


def _plus(text: str, value: int) -> str:
    """text + value for people."""
    return text if not value else f"{text} {'+' if value > 0 else '-'} {abs(value)}"
