"""The parts of a plan: small records, each one decision.

A plan says *how* one convolution becomes one launch: which piece of the output a CTA makes (`Tiling`), where its
operands lie (`convc.compiler.plan.storage`), how its K loop runs (`Pipeline`), which tensor maps feed it (`Loads`),
what it computes about positions (`convc.compiler.plan.coordinates`), how it is launched (`LaunchPlan`), how long it
should take (`Estimate`) and what was turned down on the way (`Rejection`). All of it is plain data that `msgspec`
writes as JSON.
"""

from __future__ import annotations

import math

import msgspec

from convc.compiler.index.geometry import Geometry
from convc.compiler.plan.cache_hints import CacheHints
from convc.compiler.plan.coordinates import Coordinates, in_order
from convc.compiler.plan.evidence import Rule
from convc.compiler.plan.names import LaunchForm
from convc.compiler.plan.names import ScheduleName as ScheduleName
from convc.compiler.plan.reasons import Reasons
from convc.compiler.plan.storage import Storage
from convc.compiler.plan.tile_order import TileOrder
from convc.compiler.plan.tiling import Tiling as Tiling
from convc.compiler.plan.work import CtaWork
from convc.host_layout.device_layout import DeviceLayout
from convc.ir.arch import Arch
from convc.ir.columns import Columns
from convc.ir.expr import to_json as expr_json
from convc.ir.problem import ConvProblem
from convc.ir.tensormap import TensorMap
from convc.ir.tuned import Tuning


class Pipeline(msgspec.Struct, frozen=True, kw_only=True):
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


class Loads(msgspec.Struct, frozen=True, kw_only=True):
    """The tensor maps of a kernel.

    Attributes:
        a: over the activations (im2col).
        b: over the filter (tile).
        factors: over the scale factors of both, in that order, where they have any.
        out: over the output, where results leave through tensor copies.
        residual: over the residual, where it arrives through them.
    """

    a: TensorMap
    b: TensorMap
    factors: tuple[TensorMap, ...] = ()
    out: TensorMap | None = None
    residual: TensorMap | None = None

    @property
    def all(self) -> tuple[TensorMap, ...]:
        """Every map, in the order of the kernel's parameters."""
        epilogue = (each for each in (self.out, self.residual) if each is not None)
        return (self.a, self.b, *self.factors, *epilogue)


class LaunchPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The grid: (tiles along M, tiles along N, split-K CTAs), or (persistent CTAs, 1, 1).

    Where tiles are made in another order than along M first, the grid is (tiles, 1, split-K CTAs).

    Attributes:
        entry: name of the kernel.
        grid, threads: CTAs, and threads of each.
        tiles: of the output, along M and along N.
        persistent: whether a CTA makes several tiles, from the one of its own number on by the number of CTAs.
        dynamic: whether it goes on to tiles that it asks for instead: each has a CTA in the grid, which may not begin.
        why: the reasons for all of this.
        dependent: the kernel sets itself up while the one in front of it runs, and waits for that before it reads.
        cluster: CTAs of a cluster along the axes of the grid.
        order: in which tiles are made.
        hints: what copies ask of L2.
        registers: of a thread that loads and of one that multiplies, where the former hands over; None: an even share.
    """

    entry: str
    grid: tuple[int, int, int]
    threads: int
    tiles: tuple[int, int]
    persistent: bool = False
    dynamic: bool = False
    why: Reasons = msgspec.field(default_factory=Reasons)
    dependent: bool = False
    cluster: tuple[int, int, int] = (1, 1, 1)
    order: TileOrder = TileOrder()
    hints: CacheHints = CacheHints()
    registers: tuple[int, int] | None = None

    @property
    def warps(self) -> int:
        """Warps of each."""
        return self.threads // 32

    @property
    def ctas(self) -> int:
        """CTAs in the grid."""
        return math.prod(self.grid)

    @property
    def parts(self) -> int:
        """CTAs that share the K loop of a tile: clusters along the third axis of the grid."""
        return self.grid[2]

    @property
    def clusters(self) -> int:
        """Split-K clusters."""
        return self.parts // self.cluster[2]


class Estimate(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The time that a launch should take, in SM clock cycles, and why (`convc.compiler.plan.cost`).

    Attributes:
        ctas, busy_sms: CTAs of the launch, and SMs that have one in a full round.
        beside: CTAs on an SM at a time.
        waves: rounds of CTAs over the SMs, or of tiles over persistent CTAs.
        last_wave_fill: part of the places on SMs that the last round takes, 0 to 1.
        useful: part of the multiplications that belong to the convolution, 0 to 1; the rest is padding of the tiles.
        model_share: the same of the model's convolution, before groups were joined or pixels filled up; None where
            neither was done.
        traffic_bytes: what all CTAs together read through L2.
        memory_bytes: what they read from memory and write to it; 0 where L2 holds all buffers.
        fill_rate, factor_rate, l2_rate: bytes a cycle at which TMA fills shared memory with operands and with scale
            factors, and at which L2 and memory serve an SM.
        mma_cycles: the tensor core's part in one CTA's K loop, where it is not kept waiting: MMAs, copies to tensor
            memory and moves of rows.
        read_cycles: the MMAs' reads of shared memory, which go on at the same time.
        fill_cycles, l2_cycles: the port through which TMA fills shared memory; the share of L2 and of memory.
        latency_cycles: time of the loop if only the latency of copies limited it, of which as many are under way as
            there are stages.
        load_cycles, multiply_cycles: the thread that issues copies, and the one that issues MMAs with what it waits for
            its own operations.
        around_cycles: time of one CTA before its first MMA, and from the last one to the epilogue.
        epilogue_cycles: time of its epilogue.
        cycles: the whole launch.
        microseconds: the same as time, at the clock of `convc.ir.arch.Rates`.
        peak_share: the model's own multiplications as a part of those that all tensor cores could do in that time with
            dense operands of the type, 0 to 1.
        bottleneck: what the K loop waits for.
    """

    ctas: int
    busy_sms: int
    beside: int
    waves: int
    last_wave_fill: float
    useful: float
    model_share: float | None
    traffic_bytes: int
    memory_bytes: int
    fill_rate: float
    factor_rate: float
    l2_rate: float
    mma_cycles: float
    read_cycles: float
    fill_cycles: float
    l2_cycles: float
    latency_cycles: float
    load_cycles: float
    multiply_cycles: float
    around_cycles: float
    epilogue_cycles: float
    cycles: float
    microseconds: float
    peak_share: float
    bottleneck: str


class Reuse(Geometry, frozen=True, kw_only=True):
    """The sharing of activations between filter columns (`convc.compiler.index.reuse`).

    Attributes:
        masked_columns, masked_lines: filter columns, and filter rows, at which some lane is masked.
        clear: whether the accumulator is set to zero first, because the first tap does not write every lane.
        first: which tap of a buffer comes first, as an index into its taps.
        assumes: rules of the hardware, not settled by the manual, that the kernel takes for granted.
    """

    masked_columns: tuple[int, ...]
    masked_lines: tuple[int, ...]
    clear: bool
    first: int
    assumes: tuple[Rule, ...]


class ScheduleSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule that was considered: its best candidate, or why there is none.

    Attributes:
        schedule: which.
        tiling, cycles, mma_cycles, read_cycles, multiply_cycles, traffic_bytes, bottleneck: of its best candidate (see
            `Estimate`); None, 0 and "" where there is none.
        persistent, parts: whether its CTAs are persistent, and how many share one.
        reason: the conditions that fail, with their numbers; empty where it is legal.
        fell: ``proof`` or ``emission`` where it was the one to take, and then its index maps could not be proved or its
            kernel could not be written down; else empty.
    """

    schedule: ScheduleName
    tiling: Tiling | None = None
    cycles: float = 0.0
    mma_cycles: float = 0.0
    read_cycles: float = 0.0
    multiply_cycles: float = 0.0
    traffic_bytes: int = 0
    bottleneck: str = ""
    persistent: bool = False
    parts: int = 1
    reason: str = ""
    fell: str = ""


class ColumnSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A way to lay out filter columns that was considered.

    Attributes:
        columns: which.
        cycles: of its best plan; 0 where there is none.
        reason: why there is none; empty where there is one.
    """

    columns: Columns
    cycles: float = 0.0
    reason: str = ""


