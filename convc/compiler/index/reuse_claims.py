"""What a kernel that shares activations takes for granted, claim by claim (maps: `convc.compiler.index.reuse`).

The reuse itself is two claims per filter column: where the needed pixel lies in the image, the lane holds it; where it
does not, the lane is masked or holds a zero. The first is an identity of the algebra: with z = row*P + q + j - lead,
the held row z // P is `row` exactly while q + j - lead stays in 0..P-1, and the ranges of q say whether it does.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import msgspec

from convc.compiler.index.algebra import equal, simplify
from convc.compiler.index.geometry import Geometry
from convc.compiler.index.linear import Integer
from convc.compiler.index.lower import translate
from convc.compiler.index.maps import Counterexample, IndexMap, Outcome, Proof, prove_equal
from convc.compiler.index.presburger import find
from convc.compiler.index.reuse import ReuseMaps
from convc.compiler.index.row_stream import WINDOW
from convc.compiler.index.row_walk import Tap
from convc.compiler.index.symbols import Axis
from convc.ir.arch import SM_100A
from convc.ir.expr import Const, IntExpr, Less, Var, evaluate, substitute

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
    walk = maps.walk
    claim = "pixel k of the walk from start is place t0 + k of the stream"
    for buffer in walk.buffers:
        last = walk.problem.stride * (walk.lead - 1) + buffer.offset - walk.problem.pad
        if walk.lead and last >= 0:
            at = (("q0", walk.lead - 1), ("offset", buffer.offset))
            return Counterexample(claim, at, f"the copy starts at pixel {last}, which is no padding")
    u = walk.problem.stride
    places = _Places(maps, Var("window"))
    begin = {name: translate(expr) for name, expr in maps.start.results}
    counted = begin["row"] * (u * walk.period) + begin["w"] + walk.problem.pad
    wrong = find(maps.start.ranges, (), _apart(counted, places.first * u))
    if wrong is not None:
        value = (
            f"the copy starts {evaluate(counted, wrong)} pixels on, its first lane {evaluate(places.first * u, wrong)}"
        )
        return Counterexample(claim, tuple(wrong.items()), value)
    if not maps.stream.merged:
        wrong = find(maps.start.ranges, (), _apart(begin["p"], places.stream))
        if wrong is not None:
            return Counterexample(claim, tuple(wrong.items()), f"p = {evaluate(begin['p'], wrong)}")
    left = f"; the {walk.lead} places left of the box are padding" if walk.lead else ""
    return Proof(claim, f"both count {walk.period} pixels per row{left}")


class _Places(msgspec.Struct, frozen=True):
    """Where the lanes of a tile lie in the stream: what the maps are held against, taken from the geometry alone.

    The expressions read ``tile_m``, and ``lane`` or what `window` reads.
    """

    geometry: Geometry
    window: IntExpr

    @classmethod
    def of_lane(cls, geometry: Geometry) -> _Places:
        """The places of ``lane``."""
        return cls(geometry, Var("lane") // WINDOW if geometry.windowed else Const(0))

    @property
    def stream(self) -> IntExpr:
        """Number of the stream."""
        return Var("tile_m") // self.geometry.tiles if self.geometry.several else Const(0)

    @property
    def first(self) -> IntExpr:
        """Place of the window's first lane."""
        inside = Var("tile_m") - self.stream * self.geometry.tiles
        return inside * self.geometry.tile.outputs + self.window * self.geometry.tile.useful

    @property
    def inside(self) -> IntExpr:
        """Number of the lane in its window."""
        return Var("lane") - self.window * WINDOW

    @property
    def t(self) -> IntExpr:
        """Place of the lane."""
        return self.first + self.inside

    @property
    def row(self) -> IntExpr:
        """Row of the stream that the lane lies in."""
        return self.t // self.geometry.walk.period

    @property
    def image(self) -> IntExpr:
        """n of the row."""
        return self.row // self.geometry.stream.image_rows if self.geometry.stream.merged else self.row

    @property
    def p(self) -> IntExpr:
        """p of the row."""
        return self.row % self.geometry.stream.image_rows if self.geometry.stream.merged else self.stream

    @property
    def q(self) -> IntExpr:
        """q of the lane, beyond the outputs of its row maybe."""
        return self.t % self.geometry.walk.period


def _apart(a: IntExpr, b: IntExpr) -> tuple[IntExpr, IntExpr]:
    """The two ways in which numbers differ."""
    return Less(a, b), Less(b, a)


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
        return _prove_column(maps, tap, claim)
    foreign = foreign_column(maps, tap)
    if foreign is not None:
        return Counterexample(claim + ", and the lane holds padding", (("q", foreign),), "it holds a real pixel")
    return Proof(claim + ", and the lane holds padding", f"no lane of q = 0..{problem.outputs - 1} holds a real pixel")


