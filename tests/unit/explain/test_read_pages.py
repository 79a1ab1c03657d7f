"""What ``convc inspect`` says of kernels of every kind was read once: the answer, the costs, the plan, the memory."""

from __future__ import annotations

import io
import re
from types import SimpleNamespace

import pytest
from support.option_sets import OPTION_SETS

from convc.compiler.compile import compile_problem
from convc.compiler.options import ScheduleOptions
from convc.explain.chain import plan_stages
from convc.explain.inspect import InspectedLayer, print_inspection, print_summary
from convc.explain.schedules import choice_lines
from convc.ir.epilogue import AddResidual, Relu
from convc.ir.problem import ConvProblem
from convc.report.console import console


def of(channels: int, filters: int, extent: int, kernel: int = 3, batch: int = 1, **more) -> ConvProblem:
    pad = (kernel // 2,) * 2
    return ConvProblem(
        in_channels=channels, out_channels=filters, in_extent=(extent, extent), kernel=(kernel, kernel), batch=batch,
        pad_lo=pad, pad_hi=pad, **more,
    )  # fmt: skip


CHOSEN = {
    "a small layer": (of(16, 24, 8), {}),
    "a middle of ResNet-50": (of(128, 128, 28, batch=16, bias=True, epilogue=(AddResidual(), Relu())), {}),
    "wide channels": (of(512, 512, 7, batch=8), {}),
    "one pixel each": (of(1024, 256, 14, kernel=1, batch=4), {}),
    "a stem": (of(3, 64, 56, kernel=7, batch=2, stride=(2, 2)), {}),
    "groups": (of(64, 64, 14, groups=4), {}),
    "large filters": (of(96, 96, 28, kernel=5, batch=4), {}),
    "float32": (of(64, 64, 14, operand="tf32", out="f32"), {}),
    "in parts": (of(64, 64, 14, operand="bf16x3", out="f32"), {}),
    "bytes": (of(64, 64, 14, operand="s8", out="s32"), {}),
    "blocks": (of(128, 128, 14, operand="nvfp4", out="f32"), {}),
    "Hopper": (of(128, 128, 28, batch=4), {"target": "sm_90a"}),
    "a chain that is asked for": (of(128, 128, 28, batch=4), {"schedule": "shift", "shift": "chain"}),
    "windows that are asked for": (of(128, 64, 28, batch=4), {"schedule": "shift", "shift": "windows"}),
    "more tiles than SMs": (of(64, 512, 56, batch=16), {"schedule": "reload"}),
    "an order that is asked for": (of(64, 512, 56, batch=16), {"schedule": "reload", "rasterization_order": "hilbert"}),
    "filters that stay": (of(32, 32, 56, batch=4), {"schedule": "stationary"}),
}
"""Problems, and what is asked of their schedules."""

SETS = (
    "reload split 2",
    "slide pairs mask",
    "reload multicast walk",
    "reload grouped hints",
    "reload dynamic tiles",
    "nvfp4",
    "hopper columns",
)
"""Kernels with an option each, of which the plan has a line."""


@pytest.mark.parametrize("name", [*CHOSEN, *SETS])
def test_a_page_is_what_was_read(name, golden, monkeypatch):
    if name in SETS:
        drawn = OPTION_SETS[name]
        compiled = compile_problem(drawn.problem, options=drawn.options, block_n=drawn.block_n, stages=drawn.stages)
    else:
        problem, options = CHOSEN[name]
        compiled = compile_problem(problem, options=ScheduleOptions(**options))
    paper = io.StringIO()
    monkeypatch.setattr("sys.stdout", paper)
    monkeypatch.setattr("convc.report.console.PROSE", 1 << 20)
    to = console()
    node = SimpleNamespace(name=name, fused=("relu", "add"))
    layer = InspectedLayer(node=node, compiled=compiled, edited=name == "groups")
    print_summary(to, layer)
    print_inspection(to, layer, only=("plan", "memory"))
    monkeypatch.undo()
    page = re.sub(r"(?s)coordinates that the kernel computes:.*?\n\n", "", paper.getvalue())  # see test_claims.py
    stages = [f"{each.algorithm.title}: {each.source}: {each.said}" for each in plan_stages(compiled.plan)]
    said = [re.sub(" +$", "", page, flags=re.MULTILINE), *choice_lines(compiled.plan), "", *stages, ""]
    golden("inspected", {f"{name.replace(' ', '_')}.txt": "\n".join(said)})
