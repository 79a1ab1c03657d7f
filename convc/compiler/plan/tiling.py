"""The piece of work of a CTA: a tile of the output, and the tiles of its operands."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from convc.support.once import once


class Tiling(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The piece of work that one CTA does, and in which bites.

    Attributes:
        block_m: output pixels per tile, rows of the GEMM.
        block_n: output channels per tile, columns of the GEMM.
        row_bytes: bytes of K in one row of an operand tile: 32, 64 or 128, also the swizzle span.
        b_stages: filter tiles in flight, each with its activation tile where `a_stages` is 0.
        a_stages: activation tiles in flight, where each of them serves several filter taps.
        ctas: CTAs whose tensor cores multiply as one (``cta_group``): each has `block_m` pixels of its own, and its
            part of the filter tile in its shared memory.
        b_columns: 1: filter tiles have stages of their own. More: each activation tile has a stage with the filter
            tiles of all its filter columns, at most so many, behind one barrier; `b_stages` is `a_stages` then.
        multicast: tiles of pixels and of channels of a cluster whose CTAs load operand tiles for each other.
    """

    block_m: int
    block_n: int
    row_bytes: int
    b_stages: int
    a_stages: int = 0
    b_columns: int = 1
    ctas: int = 1
    multicast: tuple[int, int] = (1, 1)

    @property
    def b_rows(self) -> int:
        """Rows of a filter tile that a CTA has in its shared memory."""
        return self.block_n // self.ctas

    @property
    def a_piece(self) -> int:
        """Pixels of an activation tile that a CTA loads."""
        return self.block_m // self.multicast[1]

    @property
    def b_piece(self) -> int:
        """Rows of a filter tile that a CTA loads."""
        return self.b_rows // self.multicast[0]

    @property
    def cluster(self) -> tuple[int, int]:
        """CTAs that go from tile to tile together, those of a pair or that share loads, along both axes of the grid."""
        return self.ctas * self.multicast[0], self.multicast[1]

    @property
    def together(self) -> int:
        """The number of these CTAs."""
        return self.ctas * self.multicast[0] * self.multicast[1]

    @property
    def stages(self) -> tuple[int, ...]:
        """The stages of each ring of operand tiles, in the order of `CtaWork.rings`."""
        return (self.a_stages, self.b_stages) if self.a_stages and self.b_columns == 1 else (self.b_stages,)

    def __str__(self) -> str:
        apart = f" of filter and {self.a_stages} of activations" if self.a_stages else ""
        if self.b_columns > 1:
            apart = f" of activations with {self.b_columns} filter columns"
        pair = ", in pairs of CTAs" if self.ctas > 1 else ""
        shares = ""
        if self.multicast != (1, 1):
            shares = f", in clusters of {' x '.join(map(str, self.multicast))} that share loads"
        tile = f"{self.block_m}x{self.block_n} tile, {self.row_bytes}-byte rows, {self.b_stages} stages"
        return f"{tile}{apart}{pair}{shares}"


class Depths(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Tilings that differ in their stages alone.

    Attributes:
        first: the shallowest of them.
        stages: stages of activation tiles and of filter tiles (`Tiling.a_stages`, `Tiling.b_stages`) of each, shallow
            before deep, those of `first` in front.
    """

    first: Tiling
    stages: tuple[tuple[int, int], ...]

    def at(self, number: int) -> Tiling:
        """One of the tilings."""
        a_stages, b_stages = self.stages[number]
        return replace(self.first, a_stages=a_stages, b_stages=b_stages)

    def in_clusters(self, *, ctas: int = 1, multicast: tuple[int, int] = (1, 1)) -> Depths:
        """These tilings for CTAs that multiply as one, or load for each other (`Tiling.ctas`, `Tiling.multicast`)."""
        return replace(self, first=replace(self.first, ctas=ctas, multicast=multicast))

    @once
    def tilings(self) -> tuple[Tiling, ...]:
        """All of them."""
        return tuple(map(self.at, range(len(self.stages))))

    @once
    def rings(self) -> tuple[tuple[int, ...], ...]:
        """The stages of each ring of operand tiles (`Tiling.stages`), of every tiling."""
        return self.stages if len(self.first.stages) > 1 else tuple((deep,) for _, deep in self.stages)
