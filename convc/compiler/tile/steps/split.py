"""Steps of CTAs that share the K loop of a tile: each sums a part, then each adds the parts of its columns."""

from __future__ import annotations

from convc.compiler.plan.names import Number, SmemName
from convc.compiler.tile.steps.base import Step, Strided
from convc.compiler.tile.steps.epilogue import ReadValues, ValueStep


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


class ClusterArrive(Step, frozen=True, kw_only=True):
    """Tell all threads of the cluster that this one has written, and read, what it has so far.

    `fenced`: tensor memory was used before, and is given back behind the meeting.
    `started`: as of `convc.compiler.tile.steps.base.ClusterSync`.
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
