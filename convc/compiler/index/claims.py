"""What a kernel takes for granted about its indices, each claim proved or answered with a counterexample.

A convolution kernel is correct if its copies read the right pixels, its two operands agree at every step, and
its stores hit every output element once. Those are statements about the maps of `convc.compiler.index.conv`, and this
is where they are shown: by rewriting (`algebra.equal`), by recognising counting (`algebra.digits`) and by
interval bounds. Where the algebra does not show a claim, `presburger` decides it; a claim that fails says where.

Limits are those of the tensor map of an im2col copy over (C, W, H, N) (PTX manual, tensor im2col mode; CUDA
driver API, ``cuTensorMapEncodeIm2col``), and the alignment of the innermost coordinate was recorded on sm_90a
hardware.
"""

from __future__ import annotations

import math

from convc.compiler.index.algebra import digits, equal
from convc.compiler.index.conv import ConvMaps
from convc.compiler.index.linear import Expr, Integer
from convc.compiler.index.lower import translate
from convc.compiler.index.maps import Counterexample, IndexMap, Outcome, Proof, prove_equal
from convc.compiler.index.presburger import Point, clash, find, missed
from convc.compiler.index.symbols import FloorDiv
from convc.compiler.index.walk import Im2colBox, prove_walk
from convc.ir.arch import SM_100A
from convc.ir.dtypes import BY_NAME
from convc.ir.expr import Const, Interval, IntExpr, Less, Var, evaluate
from convc.ir.problem import ConvProblem

CORNER_LIMITS = SM_100A.limits.im2col_corner
OFFSET_LIMITS = (0, SM_100A.limits.im2col_offset)
STRIDE_LIMITS = (1, SM_100A.limits.tma_element_stride)
MAX_PIXELS = SM_100A.limits.im2col_pixels
MAX_CHANNELS = SM_100A.limits.tma_box


def prove(maps: ConvMaps) -> tuple[Outcome, ...]:
    """Every claim about one tiled convolution."""
    return (
        prove_walk(maps.box, maps.start, maps.window),
        prove_box(maps.box, maps.problem),
        prove_taps(maps),
        *prove_limits(maps),
        prove_reads(maps),
        prove_steps(maps),
        prove_agreement(maps),
        prove_store(maps),
    )


def prove_box(box: Im2colBox, problem: ConvProblem) -> Outcome:
    """Whether the im2col box has as many positions as the output has pixels, along each axis."""
    out_h, out_w = problem.out_extent
    claim = f"the im2col box has Q = {out_w} positions per row and P = {out_h} rows"
    for axis, found, wanted in zip("wh", box.positions, (out_w, out_h), strict=True):
        if found != wanted:
            corners = f"corners {box.lower}, {box.upper}, size {box.size}, stride {box.stride} in order W, H"
            return Counterexample(claim, (), f"{found} positions along {axis}, not {wanted}; {corners}")
    return Proof(claim, "floor((size + upper - lower - 1) / stride) + 1 along each axis")


def prove_taps(maps: ConvMaps) -> Outcome:
    """Whether the filter offsets of a step lead from the window to the pixel that the tap reads."""
    claim = "window(n, p, q) + (off_w, off_h)(r, s) is the pixel that tap (r, s) reads"
    problem = maps.problem
    read = maps.activation
    axes = {axis.name: axis.symbol for axis in read.domain}
    window = {
        "w": axes["q"] * problem.stride[1] - problem.pad_lo[1],
        "h": axes["p"] * problem.stride[0] - problem.pad_lo[0],
    }
    single = {axis.symbol: Integer(0) for axis in read.domain if axis.extent == 1}
    for name, first in window.items():
        sought = (first + maps.step[f"off_{name}"]).xreplace(single)
        outcome = prove_equal(claim, read[name], sought, read.domain)
        if not isinstance(outcome, Proof):
            return outcome
    return Proof(claim, "equal expressions")