def _prove_column(maps: ReuseMaps, tap: Tap, claim: str) -> Outcome:
    """Whether the mask of a filter column looks at the pixels that the lane needs and holds."""
    walk = maps.walk
    problem = maps.walk.problem
    places = _Places.of_lane(maps)
    number = places.t + (tap.lanes - walk.lead)
    offset = next(buffer.offset for buffer in walk.buffers if tap in buffer.taps)
    sought = {
        "need": places.q * problem.stride + (problem.dilation * tap.s - problem.pad),
        "held": number % walk.period * problem.stride + (walk.lead * problem.stride + offset - problem.pad),
        "passed": number - places.first // walk.period * walk.period,
    }
    ranges = {name: limits for name, limits in maps.column.ranges.items() if name != "s"}
    for name, value in sought.items():
        found = substitute(translate(maps.column[name]), {"s": Const(tap.s)})
        wrong = find(ranges, (), _apart(found, value))
        if wrong is not None:
            text = f"the mask looks at {name} = {evaluate(found, wrong)}, not {evaluate(value, wrong)}"
            return Counterexample(claim, tuple(wrong.items()), text)
    return Proof(claim, "the pixel grows with q; the lane is masked where it holds another row's pixel")


def foreign_column(maps: ReuseMaps, tap: Tap) -> int | None:
    """The first q whose lane holds a real pixel of another row where it needs padding (in a row that a copy enters)."""
    problem = maps.walk.problem
    here = {"row": Const(1), "s": Const(tap.s)}
    needed, held = (substitute(translate(each["w"]), here) for each in (maps.needed, maps.held))
    real = (Less(Const(-1), held), Less(held, Const(problem.width)))
    found = find(
        {"q": (0, problem.outputs - 1)}, real, (Less(needed, Const(0)), Less(Const(problem.width - 1), needed))
    )
    return None if found is None else found["q"]


def prove_moves(maps: ReuseMaps) -> list[Outcome]:
    """Whether lane i needs at one filter column what a later lane had at the column before, in the same buffer."""
    outcomes: list[Outcome] = []
    s, q = (next(axis.symbol for axis in maps.held.domain if axis.name == name) for name in "sq")
    rest = tuple(axis for axis in maps.held.domain if axis.name != "s")
    for buffer in maps.walk.buffers:
        for one, two in itertools.pairwise(buffer.taps):
            moved = two.lanes - one.lanes
            claim = f"what lane i needs for s = {two.s} is what lane i + {moved} had for s = {one.s}"
            compared = (
                prove_equal(
                    claim, expr.xreplace({s: Integer(two.s)}), expr.xreplace({s: Integer(one.s), q: q + moved}), rest
                )
                for _, expr in maps.held.results
            )
            refuted = next((outcome for outcome in compared if not isinstance(outcome, Proof)), None)
            outcomes.append(refuted or Proof(claim, "equal expressions"))
    return outcomes


def prove_lines(maps: ReuseMaps) -> Outcome:
    """Whether the copies of a tile read the image row that each lane needs, wherever that row exists."""
    problem = maps.problem
    stream = maps.stream
    height = problem.in_extent[0]
    images = problem.batch
    if not stream.merged:
        return Proof("every lane finds the image row p*u_h + r*d_h - top of its own image", "the copy names p and r")
    if stream.boxed:
        why = (
            f"the box has {problem.out_extent[0]} rows, {problem.stride[0]} apart from -top on, and the copy adds r*d_h"
        )
        return Proof("every lane finds the image row p*u_h + r*d_h - top of its own image", why)
    claim = f"stream row y = n*{stream.image_rows} + p lies at image row y*{stream.step} = n*{height} + p*{stream.step}"
    if images > 1 and stream.image_rows * stream.step != height:
        return Counterexample(claim, (("n", 1),), f"it lies at row {stream.image_rows * stream.step}")
    if stream.masked and (refuted := _wrong_line(maps, claim)) is not None:
        return refuted
    borders = "masked" if stream.masked else "zero-filled" if images == 1 else "never needed"
    return Proof(
        claim,
        f"{stream.image_rows}*{stream.step} = {height}; rows outside the image are {borders}"
        if images > 1
        else f"there is one image; rows outside of it are {borders}",
    )


