"""What a second process gains: one warm worker and two, over ResNet-50's layers and over the CTAs of one layer.

Waiting time, which other work on the computer changes: both numbers of a ratio are the best of a few runs in turns.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from benchmarks.layers import resnet50
from benchmarks.timing import REPEATS
from convc.compiler.kernels import Kernels
from convc.ir.network import ConvNode, TensorRef
from convc.ir.problem import ConvProblem
from convc.machine import RunOptions
from convc.verification.data import normal_data
from convc.workers.jobs import check_all
from convc.workers.pool import Pool

LAYER = ConvProblem(
    name="conv3x3", batch=16, in_channels=128, out_channels=128, in_extent=(28, 28), kernel=(3, 3), pad_lo=(1, 1),
    pad_hi=(1, 1), operand="f16", out="f16", bias=True,
)  # fmt: skip
"""A layer of 98 CTAs and 1.8 thousand million multiply-adds, whose CTAs and reference are shared."""


def measure(selection: str) -> dict[str, float]:
    """Times that two processes are faster than one: ``layers`` at batch 1, and ``ctas`` of one larger layer."""
    return {"layers": _gain(resnet50(selection)), "ctas": _gain((LAYER,))}


def _gain(problems: Sequence[ConvProblem]) -> float:
    """Seconds of one worker through seconds of two, compiled and warm."""
    convs = [_node(problem) for problem in problems]
    kernels = Kernels()
    best = {1: float("inf"), 2: float("inf")}
    with Pool("processes", 1) as one, Pool("processes", 2) as two:
        pools = {1: one, 2: two}
        for repeat in range(REPEATS + 1):
            for jobs, pool in pools.items():
                started = time.perf_counter()
                check_all(kernels, convs, pool, seed=0, modes=("integer",), options=RunOptions())
                if repeat:  # the first round compiles, imports and fills the workers' caches
                    best[jobs] = min(best[jobs], time.perf_counter() - started)
    return best[1] / best[2]


def _node(problem: ConvProblem) -> ConvNode:
    """A layer with random weights, as a model has it."""
    _, weight, bias = normal_data(problem, seed=0)
    x = TensorRef(name="x", dtype=problem.operand, shape=problem.x_shape)
    y = TensorRef(name="y", dtype=problem.out, shape=problem.y_shape)
    return ConvNode(name=problem.name, problem=problem, input=x, weight=weight, bias=bias, output=y)
