"""What a plan is made of: small records, each one decision.

A plan says *how* one convolution becomes one launch: which piece of the output a CTA makes (`Tiling`), where its
operands lie (`Storage`), how its K loop runs (`Pipeline`), which tensor maps feed it (`Loads`), how it is launched
(`Launch`), how long it should take (`Estimate`) and what was turned down on the way (`Rejection`).
All of it is plain data that `msgspec` writes as JSON.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import msgspec

from convc.compiler.arch import Arch
from convc.compiler.index.geometry import Geometry
from convc.compiler.plan.evidence import Rule
from convc.compiler.plan.work import CtaWork
from convc.ir import expr
from convc.ir.expr import IntExpr
from convc.ir.problem import ConvProblem
from convc.ir.tensormap import TensorMap
from convc.layout.device_layout import DeviceLayout


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiling:
    """The piece of work that one CTA does, and in which bites.

    Attributes:
        block_m: output pixels per tile, rows of the GEMM.
        block_n: output channels per tile, columns of the GEMM.
        row_bytes: bytes of K in one row of an operand tile: 32, 64 or 128, also the swizzle span.
        stages: operand tiles in flight; of the filter alone where `held` is not 0.
        held: activation tiles in flight, where each of them serves several filter taps.
    """

    block_m: int
    block_n: int
    row_bytes: int
    stages: int
    held: int = 0

    def __str__(self) -> str:
        held = f" of filter and {self.held} of activations" if self.held else ""
        return f"{self.block_m}x{self.block_n} tile, {self.row_bytes}-byte rows, {self.stages} stages{held}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SmemTile:
    """An operand tile in shared memory, once per stage.

    Attributes:
        name: ``a`` (activations) or ``b`` (filter).
        rows, row_bytes: extent; a row is `row_bytes` of K.
        swizzle: tensor-map name of the layout of the 16-byte chunks.
        stages: number of copies.
        cursor: which of a role's cursors says the stage (see `BarrierRing`).
        stage_bytes: distance from one stage to the next.
        offset: byte offset of stage 0 in the CTA's shared memory.
    """

    name: str
    rows: int
    row_bytes: int
    swizzle: str
    stages: int
    stage_bytes: int
    offset: int
    cursor: str = ""

    @property
    def bytes(self) -> int:
        """Bytes that one copy of the tile holds, which is also what TMA delivers for it."""
        return self.rows * self.row_bytes

    @property
    def end(self) -> int:
        """First byte past the last stage."""
        return self.offset + self.stages * self.stage_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class TmemTile:
    """A tile in tensor memory, an accumulator or an operand: `lanes` rows of `columns` 32-bit cells, once per stage."""

    name: str
    lanes: int
    columns: int
    column_offset: int
    stages: int = 1
    cursor: str = ""

    @property
    def end(self) -> int:
        """First column past the last stage."""
        return self.column_offset + self.stages * self.columns


@dataclass(frozen=True, slots=True, kw_only=True)
class BarrierRing:
    """A ring of mbarriers, one per stage, with one role that signals and one that waits.

    Attributes:
        name: says what it announces: ``full`` tiles, ``free`` ones, an accumulator that is ``done``.
        stages: number of barriers (8 bytes each).
        arrivals: arrivals that complete a phase.
        producer, consumer: name of the role that signals, and of the role that waits.
        offset: byte offset of barrier 0 in shared memory.
        cursor: which of a role's cursors says the stage and the phase; tiles and rings that move together share one.
    """

    name: str
    stages: int
    arrivals: int
    producer: str
    consumer: str
    offset: int
    cursor: str = ""

    @property
    def end(self) -> int:
        """First byte past the last barrier."""
        return self.offset + 8 * self.stages


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """Where everything lies in one CTA.

    Attributes:
        smem: operand tiles.
        tmem: accumulators.
        rings: barrier rings.
        mask_offset: where the table of lane masks starts, 16 bytes a mask; None: there is none.
        masks: entries of that table.
        slot_offset: shared word that receives the address of the tensor-memory allocation.
        smem_bytes: dynamic shared memory of the CTA.
        tmem_columns: columns to allocate, a power of two.
    """

    smem: tuple[SmemTile, ...]
    tmem: tuple[TmemTile, ...]
    rings: tuple[BarrierRing, ...]
    slot_offset: int
    smem_bytes: int
    tmem_columns: int
    mask_offset: int | None = None
    masks: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """The K loop: for every filter tap and channel block, one step.

    Attributes:
        taps: filter extent (R, S).
        blocks: channel blocks.
        channels: channels per block; the last block may reach past the tensor, where TMA fills zeros.
        atoms: ``tcgen05.mma`` instructions per step, 32 bytes of K each.
    """

    taps: tuple[int, int]
    blocks: int
    channels: int
    atoms: int

    @property
    def steps(self) -> int:
        """Steps of the K loop."""
        return math.prod(self.taps) * self.blocks


@dataclass(frozen=True, slots=True, kw_only=True)
class Loads:
    """The tensor maps: `a` over the activations (im2col), `b` over the filter (tile), and `factors` over the scale
    factors of both, in that order, where they have any."""

    a: TensorMap
    b: TensorMap
    factors: tuple[TensorMap, ...] = ()

    @property
    def all(self) -> tuple[TensorMap, ...]:
        """Every map, in the order of the kernel's parameters."""
        return (self.a, self.b, *self.factors)


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """The grid (tiles along M, tiles along N, 1) of CTAs of `threads` threads."""

    entry: str
    grid: tuple[int, int, int]
    threads: int

    @property
    def ctas(self) -> int:
        """CTAs in the grid."""
        return math.prod(self.grid)


