"""What the schedules save of a convolution's traffic: ``python -m benchmarks.reuse [--full]``.

Every filter tap reads nearly the same activations. How often these pass through TMA and out of shared memory is up to
the schedule; here every number is one that the simulator counted (`convc.machine.Counters`), set beside that of
``reload``, which loads them anew for every tap:

    activation  bytes that TMA brings into shared memory
    B/MMA       bytes of shared memory that the tensor core reads, tcgen05.cp included, for each tcgen05.mma
    waste       lanes of accumulators that hold no output pixel
    CPU         processor time of the simulator
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from benchmarks.budget import read_budgets, report
from benchmarks.layers import EACH, light_models
from benchmarks.timing import best, yardstick
from convc import machine
from convc.build.writer import layer_of
from convc.compiler.compile import Compiled, compile_problem
from convc.compiler.kernels import kernel_of
from convc.compiler.options import ScheduleOptions
from convc.compiler.planner.conflicts import schedules_for
from convc.compiler.planner.search import plan
from convc.errors import PlanError
from convc.host_layout.device_layout import device_layout
from convc.ir.problem import ConvProblem
from convc.machine import Counters
from convc.report.format import convolution
from convc.runtime.layer import input_buffers
from convc.support.memory import human_bytes
from convc.verification.data import normal_data

SCHEDULES = {
    "reload": ScheduleOptions(schedule="reload", split_k="off"),
    "slide": ScheduleOptions(schedule="slide", split_k="off"),
    "slide_mask": ScheduleOptions(schedule="slide", border="mask", split_k="off"),
    "shift_chain": ScheduleOptions(schedule="shift", shift="chain", split_k="off"),
    "shift_ashift": ScheduleOptions(schedule="shift", shift="ashift", split_k="off"),
    "shift_windows": ScheduleOptions(schedule="shift", shift="windows", split_k="off"),
    "stationary": ScheduleOptions(schedule="stationary"),
}
"""What is measured; the others are compared with the first."""

REPRESENTATIVE = (
    "resnet50/n7", "resnet50/n51", "resnet50/n93", "resnet50/n155", "resnet50/n39", "densenet121/n0", "densenet121/n21",
    "inception_v1/n18", "inception_v1/n32", "squeezenet/n7", "vgg19/n2", "vgg19/n28", "zfnet512/n4",
)  # fmt: skip
"""3x3 from 7 to 224 pixels wide and with stride 2, 5x5, 5x5 with stride 2, 7x7."""

DEMO = REPRESENTATIVE[:4]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One layer on one schedule."""

    compiled: Compiled
    counters: Counters
    cpu_seconds: float

    @property
    def activation(self) -> int:
        """Bytes of activations through TMA."""
        return self.counters.tma_loads["activation"].bytes

    @property
    def per_mma(self) -> float:
        """Bytes of shared memory that the tensor core reads for each MMA."""
        return self.counters.operand_bytes / self.counters.mma

    @property
    def lanes(self) -> int:
        """Output pixels that all tiles together have room for."""
        return math.prod(self.compiled.plan.launch.tiles) * self.compiled.plan.tiling.block_m

    @property
    def waste(self) -> int:
        """How many of the lanes hold no pixel of the output."""
        return self.lanes - self.compiled.problem.gemm_m * self.compiled.plan.launch.tiles[1]


Found = dict[str, dict[str, Measured | PlanError]]
"""By layer and schedule: the numbers, or why there is no such kernel."""


def twin(problem: ConvProblem, schedule: str) -> Compiled:
    """The kernel of one schedule, with tiles as wide as those of ``reload`` where the schedule leaves the choice."""
    options = SCHEDULES[schedule]
    if any(each.transposed for each in schedules_for(options)):
        return compile_problem(problem, options=options)
    width = compile_problem(problem, options=SCHEDULES["reload"]).plan.tiling.block_n
    return compile_problem(problem, options=options, block_n=width)


def run(problem: ConvProblem, schedule: str) -> Measured | PlanError:
    """Compile and run one layer."""
    try:
        compiled = twin(problem, schedule)
    except PlanError as error:
        return error
    x, w, b = normal_data(problem, seed=0)
    layer = layer_of(problem, kernel_of(compiled), w, b)
    launch = layer.ptx, layer.launch, input_buffers(layer, x)
    with threadpool_limits(1, user_api="blas"):
        counters = machine.run(*launch).counters
        return Measured(
            compiled=compiled, counters=counters, cpu_seconds=best(lambda: machine.run(*launch, options=EACH))
        )


def run_all(names: Iterable[str] | None) -> Found:
    """The layers named, or all, on every schedule."""
    layers = light_models()
    return {name: {schedule: run(layers[name], schedule) for schedule in SCHEDULES} for name in names or layers}


