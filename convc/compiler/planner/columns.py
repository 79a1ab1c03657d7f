"""Filter columns folded into K, or not: the layout is planned every way that is possible, and the fastest is taken.

The ways are those of `convc.host_layout.columns`. Where the caller leaves the schedule and the columns to the planner,
it looks at the problems whose channels are fewer than one MMA takes, or on Hopper leave a part of a row empty; of the
ways about as fast as the fastest it takes the one with the smallest activation buffer, the least work for the host.
A schedule that is named is planned on the layout as it is, so that schedules can be compared, and so that the one with
sharing has columns to share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from convc.compiler.options import AUTO, ScheduleOptions
from convc.compiler.plan.choice import SLACK
from convc.compiler.plan.names import LaunchForm
from convc.compiler.plan.records import ColumnSummary, Plan
from convc.compiler.planner.conflicts import schedules_for
from convc.compiler.planner.launch import MULTICAST_GAIN
from convc.compiler.planner.search import plan
from convc.errors import PlanError
from convc.host_layout.columns import why_not_joined
from convc.host_layout.device_layout import DeviceLayout, device_layout
from convc.host_layout.summed import SUMMED, why_not_summed
from convc.ir.arch import ARCHS, Arch
from convc.ir.columns import COLUMNS, Columns
from convc.ir.problem import ConvProblem

OFF: Columns = "off"

_BY_NAME: dict[str, Columns] = {columns: columns for columns in (*COLUMNS, SUMMED)}


def plan_problem(
    problem: ConvProblem,
    *,
    options: ScheduleOptions,
    block_n: int | None = None,
    stages: int | None = None,
    refused: Mapping[LaunchForm, str],
) -> Plan:
    """Lay out and plan a problem, with the filter columns as they are asked for, or as it is fastest.

    Raises:
        InputError: an option has a value that does not exist.
        PlanError: no kernel exists (see `convc.compiler.planner.search.plan`), or the columns cannot become
            channels in the way that was asked for.
    """
    schedules_for(options)

    def planned(columns: Columns) -> Plan:
        layout = device_layout(problem, columns)
        return plan(layout, options=options, block_n=block_n, stages=stages, refused=refused)

    if problem.late_filter and options.columns == AUTO and options.schedule == AUTO:
        return _summed_or_not(problem, planned)
    if (
        options.columns != AUTO
        or options.schedule != AUTO
        or not _few_channels(device_layout(problem), ARCHS[options.target])
    ):
        return planned(_BY_NAME.get(options.columns, OFF))
    plans: list[Plan] = []
    summaries: list[ColumnSummary] = []
    for columns in COLUMNS:
        try:
            found = planned(columns)
        except PlanError as error:
            summaries.append(ColumnSummary(columns=columns, reason=error.message))
            continue
        plans.append(found)
        summaries.append(ColumnSummary(columns=columns, cycles=found.estimate.cycles))
    if not plans:
        raise PlanError(summaries[0].reason, where=problem.describe())
    gain = MULTICAST_GAIN if options.multicast == AUTO else 1.0

    def cycles(one: Plan) -> float:
        """Of the estimate, or as many as without multicast if its gain is what it has to be at least."""
        return one.estimate.cycles * (gain if one.tiling.multicast != (1, 1) else 1.0)

    limit = SLACK * min(map(cycles, plans))
    near = [each for each in plans if cycles(each) <= limit]
    return replace(min(near, key=_buffer_bytes), columns=tuple(summaries))


def _summed_or_not(problem: ConvProblem, planned: Callable[[Columns], Plan]) -> Plan:
    """The plan of a gradient of weights: over pixels as they lie, unless it is slower than with operands transposed.

    Transposing them takes the host time that no estimate has, so it is not done for what estimates are off by.
    """
    reason = why_not_summed(problem)
    usual = planned(OFF)
    taken = usual
    found = [ColumnSummary(columns=OFF, cycles=usual.estimate.cycles)]
    if reason is None:
        try:
            summed = planned(SUMMED)
        except PlanError as error:
            reason = error.message
        else:
            found.append(ColumnSummary(columns=SUMMED, cycles=summed.estimate.cycles))
            taken = summed if summed.estimate.cycles <= SLACK * usual.estimate.cycles else usual
    if reason is not None:
        found.append(ColumnSummary(columns=SUMMED, reason=reason))
    return replace(taken, columns=tuple(found))


def _few_channels(layout: DeviceLayout, arch: Arch) -> bool:
    """Whether filter columns can become channels, and one column leaves most of an MMA, or a part of its rows, empty.

    Rows that are filled up cost requests of their own, which are priced where it is known what they take of L2.
    """
    base = layout.base
    size = base.in_channels * base.operand_dtype.bytes
    spans = arch.limits.swizzle_spans
    filled = arch.rates.meeting > 0 and size % spans[-1] > 0 and size not in spans
    return why_not_joined(base, "host") is None and (size < arch.limits.mma_atom_bytes or filled)


def _buffer_bytes(found: Plan) -> int:
    return found.layout.activation.size_bytes