def _wrong_line(maps: ReuseMaps, claim: str) -> Counterexample | None:
    """The first lane whose mask looks at other image rows than the lane needs and finds."""
    problem = maps.problem
    places = _Places.of_lane(maps)
    below = Var("r") * problem.dilation[0] - problem.pad_lo[0]
    for name, row in (("need", places.p), ("held", places.row)):
        found = translate(maps.line[name])
        sought = row * problem.stride[0] + below
        wrong = find(maps.line.ranges, (), _apart(found, sought))
        if wrong is not None:
            text = f"the mask looks at row {name} = {evaluate(found, wrong)}, not {evaluate(sought, wrong)}"
            return Counterexample(claim, tuple(wrong.items()), text)
    return None


def prove_tiles(maps: ReuseMaps) -> Outcome:
    """Whether every output pixel (n, p, q) belongs to exactly one lane of one tile."""
    problem = maps.problem
    tile = maps.tile
    stream = maps.stream
    claim = "every output pixel (n, p, q) belongs to one lane of one tile"
    last = maps.length - 1
    if last >= maps.tiles * tile.outputs:
        return Counterexample(claim, (("t", last),), f"the tiles end at place {maps.tiles * tile.outputs - 1}")
    if maps.walk.period < problem.out_extent[1] or (stream.merged and stream.image_rows < problem.out_extent[0]):
        return Counterexample(claim, (), "a row of the stream is shorter than an output row")
    refuted = _wrong_pixel(maps, claim)
    if refuted is not None:
        return refuted
    over = f"windows of {WINDOW} lanes, {tile.useful} of them with outputs" if tile.windows > 1 else "lanes"
    return Proof(claim, f"places count tiles and {over}; t = row*{maps.walk.period} + q up to {last} is (row, q) once")


def _wrong_pixel(maps: ReuseMaps, claim: str) -> Counterexample | None:
    """A lane whose output pixel is not the one at its place, or a lane that leaves out the one that is there.

    Places count tiles, windows and lanes, each once, and (row, q) is the place: so no pixel has two lanes.
    """
    out_h, out_w = maps.problem.out_extent
    pixel = maps.pixel
    places = _Places.of_lane(maps)
    sought = {"n": places.image, "p": places.p, "q": places.q}
    number = (translate(pixel["n"]) * out_h + translate(pixel["p"])) * out_w + translate(pixel["q"])
    beyond = [Less(Const(maps.tile.useful - 1), places.inside)]
    for name, extent in (("n", maps.problem.batch), ("p", out_h), ("q", out_w)):
        beyond.append(Less(Const(extent - 1), sought[name]))
    for name, value in {**sought, "m": number}.items():
        found = translate(pixel[name])
        if find(pixel.ranges, (), _apart(found, value)) is None:  # decided sooner without the guard
            continue
        wrong = find(pixel.ranges, pixel.conditions, _apart(found, value))
        if wrong is not None:
            text = f"{name} = {evaluate(found, wrong)}, not {evaluate(value, wrong)}"
            return Counterexample(claim, tuple(wrong.items()), text)
    wrong = find(pixel.ranges, pixel.conditions, beyond)
    if wrong is not None:
        return Counterexample(claim, tuple(wrong.items()), "the lane has no output pixel there")
    refused = [Less(b, a + 1) for a, b in _sides(pixel.conditions)]
    wrong = find(pixel.ranges, [Less(b, a + 1) for a, b in _sides(beyond)], refused) if refused else None
    if wrong is not None:
        return Counterexample(claim, tuple(wrong.items()), "the lane leaves its output pixel out")
    return None


def _sides(conditions: Iterable[IntExpr]) -> Iterator[tuple[IntExpr, IntExpr]]:
    """Both sides of each comparison."""
    for condition in conditions:
        if not isinstance(condition, Less):
            raise ValueError(f"{condition} is not a comparison")
        yield condition.a, condition.b


def prove_limits(maps: ReuseMaps) -> tuple[Outcome, ...]:
    """The limits of the tensor map and of the operands of the copies."""
    walk = maps.walk
    outcomes: list[Outcome] = []
    least, most = SM_100A.limits.im2col_corner if maps.stream.boxed else CORNER_LIMITS
    for name, value in (("lower", walk.lower), ("upper", walk.upper)):
        claim = f"the {name} corner fits {8 if maps.stream.boxed else 16} bits"
        inside = least <= value <= most
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

    def restricted(index_map: IndexMap) -> IndexMap:
        row, old, s = index_map.domain
        swap = {s.symbol: Integer(tap.s), old.symbol: q.symbol}
        results = tuple((name, expr.xreplace(swap)) for name, expr in index_map.results)
        return IndexMap(name=index_map.name, domain=(row, q), results=results)

    return restricted(maps.needed), restricted(maps.held)


def _plus(text: str, value: int) -> str:
    """text + value for people."""
    return text if not value else f"{text} {'+' if value > 0 else '-'} {abs(value)}"
