"""Larger batches of conv1 and of the four 3x3 stages of ResNet-50, float16, against numpy's im2col and sgemm.

Processor time from PTX text to result, through that of numpy for as many images. The layer of a stage is its second, of
stride 1. ``peak_gib`` is the most memory that the process had by then.
"""

from __future__ import annotations

import dataclasses
import resource

from threadpoolctl import threadpool_limits

from benchmarks.layers import EACH, launch_of, resnet50
from benchmarks.network import im2col_sgemm, rival_data
from benchmarks.timing import in_turns
from convc import machine
from convc.compiler.kernels import Kernels
from convc.ir.problem import ConvProblem

LAYERS = ("conv1", "layer1.1.conv2", "layer2.1.conv2", "layer3.1.conv2", "layer4.1.conv2")
BATCHES = (8, 32)


def measure(selection: str) -> dict[str, float]:
    """Times im2col of each layer at each batch, and of the stages together; ``demo``: at the smaller batch alone."""
    problems = [problem for problem in resnet50() if problem.name in LAYERS]
    kernels = Kernels()
    found: dict[str, float] = {}
    with threadpool_limits(1, user_api="blas"):
        for batch in BATCHES if selection == "all" else BATCHES[:1]:
            times = {problem.name: _times(kernels, problem, batch) for problem in problems}
            for name, (own, numpy) in times.items():
                found[f"{name.split('.')[0]}_{batch}"] = own / numpy
            stages = [pair for name, pair in times.items() if name != "conv1"]
            found[f"stages_{batch}"] = sum(own for own, _ in stages) / sum(numpy for _, numpy in stages)
    return found | {"peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20}


def _times(kernels: Kernels, problem: ConvProblem, batch: int) -> tuple[float, float]:
    """Processor seconds of the simulator, and of numpy for as many images."""
    launch = launch_of(kernels, dataclasses.replace(problem, batch=batch))
    data = rival_data(problem)
    times = in_turns(
        {
            "machine": lambda: machine.run(*launch, options=EACH),
            "numpy": lambda: [im2col_sgemm(problem, *data) for _ in range(batch)],
        }
    )
    return times["machine"], times["numpy"]
