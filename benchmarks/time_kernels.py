"""What `convc time` costs, as ratios of processor time to plain runs of the same kernels on the simulator.

``recording_times_plain`` and ``trace_times_plain`` are of the first 3x3 layer of ResNet-50, of 25 CTAs: its trace
alone, and its time with the file for Perfetto; ``answer_times_plain``: its time, the file, and the numbers that the
time depends on. ``all_times_plain`` is of all layers: each kernel is timed once, as
`convc.time` does, and run once for each layer that has it. ``worst_trace_times_plain`` is of the worst 3x3 layer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from benchmarks.layers import EACH, resnet50
from benchmarks.timing import best
from convc import machine
from convc.build.writer import layer_of
from convc.compiler.kernels import Kernels
from convc.ir.dtypes import ARRAY_TYPES
from convc.ir.launch import LaunchSpec
from convc.machine.launch import uncollected
from convc.report.perfetto import trace_bytes
from convc.runtime.layer import input_buffers
from convc.timing.kernel import time_kernel
from convc.timing.parameters import read_chip
from convc.timing.recorder import Recorder
from convc.verification.data import normal_data


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Seconds of processor time for one kernel; those of 3x3 layers have all of them."""

    plain: float
    timed: float
    recorded: float = 0.0
    traced: float = 0.0
    answered: float = 0.0


def measure(selection: str) -> dict[str, float]:
    """All ratios."""
    kernels = Kernels()
    known: dict[str, Costs] = {}
    square: list[Costs] = []
    plain = 0.0
    for problem in resnet50(selection):
        x, w, b = normal_data(problem, seed=0)
        layer = layer_of(problem, kernels.compiled(problem), w, b)
        key = f"{layer.launch}\n{layer.ptx}"
        if key not in known:
            known[key] = costs(layer.ptx, layer.launch, input_buffers(layer, x), problem.kernel == (3, 3))
            square += [known[key]] if problem.kernel == (3, 3) else []
        plain += known[key].plain
    return {
        "recording_times_plain": square[0].recorded / square[0].plain,
        "trace_times_plain": square[0].traced / square[0].plain,
        "answer_times_plain": square[0].answered / square[0].plain,
        "worst_trace_times_plain": max(one.traced / one.plain for one in square),
        "all_times_plain": sum(one.timed for one in known.values()) / plain,
    }


def costs(text: str, launch: LaunchSpec, buffers: dict[str, np.ndarray], whole: bool) -> Costs:
    """Seconds for one kernel; ``whole``: also those of its recording and its file."""
    chip = read_chip("b200")
    plain = best(lambda: machine.run(text, launch, buffers, options=EACH))
    timed = best(lambda: time_kernel(text, launch, {}, chip))
    if not whole:
        return Costs(plain=plain, timed=timed)
    kernel = time_kernel(text, launch, {}, chip)
    traced = timed + best(lambda: trace_bytes(kernel))
    answered = traced + best(kernel.dependences)
    recorded = best(lambda: record(text, launch))
    return Costs(plain=plain, timed=timed, recorded=recorded, traced=traced, answered=answered)


@uncollected()
def record(text: str, launch: LaunchSpec) -> None:
    """Take the trace of a cluster in the middle of the grid."""
    zeros = {name: np.zeros(spec.shape, ARRAY_TYPES[spec.dtype]) for name, spec in launch.buffers.items()}
    together = math.prod(launch.cluster)
    first = launch.ctas // (2 * together) * together
    options = machine.RunOptions(ctas=(first, first + together))
    machine.run(text, launch, zeros, options=options, observer=Recorder())
