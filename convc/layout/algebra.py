"""The algebra of layouts on which all else stands: coalesce, composition, complement, inverses, recast.

The rules are those of CuTe's documentation ("CuTe Layout Algebra"). A composition is refused where its postcondition
``R(c) = A(B(c))`` cannot be kept, also where it is the sum of two modes of B that passes the end of a mode of A.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias, overload

from convc.errors import InputError
from convc.layout.extents import Extent, at_most, divides, product, quotient, same, shown, total
from convc.layout.layouts import Layout, concatenated, flat
from convc.layout.swizzled import Composed, Swizzle
from convc.layout.tuples import Nested

Tiler: TypeAlias = "Layout | Extent | Sequence[Tiler]"
"""A layout; a number n for the layout n:1; or one of these for each mode."""

Pairs: TypeAlias = "list[tuple[Extent, Extent]]"

MULTIPLES = "an extent that is a multiple is written as one, such as 64*m"


def coalesce(layout: Layout, profile: Nested = 0) -> Layout:
    """The simplest layout with the same offsets on the same indices.

    Args:
        layout: any.
        profile: a number for the layout as a whole; a tuple of these to do each mode by itself.
    """
    if not isinstance(profile, tuple):
        return flat(merged([pair for pair in layout.pairs if not same(pair[0], 1)]))
    modes = layout.modes
    done = [coalesce(mode, inner) for mode, inner in zip(modes, profile, strict=False)]
    return concatenated(*done, *modes[len(done) :])


def merged(pairs: Pairs) -> Pairs:
    """Modes of which each that goes on where the one before it ends is one with it."""
    done: Pairs = []
    for extent, stride in pairs:
        if done and same(product(*done[-1]), stride):
            done[-1] = (product(done[-1][0], extent), done[-1][1])
        else:
            done.append((extent, stride))
    return done


@overload
def composition(outer: Layout, inner: Tiler) -> Layout: ...


@overload
def composition(outer: Composed | Swizzle, inner: Tiler) -> Composed: ...


def composition(outer: Layout | Composed | Swizzle, inner: Tiler) -> Layout | Composed:
    """The layout R with ``R(c) = outer(inner(c))``, whose shape is that of ``inner`` or finer.

    Args:
        outer: a layout, which goes on behind its size; or a swizzle, or a layout behind one.
        inner: a layout, or a tiler: a number or a layout for each of the first modes of ``outer``.

    Raises:
        InputError: there is no such layout, or whether there is depends on symbols.
    """
    if isinstance(outer, Swizzle):
        return Composed(swizzle=outer, layout=as_layout(inner))
    if isinstance(outer, Composed):
        return replace(outer, layout=composition(outer.layout, inner))
    if isinstance(inner, Sequence):
        modes = paired(outer, inner)
        done = [composition(mode, tile) for mode, tile in zip(modes, inner, strict=False)]
        return concatenated(*done)
    layout = as_layout(inner)
    walk = _Walk(outer, layout)
    found = walk.composed(layout)
    walk.check_sums()
    return found


def as_layout(tiler: Tiler) -> Layout:
    """The layout of a tiler that is one, or a number."""
    if isinstance(tiler, Sequence):
        raise InputError(f"expected a layout or a number, got a tiler of {len(tiler)} modes")
    return tiler if isinstance(tiler, Layout) else Layout(tiler, 1)


def paired(layout: Layout, tiler: Sequence[Tiler]) -> tuple[Layout, ...]:
    """The modes of a layout that a tiler of several modes is about."""
    if layout.rank < len(tiler):
        raise InputError(f"expected a tiler of at most {layout.rank} modes for {layout}, got {len(tiler)}")
    return layout.modes


class _Walk:
    """A composition on its way: through the modes of ``outer`` with each number of ``inner``."""

    def __init__(self, outer: Layout, inner: Layout) -> None:
        self.outer = outer
        self.inner = inner
        self.modes = _extended(outer)
        self.reach: list[list[Extent]] = [[] for _ in self.modes]
        """Of each mode of ``outer`` the largest coordinates that the modes of ``inner`` have there."""

    def composed(self, layout: Layout) -> Layout:
        if isinstance(layout.shape, tuple):
            return concatenated(*map(self.composed, layout.modes))
        ((extent, stride),) = layout.pairs
        return self.strided(extent, stride)

    def strided(self, extent: Extent, stride: Extent) -> Layout:
        """Every stride-th element, so many of them."""
        if same(stride, 0):
            return Layout(extent, 0)
        if isinstance(stride, int) and stride < 0:
            raise InputError(f"expected strides of 0 or more in {self.inner}, through which {self.outer} is read")
        found: Pairs = []
        for number, (length, step) in enumerate(self.modes):
            last = number == len(self.modes) - 1
            span = product(extent - 1, stride)
            if last or at_most(total(span, 1), length):
                found.append((extent, product(stride, step)))
                self.reach[number].append(span)
                break
            if divides(length, stride):
                stride = quotient(stride, length)
                continue
            taken = self.taken(number, extent, stride)
            found.append((taken, product(stride, step)))
            self.reach[number].append(product(taken - 1, stride))
            extent = quotient(extent, taken)
            stride = 1
        return flat(merged(found))

    def taken(self, number: int, extent: Extent, stride: Extent) -> Extent:
        """How many of the elements lie in a mode that not all of them lie in."""
        length, _ = self.modes[number]
        fits = divides(stride, length)
        if fits:
            taken = quotient(length, stride)
            fits = divides(taken, extent)
            if fits:
                return taken
        where = f"mode {number} of {flat(self.modes)}"
        what = f"{extent}:{stride}, what is left of {self.inner}"
        doubt = "does not fit into" if fits is False else "cannot be seen to fit into"
        raise InputError(
            f"cannot compose {self.outer} with {self.inner}: {what}, {doubt} {where}: expected a stride that divides "
            f"{length} or is a multiple of it, and then an extent that is a multiple of what is left",
            hint="" if fits is False else MULTIPLES,
        )

    def check_sums(self) -> None:
        """Refuse modes that are each within a mode of ``outer``, and whose sum is not."""
        for number, ((length, _), reach) in enumerate(zip(self.modes[:-1], self.reach, strict=False)):
            most = total(*reach)
            fits = at_most(total(most, 1), length)
            if not fits:
                less = "less than" if fits is False else "to know that it is less than"
                raise InputError(
                    f"cannot compose {self.outer} with {self.inner}: its modes add up to coordinate {most} in mode "
                    f"{number} of {flat(self.modes)}: expected {less} {length}",
                    hint="modes of the layout on the right must not meet" if fits is False else MULTIPLES,
                )


def _extended(layout: Layout) -> Pairs:
    """The modes of a layout, as few as there may be for the layout to go on behind its size as it does."""
    pairs = layout.pairs or [(1, 0)]
    return merged([pair for pair in pairs[:-1] if not same(pair[0], 1)] + pairs[-1:])


def complement(layout: Layout, size: Extent = 1) -> Layout:
    """The layout of what ``layout`` leaves out of ``size`` offsets: both together are injective and reach as far.

    Raises:
        InputError: offsets of the layout repeat, its strides do not fill up, or symbols leave it open.
    """
    what = f"the complement of {layout} up to {shown(size)}"
    rest: Pairs = []
    reached: Extent = 1
    for extent, stride in _sorted(layout, what):
        filled = divides(reached, stride)
        if not filled:
            raise _refused(
                what, f"a stride that is a multiple of {reached}, which lies below {extent}:{stride}", filled
            )
        rest.append((quotient(stride, reached), reached))
        reached = product(extent, stride)
    rest.append((_repeats(size, reached, what), reached))
    return coalesce(flat(rest))


def _repeats(size: Extent, reached: Extent, what: str) -> Extent:
    """How often so many offsets are needed to reach a size, rounded up."""
    if isinstance(size, int) and isinstance(reached, int):
        return -(-size // reached)
    if at_most(size, reached):
        return 1
    whole = divides(reached, size)
    if not whole:
        raise _refused(what, f"a multiple of {reached} that the offsets go up to", whole)
    return quotient(size, reached)


def _sorted(layout: Layout, what: str) -> Pairs:
    """The modes that change the offset, by their strides, and by extents where these are the same."""
    pairs = [pair for pair in layout.pairs if not same(pair[0], 1) and not same(pair[1], 0)]
    done: Pairs = []
    for extent, stride in pairs:
        if not at_most(1, stride):
            raise _refused(what, "strides that are not negative", False if isinstance(stride, int) else None)
        place = 0
        while place < len(done) and _before(done[place], (extent, stride), what):
            place += 1
        done.insert(place, (extent, stride))
    return done


def _before(one: tuple[Extent, Extent], other: tuple[Extent, Extent], what: str) -> bool:
    if same(one[1], other[1]):
        return bool(at_most(one[0], other[0]))
    smaller = at_most(one[1], other[1])
    if smaller is None and at_most(other[1], one[1]):
        return False
    if smaller is None:
        raise _refused(what, f"to know which of the strides {one[1]} and {other[1]} is larger", None)
    return smaller


def _refused(what: str, expected: str, answer: bool | None) -> InputError:
    if answer is False:
        return InputError(f"there is no layout for {what}: expected {expected}")
    return InputError(f"whether there is a layout for {what} depends on symbols: expected {expected}", hint=MULTIPLES)


def right_inverse(layout: Layout) -> Layout:
    """A layout R, as large as strides go on without a hole, with ``layout(R(i)) = i`` for every i below its size."""
    what = f"the right inverse of {layout}"
    below: dict[int, Extent] = {}
    before: Extent = 1
    pairs = layout.pairs
    for number, (extent, _) in enumerate(pairs):
        below[number] = before
        before = product(before, extent)
    found: Pairs = []
    reached: Extent = 1
    for extent, stride in _sorted(layout, what):
        if same(stride, reached):
            number = pairs.index((extent, stride))
            found.append((extent, below[number]))
            reached = product(extent, stride)
    return coalesce(flat(found))


def left_inverse(layout: Layout) -> Layout:
    """A layout L with ``L(layout(i)) = i`` for every i below the size of ``layout``.

    Raises:
        InputError: ``layout`` is not injective, or symbols leave it open.
    """
    return right_inverse(concatenated(layout, complement(layout)))


def recast(layout: Layout, old: int, new: int) -> Layout:
    """The layout of the same bytes, whose elements of ``old`` bits are taken for elements of ``new`` bits.

    Raises:
        InputError: an element of the new type would be made of bytes that do not lie side by side.
    """
    if old < 1 or new < 1 or (old % new and new % old):
        raise InputError(f"expected bits of two types of which one is a multiple of the other, got {old} and {new}")
    if new < old and not any(same(stride, 1) for _, stride in layout.pairs):
        raise _refused(f"{layout} with elements of {new} bits in place of {old}", "a mode of stride 1", False)
    return _recast(layout, old, new, layout)


def _recast(layout: Layout, old: int, new: int, whole: Layout) -> Layout:
    if isinstance(layout.shape, tuple):
        return concatenated(*(_recast(mode, old, new, whole) for mode in layout.modes))
    ((extent, stride),) = layout.pairs
    if new <= old:
        count = old // new
        return Layout(product(extent, count), 1) if same(stride, 1) else Layout(extent, product(stride, count))
    count = new // old
    if same(stride, 0):
        return layout
    if divides(count, stride):
        return Layout(extent, quotient(stride, count))
    answer = divides(stride, count)
    if answer:
        together = quotient(count, stride)
        answer = divides(together, extent)
        if answer:
            return Layout(quotient(extent, together), 1)
    what = f"{whole} with elements of {new} bits in place of {old}"
    raise _refused(what, f"a stride and an extent in its mode {layout} that {count} divides", answer)
