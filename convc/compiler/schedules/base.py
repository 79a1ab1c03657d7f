"""A schedule: one way to run a convolution, from its candidates to its roles.

A schedule is one record. `convc.compiler.schedules.all.SCHEDULES` lists them; the command line, the planner, the
reports and the derivations read that tuple, and nothing else in convc knows a schedule by its name.

What a record says of a schedule is known without the planner: the help of a command reads it. What a schedule does is
its *method*, a class in a file of its own, which is imported with the planner's algebra when it is first called.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, TypeAlias

from convc.compiler.index.border import Border
from convc.compiler.index.order_names import OrderName
from convc.compiler.plan.evidence import Rule
from convc.compiler.plan.names import ScheduleName
from convc.ir.arch import TensorCoreName

if TYPE_CHECKING:
    from convc.compiler.plan.candidate import ScheduleCandidates
    from convc.compiler.plan.offer import Candidate
    from convc.compiler.plan.records import Indexing, Plan
    from convc.compiler.tile.program import Role
    from convc.compiler.tile.steps.base import Step
    from convc.compiler.tile.steps.lanes import ClearAcc
    from convc.host_layout.device_layout import DeviceLayout
    from convc.ir.arch import Arch

Rows = Literal["outer", "merged"]
"""Whether a stream of output pixels is one output row, or all of them."""
ROWS: tuple[Rows, ...] = ("outer", "merged")

Store = Literal["direct", "tma"]
"""Whether results leave from registers, or through shared memory and tensor copies."""
DIRECT: Store = "direct"
TMA: Store = "tma"
STORES: tuple[Store, ...] = (DIRECT, TMA)

ResidualLoad = Literal["direct", "tma"]
"""Whether a residual is read by the threads that add it, or brought by tensor copies ahead of need."""
RESIDUAL_LOADS: tuple[ResidualLoad, ...] = ("direct", "tma")

DYNAMIC = "dynamic"
"""The tile scheduler of persistent CTAs that request their tiles."""

PARTS_OF: Mapping[str, int | None] = {
    "estimate": None, "off": 1, "2": 2, "4": 4, "8": 8,
    "16": 16, "24": 24, "32": 32, "48": 48, "64": 64, "96": 96, "128": 128,
}  # fmt: skip
"""CTAs that share the K loop of a tile, by the option; None leaves the number to the planner."""

MULTICAST_OF: Mapping[str, tuple[int, int] | None] = {
    "off": (1, 1), "estimate": None, "2x1": (2, 1), "1x2": (1, 2), "2x2": (2, 2),
}  # fmt: skip
"""Tiles of pixels and of channels of a cluster that shares loads, by the option; None: see `PARTS_OF`."""

Filters = Literal["apart", "together"]
"""Whether each filter tile has a stage of its own, or comes in that of the activations that it meets."""
APART: Filters = "apart"
TOGETHER: Filters = "together"
FILTERS: tuple[Filters, ...] = (APART, TOGETHER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The demands on a plan; None leaves one to the planner.

    Attributes:
        border, rows: how the output is cut (schedules that share activations).
        block_n, stages: tile width, and number of stages.
        store: how results leave (schedules whose lanes are output pixels).
        persistent: whether CTAs are persistent; None: each tile has its own, unless the planner finds the other better.
        ctas: how many these are at most; None: one for each SM.
        dynamic: whether they ask for their tiles, as many of them as run.
        filters: where filter tiles are put (schedules that read the same activations for several filter columns).
        pairs: whether the tensor cores of two CTAs multiply as one; None: each by itself, unless the planner finds
            pairs better.
        residual_load: how a residual arrives.
        parts: CTAs that share the K loop of a tile; None: each tile has one, unless the planner finds more better.
        multicast: tiles of pixels and of channels of a cluster that shares loads; None: as with `parts`.
        order: in which tiles are made; None: along M first, if no other moves fewer bytes.
        registers: whether warps that load hand registers over to those that multiply; None: where these want more.
    """

    border: Border | None = None
    rows: Rows | None = None
    block_n: int | None = None
    stages: int | None = None
    store: Store | None = None
    persistent: bool | None = None
    ctas: int | None = None
    dynamic: bool = False
    filters: Filters | None = None
    pairs: bool | None = None
    residual_load: ResidualLoad | None = None
    parts: int | None = None
    multicast: tuple[int, int] | None = None
    order: OrderName | None = None
    registers: bool | None = None

    @property
    def alone(self) -> Request:
        """The request for CTAs that have a tile each, as far as a method asks about others.

        It does where a dynamic scheduler assigns tiles late, and where loads are shared, so that tiles come in parts.
        """
        return _alone(self)

    def tile_rows(self, arch: Arch) -> tuple[int, ...]:
        """Rows that a tile may have. One warpgroup alone has all the registers that it can name, and is handed none."""
        return arch.limits.tile_rows[1:] if self.registers else arch.limits.tile_rows