def measure(selection: str) -> dict[str, float]:
    """The numbers that have budgets, of the representative layers or, for ``demo``, of four."""
    names = DEMO if selection == "demo" else REPRESENTATIVE
    seconds = planning(names)
    return numbers(run_all(names)) | {"plan_seconds": seconds, "plan_times_sympy": seconds / yardstick()}


def planning(names: Iterable[str]) -> float:
    """Processor seconds to plan all schedules of a layer and choose one: the slowest of the layers named."""
    forms = [device_layout(light_models()[name]) for name in names]
    return max(best(partial(plan, layout, options=ScheduleOptions())) for layout in forms)


def numbers(found: Found) -> dict[str, float]:
    """Of each schedule beside ``reload``: the worst ratios over 3x3 layers of stride 1 that keep the extent, and of all
    layers together the ratio of processor times. What no layer has is left out."""
    out = {"layers": len(found), "reload_cpu_seconds": sum(own["reload"].cpu_seconds for own in found.values())}
    for schedule in list(SCHEDULES)[1:]:
        pairs = [(own["reload"], own[schedule]) for own in found.values() if isinstance(own[schedule], Measured)]
        same = [pair for pair in pairs if keeps_extent(pair[0].compiled.problem) and rows_alike(*pair)]
        narrow = [pair for pair in same if all(one.compiled.plan.tiling.block_n == 64 for one in pair)]
        out[f"{schedule}_layers"] = len(pairs)
        worst(out, f"{schedule}_activation", same, lambda one: one.activation / one.lanes)
        worst(out, f"{schedule}_operands_n64", narrow, lambda one: one.per_mma)
        if pairs:
            times = [sum(one.cpu_seconds for one in side) for side in zip(*pairs, strict=True)]
            out[f"{schedule}_cpu"] = times[1] / times[0]
    return out


def worst(out: dict[str, float], name: str, pairs: list, value: Callable[[Measured], float]) -> None:
    """Add the largest ratio of a number to that of ``reload``."""
    if pairs:
        out[name] = max(value(other) / value(reload) for reload, other in pairs)


def rows_alike(one: Measured, other: Measured) -> bool:
    """Whether both hold pixels in rows of as many bytes; the wide copies have no rows of 32."""
    return one.compiled.plan.tiling.row_bytes == other.compiled.plan.tiling.row_bytes


def keeps_extent(problem: ConvProblem) -> bool:
    """3x3, stride 1, no dilation, one pixel of padding all round."""
    ones = (problem.stride, problem.dilation, problem.pad_lo, problem.pad_hi)
    return problem.kernel == (3, 3) and all(pair == (1, 1) for pair in ones)


def table(found: Found) -> Table:
    """One row per layer and schedule; dashes where a schedule has no kernel."""
    out = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("layer", "convolution", "schedule"):
        out.add_column(heading)
    for heading in ("activation", "ratio", "B/MMA", "ratio", "MMAs", "cp", "shift", "masked", "waste", "CPU"):
        out.add_column(heading, justify="right")
    for name, own in found.items():
        reload = own["reload"]
        for schedule, one in own.items():
            head = (name, convolution(reload.compiled.problem), schedule)
            if isinstance(one, PlanError):
                out.add_row(*head, *"-" * 10)
                continue
            counters = one.counters
            out.add_row(
                *head,
                human_bytes(one.activation),
                f"{one.activation / reload.activation:.3f}",
                f"{one.per_mma:.0f}",
                f"{one.per_mma / reload.per_mma:.3f}",
                str(counters.mma),
                str(sum(counters.cp.values())),
                str(counters.shift),
                str(counters.masked_lanes),
                str(one.waste),
                f"{one.cpu_seconds / reload.cpu_seconds:.2f}",
            )
    return out


def main(arguments: list[str] | None = None) -> int:
    """Print the table, and the numbers with their budgets; 1 where a budget is passed."""
    parser = argparse.ArgumentParser(prog="benchmarks.reuse", description="What the schedules save of the traffic.")
    parser.add_argument("--full", action="store_true", help="every distinct layer of the onnx package's models")
    found = run_all(None if parser.parse_args(arguments).full else REPRESENTATIVE)
    console = Console(width=200, highlight=False, markup=False)
    console.print(table(found))
    for name, own in found.items():
        for schedule, one in own.items():
            if isinstance(one, PlanError):
                console.print(f"{name}, {schedule}: {one.message}", soft_wrap=True)
    return report({"reuse": numbers(found)}, read_budgets())


if __name__ == "__main__":
    sys.exit(main())