SLAB = "slab_c"
"""First activation channel of a step where that depends on the group; ``c`` counts the channels of one group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinate:
    """One integer that the kernel computes, with the derivation that says why it is right.

    Attributes:
        name: register that holds it.
        value: the expression to compute.
        meaning: the index map it comes from, for people.
    """

    name: str
    value: IntExpr
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """How long the launch should take, in cycles, and why.

    Attributes:
        waves: rounds of CTAs over the SMs (one CTA per SM at a time).
        last_wave_fill: part of the SMs that the last round keeps busy, 0 to 1.
        useful: part of the multiplications that belong to the convolution, 0 to 1; the rest is padding of the tiles.
        traffic_bytes: what all CTAs together read through L2.
        mma_cycles, read_cycles, fill_cycles, l2_cycles, copy_cycles: time of one CTA's K loop if only this limited it:
            the tensor core, its reads of shared memory, the port through which TMA fills it, the share of L2, the turns
            of the stages.
        around_cycles: time of one CTA outside its K loop: start, first copy, last MMA, epilogue.
        cycles: the whole launch.
        bound_by: what the K loop waits for.
        sentences: the same, readable.
    """

    waves: int
    last_wave_fill: float
    useful: float
    traffic_bytes: int
    mma_cycles: float
    read_cycles: float
    fill_cycles: float
    l2_cycles: float
    copy_cycles: float
    around_cycles: float
    cycles: float
    bound_by: str
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reuse(Geometry):
    """How a plan shares activations between filter columns (see `convc.compiler.index.reuse`).

    Attributes:
        variant: how lanes move on to the next filter column (see `convc.compiler.plan.reuse`).
        masked_columns, masked_lines: filter columns, and filter rows, at which some lane is masked.
        clear: whether the accumulator is set to zero first, because the first tap does not write every lane.
        first: which tap of a buffer comes first, as an index into its taps.
        rests_on: rules of the hardware, not settled by the manual, that the kernel rests on.
    """

    variant: str
    masked_columns: tuple[int, ...]
    masked_lines: tuple[int, ...]
    clear: bool
    first: int
    rests_on: tuple[Rule, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSummary:
    """A schedule that was considered: its best candidate, or why there is none.

    Attributes:
        schedule, variant: which.
        tiling, cycles, mma_cycles, read_cycles, bound_by: of its best candidate (see `Estimate`); None, 0 and "" where
            there is none.
        reason: the conditions that fail, with their numbers; empty where it is legal.
    """

    schedule: str
    variant: str
    tiling: Tiling | None = None
    cycles: float = 0.0
    mma_cycles: float = 0.0
    read_cycles: float = 0.0
    bound_by: str = ""
    reason: str = ""

    @property
    def title(self) -> str:
        """The schedule and its variant, for people."""
        return f"{self.schedule} {self.variant}".strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """A candidate that breaks a rule.

    Attributes:
        rule: name of the rule, the function in `convc.compiler.plan.constraints`.
        reason: one sentence with the numbers.
        tiling: the candidate, or None where the problem itself breaks the rule whatever the tiling.
    """

    rule: str
    reason: str
    tiling: Tiling | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """A legal candidate that the estimate puts behind the chosen one."""

    tiling: Tiling
    cycles: float
    bound_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How one convolution becomes one launch.

    Attributes:
        layout: the problem and its device buffers.
        schedule: which of the algorithms (see `convc.compiler.plan.planner`).
        reuse: how it shares activations; None: every filter tap loads its own tile.
        work: what one CTA does, in numbers that the machine counts too.
        arch: the target.
        tiling, storage, pipeline, loads, launch: the decisions.
        coordinates: index arithmetic that the kernel does.
        derivation: the index maps behind it and what was proved about them, one line each.
        row_limit: output pixels below this number are written; None: every tile is full, no test is needed.
        channel_limit: the same for channels, padding of the output row included.
        estimate: expected time of the chosen candidate.
        alternatives: the next best candidates, best first.
        rejected: the candidates that break a rule.
        choices: the schedules that were considered.
    """

    layout: DeviceLayout
    schedule: str
    reuse: Reuse | None
    work: CtaWork
    arch: Arch
    tiling: Tiling
    storage: Storage
    pipeline: Pipeline
    loads: Loads
    launch: Launch
    coordinates: tuple[Coordinate, ...]
    derivation: tuple[str, ...]
    row_limit: int | None
    channel_limit: int | None
    estimate: Estimate
    alternatives: tuple[Alternative, ...]
    rejected: tuple[Rejection, ...]
    choices: tuple[ScheduleSummary, ...]

    @property
    def title(self) -> str:
        """The schedule and its variant, for people."""
        return f"{self.schedule} {self.reuse.variant}".strip() if self.reuse else self.schedule

    @property
    def problem(self) -> ConvProblem:
        """The convolution that the kernel runs."""
        return self.layout.problem


def to_json(plan: Plan) -> bytes:
    """A plan for people and for `inspect`, as indented JSON; expressions as `convc.ir.expr.to_json` writes them."""
    data = msgspec.to_builtins(plan)
    for entry, coordinate in zip(data["coordinates"], plan.coordinates, strict=True):
        entry["value"] = expr.to_json(coordinate.value)
        entry["text"] = str(coordinate.value)
    return msgspec.json.format(msgspec.json.encode(data), indent=1)
