"""Named changes of a loop nest, each checked: the changed nest adds the same products to the same outputs.

Every rewrite takes a nest and gives a `Step`: the new nest and a `Proof`, or a `Counterexample` that says which
product went wrong. It is checked twice. The algebra looks at the index expressions, whatever the extents; and where
the nest is small enough (`products.POINTS`), both nests are run and everything they add up is compared.

The rewrites here change loops: `interchange`, `flatten`, `tile` and `split_taps`; those of
`convc.explain.reuse_rewrites` change what is kept between iterations.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from convc.compiler.index.algebra import equal, simplify
from convc.compiler.index.linear import Expr, Integer, Symbol
from convc.compiler.index.lower import translate
from convc.compiler.index.maps import Counterexample, IndexMap, Outcome, Proof, Unknown, less
from convc.compiler.index.presburger import clash, missed
from convc.compiler.index.row_stream import WINDOW, LaneTile
from convc.compiler.index.symbols import Axis, FloorDiv, Mod
from convc.explain.nests import Load, Nest, Read, Statement
from convc.explain.products import POINTS, same_products
from convc.ir import expr as intexpr


class Step(msgspec.Struct, frozen=True):
    """A rewrite that was tried.

    Attributes:
        name: the rewrite, with what it was told.
        nest: what it makes.
        outcome: whether that does the same.
        ran: what running both nests showed; empty where that was not done.
    """

    name: str
    nest: Nest
    outcome: Outcome
    ran: str = ""

    @property
    def ok(self) -> bool:
        """Whether it was proved."""
        return isinstance(self.outcome, Proof)


def checked(name: str, before: Nest, after: Nest, algebra: Outcome) -> Step:
    """A step: refused where something is read before it is known, by the algebra, or by running both nests.

    They are run where they are small enough (`products.POINTS`).
    """
    if unknown := after.out_of_scope():
        return Step(name, after, Counterexample(algebra.claim, (), unknown))
    if isinstance(algebra, Counterexample) or max(before.points, after.points) > POINTS:
        return Step(name, after, algebra)
    run = same_products(before, after, algebra.claim)
    if not isinstance(run, Proof):
        return Step(name, after, run)
    return Step(name, after, algebra if isinstance(algebra, Proof) else run, run.how)


def interchange(nest: Nest, order: Iterable[str]) -> Step:
    """Put the loops in another order, outermost first; ValueError where these are not the loops.

    A sum may be taken in any order. A statement, though, belongs to an iteration of the loops that it is inside of: if
    it enters or leaves a loop, it runs more or less often than it did, and what it keeps may be lost.
    """
    order = tuple(order)
    if sorted(order) != sorted(nest.names):
        raise ValueError(f"an order of {', '.join(nest.names)} was expected, got {', '.join(order)}")
    after = replace(nest, space=replace(nest.space, domain=tuple(nest.loop(name) for name in order)))
    name = f"interchange to {', '.join(order)}"
    claim = "every output is the sum of the same products"
    for statement in nest.body:
        # A loop that is around the statement in one order only: it would run more or less often.
        changed = set(after.outside(statement.inside)) ^ set(nest.outside(statement.inside))
        if changed:
            what = f"the {type(statement).__name__.lower()} inside {statement.inside}"
            why = f"{what} enters or leaves {', '.join(sorted(changed))}"
            return checked(name, nest, after, Unknown(claim, why))
    how = "no statement enters or leaves a loop" if nest.body else "sums may be taken in any order"
    return checked(name, nest, after, Proof(claim, how))


def flatten(nest: Nest, names: tuple[str, ...], into: str, periods: tuple[int, ...]) -> Step:
    """Count several loops by one: ``into`` = (names[0]*periods[0] + names[1])*periods[1] + ...

    A period may be longer than its loop: then some values of the new loop are no iteration.
    """
    axes = [nest.loop(name) for name in names]
    # The loops are the digits of a number in a mixed radix: a digit counts `weight` iterations of the new loop.
    weight = math.prod(periods)
    number: Expr = axes[0].symbol
    last = (axes[0].extent - 1) * weight
    digits = [(axes[0].name, weight, 0)]
    for axis, period in zip(axes[1:], periods, strict=True):
        weight //= period
        number = number * period + axis.symbol
        last += (axis.extent - 1) * weight
        digits.append((axis.name, weight, period))
    # The new loop ends with the last iteration, not with the last period: the iterations after it would be none.
    new = Axis(into, last + 1)
    results: list[tuple[str, Expr]] = []
    for name, unit, period in digits:
        digit = FloorDiv(new.symbol, unit)
        results.append((name, Mod(digit, period) if period else digit))
    forward = IndexMap(name="flatten", domain=(new,), results=tuple(results))
    inverse = IndexMap(name="count", domain=tuple(axes), results=((into, number),))
    text = f"flatten ({', '.join(names)}) into {into}, with periods {', '.join(map(str, periods))}"
    return reindexed(nest, text, forward, inverse, {})


def tile(
    nest: Nest, name: str, into: tuple[str, str], size: int, notes: tuple[str, str] = ("", ""), tiles: int | None = None
) -> Step:
    """Cut a loop into tiles of `size` iterations; as many as it needs, or as many as given."""
    old = nest.loop(name)
    outer = Axis(into[0], -(-old.extent // size) if tiles is None else tiles)
    inner = Axis(into[1], size)
    forward = IndexMap(name="tile", domain=(outer, inner), results=((name, outer.symbol * size + inner.symbol),))
    inverse = IndexMap(
        name="cut",
        domain=(old,),
        results=((into[0], FloorDiv(old.symbol, size)), (into[1], Mod(old.symbol, size))),
    )
    text = f"tile {name} into {', '.join(into)} by {size}"
    return reindexed(nest, text, forward, inverse, dict(zip(into, notes, strict=True)))


def tile_windows(nest: Nest, name: str, into: tuple[str, str], shape: LaneTile, notes: tuple[str, str]) -> Step:
    """Cut a loop into tiles of windows of 32 lanes, of which only the first `shape.useful` are iterations."""
    old = nest.loop(name)
    outer = Axis(into[0], -(-old.extent // shape.outputs))
    lane = Axis(into[1], shape.lanes)
    # From a lane: its window and its place there, which is an iteration only below `useful`.
    window = FloorDiv(lane.symbol, WINDOW)
    inside = Mod(lane.symbol, WINDOW)
    forward = IndexMap(
        name="tile",
        domain=(outer, lane),
        guard=(less(inside, shape.useful),),
        results=((name, outer.symbol * shape.outputs + window * shape.useful + inside),),
    )
    # From an iteration: windows of a tile hold `useful` iterations each, and lie WINDOW lanes apart.
    place = Mod(old.symbol, shape.outputs)
    found = FloorDiv(place, shape.useful) * WINDOW + Mod(place, shape.useful)
    inverse = IndexMap(
        name="cut",
        domain=(old,),
        results=((into[0], FloorDiv(old.symbol, shape.outputs)), (into[1], found)),
    )
    text = f"tile {name} into {', '.join(into)} by {shape.windows} windows of {shape.useful} places in {WINDOW} lanes"
    return reindexed(nest, text, forward, inverse, dict(zip(into, notes, strict=True)))


def split_taps(nest: Nest, cycle: int) -> Step:
    """Filter columns by the buffer they share: s = tap*cycle + buffer, for cycle = u / gcd(u, d).

    Columns share a buffer exactly if their offsets s*d are the same modulo the stride u (see
    `convc.compiler.index.row_walk`).
    """
    s = nest.loop("s")
    buffer = Axis("buffer", min(cycle, s.extent))
    tap = Axis("tap", -(-s.extent // cycle))
    forward = IndexMap(name="split", domain=(buffer, tap), results=(("s", tap.symbol * cycle + buffer.symbol),))
    inverse = IndexMap(
        name="share",
        domain=(s,),
        results=(("buffer", Mod(s.symbol, cycle)), ("tap", FloorDiv(s.symbol, cycle))),
    )
    notes = {"buffer": "filter columns that share their pixels", "tap": "of the buffer"}
    return reindexed(nest, f"split_taps: s into buffer, tap by s*d modulo u, cycle {cycle}", forward, inverse, notes)


def reindexed(nest: Nest, name: str, forward: IndexMap, inverse: IndexMap, notes: dict[str, str]) -> Step:
    """Replace neighbouring loops: `forward` computes the old ones from the new ones, `inverse` the other way round.

    ValueError where the loops are no neighbours, or a statement stands between them.
    """
    old = tuple(axis.name for axis in inverse.domain)
    first = nest.names.index(old[0])
    if nest.names[first : first + len(old)] != old:
        raise ValueError(f"{', '.join(old)} are not neighbours among {', '.join(nest.names)}: interchange them first")
    if between := [each.inside for each in nest.body if each.inside in old[:-1]]:
        raise ValueError(f"a statement inside {between[0]} stands between the loops {', '.join(old)}")
    loops = (*nest.loops[:first], *forward.domain, *nest.loops[first + len(old) :])
    # compose() puts the new axes where it likes: they belong where the old ones stood.
    space = replace(nest.space.compose(forward, "space").simplified(), domain=loops)
    body = tuple(_put_inside(each, old[-1], forward) for each in nest.body)
    read = None if nest.read is None else _read_after(nest.read, forward, inverse.domain)
    words = tuple(note for note in (*nest.notes, *notes.items()) if note[0] not in old)
    after = replace(nest, space=space, body=body, read=read, notes=words)
    return checked(name, nest, after, one_to_one(forward, inverse))


def _read_after(read: Read, forward: IndexMap, old: tuple[Axis, ...]) -> Read:
    """The read in the symbols of the new loops."""
    put = {axis.symbol: forward[axis.name] for axis in old}
    tile_m = None if read.tile_m is None else read.tile_m.xreplace(put)
    return replace(read, row=read.row.xreplace(put), tile_m=tile_m)


def _put_inside(statement: Statement, innermost: str, forward: IndexMap) -> Statement:
    """The statement among the new loops: inside the last of them, where it was inside the last of the old ones."""
    if isinstance(statement, Load):
        statement = replace(statement, map=statement.map.compose(forward, statement.map.name).simplified())
    inside = forward.domain[-1].name if statement.inside == innermost else statement.inside
    return replace(statement, inside=inside)


def one_to_one(forward: IndexMap, inverse: IndexMap) -> Outcome:
    """Whether every old iteration is one new one: each map undoes the other, or else all are counted."""
    claim = f"every ({_axes(inverse)}) is one ({_axes(forward)})"
    there = all(_undone(forward[axis.name], axis, forward.domain, inverse) for axis in inverse.domain)
    back = all(_undone(inverse[axis.name], axis, inverse.domain, forward) for axis in forward.domain)
    extents = {axis.name: axis.range for axis in forward.domain}
    if there and back and isinstance(inverse.prove_in(extents), Proof):
        undo = ", ".join(f"{name} = {translate(expr)}" for name, expr in inverse.results)
        return Proof(claim, undo)
    return _decided(forward, inverse.domain, claim)


def _undone(expr: Expr, axis: Axis, domain: tuple[Axis, ...], other: IndexMap) -> bool:
    """Whether an expression in the axes of one map, which the other map computes, is the axis again."""
    # An axis of one value is that number: the algebra compares expressions, and does not look at extents.
    single: dict[Symbol, Expr] = {each.symbol: Integer(each.first) for each in other.domain if each.extent == 1}
    computed = {each.symbol: other[each.name].xreplace(single) for each in domain}
    again = simplify(expr.xreplace(computed), other.ranges)
    return equal(again, axis.symbol if axis.extent > 1 else Integer(axis.first))


def _decided(forward: IndexMap, old: tuple[Axis, ...], claim: str) -> Outcome:
    """Whether every old iteration is visited, and none twice; the counterexample is an old iteration."""
    wanted = {axis.name: axis.range for axis in old}
    found = [translate(forward[name]) for name in wanted]
    inside = list(forward.conditions)
    for value, (low, high) in zip(found, wanted.values(), strict=True):
        inside += [intexpr.Less(intexpr.Const(low - 1), value), intexpr.Less(value, intexpr.Const(high + 1))]
    left_out = missed(wanted, [intexpr.Var(name) for name in wanted], forward.ranges, inside, found)
    if left_out is not None:
        return Counterexample(claim, tuple(left_out.items()), "it is left out")
    pair = clash(forward.ranges, inside, found)
    if pair is not None:
        point = {name: intexpr.evaluate(value, pair[0]) for name, value in zip(wanted, found, strict=True)}
        return Counterexample(claim, tuple(point.items()), "it is visited more than once")
    return Proof(claim, "each is visited, and none twice")


def _axes(index_map: IndexMap) -> str:
    """Names of the axes that a map runs over."""
    return ", ".join(axis.name for axis in index_map.domain)
