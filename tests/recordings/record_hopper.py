"""Launches convolutions compiled for sm_90a on a Hopper GPU; records what they leave and how long they and cuDNN take.

    cd tests
    python -m recordings.record_hopper hopper.json

Needs what `convc launch` needs, and PyTorch for the times of cuDNN.
"""

from __future__ import annotations

import datetime
import json
import re
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from recordings.hopper_cases import Case, cases

from convc.build.writer import layer_of
from convc.compiler.compile import compile_problem
from convc.compiler.kernels import Kernel, kernel_of, shared_problem
from convc.compiler.tile.program import TileProgram
from convc.errors import ConvcError
from convc.gpu.contents import digest
from convc.gpu.cuda import CudaDriver
from convc.gpu.perform import perform
from convc.gpu.plan import plan_launch
from convc.host_layout import repack
from convc.host_layout.device_layout import device_layout
from convc.ir.dtypes import ARRAY_TYPES
from convc.ir.epilogue import exact_on_integers
from convc.ir.problem import ConvProblem
from convc.ir.sums import sums_of
from convc.verification import reference
from convc.verification.bound import error_bound, expected_result
from convc.verification.compare import Comparison, compare
from convc.verification.data import integer_data, multipliers, normal_data, residual_data
from convc.verification.epilogue_bound import through_epilogue

TIMED = 20
CUDNN_TYPES = {"f16": "float16", "bf16": "bfloat16", "tf32": "float32"}
"""Operands of convolutions that PyTorch gives to cuDNN, and what it calls them."""
IN_A_ROW = 100
"""Convolutions of cuDNN that are timed together."""
PROCESSES = 5
"""Processes of which the best one's time of cuDNN is taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A case that can be launched.

    Attributes:
        kernel, tiling, program: what was compiled.
        buffers: what the kernel reads.
        expected, allowed: the result of the reference, and what it may be off by; None: nothing.
    """

    kernel: Kernel
    tiling: str
    program: TileProgram
    buffers: dict[str, np.ndarray]
    expected: np.ndarray
    allowed: np.ndarray | None


def prepared(case: Case, random: bool = False) -> Prepared:
    """Compile a case, draw its data, whole numbers or random ones, and ask the reference."""
    compiled = compile_problem(case.problem, options=case.options, block_n=case.block_n)
    kernel = kernel_of(compiled)
    x, w, b = (normal_data if random else integer_data)(case.problem, case.seed)
    multiplier = multipliers(case.problem, case.seed)
    residual = residual_data(case.problem, case.seed, integer=not random)
    layer = layer_of(case.problem, kernel, w, b, multiplier)
    buffers = {
        "activation": repack.pack_activation(compiled.layout, x),
        "filter": layer.filter,
        "bias": repack.scaled_bias(compiled.layout, layer.bias, x),
    }
    if residual is not None:
        buffers["residual"] = repack.pack_residual(compiled.layout, residual)
    expected = expected_result(case.problem, x, w, b, multiplier, residual)
    allowed = None
    if random:
        allowed = error_bound(case.problem, x, w, b, residual, sums_of(kernel.artifact.ptx, case.problem.operand))
    elif not exact_on_integers(case.problem.epilogue):
        sums = reference.conv_sums(case.problem, x, w, b)
        allowed = through_epilogue(case.problem, sums, np.zeros_like(sums), residual)
    return Prepared(
        kernel=kernel,
        tiling=str(compiled.plan.tiling),
        program=compiled.program,
        buffers=buffers,
        expected=expected,
        allowed=allowed,
    )


def judged(case: Case, made: Prepared, output: np.ndarray) -> Comparison:
    """An output buffer beside the reference's result."""
    y = repack.unpack_output(device_layout(shared_problem(case.problem)), output)
    return compare(y, made.expected, made.allowed)


