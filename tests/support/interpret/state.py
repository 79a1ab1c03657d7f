"""The state of a CTA while its roles run: mbarriers, stages of tiles, accumulators, masks; and that of each role.

Stages and accumulators start as NaN, and a stage becomes NaN again when it is given back, so that what is read too
early or too late shows in the result. Sums of whole numbers are float64, which holds them exactly.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from convc.compiler.plan.names import MapName, Number, PointerName, RingName, SmemName, TmemName
from convc.compiler.plan.storage import BarrierRing, TmemTile
from convc.compiler.tile.program import Role, TileProgram
from convc.errors import TileError
from convc.ir.arch import SM_100A
from convc.ir.dtypes import DType
from convc.ir.launch import PointerParam, TensorMapParam
from convc.ir.tensormap import TensorMap

Array = NDArray[Any]
"""Elements of any type: each buffer has its own."""
LANES = SM_100A.limits.tmem_lanes


TileName = TypeVar("TileName", SmemName, TmemName, SmemName | TmemName)

UNWRITTEN = 85
"""What whole numbers are before they are written; others are NaN."""


def unwritten(stored: DType, shape: int | tuple[int, ...]) -> Array:
    """Elements that nobody has written."""
    return np.full(shape, UNWRITTEN if stored.integer else np.nan, stored.storage)


@dataclass(slots=True)
class Barrier:
    """An mbarrier: completed phases, arrivals and bytes that the running phase still misses."""

    arrivals: int
    phases: int = 0
    pending: int = 0
    bytes: int = 0

    def __post_init__(self) -> None:
        self.pending = self.arrivals

    def arrive(self, count: int = 1, *, expect: int = 0) -> None:
        """Count arrivals, and the bytes that are expected with them."""
        self.pending -= count
        self.bytes += expect
        self._settle()

    def complete(self, count: int) -> None:
        """Count bytes that have come."""
        self.bytes -= count
        self._settle()

    def passed(self, parity: int) -> bool:
        """Whether the phase of that parity has completed; the phase before the first one has."""
        return self.phases % 2 != parity

    @property
    def state(self) -> tuple[int, int, int]:
        """Numbers that change whenever anything happens."""
        return self.phases, self.pending, self.bytes

    def _settle(self) -> None:
        if self.pending == 0 and self.bytes == 0:
            self.phases += 1
            self.pending = self.arrivals


@dataclass(slots=True, kw_only=True)
class CtaState:
    """One CTA.

    Attributes:
        program: what it runs.
        buffers: global memory, by the names of the launch; elements in their storage types.
        written: which elements of the output were written.
        numbers: where it is in the grid: tile_m and tile_n, or cta where it makes several tiles; part where several
            share a tile.
        barriers, stages: by name and stage; a stage is there once something was copied to it.
        acc: accumulators, by name and stage.
        masks: entries of the mask table, bool (lanes,).
        cluster: the CTAs of its cluster by their ranks, itself among them.
        tensors: what the maps lie over, as numbers; all CTAs of a grid have this in common.
        waiting: tiles whose CTAs have not begun and may be asked for, the same of all.
        given: requests for one so far.
    """

    program: TileProgram
    buffers: dict[str, Array]
    written: NDArray[np.bool_]
    numbers: dict[str, int]
    barriers: dict[tuple[RingName, int], Barrier] = field(default_factory=dict)
    stages: dict[tuple[SmemName | TmemName, int], Array] = field(default_factory=dict)
    acc: dict[tuple[TmemName, int], Array] = field(default_factory=dict)
    masks: dict[int, NDArray[np.bool_]] = field(default_factory=dict)
    cluster: tuple[CtaState, ...] = ()
    tensors: dict[MapName, Array] = field(default_factory=dict)
    waiting: list[int] = field(default_factory=list[int])
    given: int = 0

    def __post_init__(self) -> None:
        storage = self.program.storage
        for ring in storage.rings:
            self.barriers |= {(ring.name, stage): Barrier(ring.arrivals) for stage in range(ring.stages)}
        for tile in storage.tmem:
            for stage in range(tile.stages):
                self.clear(tile, stage)

    def clear(self, tile: TmemTile, stage: int) -> None:
        """Let a stage of an accumulator be as if nothing had been multiplied."""
        sums = np.float64 if self.program.launch.buffers["bias"].dtype == "s32" else np.float32
        self.acc[tile.name, stage] = np.full((tile.lanes, tile.columns), np.nan, sums)

    def map_of(self, name: MapName) -> TensorMap:
        """The tensor map of a parameter."""
        param = self._param(name)
        if not isinstance(param, TensorMapParam):
            raise TileError(f"parameter {name} is no tensor map")
        return param.map

    def buffer_of(self, name: PointerName) -> Array:
        """The buffer that a pointer parameter points at, flat."""
        param = self._param(name)
        if not isinstance(param, PointerParam):
            raise TileError(f"parameter {name} points at no buffer")
        return self.buffers[param.buffer].reshape(-1)

    def write(self, output: Array, places: NDArray[np.integer], values: Array) -> None:
        """Store values at elements of the output, each of which is written once."""
        if np.unique(places).size != places.size or self.written[places].any():
            raise TileError("an element is written twice")
        self.written[places] = True
        output[places] = values

    def _param(self, name: str) -> object:
        return self.program.launch.params[self.program.params.index(name)]


class RoleState:
    """One role of one CTA: its states, its numbers, and the values that its lanes hold.

    `goes_on`: whether the last answer that it read has a tile for it.
    """

    def __init__(self, cta: CtaState, role: Role) -> None:
        thread = 32 * role.first_warp + np.arange(1 if role.elected else role.threads)
        self.cta = cta
        self.numbers: dict[str, Array | int] = {
            **cta.numbers,
            "thread": thread,
            "warp": thread // 32,
        }
        self.threads = len(thread)
        self.values: Array = np.zeros((self.threads, 0), np.float32)
        self.held: Array = np.zeros(0, np.float32)
        self.masks = np.zeros((cta.program.pair, LANES), bool)
        self.others = np.zeros_like(self.masks)
        self.goes_on = False
        self.stages: dict[str, int] = {}
        self.phases: dict[str, int] = {}

    def integer(self, name: Number) -> int:
        """A number that all threads of the role have in common."""
        return int(self.numbers[name])

    def integers(self, names: Iterable[Number]) -> list[int]:
        """Several of them."""
        return [self.integer(name) for name in names]

    def each(self, name: Number) -> NDArray[np.int64]:
        """A number of every thread, (threads,)."""
        return np.broadcast_to(np.asarray(self.numbers[name], np.int64), (self.threads,))

    def advance(self, state: str, stages: int) -> None:
        """Move a state on; the phase turns at every wrap."""
        self.stages[state] = (self.stages.get(state, 0) + 1) % stages
        if self.stages[state] == 0:
            self.phases[state] = self.phases.get(state, 0) ^ 1

    def key(self, name: TileName) -> tuple[TileName, int]:
        """Name and current stage of a tile."""
        storage = self.cta.program.storage
        tile = next(tile for tile in (*storage.tiles, *storage.tmem) if tile.name == name)
        return name, self.stages.get(tile.state, 0) if tile.stages > 1 else 0

    def tile(self, name: SmemName | TmemName) -> Array:
        """The current stage of a tile."""
        return self.cta.stages[self.key(name)]

    def tiles(self, name: SmemName | TmemName) -> list[Array]:
        """The current stage of a tile in every CTA that multiplies with this one."""
        return [cta.stages[self.key(name)] for cta in self.together]

    @property
    def together(self) -> tuple[CtaState, ...]:
        """The CTAs whose tensor cores multiply as one with this one's."""
        return self.cta.cluster if self.cta.program.pair > 1 else (self.cta,)

    def ring(self, name: RingName) -> BarrierRing:
        """A ring of the program."""
        return self.cta.program.storage.ring(name)

    def barrier(self, name: RingName) -> Barrier:
        """The CTA's current barrier of a ring."""
        return self._barrier_of(self.cta, name)

    def signalled(self, name: RingName) -> list[Barrier]:
        """The barriers that a signal to a ring is for."""
        at = self.ring(name).at
        if at == "own":
            return [self.barrier(name)]
        ctas = self.cta.cluster if at == "all" else self.cta.cluster[:1]
        return [self._barrier_of(cta, name) for cta in ctas]

    def named(self, ctas: Number) -> list[CtaState]:
        """The CTAs of the cluster that a mask names, a bit for each rank."""
        mask = self.integer(ctas)
        return [cta for rank, cta in enumerate(self.cta.cluster) if mask >> rank & 1]

    def barriers_of(self, ctas: Iterable[CtaState], name: RingName) -> list[Barrier]:
        """The current barrier of a ring in each of some CTAs."""
        return [self._barrier_of(cta, name) for cta in ctas]

    def _barrier_of(self, cta: CtaState, name: RingName) -> Barrier:
        ring = self.ring(name)
        return cta.barriers[name, self.stages.get(ring.state, 0) if ring.stages > 1 else 0]

    def phase(self, name: RingName) -> int:
        """The parity of the phase of a ring that the role is in."""
        return self.phases.get(self.ring(name).state, 0)
