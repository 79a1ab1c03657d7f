"""The answer first: which layer this is, which schedule it got, why, and what its launch should take."""

from __future__ import annotations

from collections.abc import Iterator

from convc.compiler.compile import Compiled
from convc.explain.schedules import why_lines
from convc.ir.problem import macs_text
from convc.report.format import convolution, human_bytes
from convc.report.layout_notes import layout_notes


def summary_lines(compiled: Compiled, fused: tuple[str, ...] = (), text: str | None = None) -> Iterator[str]:
    """The summary of a layer.

    Args:
        fused: nodes of the model that the kernel does as well.
        text: the kernel's PTX, where it comes from a build folder.
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
    yield f"schedule     {compiled.schedule}: {plan.tiling}"
    yield (
        f"estimate     about {cost.cycles:.0f} cycles: {cost.microseconds:.1f} us at "
        f"{plan.arch.rates.clock_mhz / 1000:g} GHz, {100 * cost.peak_share:.2g}% of the dense tensor cores' peak; "
        f"the K loop waits for {cost.bottleneck}"
    )
    yield f"moved        {human_bytes(cost.traffic_bytes)} through L2, by all CTAs together"
    assumed = [rule for rule in plan.reuse.rests_on if rule.evidence == "assumed"] if plan.reuse else []
    for rule in assumed:
        yield f"assumed      {rule}"
    for number, line in enumerate(why_lines(plan)):
        yield f"{'' if number else 'why':<13}{line}"
    for number, line in enumerate(layout_notes(compiled.layout)):
        yield f"{'' if number else 'layout':<13}{line}"
    if text is not None and text != compiled.artifact.ptx:
        yield "text         not what this compiler writes for the plan: it was edited, or written by another version"