class Rejection(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A candidate that breaks a rule.

    Attributes:
        rule: name of the rule, the function in `convc.compiler.plan.constraints`.
        reason: one sentence with the numbers.
        tiling: the candidate, or None where the problem itself breaks the rule whatever the tiling.
    """

    rule: str
    reason: str
    tiling: Tiling | None = None


class TimedCandidate(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate that was written down and timed.

    Attributes:
        schedule, tiling: which. tensor_stores: its results leave through TMA. persistent: its CTAs are persistent.
        parts: split-K CTAs.
        estimated: cycles by the estimate, for which it was among the best. cycles: by the timer.
        preferred: the estimates alone would take it. taken: it is the plan's own.
    """

    schedule: ScheduleName
    tiling: Tiling
    tensor_stores: bool = False
    persistent: bool = False
    parts: int = 1
    estimated: float
    cycles: float
    preferred: bool = False
    taken: bool = False


class Alternative(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A legal candidate that the estimate puts behind the chosen one."""

    tiling: Tiling
    cycles: float
    bottleneck: str


class Indexing(msgspec.Struct, frozen=True, kw_only=True):
    """The index maps of a kernel, lowered.

    Attributes:
        coordinates: index arithmetic that the kernel does.
        loads: the tensor maps.
        derivation: the index maps behind both and what was proved about them, one line each.
        form: the form of a schedule whose loop nest the kernel is, as `convc.derive.forms` names it.
        row_limit: output pixels below this number are written; None: every tile is full, no test is needed.
        channel_limit: the same for channels, padding of the output row included.
        reuse: how activations are shared; None: every filter tap loads its own tile.
    """

    coordinates: Coordinates
    loads: Loads
    derivation: tuple[str, ...]
    form: str
    row_limit: int | None
    channel_limit: int | None
    reuse: Reuse | None = None


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One convolution as one launch, with every decision.

    Attributes:
        layout: the problem and its device buffers.
        schedule: which of the algorithms (see `convc.compiler.schedules`).
        work: what one CTA does, in numbers that the simulator counts too.
        arch: the target.
        tiling, storage, pipeline, launch: the decisions.
        indexing: what the index maps say: coordinates, tensor maps, limits, sharing.
        estimate: expected time of the chosen candidate.
        alternatives: the next best candidates, best first.
        rejected: the candidates that break a rule.
        choices: the schedules that were considered.
        timed: the candidates that were timed to choose among them, the fastest first; none where estimates chose.
        columns: the ways to lay out filter columns that were considered; none where there was one alone.
        tuned: the tuning record of the problem, where there is one.
    """

    layout: DeviceLayout
    schedule: ScheduleName
    work: CtaWork
    arch: Arch
    tiling: Tiling
    storage: Storage
    pipeline: Pipeline
    launch: LaunchPlan
    indexing: Indexing
    estimate: Estimate
    alternatives: tuple[Alternative, ...]
    rejected: tuple[Rejection, ...]
    choices: tuple[ScheduleSummary, ...]
    timed: tuple[TimedCandidate, ...] = ()
    columns: tuple[ColumnSummary, ...] = ()
    tuned: Tuning | None = None

    @property
    def problem(self) -> ConvProblem:
        """The convolution that the kernel runs."""
        return self.layout.problem

    @property
    def form(self) -> LaunchForm:
        """The schedule, and what its CTAs do together."""
        pairs = self.tiling.ctas > 1
        return LaunchForm(self.schedule, self.launch.persistent, pairs, self.launch.parts, self.tiling.multicast)

    @property
    def reuse(self) -> Reuse | None:
        """The sharing of activations; None: every filter tap loads its own tile."""
        return self.indexing.reuse


def to_json(plan: Plan) -> bytes:
    """Write a plan for people as indented JSON; expressions as `convc.ir.expr.to_json` writes them, and as text."""
    data = msgspec.to_builtins(plan)
    if not plan.timed:
        del data["timed"]
    if plan.tuned is None:
        del data["tuned"]
    data["indexing"]["coordinates"] = [
        {
            "name": coordinate.name,
            "value": expr_json(coordinate.value),
            "text": str(coordinate.value),
            "meaning": coordinate.meaning,
        }
        for coordinate in in_order(plan.indexing.coordinates)
    ]
    return msgspec.json.format(msgspec.json.encode(data), indent=1)
