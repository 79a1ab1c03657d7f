"""Random operators and schedules, launched on the GPU that is there: what it leaves must be what the reference says.

Whole numbers bit for bit, normal data within the derived bound. Cases are those of `convolutions`, and those of
`schedules`, but larger, as a GPU takes them in no time. A kernel that faults or hangs ends its process, as the GPU's
context is of no use behind it.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import random
import sys
from collections.abc import Callable, Mapping

import numpy as np
from fuzz.convolutions import Convolutions, Gradients
from fuzz.schedules import Schedules
from fuzz.subjects import Case

from convc.api.choices import schedule_choices
from convc.build.folder import Layer
from convc.build.writer import layer_of
from convc.compiler.compile import compile_problem
from convc.compiler.kernels import kernel_of
from convc.compiler.options import ScheduleOptions
from convc.errors import GpuError, GpuFault
from convc.gpu.cuda import CudaDriver
from convc.gpu.perform import perform
from convc.gpu.plan import plan_launch
from convc.host_layout.repack import unpack_output
from convc.ir.epilogue import exact_on_integers
from convc.ir.problem import ConvProblem
from convc.ir.sums import sums_of
from convc.machine import RunOptions, Switches
from convc.runtime.layer import input_buffers, output_of, run_layer
from convc.verification import reference
from convc.verification.bound import error_bound, expected_result
from convc.verification.compare import compare
from convc.verification.data import integer_data, multipliers, normal_data, residual_data
from convc.verification.epilogue_bound import through_epilogue

Launch = Callable[[Layer, Mapping[str, np.ndarray]], np.ndarray]
"""Launches the kernel of a layer on packed buffers: its output buffer as it is, (N, P, Q, k_pitch)."""

ANY = ScheduleOptions()
"""Whatever the planner takes."""

EXACT = RunOptions(switches=Switches(numerics="exact"))
"""Sums as the tensor core adds them."""

MACHINE_WORK = 3_000_000
"""Most multiply-adds of a case for the simulator, which takes seconds for more."""

LAUNCH_S = 10.0
"""Seconds after which a kernel is taken for one that hangs."""


class Gpu:
    """Kernels on the GPU that is there, compared with the reference."""

    def __init__(self, launch: Launch | None = None, target: str = "") -> None:
        """A way to launch kernels for a target; without one on the first GPU, `GpuError` where there is none."""
        if launch is None:
            driver = CudaDriver()
            target = target_of(driver.device().capability)
            launch = functools.partial(launched, driver)
        self._launch = launch
        self._target = target

    def agrees(self, problem: ConvProblem, seed: int, options: ScheduleOptions = ANY) -> None:
        """Compile a kernel, and launch it on whole numbers and on normal data.

        One of few products is run on the simulator too, which rounds as the GPU does: every bit must agree.
        """
        kernel = kernel_of(compile_problem(problem, options=dataclasses.replace(options, target=self._target)))
        multiplier = multipliers(problem, seed)
        for integer in (True, False):
            x, w, b = (integer_data if integer else normal_data)(problem, seed)
            residual = residual_data(problem, seed, integer=integer)
            layer = layer_of(problem, kernel, w, b, multiplier)
            y = self._result(layer, x, residual)
            expected = expected_result(problem, x, w, b, multiplier, residual)
            if not integer:
                allowed = error_bound(problem, x, w, b, residual, sums_of(kernel.artifact.ptx, problem.operand))
            elif exact_on_integers(problem.epilogue):
                allowed = None
            else:
                sums = reference.conv_sums(problem, x, w, b)
                allowed = through_epilogue(problem, sums, np.zeros_like(sums), residual)
            found = compare(y, expected, allowed)
            assert found.ok, f"{'whole numbers' if integer else 'normal data'}: {found}"
            if problem.macs <= MACHINE_WORK and exact_on_integers(problem.epilogue):
                ran = run_layer(layer, x, EXACT, residual=residual)
                assert np.array_equal(ran.y, y), f"another rounding: {compare(y, ran.y.astype(np.float64))}"

    def _result(self, layer: Layer, x: np.ndarray, residual: np.ndarray | None) -> np.ndarray:
        """What a launch makes of activations, (N, K, P, Q); a launch that goes wrong is the end of the process."""
        buffers = {"filter": layer.filter, "bias": layer.bias} | input_buffers(layer, x, residual)
        try:
            return unpack_output(layer.layout, self._launch(layer, buffers))
        except (GpuError, GpuFault) as wrong:
            print(wrong, file=sys.stderr, flush=True)
            os._exit(1)


class Launches(Schedules):
    """Problems and choices of `Schedules`, larger."""

    most_work = 400_000_000
    """Multiply-adds of a case: several waves on a GPU of 132 SMs, a second of the reference."""

    batches = (1, 1, 2, 5, 8, 24)
    most_extent = 56

    def __init__(self, gpu: Gpu | None = None) -> None:
        self._gpu = gpu or Gpu()

    def case(self, rng: random.Random) -> Case:
        """A case of `Schedules`, whose target is not drawn: the GPU has one."""
        case = super().case(rng)
        case["options"].pop("target", None)
        return case

    def agree(self, problem: ConvProblem, seed: int, options: ScheduleOptions) -> None:
        """See `Gpu.agrees`; an error of ours where there is no such kernel."""
        self._gpu.agrees(problem, seed, options)


class LaunchedOperators(Convolutions):
    """Operators of `Convolutions`, as the planner makes them for this GPU."""

    def __init__(self, gpu: Gpu | None = None) -> None:
        self._gpu = gpu or Gpu()

    def agree(self, problem: ConvProblem, seed: int) -> None:
        """See `Gpu.agrees`."""
        self._gpu.agrees(problem, seed)


class LaunchedGradients(LaunchedOperators, Gradients):
    """Gradients of `Gradients`, in the same way."""


def target_of(capability: tuple[int, int]) -> str:
    """The target among ours that a GPU of this compute capability runs; `GpuError` where there is none."""
    target = f"sm_{capability[0]}{capability[1]}a"
    known = schedule_choices()["target"]
    if target not in known:
        raise GpuError(f"kernels are compiled for {' and '.join(known)}, and this GPU is one of {target}")
    return target


def launched(driver: CudaDriver, layer: Layer, buffers: Mapping[str, np.ndarray]) -> np.ndarray:
    """`Launch`, by the driver."""
    contents = {name: np.ascontiguousarray(array).reshape(-1).view(np.uint8) for name, array in buffers.items()}
    done = perform(driver, plan_launch(layer.launch, layer.ptx), layer.ptx.encode(), contents, seconds=LAUNCH_S)
    return output_of(layer.layout, done.buffers)
