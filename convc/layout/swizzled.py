"""Swizzles, and layouts behind one."""

from __future__ import annotations

from dataclasses import dataclass

from convc.errors import InputError
from convc.layout.extents import Extent
from convc.layout.layouts import Layout
from convc.layout.tuples import Nested

MOST_BITS = 32
"""Bits of an offset that a swizzle may read or change."""

UNITS = (1, 2, 4, 8, 16, 32, 64, 128)
"""Bits of an element of a pointer to shared memory."""


@dataclass(frozen=True, slots=True, repr=False)
class Swizzle:
    """CuTe's ``Sw<B,M,S>``: B bits of an offset, from bit M on, are changed by the B bits that lie S above them.

    Attributes:
        bits: B, from 0 on.
        base: M, from 0 on: so many bits below stay as they are.
        shift: S; below 0 the upper bits are changed by the lower ones. Its magnitude is B or more.
    """

    bits: int
    base: int
    shift: int

    def __post_init__(self) -> None:
        low = self.base - min(0, self.shift)
        highest = low + max(0, self.shift) + self.bits
        if self.bits < 0 or self.base < 0 or abs(self.shift) < self.bits or highest > MOST_BITS:
            raise InputError(
                f"expected Sw<B,M,S> with B and M of 0 or more, a magnitude of S of B or more, and at most {MOST_BITS} "
                f"bits, got {self}",
                hint="swizzle 128B of bytes is Sw<3,4,3>, 64B is Sw<2,4,3>, 32B is Sw<1,4,3>",
            )

    def __call__(self, offset: int) -> int:
        """The place of an offset."""
        source = self.base + max(0, self.shift)
        changed = self.base - min(0, self.shift)
        return offset ^ ((offset >> source & (1 << self.bits) - 1) << changed)

    def __str__(self) -> str:
        return f"Sw<{self.bits},{self.base},{self.shift}>"

    def __repr__(self) -> str:
        return f"<Swizzle {self}>"


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class Composed:
    """A swizzle behind a layout: ``Sw<3,4,3> o _0 o (8,64):(64,1)``.

    Attributes:
        swizzle: of the sum of offset and layout.
        layout: of coordinates.
        offset: added before the swizzle.
        unit: None, or bits of an element of shared memory, ``smem_ptr[16b](unset)`` in the notation: offsets count
            such elements, and the swizzle is of addresses in bytes; the address of another offset than 0 takes the
            place of ``unset``.
    """

    swizzle: Swizzle
    layout: Layout
    offset: int = 0
    unit: int | None = None

    def __post_init__(self) -> None:
        if self.unit is not None and self.unit not in UNITS:
            raise InputError(f"expected elements of {', '.join(map(str, UNITS))} bits in smem_ptr, got {self.unit}")

    @property
    def shape(self) -> Nested:
        """The shape of the layout."""
        return self.layout.shape

    @property
    def size(self) -> Extent:
        """Coordinates."""
        return self.layout.size

    @property
    def rank(self) -> int:
        """Modes at the top."""
        return self.layout.rank

    def __call__(self, *coordinate: object) -> int:
        """The offset of a coordinate, as `Layout` takes it."""
        inner = self.layout(*coordinate)
        if not isinstance(inner, int):
            raise InputError(f"the swizzle of {self} needs a number, got the offset {inner}")
        return self.placed(inner)

    def placed(self, inner: int) -> int:
        """The place of an offset of the layout."""
        if self.unit is None:
            return self.swizzle(self.offset + inner)
        swizzle = Swizzle(self.swizzle.bits, self.swizzle.base + 3, self.swizzle.shift)
        return swizzle((self.offset + inner) * self.unit) // self.unit

    def offsets(self) -> list[int]:
        """The offsets of all coordinates, the first mode fastest; as of `Layout`."""
        return [self.placed(each) for each in self.layout.offsets()]

    def __str__(self) -> str:
        middle = f"_{self.offset}"
        if self.unit is not None:
            address = f"{self.offset * self.unit // 8:#x}" if self.offset else "unset"
            middle = f"smem_ptr[{self.unit}b]({address})"
        return f"{self.swizzle} o {middle} o {self.layout}"

    def __repr__(self) -> str:
        return f"<Composed {self}>"
