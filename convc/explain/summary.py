"""The summary of a layer: its convolution, schedule and launch, why these, and the estimated time."""

from __future__ import annotations

from collections.abc import Iterator

from convc.compiler.compile import Compiled
from convc.compiler.plan.records import Plan
from convc.explain.taken import taken_choice, title_of
from convc.explain.why import why_lines
from convc.ir.problem import macs_text
from convc.report.format import convolution, human_bytes
from convc.report.layout_notes import layout_notes

LABEL = 13
"""Columns of the word in front of each line."""


def summary_lines(
    compiled: Compiled,
    fused: tuple[str, ...] = (),
    text: str | None = None,
    edited: bool = False,
    engine: float | None = None,
) -> Iterator[str]:
    """The summary of a layer.

    Args:
        fused: nodes of the model that the kernel does as well.
        text: the kernel's PTX, where it comes from a build folder.
        edited: that text was changed since the build was written.
        engine: cycles of the timing engine, where it ran for this kernel.
    """
    plan = compiled.plan
    cost = plan.estimate
    launch = plan.launch
    model = compiled.layout.model
    yield f"convolution  {convolution(model)}, {model.types}"
    yield f"products     {model.gemm_m} x {model.gemm_n} x {model.gemm_k} as a GEMM, {macs_text(model.macs)}"
    if fused:
        yield f"fused        {', '.join(fused)}"
    grid = " x ".join(map(str, launch.grid[:2]))
    yield f"kernel       {compiled.problem.name}: {grid} CTAs of {launch.threads} threads"
    yield f"schedule     {title_of(taken_choice(plan))}: {plan.tiling}"
    yield f"time         {time_line(plan, engine)}; the mainloop is bound by {cost.bottleneck}"
    yield f"traffic      {human_bytes(cost.traffic_bytes)} from L2 to SMEM, all CTAs"
    assumed = [rule for rule in plan.reuse.assumes if rule.evidence == "assumed"] if plan.reuse else []
    for rule in assumed:
        yield f"assumed      {rule}"
    for number, line in enumerate(why_lines(plan)):
        yield f"{'' if number else 'why':<{LABEL}}{line}"
    for number, line in enumerate(layout_notes(compiled.layout)):
        yield f"{'' if number else 'layout':<{LABEL}}{line}"
    if text is not None and text != compiled.artifact.ptx:
        why = "it was edited" if edited else "another version of convc wrote the build"
        yield f"text         differs from what this compiler generates for these options: {why}"


def time_line(plan: Plan, engine: float | None = None) -> str:
    """The time of the launch: the timing engine's where that ran, else the planner's estimate.

    Args:
        engine: its cycles, where it ran for this kernel; where it chose the kernel, the plan has them.
    """
    cost = plan.estimate
    timed = engine or next((one.cycles for one in plan.timed if one.taken), None)
    cycles = cost.cycles if timed is None else timed
    whose = "by the planner's estimate"
    if timed is not None:
        whose = f"by the timing engine (the planner's estimate: {cost.cycles:.0f})"
    return (
        f"about {cycles:.0f} cycles {whose}: "
        f"{cost.microseconds * cycles / cost.cycles:.1f} us at {plan.arch.rates.clock_mhz / 1000:g} GHz, "
        f"{100 * cost.peak_share * cost.cycles / cycles:.2g}% of the dense tensor cores' peak"
    )
