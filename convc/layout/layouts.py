"""A layout: a shape and as many strides, which together are a function from coordinates to offsets.

A coordinate of a mode is a number or, where the mode has modes inside, a coordinate of each of them. A number is taken
apart with the first mode fastest, and the last mode takes what is left over, so that a layout goes on behind its size
as CuTe's do.
"""

from __future__ import annotations

from dataclasses import dataclass

from convc.errors import InputError
from convc.layout.extents import Extent, at_most, product, total
from convc.layout.tuples import Nested, compact, congruent, depth, leaves, nested, size, text, unwrapped

MOST_OFFSETS = 1 << 22
"""Offsets that are listed at most."""


@dataclass(frozen=True, slots=True, repr=False)
class Layout:
    """A shape with strides, CuTe's ``Shape:Stride``; `convc.layout.parse` reads the notation, ``str`` writes it.

    Attributes:
        shape: positive whole numbers or expressions of sympy, nested in tuples.
        stride: as many numbers, nested alike; by default those of elements behind each other, the first mode fastest.

    Raises:
        InputError: shape and stride are nested differently, or an extent is not positive.
    """

    shape: Nested
    stride: Nested = ()

    def __post_init__(self) -> None:
        shape = nested(self.shape)
        stride = nested(self.stride)
        if stride == () and shape != ():
            stride = compact(shape)
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "stride", stride)
        if not congruent(shape, stride):
            raise InputError(
                f"expected strides that are nested as the shape {text(shape)} is, got {text(stride)}",
                hint=f"{text(shape)}:{text(compact(shape))} has its elements behind each other",
            )
        for number, each in enumerate(leaves(shape)):
            if not at_most(1, each):
                raise InputError(f"expected extents of 1 or more, got {each} as number {number} of {text(shape)}")

    @property
    def size(self) -> Extent:
        """Coordinates."""
        return size(self.shape)

    @property
    def cosize(self) -> Extent:
        """The span of the offsets: the largest one and 1, where no stride is negative."""
        spans = [product(extent - 1, _magnitude(stride)) for extent, stride in self.pairs]
        return total(1, *spans)

    @property
    def rank(self) -> int:
        """Modes at the top; a number has one."""
        return len(self.shape) if isinstance(self.shape, tuple) else 1

    @property
    def depth(self) -> int:
        """The depth to which modes are nested: 0 of a number."""
        return depth(self.shape)

    @property
    def modes(self) -> tuple[Layout, ...]:
        """The modes at the top, each a layout."""
        if isinstance(self.shape, tuple) and isinstance(self.stride, tuple):
            return tuple(map(Layout, self.shape, self.stride))
        return (self,)

    @property
    def pairs(self) -> list[tuple[Extent, Extent]]:
        """Extent and stride of every number, from left to right."""
        return list(zip(leaves(self.shape), leaves(self.stride), strict=True))

    def __call__(self, *coordinate: object) -> Extent:
        """The offset of a coordinate, which may be one number for several modes: ``layout(5)``, ``layout(1, (0, 2))``.

        Raises:
            InputError: the coordinate has other modes than the layout, is negative, or needs symbols' values.
        """
        return _offset(self, nested(unwrapped(coordinate)), self)  # pyright: ignore[reportArgumentType]

    def coordinate(self, index: int) -> Nested:
        """The coordinate of the index-th element, the first mode fastest; the inverse of `index`."""
        return _taken_apart(self.shape, index, self)

    def index(self, *coordinate: object) -> Extent:
        """The number of the element at a coordinate, the first mode fastest."""
        return Layout(self.shape)(*coordinate)

    def offsets(self) -> list[int]:
        """The offsets of all coordinates, the first mode fastest.

        Raises:
            InputError: there are symbols, or more than `MOST_OFFSETS` offsets.
        """
        if not isinstance(self.size, int):
            raise InputError(f"the offsets of {self} depend on {self.size}: expected numbers, got symbols")
        if self.size > MOST_OFFSETS:
            raise InputError(f"{self} has {self.size} offsets, of which at most {MOST_OFFSETS} are listed")
        found = [0]
        for extent, stride in self.pairs:
            if not isinstance(extent, int) or not isinstance(stride, int):
                raise InputError(f"the offsets of {self} depend on {stride}: expected numbers, got symbols")
            found = [offset + stride * step for step in range(extent) for offset in found]
        return found

    def __str__(self) -> str:
        return f"{text(self.shape)}:{text(self.stride)}"

    def __repr__(self) -> str:
        return f"<Layout {self}>"


def concatenated(*layouts: Layout) -> Layout:
    """The layout that has these as its modes."""
    return Layout(tuple(each.shape for each in layouts), tuple(each.stride for each in layouts))


def flat(pairs: list[tuple[Extent, Extent]]) -> Layout:
    """The layout of some extents and strides: a number of one, ``1:0`` of none."""
    pairs = pairs or [(1, 0)]
    return Layout(unwrapped([extent for extent, _ in pairs]), unwrapped([stride for _, stride in pairs]))


def _magnitude(stride: Extent) -> Extent:
    return abs(stride) if isinstance(stride, int) else stride


def _offset(layout: Layout, coordinate: Nested, whole: Layout) -> Extent:
    modes = layout.modes
    if not isinstance(coordinate, tuple):
        if not isinstance(layout.shape, tuple):
            if isinstance(coordinate, int) and coordinate < 0:
                raise InputError(f"expected coordinates of {whole} from 0 on, got {coordinate}")
            return product(coordinate, layout.stride)  # pyright: ignore[reportArgumentType]
        coordinate = _taken_apart(layout.shape, coordinate, whole)
        assert isinstance(coordinate, tuple)
    elif not isinstance(layout.shape, tuple):
        raise InputError(f"expected a number for mode {layout} of {whole}, got the coordinate {text(coordinate)}")
    if len(coordinate) != len(modes):
        raise InputError(f"expected a coordinate of {len(modes)} modes for {layout}, got {text(coordinate)}")
    return total(*(_offset(mode, each, whole) for mode, each in zip(modes, coordinate, strict=True)))


def _taken_apart(shape: Nested, index: Nested, whole: Layout) -> Nested:
    if not isinstance(shape, tuple):
        return index
    numbers = [size(mode) for mode in shape[:-1]]
    if not isinstance(index, int) or index < 0:
        raise InputError(f"expected an index of {whole} from 0 on, got {index}")
    taken: list[Nested] = []
    for mode, count in zip(shape, [*numbers, 0], strict=False):
        if not isinstance(count, int):
            raise InputError(f"which coordinate of {whole} the index {index} is depends on {count}")
        taken.append(_taken_apart(mode, index % count if count else index, whole))
        index = index // count if count else 0
    return tuple(taken)
