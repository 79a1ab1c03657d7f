"""What going around the rings costs a warp, counted in machine code: `convc time --sass` of a kernel of each schedule.

``load_cycles_*``: cycles between two stages that the load warp announces, by the stall counts that ptxas has set, on
the way that the warp takes through the code; waiting for room is not in them. The way between two points
is the engine's (`convc.timing.assembler`); it may leave out what is done between tiles. ``mma_instructions_*``: machine
instructions of the mma warp for each tensor instruction (a multiplication, a copy into tensor memory or a shift).
Both are counts, which need ptxas and nvdisasm and no GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from benchmarks.layers import square
from convc.compiler.compile import compile_problem
from convc.compiler.options import ScheduleOptions
from convc.ir.problem import ConvProblem
from convc.timing.kernel import time_kernel
from convc.timing.parameters import read_chip
from convc.timing.trace import Item, Trace

ONE_TILE = ScheduleOptions(schedule="reload", persistent="off", cta_group="1", split_k="off", columns="off")
WALK = ScheduleOptions(persistent="on", cta_group="1", split_k="off")

TENSOR = ("tcgen05.mma", "tcgen05.cp", "tcgen05.shift")
"""Instructions of the tensor core, by the beginning of their names."""

ANNOUNCED = "mbarrier.arrive.expect_tx"
"""The instruction with which a stage begins in the load role."""

OUTCOME = "mbarrier.try_wait"
"""What a trace has behind the machine instruction of a wait: no instruction, but the place where it has an outcome."""

SQUARE = square(64, 64, 56, kernel=3)
MANY = square(64, 64, 56, kernel=3, batch=32)
STEM = square(3, 64, 224, kernel=7, stride=2)
DEPTHWISE = square(96, 96, 56, kernel=3, groups=96)

KERNELS: Mapping[str, tuple[ConvProblem, ScheduleOptions]] = {
    "reload": (SQUARE, ONE_TILE),
    "reload_walk": (MANY, replace(WALK, schedule="reload")),
    "pointwise": (square(256, 64, 56), ONE_TILE),
    "pointwise_walk": (square(256, 64, 56, batch=32), WALK),
    "pairs": (
        square(256, 256, 14, kernel=3, batch=32),
        ScheduleOptions(schedule="reload", persistent="on", cta_group="2"),
    ),
    "slide": (SQUARE, replace(ONE_TILE, schedule="slide")),
    "slide_walk": (MANY, replace(WALK, schedule="slide")),
    "shift_chain": (SQUARE, replace(ONE_TILE, schedule="shift", shift="chain")),
    "shift_ashift": (SQUARE, replace(ONE_TILE, schedule="shift", shift="ashift")),
    "shift_windows": (SQUARE, replace(ONE_TILE, schedule="shift", shift="windows")),
    "stationary": (SQUARE, replace(ONE_TILE, schedule="stationary")),
    "stem": (STEM, ONE_TILE),
    "stem_columns": (STEM, ScheduleOptions()),
    "depthwise": (DEPTHWISE, ONE_TILE),
    "depthwise_auto": (DEPTHWISE, ScheduleOptions()),
}
"""Kernels of N = 64, but for depthwise ones (16) and pairs (256); persistent ones make two tiles and more each."""


def measure(selection: str) -> dict[str, float]:
    """Both counts of every kernel; the same for every selection of layers."""
    found: dict[str, float] = {}
    for name, (problem, options) in KERNELS.items():
        made = compile_problem(problem, options=options).artifact
        trace = time_kernel(made.ptx, made.launch, {}, read_chip("b200"), sass=True).trace
        found |= {f"load_cycles_{name}": load_cycles(trace), f"mma_instructions_{name}": mma_instructions(trace)}
    return found


def load_cycles(trace: Trace) -> float:
    """Cycles from a stage of the load role to the next."""
    items, stages = _issued(trace, "load", ANNOUNCED)
    cycles = sum(item.sass.stall for item in items[stages[0] : stages[-1]] if item.sass is not None)
    return cycles / (len(stages) - 1)


def mma_instructions(trace: Trace) -> float:
    """Machine instructions from a tensor instruction of the mma role to the next."""
    items, tensor = _issued(trace, "mma", TENSOR)
    between = items[tensor[0] : tensor[-1]]
    count = sum(item.sass is not None and not item.name.startswith(OUTCOME) for item in between)
    return count / (len(tensor) - 1)


def _issued(trace: Trace, role: str, names: str | tuple[str, ...]) -> tuple[list[Item], list[int]]:
    """All items of the warp that issues most instructions of some names in a role, and which of them those are.

    Other warps have steps of the role too: ptxas moves instructions of the role to where all warps execute them.
    """
    found: tuple[list[Item], list[int]] = [], []
    for items in trace.items.values():
        own = [n for n, item in enumerate(items) if item.name.startswith(names) and item.step.startswith(f"{role}.")]
        if len(own) > len(found[1]):
            found = items, own
    return found
