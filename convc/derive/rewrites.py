"""Named changes of a loop nest that add the same products to the same outputs, each with its theorem or its refusal.

A rewrite takes a nest and gives the changed one, whose last `RewriteStep` has the theorems that prove the change and
the conditions that a problem has to meet; or it raises `Refused` with what does not hold. Those here change loops;
those that change what is kept between iterations are in `convc.derive.reuse`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sympy import Expr, S, Symbol

from convc.derive import symbols as z
from convc.derive.algebra import expanded
from convc.derive.nests import GRADIENT_SUMMED, SUMMED, Load, Loop, Nest, RewriteStep, put, unknown
from convc.derive.symbols import FloorDiv, Mod
from convc.derive.theorem import Bound, Either, Refused, at_most, below, proved


def done(nest: Nest, step: RewriteStep, **changes: object) -> Nest:
    """The nest with some changes, and the step that made them."""
    return replace(nest, steps=(*nest.steps, step), **changes)


def interchange(nest: Nest, order: Sequence[Symbol]) -> Nest:
    """Put the loops in another order, outermost first.

    A sum may be taken in any order. A statement, though, belongs to an iteration of the loops that it is inside of:
    where it enters or leaves a loop it runs more or less often than it did, and what it keeps may be lost.
    """
    name = f"interchange to {', '.join(map(str, order))}"
    if sorted(order, key=str) != sorted(nest.axes, key=str):
        raise Refused(name, f"the loops are {', '.join(map(str, nest.axes))}")
    after = replace(nest, loops=tuple(nest.loop(axis, name) for axis in order))
    for what, inside in statements(nest):
        moved = after.known(inside) ^ nest.known(inside)
        if moved:
            raise Refused(name, f"the {what} inside {inside} enters or leaves {', '.join(sorted(map(str, moved)))}")
    why = "no statement enters or leaves a loop" if statements(nest) else "a sum may be taken in any order"
    return done(after, RewriteStep(name=name, why=why))


def statements(nest: Nest) -> list[tuple[str, Symbol]]:
    """List the statements of a nest, each with the loop that it stands inside of."""
    found = [("sum", nest.accumulate)] if nest.accumulate is not None else []
    return found + [(type(each).__name__.lower(), each.inside) for each in (nest.load, nest.move) if each is not None]


def reindexed(
    nest: Nest,
    step: RewriteStep,
    old: Sequence[Symbol],
    new: Sequence[Loop],
    values: Mapping[Symbol, Expr],
    guard: Sequence[Bound] = (),
) -> Nest:
    """Put new loops in the place of old ones, which are neighbours."""
    for axis in old:
        nest.loop(axis, step.name)
    first = nest.axes.index(old[0])
    if nest.axes[first : first + len(old)] != tuple(old):
        raise Refused(step.name, f"{', '.join(map(str, old))} are no neighbours in {', '.join(map(str, nest.axes))}")
    _check_axes(nest, step.name, old, new)
    for what, around in statements(nest):
        if around in old[:-1]:
            raise Refused(step.name, f"a {what} stands inside of {around}, which is counted with others")
    if nest.masks:
        raise Refused(step.name, "lanes are masked by its loops")

    def inside(expr: Expr) -> Expr:
        return expr.xreplace(dict(values))

    def within(around: Symbol) -> Symbol:
        """The loop that a statement is inside of: that of the innermost old one becomes that of the innermost new."""
        return new[-1].axis if around == old[-1] else around

    load = nest.load
    move = nest.move
    if load is not None:
        since = None if load.since is None else inside(load.since)
        load = replace(load, inside=within(load.inside), pixel=put(load.pixel, values), since=since)
    if move is not None:
        move = replace(move, inside=within(move.inside))
    found = done(
        nest,
        step,
        loops=(*nest.loops[:first], *new, *nest.loops[first + len(old) :]),
        space=put(nest.space, values),
        guard=(*(replace(x, low=inside(x.low), high=inside(x.high)) for x in nest.guard), *guard),
        accumulate=None if nest.accumulate is None else within(nest.accumulate),
        load=load,
        move=move,
        read=None if nest.read is None else inside(nest.read),
    )
    _check_load(found, step.name)
    return found


def _check_axes(nest: Nest, who: str, old: Sequence[Symbol], new: Sequence[Loop]) -> None:
    """Refuse new loops that count what another loop does, or no axis."""
    taken = {each.axis for each in new} & {axis for axis in nest.axes if axis not in old}
    if taken:
        raise Refused(who, f"there is a loop {', '.join(sorted(map(str, taken)))} already")
    if len({each.axis for each in new}) < len(new) or any(each.axis.name not in z.AXES for each in new):
        raise Refused(who, f"{', '.join(str(each.axis) for each in new)} are no axes, one for each loop")


def _check_load(nest: Nest, who: str) -> None:
    """Refuse a load of pixels that depend on loops further in."""
    load = nest.load
    if load is not None:
        known = nest.known(load.inside) | {load.row, z.e} | {let.axis for let in nest.lets}
        if unread := unknown(load.pixel.values(), known):
            raise Refused(who, f"a pixel that is loaded depends on {', '.join(sorted(unread))}, not known there")


def flatten(nest: Nest, digits: Sequence[Symbol], into: Symbol, periods: Sequence[Expr], words: str = "") -> Nest:
    """Count several loops by one: into = (digit 0 * period 0 + digit 1) * period 1 + ...

    A period may be longer than its loop; then some values of the new loop are no iteration. It ends with the last that
    is one.
    """
    loops = [nest.loop(digit, f"flatten into {into}") for digit in digits]
    number: Expr = digits[0]
    for digit, period in zip(digits[1:], periods, strict=True):
        number = number * period + digit
    weight: Expr = S.One
    values: dict[Symbol, Expr] = {}
    for digit, period in zip(reversed(digits[1:]), reversed(periods), strict=True):
        values[digit] = Mod(into if weight == 1 else FloorDiv(into, weight), period)
        weight = weight * period
    values[digits[0]] = FloorDiv(into, weight)
    back = {into: number}
    name = f"flatten {', '.join(map(str, digits))} into {into}, periods {', '.join(map(str, periods))}"
    given = [below(digit, period) for digit, period in zip(digits[1:], periods, strict=True)]
    there = proved(
        f"the digits of {into} = {expanded(number)} are {', '.join(map(str, digits))}",
        [(values[digit].xreplace(back), digit) for digit in digits],
        given,
    )
    again = proved(f"{into} is the number of its digits", [(number.xreplace(values), into)])
    conditions = [
        at_most(loop.extent, period, f"period {period} >= {loop.extent}")
        for loop, period in zip(loops[1:], periods, strict=True)
        if loop.extent != period
    ]
    extent = expanded(number.xreplace({loop.axis: loop.extent - 1 for loop in loops}) + 1)
    reach = proved(
        f"no iteration lies past {into} = {extent - 1}",
        [below(number, extent)],
        [below(loop.axis, loop.extent) for loop in loops],
    )
    if not conditions:  # each value is an iteration
        step = RewriteStep(name=name, theorems=(there, again, reach))
        return reindexed(nest, step, digits, (Loop(axis=into, extent=extent, words=words),), values)
    lengths = (None, *periods)
    guard = [
        below(values[loop.axis], loop.extent)
        for loop, period in zip(loops, lengths, strict=True)
        if loop.extent != period
    ]
    step = RewriteStep(name=name, theorems=(there, again, reach), conditions=tuple(conditions))
    return reindexed(nest, step, digits, (Loop(axis=into, extent=extent, words=words, guarded=True),), values, guard)


def tile(nest: Nest, old: Symbol, outer: Loop, inner: Loop) -> Nest:
    """Cut a loop into tiles of as many iterations as the inner loop has."""
    name = f"tile {old} into {outer.axis}, {inner.axis} by {inner.extent}"
    cut = nest.loop(old, name)
    extent = cut.extent
    number = outer.axis * inner.extent + inner.axis
    by = inner.extent
    theorem = proved(
        f"{old} = {number} is one ({outer.axis}, {inner.axis})",
        [
            (FloorDiv(number, by), outer.axis),
            (Mod(number, by), inner.axis),
            (FloorDiv(old, by) * by + Mod(old, by), old),
        ],
        [below(inner.axis, by)],
    )
    reach = at_most(extent, outer.extent * by, f"{outer.extent} tiles of {by} reach the last {old}")
    step = RewriteStep(name=name, theorems=(theorem,), conditions=(reach,))
    guard = () if cut.guarded else (below(number, extent),)
    return reindexed(nest, step, (old,), (outer, inner), {old: number}, guard)


def lengthen(nest: Nest, axis: Symbol, extent: Expr, guard: Sequence[Bound]) -> Nest:
    """Let a loop go on, so that a grid may be rounded up: a guard leaves out what lies behind its last iteration."""
    name = f"lengthen {axis} to {extent}"
    loop = nest.loop(axis, name)
    longer = at_most(loop.extent, extent, f"{extent} tiles or more")
    theorem = proved(
        f"the guard keeps the first {loop.extent}",
        [at_most(each.high, each.low) for each in guard],
        [at_most(loop.extent, axis)],
    )
    loops = tuple(replace(x, extent=extent) if x.axis == axis else x for x in nest.loops)
    step = RewriteStep(name=name, theorems=(theorem,), conditions=(longer,))
    return done(nest, step, loops=loops, guard=(*nest.guard, *guard))


def tile_windows(nest: Nest, old: Symbol, outer: Loop, inner: Loop) -> Nest:
    """Cut a loop into tiles of windows that overlap: of the lanes of each only the first are iterations."""
    name = f"tile {old} into {outer.axis}, {inner.axis} by {z.WINDOWS} windows of {z.USEFUL} places"
    cut = nest.loop(old, name)
    extent = cut.extent
    each = z.WINDOWS * z.USEFUL
    place = z.axis("i")
    at = outer.axis * each + FloorDiv(inner.axis, z.WINDOW) * z.USEFUL + Mod(inner.axis, z.WINDOW)
    of_lane = {inner.axis: z.window * z.WINDOW + place}
    spelt = outer.axis * each + z.window * z.USEFUL + place
    fits = at_most(z.USEFUL, z.WINDOW, f"{z.USEFUL} places fit a window")
    inside = below(place, z.USEFUL)
    lanes = proved(
        "a lane is one window and one place in it",
        [
            (FloorDiv(of_lane[inner.axis], z.WINDOW), z.window),
            (Mod(of_lane[inner.axis], z.WINDOW), place),
            (at.xreplace(of_lane), spelt),
        ],
        [inside, fits],
    )
    numbers = proved(
        f"{old} = {spelt} is one (tile, window, place)",
        [
            (FloorDiv(spelt, each), outer.axis),
            (FloorDiv(Mod(spelt, each), z.USEFUL), z.window),
            (Mod(spelt, z.USEFUL), place),
        ],
        [inside, below(z.window, z.WINDOWS)],
    )
    reach = at_most(extent, outer.extent * each, f"{outer.extent} tiles of {each} reach the last {old}")
    words = f"a tile has {z.WINDOWS} windows"
    whole = (at_most(inner.extent, z.WINDOW * z.WINDOWS, words), at_most(z.WINDOW * z.WINDOWS, inner.extent, words))
    step = RewriteStep(name=name, theorems=(lanes, numbers), conditions=(fits, *whole, reach))
    guard = [below(Mod(inner.axis, z.WINDOW), z.USEFUL), *(() if cut.guarded else (below(at, extent),))]
    return reindexed(nest, step, (old,), (outer, inner), {old: at}, guard)


def split(nest: Nest, old: Symbol, slow: Loop, fast: Loop, cycle: Expr) -> Nest:
    """Count a loop by old = slow*cycle + fast, the fast loop outside: columns of the filter by their buffer."""
    name = f"split {old} = {slow.axis}*{cycle} + {fast.axis}"
    extent = nest.loop(old, name).extent
    number = slow.axis * cycle + fast.axis
    theorem = proved(
        f"{old} = {number} is one ({slow.axis}, {fast.axis})",
        [
            (FloorDiv(number, cycle), slow.axis),
            (Mod(number, cycle), fast.axis),
            (FloorDiv(old, cycle) * cycle + Mod(old, cycle), old),
        ],
        [below(fast.axis, cycle)],
    )
    conditions = (
        at_most(fast.extent, cycle, f"no more than {cycle} buffers"),
        Either((at_most(cycle, fast.extent), at_most(extent, fast.extent)), f"a buffer for each {old} mod {cycle}"),
        at_most(extent, slow.extent * cycle, f"{slow.extent} columns a buffer reach the last {old}"),
    )
    step = RewriteStep(name=name, theorems=(theorem,), conditions=conditions)
    return reindexed(nest, step, (old,), (fast, slow), {old: number}, [below(number, extent)])


def one_group(nest: Nest) -> Nest:
    """All channels of a tile are of one group, since tiles of output channels divide a group."""
    name = f"a tile of {z.BN} channels is in one group"
    number = nest.space["k"]
    theorem = proved(
        f"channel {number} is in group {z.tile_n} // {z.GROUP_TILES}, where a group has {z.GROUP_TILES} tiles",
        [(FloorDiv(number, z.GROUP_TILES * z.BN), FloorDiv(z.tile_n, z.GROUP_TILES))],
        [below(z.column, z.BN)],
    )
    words = "tiles of output channels divide a group, or there is one"
    whole = z.GROUP_TILES * z.BN
    one = at_most(z.K, z.K_g)
    all_of_it = at_most(z.TILES_N, z.GROUP_TILES)
    divide = tuple(
        Either((first, then), words)
        for first in (one, all_of_it)
        for then in (at_most(z.K_g, whole), at_most(whole, z.K_g))
    )
    step = RewriteStep(name=name, theorems=(theorem,), conditions=divide)
    return done(nest, step, space={**nest.space, "group": FloorDiv(z.tile_n, z.GROUP_TILES)})


def accumulate(nest: Nest, inside: Symbol) -> Nest:
    """Keep the sums of an iteration of a loop in an accumulator: cleared before it, stored behind it."""
    name = f"accumulate inside {inside}"
    nest.loop(inside, name)
    summed = GRADIENT_SUMMED if nest.updates == "w" else SUMMED
    summing = {symbol for each in summed for symbol in nest.space[each].free_symbols}
    outside = summing & nest.known(inside)
    if outside:
        axes = ", ".join(sorted(map(str, outside)))
        raise Refused(name, f"the sum runs over {axes} too: it would go on after it was stored, and begin with zero")
    return done(nest, RewriteStep(name=name, why=f"the loops of its sum run inside of {inside}"), accumulate=inside)


def stage(nest: Nest, inside: Symbol, words: str = "") -> Nest:
    """Load the pixels of an iteration of a loop as a tile, a row a lane."""
    name = f"stage pixels inside {inside}"
    lane = nest.loop(z.lane, name)
    nest.loop(inside, name)
    pixel = nest.pixel()
    unread = unknown(pixel.values(), nest.known(inside) | {z.lane, z.e})
    if unread:
        raise Refused(name, f"a pixel depends on {', '.join(sorted(unread))}, which is not known there")
    load = Load(inside=inside, row=z.lane, rows=lane.extent, pixel=pixel, words=words)
    step = RewriteStep(name=name, why=f"a pixel depends on {lane.axis}, {z.e} and on loops around {inside} alone")
    return done(nest, step, load=load, read=z.lane)


def swap(nest: Nest) -> Nest:
    """Multiply weights by pixels: the transposed product, a lane an output channel and a column a pixel."""
    name = "swap the operands"
    if nest.read is None:
        raise Refused(name, "pixels are read where they lie: stage them first")
    lane = nest.loop(z.lane, name)
    column = nest.loop(z.column, name)
    assert nest.load is not None
    if any(z.column in expr.free_symbols for expr in nest.load.pixel.values()):
        raise Refused(name, f"the pixel that is loaded depends on {z.column}")
    turn: dict[Symbol, Expr] = {z.lane: z.column, z.column: z.lane}
    extents = {z.lane: column.extent, z.column: lane.extent}
    words = {z.lane: column.words, z.column: lane.words}

    def turned(expr: Expr) -> Expr:
        return expr.xreplace(turn)

    return done(
        nest,
        RewriteStep(name=name, why="(A*B)' = B'*A'"),
        loops=tuple(
            replace(x, extent=extents.get(x.axis, x.extent), words=words.get(x.axis, x.words)) for x in nest.loops
        ),
        space=put(nest.space, turn),
        guard=tuple(replace(x, low=turned(x.low), high=turned(x.high)) for x in nest.guard),
        read=turned(nest.read),
        masks=tuple(
            replace(x, need=turned(x.need), held=turned(x.held), since=None if x.since is None else turned(x.since))
            for x in nest.masks
        ),
        swapped=not nest.swapped,
    )