def prove_limits(maps: ConvMaps) -> tuple[Outcome, ...]:
    """The limits of the im2col tensor map and of the coordinates given to the copies."""
    box = maps.box
    tiles = maps.tiles
    element = BY_NAME[maps.problem.operand].bytes
    corners = [
        (f"{which} corner along {axis}", corner)
        for which, pair in (("lower", box.lower), ("upper", box.upper))
        for axis, corner in zip("WH", pair, strict=True)
    ]
    strides = [(f"stride along {axis}", stride) for axis, stride in zip("WH", box.stride, strict=True)]
    low, high = OFFSET_LIMITS
    step_bytes = tiles.channels_per_step * element
    aligned = f"every channel coordinate is a multiple of 16 bytes (elements of {element} bytes)"
    return (
        _within("the corners of the im2col box fit 8 bits", corners, CORNER_LIMITS),
        _within("the element strides are 1 to 8", strides, STRIDE_LIMITS),
        maps.step.prove_in(
            {"off_w": OFFSET_LIMITS, "off_h": OFFSET_LIMITS},
            f"the filter offsets are {low} to {high} (8 bits)",
        ),
        _within(f"a column has at most {MAX_PIXELS} pixels", [("block_m", tiles.block_m)], (1, MAX_PIXELS)),
        _within(
            f"a pixel has at most {MAX_CHANNELS} channels",
            [("channels", tiles.channels_per_step)],
            (1, MAX_CHANNELS),
        ),
        maps.start.prove_in(
            {
                "w": (box.lower[0], box.last[0]),
                "h": (box.lower[1], box.last[1]),
                "n": (0, maps.problem.batch - 1),
            },
            "every copy starts inside the im2col box and inside the batch",
        ),
        Counterexample(aligned, (("block", 1),), f"the copy starts at byte {step_bytes}")
        if step_bytes % 16 and tiles.blocks > 1
        else Counterexample(aligned, (("group", 1),), f"the copy starts at byte {tiles.c_pitch * element}")
        if tiles.c_pitch * element % 16 and maps.problem.groups > 1
        else Proof(aligned, f"c = {translate(maps.pack['c'])}"),
    )


def prove_reads(maps: ConvMaps) -> Outcome:
    """Whether an operand element that is not filled with zero lies inside its tensor."""
    problem = maps.problem
    pitch = maps.tiles.c_pitch
    claim = "every element that is not filled with zero is read inside its tensor"
    in_h, in_w = problem.in_extent
    taps_h, taps_w = problem.kernel
    channels = problem.groups * pitch
    inside_a = {"n": (0, problem.batch - 1), "h": (0, in_h - 1), "w": (0, in_w - 1), "c": (0, channels - 1)}
    inside_b = {"k": (0, problem.out_channels - 1), "tap": (0, taps_h * taps_w - 1), "c": (0, pitch - 1)}
    a = maps.operand_a.prove_in(inside_a, claim)
    b = maps.operand_b.prove_in(inside_b, claim)
    if not isinstance(a, Proof):
        return a
    return Proof(claim, f"A: {a.how}; B: {b.how}") if isinstance(b, Proof) else b


def prove_steps(maps: ConvMaps) -> Outcome:
    """Whether the K loop takes every (tap, channel) once: k_step counts the steps, c the channels."""
    taps_h, taps_w = maps.problem.kernel
    pitch = maps.tiles.c_pitch
    claim = f"the K loop takes each of {taps_h}*{taps_w} taps and {pitch} channels once"
    ranges = {axis: limits for axis, limits in maps.operand_b.ranges.items() if axis in ("block", "e")}
    steps = taps_h * taps_w * maps.tiles.blocks
    channels = _counted(maps.operand_b["c"], ranges)
    if _counted(maps.step["k_step"], maps.step.ranges) == steps and channels is not None:
        if channels < pitch:
            return Counterexample(claim, (("c", channels),), f"channels from {channels} on are in no block")
        tail = f"; channels {pitch}..{channels - 1} read zero" if channels > pitch else ""
        return Proof(claim, f"k_step and c are mixed-radix numbers{tail}")
    for name, expr, axes, extent in (
        ("k_step", maps.step["k_step"], maps.step.ranges, steps),
        ("c", maps.operand_b["c"], ranges, pitch),
    ):
        refuted = _not_once(claim, name, translate(expr), axes, extent)
        if refuted is not None:
            return refuted
    return Proof(claim, f"k_step takes each of 0..{steps - 1} once, and c each of 0..{pitch - 1}")


def _not_once(claim: str, name: str, value: IntExpr, ranges: dict[str, Interval], extent: int) -> Counterexample | None:
    """What is wrong where a number does not take each value below `extent` exactly once."""
    inside = (Less(Const(-1), value), Less(value, Const(extent)))
    pair = clash(ranges, inside, (value,))
    if pair is not None:
        later, first = pair
        return Counterexample(claim, tuple(later.items()), f"{name} = {evaluate(value, later)}, as at {_at(first)}")
    left_out = missed({name: (0, extent - 1)}, (Var(name),), ranges, inside, (value,))
    if left_out is not None:
        return Counterexample(claim, tuple(left_out.items()), "no step has it")
    return None


