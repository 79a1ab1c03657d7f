"""The 3x3 layers of ResNet-50 in other types, against float16: ratios of processor time from PTX text to result.

Each layer is run in all types in turns; ``worst`` is the type that takes longest.
"""

from __future__ import annotations

import dataclasses

from threadpoolctl import threadpool_limits

from benchmarks.layers import EACH, launch_of, resnet50
from benchmarks.timing import in_turns
from convc import machine
from convc.compiler.kernels import Kernels

RESULTS = {"f16": "f16", "bf16": "bf16", "tf32": "f32", "e4m3": "f16", "e5m2": "f16", "s8": "s32", "u8": "s32"}
"""Types of operands, and of their results."""


def measure(selection: str) -> dict[str, float]:
    """Seconds of float16, and of every other type the ratio to that."""
    kernels = Kernels()
    seconds = dict.fromkeys(RESULTS, 0.0)
    problems = [problem for problem in resnet50(selection) if problem.kernel == (3, 3)]
    with threadpool_limits(1, user_api="blas"):
        for problem in problems:
            launches = {
                operand: launch_of(kernels, dataclasses.replace(problem, operand=operand, out=out))
                for operand, out in RESULTS.items()
            }
            found = in_turns({name: lambda own=own: machine.run(*own, options=EACH) for name, own in launches.items()})
            for name, time in found.items():
                seconds[name] += time
    plain = seconds.pop("f16")
    ratios = {name: time / plain for name, time in seconds.items()}
    return {"layers": len(problems), "f16_cpu_seconds": plain, **ratios, "worst": max(ratios.values())}
