"""ResNet-50's convolutions on the simulator, and the same layers in numpy and onnxruntime.

One process measures all three, on one thread each:

    machine       packed inputs and PTX text to results, parsing included, imports not (kernels were compiled before)
    im2col        numpy: gather the patches, one float32 matrix product
    onnxruntime   its float32 Conv, one thread

Rates and ratios are taken from processor time, which other work on the computer hardly changes; ``seconds`` is
what a user waits. The peak memory is that of the process up to the end of the simulator's part.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.layers import resnet50
from benchmarks.timing import REPEATS, best, peak_kib
from convc import machine, ptx
from convc.build.writer import layer_of
from convc.compiler.kernels import Kernels
from convc.ir.problem import ConvProblem
from convc.runtime.layer import input_buffers
from convc.support.resources import make_models
from convc.verification.data import normal_data


def measure(selection: str) -> dict[str, float]:
    """All numbers of this benchmark, from the fastest of a few fresh processes."""
    command = [sys.executable, "-m", "benchmarks.network", selection]
    runs = [subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout for _ in range(REPEATS)]
    return min(map(json.loads, runs), key=lambda numbers: numbers["cpu_seconds"])


def main(selection: str) -> None:
    """Measure, and print the numbers as JSON."""
    problems = resnet50(selection)
    gflop = 2e-9 * sum(problem.macs for problem in problems)
    with threadpool_limits(1, user_api="blas"):
        seconds, cpu_seconds, slowest = simulate(problems)
        peak = peak_kib()
        numpy_seconds = best(lambda: [im2col_sgemm(problem, *rival_data(problem)) for problem in problems])
        runtime_seconds = onnxruntime_seconds(selection)
    print(
        json.dumps(
            {
                "layers": len(problems),
                "gflop": gflop,
                "seconds": seconds,
                "cpu_seconds": cpu_seconds,
                "gflops": gflop / cpu_seconds,
                "peak_gib": peak / 2**20,
                "slowest_layer_seconds": slowest,
                "im2col_cpu_seconds": numpy_seconds,
                "onnxruntime_cpu_seconds": runtime_seconds,
                "times_im2col": cpu_seconds / numpy_seconds,
                "times_onnxruntime": cpu_seconds / runtime_seconds,
            }
        )
    )


def simulate(problems: tuple[ConvProblem, ...]) -> tuple[float, float, float]:
    """Seconds to run all layers from text to result, seconds of processor time for that, and the slowest layer's."""
    kernels, times, cpu = Kernels(), [], 0.0
    execute, _ = machine.run, ptx.parse  # imports simulator and reader, as numpy is imported before its time begins
    for problem in problems:
        compiled = kernels.compiled(problem)
        x, w, b = normal_data(problem, seed=0)
        layer = layer_of(problem, compiled, w, b)
        buffers = input_buffers(layer, x)
        started, cpu_started = time.perf_counter(), time.process_time()
        execute(layer.ptx, layer.launch, buffers, file=layer.file)
        times.append(time.perf_counter() - started)
        cpu += time.process_time() - cpu_started
    return sum(times), cpu, max(times)


def rival_data(problem: ConvProblem) -> tuple[np.ndarray, np.ndarray]:
    """Activations (C, H, W) and a filter matrix (K, C*R*S); the values do not matter for speed."""
    x = np.ones(problem.x_shape[1:], np.float32)
    return x, np.ones((problem.out_channels, problem.gemm_k), np.float32)


def im2col_sgemm(problem: ConvProblem, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """One image's convolution as numpy users write it: patches (C*R*S, P*Q), then a product; (K, P*Q)."""
    (top, left), (bottom, right) = problem.pad_lo, problem.pad_hi
    padded = np.pad(x, ((0, 0), (top, bottom), (left, right)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, problem.kernel, axis=(1, 2))
    windows = windows[:, :: problem.stride[0], :: problem.stride[1]]
    patches = windows.transpose(0, 3, 4, 1, 2).reshape(problem.gemm_k, problem.gemm_m)
    return w @ patches


def onnxruntime_seconds(selection: str) -> float:
    """Processor seconds of one pass of onnxruntime over the layers."""
    import onnxruntime

    models = make_models()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "layers.onnx"
        layers = models.read_layers(selection)
        models.build_resnet50_layers(path, layers, dtype="f32")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feeds = {entry.name: np.ones(entry.shape, np.float32) for entry in session.get_inputs()}
    return best(lambda: session.run(None, feeds))


if __name__ == "__main__":
    main(sys.argv[1])
