"""The chain: a convolution problem goes in, a kernel and everything decided on the way come out."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict, replace

from convc.compiler.options import AUTO, ScheduleOptions
from convc.compiler.options import options as option_table
from convc.compiler.plan.names import LaunchForm
from convc.compiler.plan.reasons import Reasons
from convc.errors import InputError, PlanError
from convc.host_layout.device_layout import DeviceLayout
from convc.ir.launch import KernelArtifact
from convc.ir.problem import ConvProblem
from convc.ir.tile_order import OrderTraffic
from convc.ir.tuned import Tuned, Tuning
from convc.support.collecting import uncollected

if TYPE_CHECKING:
    from convc.compiler.plan.records import Plan
    from convc.compiler.tile.program import TileProgram

Timer = Callable[[KernelArtifact, OrderTraffic | None], float]
"""Gives the cycles that a kernel takes; it is told what its plan knows of the rasterization order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """A kernel and how it came about.

    Attributes:
        problem: what was asked.
        layout: the problem in device buffers; `layout.problem` is what the kernel runs.
        plan, program: the decisions, and the kernel as roles and steps.
        artifact: the text and its launch.
    """

    problem: ConvProblem
    layout: DeviceLayout
    plan: Plan
    program: TileProgram
    artifact: KernelArtifact

    @property
    def schedule(self) -> str:
        """The schedule and its variant, for people."""
        return self.plan.schedule.title


@uncollected()
def compile_problem(
    problem: ConvProblem,
    *,
    options: ScheduleOptions | None = None,
    block_n: int | None = None,
    stages: int | None = None,
) -> Compiled:
    """Compile one convolution.

    Args:
        problem: what to compute.
        options: which schedules to consider (all by default), and what to fix about them. Where one cannot be proved
            right or cannot be written down, the next best is taken; the plan's choices give the reason.
        block_n, stages: fix the planner's choice.

    Raises:
        InputError: an option has a value that does not exist.
        PlanError: no kernel exists within the limits of the hardware; the message names them.
    """
    # Imported here because islpy, jinja2 and the steps are slow to load, and who finds a kernel needs none of them.
    from convc.compiler.planner.columns import plan_problem

    refused: dict[LaunchForm, str] = {}
    while True:
        decided = plan_problem(
            problem, options=options or ScheduleOptions(), block_n=block_n, stages=stages, refused=refused
        )
        try:
            return _written(problem, decided)
        except PlanError as error:
            if decided.form in refused:
                raise  # what was refused is planned again: another turn would not end
            refused[decided.form] = error.message


def compile_timed(problem: ConvProblem, options: ScheduleOptions, timer: Timer) -> Compiled:
    """Compile one convolution as the best few candidates by the estimate, and take the one that a timer finds fastest.

    The plan says what was timed (`convc.compiler.plan.records.Plan.timed`).

    Args:
        problem: what to compute.
        options: which schedules to consider.
        timer: gives the cycles of a kernel.

    Raises:
        InputError, PlanError: see `compile_problem`.
    """
    from convc.compiler.plan.records import TimedCandidate
    from convc.compiler.planner.columns import plan_problem
    from convc.compiler.planner.search import contenders, quickest

    by_estimate = plan_problem(problem, options=options, refused={})
    refused: dict[LaunchForm, str] = {}
    written: list[Compiled] = []
    while not written:
        for decided in contenders(by_estimate.layout, options=options, refused=refused):
            try:
                written.append(_written(problem, decided))
            except PlanError as error:
                if decided.form in refused:
                    raise
                refused[decided.form] = error.message
                written.clear()
                break
    timed = [
        TimedCandidate(
            schedule=one.plan.schedule,
            tiling=one.plan.tiling,
            tensor_stores=one.plan.storage.results is not None,
            persistent=one.plan.launch.persistent,
            parts=one.plan.launch.parts,
            estimated=one.plan.estimate.cycles,
            cycles=timer(one.artifact, one.plan.launch.order.timed),
            preferred=number == 0,
        )
        for number, one in enumerate(written)
    ]
    number = timed.index(quickest(timed))
    timed[number] = replace(timed[number], taken=True)
    best = written[number]
    ranked = tuple(sorted(timed, key=lambda one: one.cycles))
    return dataclasses.replace(best, plan=replace(best.plan, timed=ranked, columns=by_estimate.columns))


def compile_tuned(problem: ConvProblem, options: ScheduleOptions, tuned: Tuned) -> Compiled:
    """Compile one convolution as a tuning record says; where its choice leads to no kernel, as estimates choose.

    The plan has the record, with the reason where it was not taken, and shows all schedules with their estimates.

    Args:
        problem: what to compute.
        options: which schedules to consider, where nothing is recorded.
        tuned: the record; the options that it chooses are checked like any others.

    Raises:
        InputError, PlanError: see `compile_problem`.
    """
    from convc.compiler.planner.columns import plan_problem

    try:
        made = compile_problem(problem, options=chosen_by(tuned, options), block_n=tuned.block_n)
    except (InputError, PlanError) as error:
        made = compile_problem(problem, options=options)
        return _with_plan(made, tuned=Tuning(record=tuned, refused=error.message))
    tuning = Tuning(record=tuned, changed=text_digest(made.artifact.ptx) != tuned.kernel)
    if not tuned.choice and tuned.block_n is None:
        return _with_plan(made, tuned=tuning)
    open_plan = plan_problem(problem, options=options, refused={})
    why = {name: said.replace("as requested", "as tuned") for name, said in asdict(made.plan.launch.why).items()}
    return _with_plan(
        made,
        tuned=tuning,
        launch=replace(made.plan.launch, why=Reasons(**why)),
        choices=open_plan.choices if open_plan.layout == made.layout else made.plan.choices,
        columns=open_plan.columns,
    )


def chosen_by(tuned: Tuned, options: ScheduleOptions) -> ScheduleOptions:
    """The options with those settled that a tuning record chooses; InputError where it chooses what is not open."""
    for name in tuned.choice:
        if name not in open_options(options):
            raise InputError(f"a tuning record chooses {name}, which is no option that was left open")
    return dataclasses.replace(options, tuned="off", **tuned.choice)


def open_options(options: ScheduleOptions) -> tuple[str, ...]:
    """The names of the options that are left to the planner, and have values to choose from."""
    return tuple(
        name
        for name, row in option_table().items()
        if name != "tuned" and row.values and row.most is None and getattr(options, name) == AUTO
    )


def text_digest(ptx: str) -> str:
    """16 hexadecimal digits that stand for the text of a kernel."""
    return hashlib.sha256(ptx.encode()).hexdigest()[:16]


def _with_plan(compiled: Compiled, **changes: Any) -> Compiled:
    """The same kernel, with other words in its plan."""
    return dataclasses.replace(compiled, plan=replace(compiled.plan, **changes))


def _written(problem: ConvProblem, decided: Plan) -> Compiled:
    """Write a plan's kernel down; PlanError where that is not possible."""
    from convc.compiler.emit.kernel import emit
    from convc.compiler.schedules.program import build
    from convc.compiler.tile.verify import verify

    program = build(decided)
    verify(program)
    return Compiled(problem=problem, layout=decided.layout, plan=decided, program=program, artifact=emit(program))
