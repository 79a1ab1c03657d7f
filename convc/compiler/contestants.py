"""The candidates of a problem that are worth being measured: every kernel that open options can force, by its estimate.

Options that are left open are settled one way after the other: first those that make most of a kernel (`MAIN`), in all
ways that go together; then, around the best of these, each other one alone, and the widths of tiles. Each way is
planned, which takes milliseconds; those whose estimate is within a margin of the best are written down.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from convc.compiler.compile import Compiled, compile_problem, open_options
from convc.compiler.options import AUTO, ESTIMATE, ScheduleOptions
from convc.compiler.options import options as option_table
from convc.compiler.plan.records import Plan
from convc.compiler.planner.columns import plan_problem
from convc.errors import InputError, PlanError
from convc.ir.problem import ConvProblem

MARGIN = 1.25
"""A candidate whose estimate is longer than the shortest by more is not measured."""

LEAST = 6
"""So many are measured whatever their estimates, where there are as many: one that is too good must not exclude all."""

MOST_AROUND = 6
"""Ways whose other options and widths are looked at."""

VARIANTS = {"shift"}
"""Options that choose a variant of the schedule of their name."""

MAIN = ("schedule", *VARIANTS, "columns", "persistent")
"""Options that are settled in all ways that go together."""

LITTLE = ("rasterization_order", "cache_hints", "registers")
"""Options of which estimates know little, and launches mostly too: they are looked at around the best way alone."""


class Contestant(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A candidate that was written down.

    Attributes:
        choice: options that were left open, and what they are; none: what the estimates take.
        block_n: output channels of a tile; None: as estimates choose.
        compiled: the kernel.
    """

    choice: dict[str, str]
    block_n: int | None
    compiled: Compiled

    @property
    def title(self) -> str:
        """The kernel for people: its schedule, tiles, and how CTAs work."""
        plan = self.compiled.plan
        persistent = ", persistent" if plan.launch.persistent else ""
        parts = f", split K {plan.launch.parts}" if plan.launch.parts > 1 else ""
        columns = "" if plan.layout.columns == "off" else f", columns {plan.layout.columns}"
        return f"{plan.schedule.title} {plan.tiling}{persistent}{parts}{columns}"


class _Way(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    choice: dict[str, str]
    block_n: int | None
    plan: Plan

    @property
    def cycles(self) -> float:
        return self.plan.estimate.cycles

    @property
    def form(self) -> tuple[object, ...]:
        return (*self.plan.form, self.plan.layout.columns)


def contestants(problem: ConvProblem, options: ScheduleOptions, most: int) -> Iterator[Contestant]:
    """Write down the candidates of a problem, one at a time.

    Args:
        problem: what to compute.
        options: what is settled, and what is left open.
        most: how many at most.

    Returns:
        What the estimates take; then the best of each schedule and form by their estimates, then all others: kernels
        with different texts, of which those behind the first `LEAST` are estimated to take less than `MARGIN` times as
        long as the quickest.

    Raises:
        InputError, PlanError: see `convc.compiler.compile.compile_problem`.
    """
    first = compile_problem(problem, options=options)
    yield Contestant(choice={}, block_n=None, compiled=first)
    texts = {first.artifact.ptx}
    for way in _ordered(_ways(problem, options), first.plan.estimate.cycles):
        if len(texts) >= most:
            return
        try:
            made = compile_problem(problem, options=_settled(options, way.choice), block_n=way.block_n)
        except PlanError:
            continue  # it cannot be written down
        if made.artifact.ptx not in texts:
            texts.add(made.artifact.ptx)
            yield Contestant(choice=way.choice, block_n=way.block_n, compiled=made)


def _settled(options: ScheduleOptions, choice: Mapping[str, str]) -> ScheduleOptions:
    return dataclasses.replace(options, **choice)


def _ways(problem: ConvProblem, options: ScheduleOptions) -> list[_Way]:
    found: list[_Way] = []
    left = open_options(options)
    main = [[(name, value) for value in _values(name)] or [None] for name in MAIN if name in left]
    for settled in itertools.product(*main):
        choice = dict(each for each in settled if each is not None)
        found += _planned(problem, options, choice)
    around = sorted(found, key=lambda way: way.cycles)[:MOST_AROUND]
    for way in around:
        for name in left:
            if name not in MAIN and (way is around[0] or name not in LITTLE):
                for value in _values(name):
                    found += _planned(problem, options, way.choice | {name: value})
        limit = MARGIN * around[0].cycles
        for other in way.plan.alternatives:
            if other.cycles <= limit:
                found += _planned(problem, options, way.choice, other.tiling.block_n)
    return found


def _values(name: str) -> Iterator[str]:
    """What an open option may be settled as; of the variant of a schedule also nothing."""
    yield from (AUTO,) if name in VARIANTS else ()
    yield from (value for value in option_table()[name].values if value not in (AUTO, ESTIMATE))


def _planned(
    problem: ConvProblem, options: ScheduleOptions, choice: dict[str, str], block_n: int | None = None
) -> Iterator[_Way]:
    """A way where it has a plan; nothing where options exclude each other, or nothing is legal."""
    said = {name: value for name, value in choice.items() if value != AUTO}
    try:
        plan = plan_problem(problem, options=_settled(options, said), block_n=block_n, refused={})
    except (InputError, PlanError):
        return
    yield _Way(choice=said, block_n=block_n, plan=plan)


def _ordered(ways: Iterable[_Way], preferred: float) -> list[_Way]:
    """The ways within the margin: the best of each form first, then the others, each by its estimate."""
    by_estimate = sorted(ways, key=lambda way: way.cycles)
    limit = MARGIN * min(preferred, by_estimate[0].cycles) if by_estimate else 0.0
    first: dict[tuple[object, ...], _Way] = {}
    for way in by_estimate:
        first.setdefault(way.form, way)
    forms = [way for number, way in enumerate(first.values()) if number < LEAST or way.cycles <= limit]
    return [*forms, *(way for way in by_estimate if way.cycles <= limit and first[way.form] is not way)]