def launched(driver: CudaDriver, case: Case, made: Prepared) -> dict[str, Any]:
    """One case: what the kernel leaves, whether that is right, and its times."""
    artifact = made.kernel.artifact
    spec = artifact.launch.buffers["output"]
    contents = {name: np.ascontiguousarray(array).reshape(-1).view(np.uint8) for name, array in made.buffers.items()}
    done = perform(
        driver,
        plan_launch(artifact.launch, artifact.ptx),
        artifact.ptx.encode(),
        contents,
        repeat=TIMED if case.timed else 0,
        seconds=20.0,
    )
    output = done.buffers["output"].view(ARRAY_TYPES[spec.dtype]).reshape(spec.shape)
    found = judged(case, made, output)
    record: dict[str, Any] = {
        "name": case.name,
        "schedule": made.kernel.schedule,
        "tiling": made.tiling,
        "grid": list(artifact.launch.grid[:2]),
        "digest": digest(output),
        "wrong": found.count_wrong,
    }
    if made.allowed is not None:
        record["of_the_bound"] = round(found.worst_ratio, 3)
    if done.timing is not None:
        record["microseconds"] = round(done.timing.median, 2)
        record["streamed"] = round(done.timing.streamed, 2)
        record["clock_ghz"] = round(done.timing.clock_ghz, 3)
    return record


def cudnn(problem: ConvProblem) -> float:
    """Microseconds of a convolution of cuDNN's best algorithm, of many in a row, channels last, without a bias."""
    import torch

    dtype = getattr(torch, CUDNN_TYPES[problem.operand])
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.benchmark_limit = 0
    torch.backends.cudnn.allow_tf32 = True
    x = torch.randint(-3, 4, problem.x_shape, device="cuda").to(dtype).to(memory_format=torch.channels_last)
    w = torch.randint(-3, 4, problem.w_shape, device="cuda").to(dtype).to(memory_format=torch.channels_last)

    def run() -> None:
        torch.nn.functional.conv2d(x, w, None, problem.stride, problem.pad_lo, problem.dilation, problem.groups)

    for _ in range(3):
        run()
    best = float("inf")
    for _ in range(5):
        begin = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(20_000_000)  # until all are queued, so that the host is not measured
        begin.record()
        for _ in range(IN_A_ROW):
            run()
        end.record()
        torch.cuda.synchronize()
        best = min(best, 1000 * begin.elapsed_time(end) / IN_A_ROW)
    return round(best, 2)


def main(out: str, pattern: str = ".") -> None:
    """Record the cases whose name matches."""
    chosen = [case for case in cases() if re.search(pattern, case.name)]
    launches: list[dict[str, Any]] = []
    with ProcessPoolExecutor(14, mp_context=get_context("spawn")) as pool:
        waiting = {case.name: pool.submit(prepared, case) for case in chosen}
        drawn = [(case, pool.submit(prepared, case, True)) for case in chosen if not case.timed]
        driver = CudaDriver()
        device = driver.device()
        record: dict[str, Any] = {
            "device": device.name,
            "arch": device.arch,
            "cuda": device.cuda,
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "launches": launches,
        }
        for case in chosen:
            try:
                found = launched(driver, case, waiting.pop(case.name).result())
            except ConvcError as error:
                found = {"name": case.name, "error": error.message}
            print(found, flush=True)
            launches.append(found)
            Path(out).write_text(json.dumps(record, indent=1) + "\n")
        record["random"] = [launched(driver, case, each.result()) for case, each in drawn]
        Path(out).write_text(json.dumps(record, indent=1) + "\n")
        driver.close()
    compared = [pair for pair in zip(chosen, launches, strict=True) if _is_compared(*pair)]
    problems = list(dict.fromkeys(case.problem for case, _ in compared))
    for _ in range(PROCESSES):  # the algorithm that is found differs between processes
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            times = dict(zip(problems, pool.submit(all_of_cudnn, problems).result(), strict=True))
        for case, found in compared:
            found["cudnn"] = min(found.get("cudnn", float("inf")), times[case.problem])
        Path(out).write_text(json.dumps(record, indent=1) + "\n")


def _is_compared(case: Case, found: dict[str, Any]) -> bool:
    """Whether a launch was timed, and is timed of cuDNN too."""
    return "streamed" in found and case.problem.operand in CUDNN_TYPES


def all_of_cudnn(problems: list[ConvProblem]) -> list[float]:
    """`cudnn` of each."""
    return [cudnn(problem) for problem in problems]


if __name__ == "__main__":
    main(*sys.argv[1:])
