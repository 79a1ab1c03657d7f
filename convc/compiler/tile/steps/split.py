"""Steps of CTAs that share the K loop of a tile: each sums a part, then each adds the parts of its columns."""

from __future__ import annotations

from convc.compiler.plan.names import Number, SmemName
from convc.compiler.tile.steps.base import Step, Strided
from convc.compiler.tile.steps.epilogue import ReadValues, ValueStep
from convc.compiler.tile.steps.spelling import Names, RoleContext, braces

QUAD = 4
"""Columns of a 16-byte access."""


class ShareLoop(Strided, frozen=True, kw_only=True):
    """Do `body` for the steps of a CTA's part of the K loop.

    Attributes:
        nest: the loops that the steps are counted through, outermost first: variable and count.
    """

    nest: tuple[tuple[str, int], ...]


class StageSums(ValueStep, frozen=True, kw_only=True):
    """Write `columns` sums of each lane to the CTA's own shared memory, from column `first` on.

    Attributes:
        tile: where; 16 bytes of each lane for every four columns.
        first: number of the first column.
        lane: number of the lane.
    """

    tile: SmemName
    first: Number
    lane: Number

    def describe(self) -> str:
        return f"put {self.columns} columns from {self.first} into {self.tile}, a row a lane"

    def spelling(self, context: RoleContext) -> Names:
        tile = context.storage.smem_tile(self.tile)
        pieces = [
            (tile.offset + index * tile.row_bytes, braces(f"%v{QUAD * index + i}" for i in range(QUAD)))
            for index in range(self.columns // QUAD)
        ]
        return {"first": self.first, "lane": self.lane, "column_bytes": tile.row_bytes // QUAD, "pieces": pieces}


class AddSums(ReadValues, frozen=True, kw_only=True):
    """Add the sums of all parts, part 0 first, then 1, 2 and so on: `columns` of them from column `first` on.

    Attributes:
        tile: where each CTA of the cluster has put its own.
        lane, row: numbers of the lane, and of its output pixel.
        row_limit: pixels from here on are none, and of their lanes nothing is read; None: every lane has one.
        parts: CTAs of the cluster.
        dtype: type of the sums.
    """

    tile: SmemName
    lane: Number
    row: Number
    row_limit: int | None
    parts: int
    dtype: str

    def describe(self) -> str:
        return f"add {self.columns} columns of {self.tile} from {self.first}, of parts 0 to {self.parts - 1} in turn"

    def spelling(self, context: RoleContext) -> Names:
        """All loads go out before the first sum is needed; those of part 0 bring the values themselves."""
        tile = context.storage.smem_tile(self.tile)
        loads: list[tuple[int, list[tuple[int, str]]]] = []
        for part in range(self.parts):
            names = [f"%v{i}" if part == 0 else f"%part{self.columns * (part - 1) + i}" for i in range(self.columns)]
            pieces = [
                (tile.offset + quad * tile.row_bytes, braces(names[QUAD * quad : QUAD * (quad + 1)]))
                for quad in range(self.columns // QUAD)
            ]
            loads.append((part, pieces))
        add = "add.s32" if self.dtype == "s32" else "add.rn.f32"
        lines = [
            f"{add} %v{i}, %v{i}, %part{self.columns * part + i};"
            for part in range(self.parts - 1)
            for i in range(self.columns)
        ]
        return {
            "first": self.first,
            "lane": self.lane,
            "column_bytes": tile.row_bytes // QUAD,
            "row": self.row,
            "row_bits": context.numbers[self.row].bits,
            "row_guarded": self.row_limit is not None,
            "row_limit": self.row_limit or 0,
            "values": [f"%v{i}" for i in range(self.columns)],
            "guard": "" if self.row_limit is None else "@%row_in ",
            "others": self.columns * (self.parts - 1),
            "loads": loads,
            "lines": lines,
        }


class ClusterArrive(Step, frozen=True, kw_only=True):
    """Tell all threads of the cluster that this one has written, and read, what it has so far.

    `fenced`: tensor memory was used before, and is given back behind the meeting.
    `started`: as of `convc.compiler.tile.steps.setup.ClusterSync`.
    """

    fenced: bool = False
    started: bool = False

    def describe(self) -> str:
        return "arrive at the barrier of the cluster"


class ClusterWait(Step, frozen=True, kw_only=True):
    """Wait until all threads of the cluster have arrived; what they wrote before can be read.

    `fenced`: tensor memory is given back behind it.
    """

    fenced: bool = False

    def describe(self) -> str:
        return "wait until all threads of the cluster have arrived"
