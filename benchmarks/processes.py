"""What a second process gains: one warm worker and two, over ResNet-50's layers and over the CTAs of one layer.

Waiting time, which other work on the computer changes: both numbers of a ratio are the best of a few runs in turns.
What the computer has to give is measured beside them: two cores that share caches, memory and clock are not two times
one, also where they share no work.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence

from threadpoolctl import threadpool_limits

from benchmarks.layers import resnet50
from benchmarks.network import simulate
from benchmarks.timing import REPEATS
from convc.compiler.kernels import Kernels
from convc.ir.network import ConvNode, TensorRef
from convc.ir.problem import ConvProblem
from convc.machine import RunOptions
from convc.verification.data import normal_data
from convc.workers.jobs import check_all
from convc.workers.pool import Pool

ROUNDS = 2 * REPEATS
"""Waiting times change by a third from round to round: other work on the computer slows two processes more than one."""

LAYER = ConvProblem(
    name="conv3x3", batch=16, in_channels=128, out_channels=128, in_extent=(28, 28), kernel=(3, 3), pad_lo=(1, 1),
    pad_hi=(1, 1), operand="f16", out="f16", bias=True,
)  # fmt: skip
"""A layer of 98 CTAs and 1.8 thousand million multiply-adds, whose CTAs and reference are shared."""


def measure(selection: str) -> dict[str, float]:
    """Times that two processes are faster than one: ``layers`` at batch 1, and ``ctas`` of one larger layer.

    ``apart``: two that have nothing to do with each other, each with all layers; ``layers_of_apart`` and
    ``ctas_of_apart``: how much of that is reached.
    """
    gains = {"layers": _gain(resnet50(selection)), "ctas": _gain((LAYER,))}
    apart = _apart(selection)
    return {**gains, "apart": apart, **{f"{name}_of_apart": gain / apart for name, gain in gains.items()}}


def _apart(selection: str) -> float:
    """Seconds of two programs one after the other through seconds of both at once."""
    best = {1: float("inf"), 2: float("inf")}
    for _ in range(REPEATS):
        for count in best:
            best[count] = min(best[count], _at_once(selection, count))
    return 2 * best[1] / best[2]


def _at_once(selection: str, count: int) -> float:
    """Seconds that the slower of a few programs takes for the layers, all of them begun at once."""
    command = [sys.executable, "-m", "benchmarks.processes", selection]
    programs = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(count)
    ]
    for program in programs:
        assert program.stdout is not None
        program.stdout.readline()  # it is warm
    for program in programs:
        assert program.stdin is not None
        program.stdin.write("go\n")
        program.stdin.flush()
    return max(float(program.communicate()[0]) for program in programs)


def _gain(problems: Sequence[ConvProblem]) -> float:
    """Seconds of one worker through seconds of two, compiled and warm."""
    convs = [_node(problem) for problem in problems]
    kernels = Kernels()
    best = {1: float("inf"), 2: float("inf")}
    with Pool("processes", 1) as one, Pool("processes", 2) as two:
        pools = {1: one, 2: two}
        for repeat in range(ROUNDS + 1):
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


def main(selection: str) -> None:
    """Run the layers to be warm, wait for a line, run them again, and print the seconds."""
    problems = resnet50(selection)
    with threadpool_limits(1, user_api="blas"):
        simulate(problems)
        print("warm", flush=True)
        sys.stdin.readline()
        print(simulate(problems)[0])


if __name__ == "__main__":
    main(sys.argv[1])
