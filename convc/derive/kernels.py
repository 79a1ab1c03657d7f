"""The numbers that a kernel computes about positions, read off its loop nest.

That is: where copies begin, which tap and channel comes, where results go, which lanes are left out.

Nothing here is a second description. A coordinate is what the nest says, with the loops that an instruction runs by
itself (lanes, columns, channels of a step) at 0, or the difference that a loop makes; the theorems say that the
instruction, given these, does what the nest says for all of them: an im2col copy walks through the pixels of a tile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sympy import Expr, S, Symbol

from convc.derive import symbols as z
from convc.derive.algebra import expanded, normal
from convc.derive.nests import Nest, Place, at_zero, definition, put
from convc.derive.reuse import Rows, window_first, window_start
from convc.derive.streams import reads
from convc.derive.symbols import FloorDiv, Mod, dividend
from convc.derive.theorem import Bound, Theorem, at_most, below, proved


@dataclass(frozen=True, slots=True, kw_only=True)
class Map:
    """Numbers that depend on axes.

    Attributes:
        axes: outermost first.
        results: the numbers by their names.
        guard: where one of these fails, they mean nothing.
    """

    axes: tuple[Symbol, ...]
    results: Place
    guard: tuple[Bound, ...] = ()


BEGUN = z.axis("begun")
"""The row of the stream that a copy begins in, where the kernel has it as a number."""


def channel_maps(nest: Nest) -> tuple[dict[str, Map], tuple[Theorem, ...]]:
    """Maps that all schedules have: filter, channels, the place of a result; and why they are those of the nest."""
    assert nest.load is not None
    space = nest.space
    pixel = nest.load.pixel
    lanes = z.lane if nest.swapped else z.column
    first_k = space["k"].xreplace({lanes: S.Zero})
    brought = space["k"].xreplace({lanes: z.rank * z.PIECE + z.row})
    c = space["c"].xreplace({z.e: S.Zero})
    pack_c = pixel["c"].xreplace({z.e: S.Zero})
    tap = space["r"] * z.S + z.s
    place = z.m * z.K_PITCH + z.k
    maps = {
        "first_k": Map(axes=(z.tile_n,), results={"k": first_k}),
        "first_filter": Map(axes=(z.tile_n, z.rank), results={"k": brought.xreplace({z.row: S.Zero})}),
        "column": Map(axes=(z.tile_n, lanes), results={"k": space["k"]}, guard=(below(space["k"], z.K_PITCH),)),
        "tap": Map(axes=(z.r, z.s), results={"tap": tap}),
        "c": Map(axes=(z.block,), results={"c": c}),
        "pack": Map(axes=(z.tile_n, z.block), results={"c": pack_c}),
        "out_byte": Map(axes=(z.m, z.k), results={"byte": place * z.ELEMENT}),
    }
    theorems = (
        proved(
            "tap numbers the weights w[k, r, s, ...] of a filter once",
            [(FloorDiv(tap, z.S), space["r"]), (Mod(tap, z.S), z.s)],
            [below(z.s, z.S)],
        ),
        proved("row `column` of the filter tile is output channel k", [(first_k + lanes, space["k"])]),
        proved(
            "row i of what CTA `rank` of a cluster brings is row rank*PIECE + i of the filter tile, each of them once",
            [
                (first_k + z.rank * z.PIECE + z.row, brought),
                (FloorDiv(z.rank * z.PIECE + z.row, z.PIECE), z.rank),
                (Mod(z.rank * z.PIECE + z.row, z.PIECE), z.row),
            ],
            [below(z.row, z.PIECE)],
        ),
        proved(
            "A and B hold the same channel of the group in column e",
            [(c + z.e, space["c"]), (pack_c + z.e, pixel["c"]), (pack_c - c, space["group"] * z.C_PITCH)],
        ),
        proved(
            "an output element (m, k) has a place of its own",
            [(FloorDiv(place, z.K_PITCH), z.m), (Mod(place, z.K_PITCH), z.k)],
            [below(z.k, z.K_PITCH)],
        ),
    )
    return maps, theorems


def plain_maps(nest: Nest) -> tuple[dict[str, Map], tuple[Theorem, ...]]:
    """The maps of a nest that loads pixels for every tap of the filter, by an im2col copy; and why that is one."""
    assert nest.load is not None
    space = nest.space
    pixel = nest.load.pixel
    window = at_zero(pixel, z.r, z.s)
    start = at_zero(window, z.lane)
    offsets = {axis: expanded(pixel[axis] - window[axis]) for axis in "wh"}
    m = normal((space["n"] * z.P + space["p"]) * z.Q + space["q"])
    tap = space["r"] * z.S + space["s"]
    k_step = tap * z.BLOCKS + space["c"].xreplace({z.e: S.Zero, z.BK: S.One})
    of_pixel = tuple(each for each in nest.guard if each.low.free_symbols & {z.lane})
    of_channel = tuple(each for each in nest.guard if each.low.free_symbols & {z.e})
    of_k = tuple(each for each in nest.guard if each.low.free_symbols & {z.column})
    inside = tuple(
        bound for axis, end in (("h", z.H), ("w", z.W)) for bound in (at_most(0, pixel[axis]), below(pixel[axis], end))
    )
    plain = definition()
    axes = (z.tile_m, z.lane)
    a = (*axes, z.r, z.s, z.tile_n, z.block, z.e)
    maps, theorems = channel_maps(nest)
    maps |= {
        "row": Map(axes=axes, results={"m": m}, guard=of_pixel),
        "first_row": Map(axes=(z.tile_m, z.warp), results={"m": m.xreplace({z.lane: z.warp * z.WARP})}),
        "pixel": Map(axes=axes, results={x: space[x] for x in "npq"}, guard=of_pixel),
        "window": Map(axes=axes, results={x: window[x] for x in "whn"}, guard=of_pixel),
        "start": Map(
            axes=(z.tile_m,),
            results={x: start[x] for x in "whn"},
            guard=tuple(replace(each, low=each.low.xreplace({z.lane: S.Zero})) for each in of_pixel),
        ),
        "step": Map(
            axes=(z.r, z.s, z.block),
            results={
                "off_w": offsets["w"],
                "off_h": offsets["h"],
                "c": space["c"].xreplace({z.e: S.Zero}),
                "tap": tap,
                "k_step": k_step,
            },
        ),
        "operand_a": Map(axes=a, results=pixel, guard=(*of_pixel, *_pitched(of_channel), *inside)),
        "operand_b": Map(
            axes=(z.tile_n, z.column, z.r, z.s, z.block, z.e),
            results={"k": space["k"], "tap": tap, "c": space["c"]},
            guard=(*of_k, *_pitched(of_channel)),
        ),
        "store": Map(
            axes=(*axes, z.tile_n, z.column),
            results={"offset": m * z.K_PITCH + space["k"]},
            guard=(*(below(each.low, z.K_PITCH) for each in of_k), *of_pixel),
        ),
        "activation": _activation(plain),
        "filter": Map(axes=(z.k, z.r, z.s, z.c), results={"k": z.k, "tap": z.r * z.S + z.s, "c": z.c}),
        "output": Map(axes=(z.n, z.p, z.q, z.k), results={"offset": ((z.n * z.P + z.p) * z.Q + z.q) * z.K_PITCH + z.k}),
        "walk": Map(axes=(*WALKED, z.lane), results=walked()),
    }
    return maps, (walk_theorem(start, window), *theorems, *_plain_theorems(nest, m, offsets, window, k_step))


def _pitched(of_channel: Sequence[Bound]) -> tuple[Bound, ...]:
    """Conditions on channels, of which a pixel has so many that those behind C are zero."""
    return tuple(below(each.low, z.C_PITCH) for each in of_channel)


def _activation(plain: Nest) -> Map:
    """The definition: what a tap reads; zero outside of the image."""
    pixel = {**plain.pixel(), "c": z.c}
    guard = (at_most(0, pixel["h"]), below(pixel["h"], z.H), at_most(0, pixel["w"]), below(pixel["w"], z.W))
    return Map(axes=(z.n, z.p, z.q, z.r, z.s, z.c), results=pixel, guard=guard)


WALKED = tuple(z.axis(name) for name in ("image", "y", "x"))
"""Where an im2col copy begins: image, row and column of its box."""


def walked() -> dict[str, Expr]:
    """The place of an im2col copy after ``lane`` pixels: it counts columns, rows and images of its box (PTX manual)."""
    image, y, x = WALKED
    number = (image * z.P + y) * z.Q + x + z.lane
    return {
        "w": z.u_w * Mod(number, z.Q) - z.pad_w,
        "h": z.u_h * Mod(FloorDiv(number, z.Q), z.P) - z.pad_h,
        "n": FloorDiv(number, z.P * z.Q),
    }


def walk_theorem(start: Place, window: Place) -> Theorem:
    """An im2col copy that begins at the tile's start is, after ``lane`` pixels, at the window of the lane's pixel."""
    first = z.tile_m * z.BM
    begun = (FloorDiv(first, z.P * z.Q), Mod(FloorDiv(first, z.Q), z.P), Mod(first, z.Q))
    at = dict(zip(WALKED, begun, strict=True))
    image, y, x = begun
    begins = {"w": z.u_w * x - z.pad_w, "h": z.u_h * y - z.pad_h, "n": image}
    says = [(begins[axis], start[axis]) for axis in "whn"]
    says += [(walked()[axis].xreplace(at), window[axis]) for axis in "whn"]
    return proved("the im2col walk from start(tile_m) is at the window of pixel (tile_m, lane)", says)


def _plain_theorems(
    nest: Nest, m: Expr, offsets: Mapping[str, Expr], window: Place, k_step: Expr
) -> tuple[Theorem, ...]:
    assert nest.load is not None
    pixel = nest.load.pixel
    space = nest.space
    number = k_step.xreplace({z.r: S.Zero, z.s: z.tap})
    return (
        proved(
            "window + (off_w, off_h) is the pixel that tap (r, s) reads",
            [(window[axis] + offsets[axis], pixel[axis]) for axis in "wh"],
        ),
        proved(
            "k_step counts (tap, block) once",
            [(FloorDiv(number, z.BLOCKS), z.tap), (Mod(number, z.BLOCKS), z.block)],
            [below(z.block, z.BLOCKS)],
        ),
        proved("m numbers the output pixels", [((space["n"] * z.P + space["p"]) * z.Q + space["q"], m)]),
    )


def shared_maps(nest: Nest, rows: Rows) -> tuple[dict[str, Map], tuple[Theorem, ...]]:
    """The maps of a nest that loads pixels once for several columns of the filter; and why its copies bring them."""
    assert nest.load is not None
    lane = z.column if nest.swapped else z.lane
    space = put(nest.space, {lane: z.lane})
    place = dividend(space["q"])
    first = window_start(place, z.lane)
    start = {"w": z.u_w * Mod(first, z.T) - z.pad_w, "row": FloorDiv(first, z.T)}
    if rows == "outer":
        start["p"] = space["p"]
    copy = _copies(rows, start)
    m = (space["n"] * z.P + space["p"]) * z.Q + space["q"]
    row = z.axis("row")
    moved = {z.tap: FloorDiv(z.s, z.u), z.buffer: Mod(z.s, z.u)}
    number = row * z.T + z.q + z.tap * z.d - z.lead
    maps, theorems = channel_maps(nest)
    maps |= {
        "s": Map(axes=(z.buffer, z.tap), results={"s": space["s"]}),
        "read": Map(axes=(z.tap,), results={"row": expanded((nest.read or lane) - lane)}),
        "place": Map(axes=(z.t,), results={"row": FloorDiv(z.t, z.T), "q": Mod(z.t, z.T)}),
        "pixel": Map(
            axes=(z.tile_m, z.lane),
            results={**{x: space[x] for x in "npq"}, "m": m},
            guard=_pixel_guard(nest, space, lane),
        ),
        "first_pixel": Map(
            axes=(z.tile_m, z.warp),
            results=put({**{x: space[x] for x in "npq"}, "m": m}, {z.lane: z.warp * z.WARP}),
        ),
        "start": Map(axes=(z.tile_m, z.window), results=start),
        "copy": Map(axes=(z.tile_m, z.window, BEGUN, z.r), results=copy),
        "offset": Map(axes=(z.buffer,), results={"w": z.d_w * z.buffer}),
        "turned": Map(axes=(z.tap,), results={"lanes": reads(nest, "turned").turn}),
        "masks": Map(axes=(), results={name: _masks(nest, axis, extent) for name, axis, extent in FILTER_AXES}),
        "needed": Map(axes=(row, z.q, z.s), results={"row": row, "w": need(z.q, z.s)}),
        "held": Map(axes=(row, z.q, z.s), results=_held(number, moved)),
        **_mask_maps(space, place, moved),
    }
    copied = (*_copy_theorems(rows, nest.load.pixel, start, copy), _walk(first, place))
    return maps, (*theorems, *copied, *_mask_theorems(nest, maps, lane))


FILTER_AXES = (("columns", z.s, z.S), ("rows", z.r, z.R))


def _masks(nest: Nest, axis: Symbol, extent: Expr) -> Expr:
    """Masks of a tile along an axis of the filter: one for each of its numbers, if lanes are left out by it."""
    return extent if any(mask.axis == axis for mask in nest.masks) else S.Zero


def _copies(rows: Rows, start: Place) -> dict[str, Expr]:
    """Where the copy of a window begins along the rows, at filter row r."""
    down = z.d_h * z.r - z.pad_h
    if rows == "outer":
        return {"h": z.u_h * start["p"] + down}
    if rows == "merged":
        return {"row": z.u_h * start["row"] + down}
    return {"h": z.u_h * Mod(BEGUN, z.Y) - z.pad_h, "n": FloorDiv(BEGUN, z.Y), "off_h": z.d_h * z.r}


def _copy_theorems(rows: Rows, pixel: Place, start: Place, copy: Place) -> Iterator[Theorem]:
    """A copy begins at the pixel that the nest loads to the first row of a window, `lead` pixels of padding apart."""
    there: dict[Expr, Expr] = {z.lead: S.Zero, FloorDiv(z.row, z.WINDOW): z.window, Mod(z.row, z.WINDOW): S.Zero}
    first = put(put(pixel, there), {z.row: S.Zero})
    says = [(start["w"] + z.d_w * z.buffer, first["w"])]
    if rows == "outer":
        says += [(start["row"], first["n"]), (copy["h"], first["h"])]
    elif rows == "merged":
        says += [(FloorDiv(copy["row"], z.H), first["n"]), (Mod(copy["row"], z.H), first["h"])]
    else:
        begun = {BEGUN: start["row"]}
        says += [(copy["n"].xreplace(begun), first["n"]), ((copy["h"] + copy["off_h"]).xreplace(begun), first["h"])]
    yield proved("a copy begins at the first pixel that the nest loads, where the walk leaves nothing out", says)


def _mask_theorems(nest: Nest, maps: Mapping[str, Map], lane: Symbol) -> Iterator[Theorem]:
    """What decides a lane's mask in the kernel is what decides it in the nest."""
    spelt = {z.s: z.tap * z.u + z.buffer}
    for mask in nest.masks:
        mine = maps["lanes_s" if mask.axis == z.s else "lanes_r"].results
        sides = [(mask.need, mine["need"]), (mask.held, mine["held"])]
        if mask.since is not None:
            sides.append((mask.since, mine["passed"]))
        says = [(one.xreplace({lane: z.lane}), two.xreplace(spelt)) for one, two in sides]
        yield proved(f"the mask of filter axis {mask.axis} is that of the nest", says, [below(z.buffer, z.u)])


