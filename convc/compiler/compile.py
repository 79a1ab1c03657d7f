"""The chain: a convolution problem goes in, a kernel and everything decided on the way come out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from convc.compiler.options import ScheduleOptions
from convc.compiler.plan.names import ScheduleName
from convc.errors import PlanError
from convc.ir.launch import KernelArtifact
from convc.ir.problem import ConvProblem
from convc.layout.device_layout import DeviceLayout

if TYPE_CHECKING:
    from convc.compiler.plan.records import Plan
    from convc.compiler.tile.program import TileProgram


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
    # Imported here because sympy, jinja2 and the steps are slow to load, and who finds a kernel needs none of them.
    from convc.compiler.emit.kernel import emit
    from convc.compiler.schedules.columns import plan_problem
    from convc.compiler.schedules.program import build
    from convc.compiler.tile.verify import verify

    refused: dict[ScheduleName, str] = {}
    while True:
        decided = plan_problem(
            problem, options=options or ScheduleOptions(), block_n=block_n, stages=stages, refused=refused
        )
        try:
            program = build(decided)
            verify(program)
            artifact = emit(program)
        except PlanError as error:
            refused[decided.schedule] = error.message
            continue
        return Compiled(problem=problem, layout=decided.layout, plan=decided, program=program, artifact=artifact)
