"""The few numbers of a plan that reports print: what a launch should take, and which schedules were left on the way.

They are read from the JSON of a plan (``plan.json`` of a build folder), so that who prints them needs no compiler.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from convc.ir.network import SkippedNode
from convc.ir.problem import ConvProblem
from convc.ir.tile_order import OrderTraffic
from convc.ir.tuned import Tuned, Tuning


class Fallen(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule that was the one to take, until its kernel could not be proved right or written down.

    Attributes:
        schedule: its name and variant.
        reason: what failed.
    """

    schedule: str
    reason: str


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """The expectations of a plan for its launch (`convc.compiler.plan.records.Estimate`).

    Attributes:
        schedule: name and variant of the schedule.
        by: whose time it is: the timing engine's where that chose the kernel, else the planner's.
        cycles: of an SM, for the whole launch.
        microseconds: the same as time at ``clock_mhz``.
        clock_mhz: a clock that the hardware is sold with.
        chip: that hardware.
        peak_share: the model's own multiplications as a part of what all tensor cores could do meanwhile, 0 to 1.
        traffic_bytes: what all CTAs together read through L2.
        bottleneck: what the K loop waits for.
        fell_back: schedules that would have been taken, had they been possible.
        tuned: the tuning record by which the kernel was chosen; left out where there is none.
    """

    schedule: str
    by: Literal["engine", "planner"] = "planner"
    cycles: float
    microseconds: float
    clock_mhz: int
    chip: str
    peak_share: float
    traffic_bytes: int
    bottleneck: str
    fell_back: tuple[Fallen, ...] = ()
    tuned: Tuning | msgspec.UnsetType = msgspec.UNSET

    @property
    def tuning(self) -> Tuning | None:
        """The tuning record; None where there is none."""
        return None if isinstance(self.tuned, msgspec.UnsetType) else self.tuned


class ListedLayer(msgspec.Struct, frozen=True, kw_only=True):
    """A convolution of a model.

    Attributes:
        name: as in the model.
        problem: what it computes.
        operator: Conv or ConvTranspose; dgrad or wgrad of a gradient.
        fused: nodes of the model that its kernel does as well.
        planned: what its plan expects; None where there is none.
        reason: why there is no plan; else empty.
    """

    name: str
    problem: ConvProblem
    operator: str
    fused: tuple[str, ...] = ()
    planned: Planned | None = None
    reason: str = ""


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """The layers of a model or a build, and the nodes that are no layers."""

    source: str
    layers: tuple[ListedLayer, ...]
    skipped: tuple[SkippedNode, ...] = ()


class _Name(msgspec.Struct):
    name: str
    variant: str = ""

    @property
    def title(self) -> str:
        return f"{self.name} {self.variant}".strip()


class _Choice(msgspec.Struct):
    schedule: _Name
    reason: str = ""
    fell: str = ""


class _Rates(msgspec.Struct):
    clock_mhz: int


class _Arch(msgspec.Struct):
    chip: str
    rates: _Rates


class _Estimate(msgspec.Struct):
    cycles: float
    microseconds: float
    peak_share: float
    traffic_bytes: int
    bottleneck: str


class _Timed(msgspec.Struct):
    cycles: float
    taken: bool = False


class _Plan(msgspec.Struct):
    """The part of a plan that is read; its other fields are passed over."""

    schedule: _Name
    arch: _Arch
    estimate: _Estimate
    choices: tuple[_Choice, ...]
    timed: tuple[_Timed, ...] = ()
    tuned: Tuning | msgspec.UnsetType = msgspec.UNSET


def read_planned(plan: bytes) -> Planned | None:
    """The numbers of a plan in JSON; None where it is no plan, or one of another version of convc."""
    try:
        read = msgspec.json.decode(plan, type=_Plan)
    except msgspec.MsgspecError:
        return None
    cost = read.estimate
    engine = next((one.cycles for one in read.timed if one.taken), None)
    cycles = engine or cost.cycles
    return Planned(
        schedule=read.schedule.title,
        by="planner" if engine is None else "engine",
        cycles=cycles,
        microseconds=cost.microseconds * cycles / cost.cycles,
        clock_mhz=read.arch.rates.clock_mhz,
        chip=read.arch.chip,
        peak_share=cost.peak_share * cost.cycles / cycles,
        traffic_bytes=cost.traffic_bytes,
        bottleneck=cost.bottleneck,
        fell_back=tuple(Fallen(schedule=c.schedule.title, reason=c.reason) for c in read.choices if c.fell),
        tuned=read.tuned,
    )


class _Order(msgspec.Struct):
    timed: OrderTraffic | None = None


class _OrderedLaunch(msgspec.Struct):
    order: _Order


class _Ordered(msgspec.Struct):
    launch: _OrderedLaunch


def read_order(plan: bytes) -> OrderTraffic | None:
    """The facts for a timer about a plan's rasterization order; None where there are none, or it is no plan."""
    try:
        return msgspec.json.decode(plan, type=_Ordered).launch.order.timed
    except msgspec.MsgspecError:
        return None


class _TunedPlan(msgspec.Struct):
    tuned: Tuning | None = None


def read_tuned(plan: bytes) -> Tuned | None:
    """The tuning record that a plan was made by; None where there is none, or it is no plan."""
    try:
        found = msgspec.json.decode(plan, type=_TunedPlan).tuned
    except msgspec.MsgspecError:
        return None
    return None if found is None else found.record