def need(q: Expr, s: Expr) -> Expr:
    """The pixel along W that column s of the filter needs for output column q."""
    return z.u_w * q + z.d_w * s - z.pad_w


def _held(number: Expr, moved: Mapping[Symbol, Expr]) -> dict[str, Expr]:
    """Row and pixel of a place of the walk, of the buffer of a column of the filter."""
    number = number.xreplace(dict(moved))
    return {
        "row": FloorDiv(number, z.T),
        "w": z.u_w * (z.lead + Mod(number, z.T)) + z.d_w * moved[z.buffer] - z.pad_w,
    }


def _mask_maps(space: Place, place: Expr, moved: Mapping[Symbol, Expr]) -> dict[str, Map]:
    """What a lane needs and what it finds: of a column of the filter along W, of a row of it along H."""
    number = (place + z.tap * z.d - z.lead).xreplace(dict(moved))
    row = FloorDiv(place, z.T)
    down = z.d_h * z.r - z.pad_h
    lanes = (z.tile_m, z.lane)
    return {
        "lanes_s": Map(
            axes=(*lanes, z.s),
            results={
                "need": need(space["q"], z.s),
                "held": _held(place + z.tap * z.d - z.lead, moved)["w"],
                "passed": number - z.T * FloorDiv(window_first(place, z.lane), z.T),
            },
        ),
        "lanes_r": Map(axes=(*lanes, z.r), results={"need": z.u_h * space["p"] + down, "held": z.u_h * row + down}),
    }


def _pixel_guard(nest: Nest, space: Place, lane: Symbol) -> tuple[Bound, ...]:
    """Where a lane has an output: the conditions of the nest on pixels, columns first."""
    about = (z.N, z.P, z.Q, z.USEFUL)
    found = [replace(x, low=x.low.xreplace({lane: z.lane})) for x in nest.guard if x.high in about]
    order = [space["q"], space["p"], space["n"]]
    return tuple(sorted(found, key=lambda x: order.index(x.low) if x.low in order else len(order)))


def _walk(first: Expr, place: Expr) -> Theorem:
    """A copy in mode im2col::w counts T pixels a row, from `lead` pixels left of its start on; so do the lanes."""
    inside = Mod(z.lane, z.WINDOW) if place.has(Mod(z.lane, z.WINDOW)) else z.lane
    at = first.xreplace({z.window: FloorDiv(z.lane, z.WINDOW)})
    counted = z.T * FloorDiv(at, z.T) + (Mod(at, z.T) - z.lead) + inside
    return proved(
        "pixel i of the walk from start is place t0 + i of the stream: both count T pixels a row",
        [(counted, place - z.lead)],
    )