def prove_agreement(maps: ConvMaps) -> Outcome:
    """Whether both operands hold the same tap and the same channel at the same place of the same step."""
    claim = "A and B hold the same (r, s, c) in column e of every step"
    a = maps.operand_a
    b = maps.operand_b
    step = maps.step
    taps_w = maps.problem.kernel[1]
    group: Expr = Integer(0)
    if maps.problem.groups > 1:
        claim = "A and B hold the same (r, s, c), c of the group of k, in column e of every step"
        group = FloorDiv(b["k"], Integer(maps.problem.out_channels // maps.problem.groups))
    first = {axis.symbol: Integer(0) for axis in b.domain if axis.name == "e"}
    row, column, _ = step.domain
    tap = (row.symbol * taps_w + column.symbol).xreplace(
        {axis.symbol: Integer(0) for axis in (row, column) if axis.extent == 1}
    )
    for left, right, domain in (
        (a["c"], b["c"] + group * maps.tiles.c_pitch, (*a.domain, *(x for x in b.domain if x.name == "column"))),
        (a["c"].xreplace(first), maps.pack["c"], maps.pack.domain),
        (b["c"].xreplace(first), step["c"], step.domain),
        (b["tap"], step["tap"], step.domain),
        (step["tap"], tap, step.domain),
    ):
        outcome = prove_equal(claim, left, right, domain)
        if not isinstance(outcome, Proof):
            return outcome
    return Proof(claim, f"equal expressions, and tap = r*{taps_w} + s is one (r, s) as s is below {taps_w}")


def prove_store(maps: ConvMaps) -> Outcome:
    """Whether every (n, p, q, k) is written by exactly one (tile_m, lane, tile_n, column), and no other element.

    The offset is the mixed-radix number m*k_pitch + k, m counts (tile_m, lane) and k counts (tile_n, column);
    the guards cut both off at the end of the buffer and not before.
    """
    problem = maps.problem
    pitch = maps.tiles.k_pitch
    claim = f"every output element (n, p, q, k) is written once, inside rows of {pitch} elements"
    store = maps.store
    m = maps.row["m"]
    k = maps.column["k"]
    inside = IndexMap(name="element", domain=store.domain, results=(("m", m), ("k", k)), guard=store.guard).bounds()
    rows = _counted(m, {axis: limits for axis, limits in store.ranges.items() if axis in ("tile_m", "lane")})
    columns = _counted(k, {axis: limits for axis, limits in store.ranges.items() if axis not in ("tile_m", "lane")})
    counts = rows is not None and rows >= problem.gemm_m and columns is not None and columns >= problem.out_channels
    linear = equal(store["offset"], m * pitch + k)
    within = inside["m"][1] < problem.gemm_m and inside["k"][1] < pitch
    needed = {m: problem.gemm_m, k: problem.out_channels}
    complete = all(guard.lhs in needed and int(guard.rhs) >= needed[guard.lhs] for guard in store.guard)
    if counts and linear and within and complete:
        return Proof(
            claim,
            f"offset = m*{pitch} + k with m < {problem.gemm_m}, k < {inside['k'][1] + 1}; m and k count",
        )
    return _decide_store(store, problem.gemm_m, problem.out_channels, pitch, claim)


def _decide_store(store: IndexMap, rows: int, channels: int, pitch: int, claim: str) -> Outcome:
    """Whether no element outside of the buffer is written, none twice, and each that holds a result."""
    offset = translate(store["offset"])
    guard = store.conditions
    size = rows * pitch
    beyond = find(store.ranges, guard, (Less(offset, Const(0)), Less(Const(size - 1), offset)))
    if beyond is not None:
        value = f"element {evaluate(offset, beyond)} is outside the buffer of {size}"
        return Counterexample(claim, tuple(beyond.items()), value)
    pair = clash(store.ranges, guard, (offset,))
    if pair is not None:
        later, first = pair
        value = f"element {evaluate(offset, later)} is written at {_at(first)} too"
        return Counterexample(claim, tuple(later.items()), value)
    wanted = {"m": (0, rows - 1), "k": (0, channels - 1)}
    left_out = missed(wanted, (Var("m") * pitch + Var("k"),), store.ranges, guard, (offset,))
    if left_out is not None:
        return Counterexample(claim, tuple(left_out.items()), "nobody writes this element")
    return Proof(claim, f"each of {rows}*{channels} elements is the offset of one point, and none is outside of {size}")


def _at(point: Point) -> str:
    """A point for people."""
    return ", ".join(f"{name} = {value}" for name, value in point.items())


def _counted(expr: Expr, ranges: dict[str, Interval]) -> int | None:
    """How many values a mixed-radix number takes, if its digits are all the axes of ``ranges``; else None."""
    found = digits(expr, ranges)
    several = {name for name, (low, high) in ranges.items() if high > low}
    if found is None or {name for _, name, _ in found} != several:
        return None
    return math.prod(values for _, _, values in found)


def _within(claim: str, values: list[tuple[str, int]], limits: tuple[int, int]) -> Outcome:
    for name, value in values:
        if not limits[0] <= value <= limits[1]:
            return Counterexample(claim, (), f"{name} is {value}, allowed are {limits[0]} to {limits[1]}")
    return Proof(claim, ", ".join(f"{name} {value}" for name, value in values))
