"""Steps on the lanes of tensor memory: masks, clearing, and activations that move from lane to lane."""

from __future__ import annotations

from convc.compiler.plan.names import Number, SmemName, TmemName
from convc.compiler.tile.steps.base import Step


class MaskWord(Step, frozen=True, kw_only=True):
    """Every warp w writes word w of an entry of the mask table: bit j says whether `value` is not 0 in its thread j.

    Attributes:
        value: number that each thread has.
        entry: number of the entry; the table starts with entry 0 at `first`.
    """

    value: Number
    entry: Number
    first: int

    def describe(self) -> str:
        return f"mask[{self.first} + {self.entry}] = lanes where {self.value}"


class LoadMask(Step, frozen=True, kw_only=True):
    """Read an entry of the mask table into the role's mask registers, or beside them.

    Attributes:
        entry: number of the entry in its part of the table, which starts with entry `first`.
        rank: CTA of a pair whose lanes it is about; 0 where CTAs multiply by themselves.
        beside: whether it is to be joined to what those registers will have (`JoinMask`).
    """

    entry: Number
    first: int
    rank: int = 0
    beside: bool = False

    def describe(self) -> str:
        return f"read mask[{self.first} + {self.entry}]"


class JoinMask(Step, frozen=True, kw_only=True):
    """Join the two entries that `LoadMask` has read: what either masks is masked.

    A step of its own, so that the kernel can wait for something else while an entry is on its way.
    """

    rank: int = 0

    def describe(self) -> str:
        return "mask the lanes of either"


class ClearAcc(Step, frozen=True, kw_only=True):
    """Set an accumulator to zero: four warps, each its own 32 lanes.

    `every`: whether that is done to all stages of it, and not to the current one alone; `columns` are those of one.
    """

    acc: TmemName
    columns: int
    every: bool = False

    def describe(self) -> str:
        return f"set {self.columns} columns of {'every ' if self.every else ''}{self.acc} to zero"


class TensorFill(Step, frozen=True, kw_only=True):
    """Copy the 128 rows of the current stage of a tile in shared memory to one in tensor memory, 32 bytes at a time."""

    source: SmemName
    tile: TmemName
    atoms: int

    def describe(self) -> str:
        return f"copy {self.source} to {self.tile} in tensor memory, {self.atoms} times 32 bytes a row"


class MoveRows(Step, frozen=True, kw_only=True):
    """Every lane of a tile in tensor memory takes what the next one has; the last of 32 keeps what it has."""

    tile: TmemName
    atoms: int

    def describe(self) -> str:
        return f"move the rows of {self.tile} by one lane"


class Refresh(Step, frozen=True, kw_only=True):
    """Give the last lane of each sub-partition its row of the halo.

    Attributes:
        source, tile: tiles in shared and in tensor memory.
        halo: number of the halo row; `extra` is added to it.
    """

    source: SmemName
    tile: TmemName
    atoms: int
    halo: Number
    extra: int

    def describe(self) -> str:
        row = f"halo {self.halo}{f' + {self.extra}' if self.extra else ''}"
        return f"lanes 31, 63, 95, 127 of {self.tile} = {row} of {self.source}"
