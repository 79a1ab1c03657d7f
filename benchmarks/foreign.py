"""Kernels of another compiler on the simulator: Triton's matmul by tensor maps, its attention and its softmax.

``matmul_times_sgemm`` is the matmul of 1024 x 1024 float16 matrices to numpy's float32 product of that size, in
processor time, from PTX text to result. Attention and softmax are small: one run is mostly interpretation, so that
their times are in imports of sympy.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from msgspec.structs import replace
from threadpoolctl import threadpool_limits

from benchmarks.layers import EACH
from benchmarks.timing import best, yardstick
from convc import machine
from convc.ir.dtypes import ARRAY_TYPES
from convc.ir.launch import LaunchSpec, ScalarParam, TensorMapParam, load_launch

FOLDER = Path(__file__).parents[1] / "tests" / "foreign"
SIZE = 1024
TILE = 128
"""Rows and columns of the result that one CTA of the matmul computes."""

SMALL = ("attention_bf16", "softmax")
RUNS = 4
"""Runs of a small kernel that are timed together."""


def measure(selection: str) -> dict[str, float]:
    """All numbers of this benchmark; ``demo`` multiplies matrices of a quarter of the size."""
    size = SIZE if selection == "all" else SIZE // 4
    found: dict[str, float] = {}
    with threadpool_limits(1, user_api="blas"):
        text, launch = _kernel("matmul_tma_f16")
        seconds = _seconds(text, square(launch, size))
        a, b = np.random.default_rng(0).random((2, size, size), np.float32)
        found["matmul_cpu_seconds"] = seconds
        found["matmul_times_sgemm"] = seconds / best(lambda: a @ b.T)
        for name in SMALL:
            text, launch = _kernel(name)
            found[f"{name}_times_sympy"] = _seconds(text, launch, RUNS) / RUNS / yardstick()
    return found


def square(launch: LaunchSpec, size: int) -> LaunchSpec:
    """The launch of the matmul for square matrices."""
    params = []
    for param in launch.params:
        if isinstance(param, TensorMapParam):
            tmap = replace(param.map, dims=(size, size), strides=(2 * size,))
            param = replace(param, map=tmap)
        elif isinstance(param, ScalarParam) and param.value > 1:
            param = replace(param, value=size)
        params.append(param)
    buffers = {name: replace(buffer, shape=(size, size)) for name, buffer in launch.buffers.items()}
    return replace(launch, grid=(size // TILE, size // TILE, 1), buffers=buffers, params=tuple(params))


def _kernel(name: str) -> tuple[str, LaunchSpec]:
    return (FOLDER / name / "kernel.ptx").read_text(), load_launch(FOLDER / name / "launch.json")


def _seconds(text: str, launch: LaunchSpec, runs: int = 1) -> float:
    """Processor seconds of some runs on small whole numbers."""
    rng = np.random.default_rng(0)
    inputs = {name: rng.integers(0, 4, b.shape).astype(ARRAY_TYPES[b.dtype]) for name, b in launch.buffers.items()}
    return best(lambda: [machine.run(text, launch, inputs, options=EACH) for _ in range(runs)])
