"""Steps of CTAs that share the K loop of a tile: each sums a part, then each adds the parts of its columns."""

from __future__ import annotations

from collections.abc import Iterator

from convc.compiler.plan.names import Number, PointerName, SmemName
from convc.compiler.tile.steps.base import Repeat, Step, Strided
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
            "lines": list(_added(self.columns, self.parts, self.dtype)),
        }


class KeepSums(ValueStep, frozen=True, kw_only=True):
    """Write `columns` sums of each lane to the workspace, at the place of this cluster.

    Attributes:
        buffer, at: the workspace, and where in it the lane's first four columns lie, in bytes.
        pitch: bytes from there to the next four.
    """

    buffer: PointerName
    at: Number
    pitch: int

    def describe(self) -> str:
        return f"keep {self.columns} sums at {self.buffer} + {self.at}"

    def spelling(self, context: RoleContext) -> Names:
        return {"buffer": self.buffer, "at": self.at, "pieces": list(_quads(self.columns, self.pitch, "%v"))}


class AddKept(ReadValues, frozen=True, kw_only=True):
    """Add the sums that all clusters have kept, cluster 0 first, then 1, 2 and so on: from column `first` on.

    Attributes:
        buffer, at, pitch: as of `KeepSums`, but `at` is the place of cluster 0.
        between: bytes from the place of a cluster to that of the next.
        clusters: how many have kept some.
        dtype: type of the sums.
    """

    buffer: PointerName
    at: Number
    pitch: int
    between: int
    clusters: int
    dtype: str

    def describe(self) -> str:
        return f"add {self.columns} sums at {self.buffer} + {self.at}, of clusters 0 to {self.clusters - 1} in turn"

    def spelling(self, context: RoleContext) -> Names:
        """As of `AddSums`."""
        loads = list(_quads(self.columns, self.pitch, "%v"))
        for cluster in range(1, self.clusters):
            quads = _quads(self.columns, self.pitch, "%part", self.columns * (cluster - 1))
            loads += [(cluster * self.between + offset, words) for offset, words in quads]
        return {
            "buffer": self.buffer,
            "at": self.at,
            "others": self.columns * (self.clusters - 1),
            "loads": loads,
            "lines": list(_added(self.columns, self.clusters, self.dtype)),
        }


class LastLoop(Repeat, frozen=True, kw_only=True):
    """Say that this warp's sums are kept; do `body` for `var` = 0 .. `count` - 1 if those of all clusters are then.

    What the warps of the other clusters have kept can be read in it, and the counter is 0 again.

    Attributes:
        buffer: counters, all 0 before a launch.
        counter: number of the warp's own, which it shares with one warp of each cluster.
        clusters: how many these are.
    """

    buffer: PointerName
    counter: Number
    clusters: int

    def describe(self) -> str:
        return f"for {self.var} in 0..{self.count - 1}, if this is the last of {self.clusters} at {self.buffer}:"

    def spelling(self, context: RoleContext) -> Names:
        """All but what is in the loop, which the kernel writes (`convc.compiler.emit.kernel`)."""
        return {
            "var": self.var,
            "count": self.count,
            "label": f"{self.label}_next",
            "end": f"{self.label}_end",
            "buffer": self.buffer,
            "counter": self.counter,
            "last": self.clusters - 1,
        }


def _quads(columns: int, pitch: int, register: str, first: int = 0) -> Iterator[tuple[int, str]]:
    """Offsets of four columns each, with their registers."""
    for quad in range(columns // QUAD):
        yield quad * pitch, braces(f"{register}{first + QUAD * quad + i}" for i in range(QUAD))


def _added(columns: int, parts: int, dtype: str) -> Iterator[str]:
    """Instructions that add the columns of all parts but the first to those of the first, part by part."""
    add = "add.s32" if dtype == "s32" else "add.rn.f32"
    for part in range(parts - 1):
        yield from (f"{add} %v{i}, %v{i}, %part{columns * part + i};" for i in range(columns))


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
