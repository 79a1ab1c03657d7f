"""The chain: a convolution problem goes in, a kernel and everything decided on the way come out."""

from __future__ import annotations

from dataclasses import dataclass

from convc.compiler.options import ScheduleOptions
from convc.compiler.plan.records import Plan
from convc.compiler.tile.steps.base import TileProgram
from convc.ir.launch import KernelArtifact
from convc.ir.problem import ConvProblem
from convc.layout.device_layout import DeviceLayout, device_layout


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
        return self.plan.title


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
        options: which schedules to consider (``reload`` alone by default), and what to fix about them.
        block_n, stages: fix the planner's choice.

    Raises:
        InputError: an option has a value that does not exist.
        PlanError: no kernel exists within the limits of the hardware; the message names them.
    """
    from convc.compiler.emit.kernel import (
        emit,  # jinja2 and sympy are slow to load, and who finds a kernel needs neither
    )
    from convc.compiler.plan.planner import plan
    from convc.compiler.schedules.build import build
    from convc.compiler.tile.verify import verify

    layout = device_layout(problem)
    decided = plan(layout, options=options, block_n=block_n, stages=stages)
    program = build(decided)
    verify(program)
    return Compiled(problem=problem, layout=layout, plan=decided, program=program, artifact=emit(program))