@lru_cache(maxsize=64)
def _alone(request: Request) -> Request:
    """`Request.alone`, which every schedule asks of the same requests."""
    persistent = request.persistent if request.dynamic else None
    return replace(request, persistent=persistent, ctas=None, pairs=None, parts=None, order=None)


Known: TypeAlias = "dict[tuple[ScheduleName, Request, str], ScheduleCandidates]"
"""What schedules have offered for one problem and one target: forms of one schedule have most of it in common."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Roles:
    """The steps of a kernel's roles, as far as they depend on the schedule.

    Attributes:
        load, multiply, epilogue: the steps of the three roles that run side by side.
        before, after: roles of the set-up, before everyone meets and after that.
        masks: makes the steps by which a role, named first, fills a table of lane masks; the number of the pixels of
            the tile ends with what comes second. None: no lane is masked.
        zero: the step that clears an accumulator whose first tap does not write every lane; None: it does.
    """

    load: tuple[Step, ...]
    multiply: tuple[Step, ...]
    epilogue: tuple[Step, ...]
    before: tuple[Role, ...] = ()
    after: tuple[Role, ...] = ()
    masks: Callable[[str, str], tuple[Step, ...]] | None = None
    zero: ClearAcc | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """One way to run a convolution.

    Attributes:
        name: as ``--schedule`` has it.
        variant: as ``--shift`` has it, where a schedule has several; else empty.
        tensor_cores: instructions that it can multiply with (`convc.ir.arch.Arch.tensor_core`).
        activations: where the activation operand of the tensor core lies; in tensor memory its rows can move.
        shares: whether filter columns share what was loaded.
        stores: how its results can leave.
        pairs: whether two CTAs can share its filter tiles and multiply as one.
        transposed: whether weights are the first operand, so that lanes of the accumulator are output channels.
        splits: whether several CTAs can share its K loop.
        multicasts: whether the CTAs of a cluster can load operand tiles for each other.
        max_halo: the longest halo that it can hold, in lanes; 0 where nothing is shared.
        assumes: rules of the hardware that it needs although the manual does not settle them.
        method: makes the method of a record; what that needs is imported in here.
        summed: makes that of layouts whose pixels are summed (`convc.host_layout.summed`); None: it has none.
        id: name and variant.
    """

    name: str
    variant: str = ""
    tensor_cores: tuple[TensorCoreName, ...] = ("tcgen05",)
    activations: Literal["shared memory", "tensor memory"] = "shared memory"
    shares: bool = False
    stores: tuple[Store, ...] = (DIRECT,)
    pairs: bool = False
    transposed: bool = False
    splits: bool = False
    multicasts: bool = False
    max_halo: int = 0
    assumes: tuple[Rule, ...] = ()
    method: Callable[[Schedule], Method] = field(repr=False)
    summed: Callable[[Schedule], Method] | None = field(default=None, repr=False)
    id: ScheduleName = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", ScheduleName(name=self.name, variant=self.variant))

    @property
    def assumed(self) -> int:
        """The number of rules that it assumes."""
        return sum(rule.evidence == "assumed" for rule in self.assumes)

    def candidates(
        self, layout: DeviceLayout, arch: Arch, request: Request, known: Known | None = None
    ) -> ScheduleCandidates:
        """Look at every tiling, as `Method.candidates` says, if the target can do what the schedule needs.

        Args:
            layout, arch, request: the problem, the target, and what is asked for.
            known: what has been offered for this problem and target; what is offered now is added.
        """
        reason = self._refusal(layout, arch, request)
        if reason is not None:
            # Imported here because the help of a command reads records of schedules, and needs no planner.
            from convc.compiler.plan.candidate import ScheduleCandidates
            from convc.compiler.plan.records import Rejection

            return ScheduleCandidates(schedule=self.id, parts=(Rejection(rule="target", reason=reason),))
        known = {} if known is None else known
        launched = self.id, request, "launched"
        if launched in known:
            return known[launched]
        alone = request.alone
        key = self.id, alone, "alone"
        found = known.get(key)
        if found is None:
            found = known[key] = self._method(layout).candidates(layout, arch, alone)
        if request.pairs is not None:
            alone = replace(alone, pairs=request.pairs)
        key = self.id, alone, "together"
        together = known.get(key)
        if together is None:
            together = known[key] = self._together(found, arch, alone)
        known[launched] = self._launched(together, arch, request)
        return known[launched]

    def _refusal(self, layout: DeviceLayout, arch: Arch, request: Request) -> str | None:
        """Why the target cannot do what the schedule needs; None where it can."""
        if arch.tensor_core not in self.tensor_cores:
            return (
                f"schedule {self.id.title} needs {' or '.join(self.tensor_cores)}, {arch.name} has {arch.tensor_core}"
            )
        if layout.summed and self.summed is None:
            return f"pixels are summed, and schedule {self.id.title} sums channels: its operands are K-major"
        if layout.blocks is not None and not arch.scales_blocks:
            return f"{layout.blocks.name} has scale factors, and {arch.tensor_core} of {arch.name} takes none"
        if layout.problem.residual and request.residual_load == "tma" and TMA not in stores_of(self, arch, request):
            return f"residual_load tma goes with store tma, and results of {self.id.title} leave from registers"
        return None

    def _together(self, found: ScheduleCandidates, arch: Arch, request: Request) -> ScheduleCandidates:
        """The candidates offered to CTAs that multiply as one, or that load for each other."""
        # Imported here because the help of a command reads records of schedules, and needs no planner.
        if request.pairs:
            from convc.compiler.plan.pairs import paired

            found = paired(found, arch, able=self.pairs)
        if (request.multicast or (1, 1)) != (1, 1):
            from convc.compiler.plan.multicast import multicast

            found = multicast(found, request.multicast or (1, 1), able=self.multicasts)
        return found

    def _launched(self, found: ScheduleCandidates, arch: Arch, request: Request) -> ScheduleCandidates:
        """The candidates offered to persistent CTAs, or that share them."""
        # Imported here for the same reason.
        if request.persistent:
            from convc.compiler.plan.persistent import persistent

            return persistent(found, arch, request.ctas, request.stages, dynamic=request.dynamic)
        if (request.parts or 1) > 1:
            from convc.compiler.plan.split import split

            return split(found, request.parts or 1, able=self.splits)
        return found

    def indexing(self, candidate: Candidate) -> Indexing:
        """Derive and prove the index maps of a candidate, as `Method.indexing` says, and validate its numbers.

        Raises:
            DerivationError: a number is not what its theorem says.
        """
        # Imported here because the help of a command reads records of schedules, and needs no planner.
        from convc.compiler.plan.validation import validated

        found = self._method(candidate.tiled.layout).indexing(candidate)
        return validated(candidate, found, transposed=self.transposed)

    def roles(self, plan: Plan) -> Roles:
        """Write the kernel down, as `Method.roles` says."""
        return self._method(plan.layout).roles(plan)

    def _method(self, layout: DeviceLayout) -> Method:
        return self.summed(self) if layout.summed and self.summed is not None else self.method(self)


def stores_of(schedule: Schedule, arch: Arch, request: Request) -> tuple[Store, ...]:
    """The ways in which results of a schedule may leave on a target: the one that is asked for, or all."""
    return schedule.stores if request.store is None else (request.store,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ways:
    """The ways in which results leave, and in which a residual arrives, if there is one."""

    store: Store = DIRECT
    residual_load: ResidualLoad = DIRECT


def ways_of(schedule: Schedule, layout: DeviceLayout, arch: Arch, request: Request) -> tuple[Ways, ...]:
    """The ways of a schedule for a problem on a target: those that are asked for, or all.

    A residual is brought to where results are staged, so that both go through tensor copies or only the results. Where
    the accumulator lies in fragments no lane has a row of it to add to.
    """
    ways: list[Ways] = []
    rows = layout.problem.residual and arch.tensor_core == "tcgen05"
    for store in stores_of(schedule, arch, request):
        able = RESIDUAL_LOADS if store == TMA and rows else (DIRECT,)
        wanted = request.residual_load if layout.problem.residual else None
        ways += (Ways(store=store, residual_load=load) for load in able if wanted in (None, load))
    return tuple(ways)


@dataclass(frozen=True, slots=True)
class Method(ABC):
    """The work of a schedule: its candidates, its index maps, its steps.

    Attributes:
        schedule: the record of the schedule, with what it can hold and what it assumes.
    """

    schedule: Schedule

    @abstractmethod
    def candidates(self, layout: DeviceLayout, arch: Arch, request: Request) -> ScheduleCandidates:
        """Look at every tiling: storage, work and price of the legal ones, and what is wrong with the others."""

    @abstractmethod
    def indexing(self, candidate: Candidate) -> Indexing:
        """Derive and prove the index maps of a candidate, and lower what the kernel computes.

        Raises:
            PlanError: a claim that the kernel relies on is not proved.
        """

    @abstractmethod
    def roles(self, plan: Plan) -> Roles:
        """Write the kernel down, step by step."""
