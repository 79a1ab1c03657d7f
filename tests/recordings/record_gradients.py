"""Launches gradients compiled for sm_90a on a Hopper GPU, and records what they leave of whole numbers.

    cd tests
    python -m recordings.record_gradients gradients.json

Needs what `convc launch` needs. Digests are of results as the model has them, so that another layout of a kernel's
buffers leaves them as they are; ``text`` is that of the kernel that was launched.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import random
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from convc.build.folder import Layer
from convc.build.writer import layer_of
from convc.compiler.compile import compile_problem
from convc.compiler.kernels import kernel_of
from convc.compiler.options import ScheduleOptions
from convc.errors import ConvcError
from convc.gpu.contents import digest
from convc.gpu.cuda import CudaDriver
from convc.gpu.perform import perform
from convc.gpu.plan import plan_launch
from convc.host_layout.repack import unpack_output
from convc.ir.gradients import input_gradient, weight_gradient
from convc.ir.problem import ConvProblem
from convc.runtime.layer import input_buffers, output_of
from convc.verification.bound import expected_result
from convc.verification.compare import compare
from convc.verification.data import integer_data

KINDS = {"dgrad": input_gradient, "dgrad_strided": input_gradient, "wgrad": weight_gradient}
EACH = 20
"""Cases of a kind."""
MOST_WORK = 3_000_000
"""Multiply-adds of a case, as the kernel multiplies: the simulator takes a second for them."""
TYPES = (("f16", "f16"), ("f16", "f32"), ("bf16", "bf16"), ("tf32", "f32"), ("e4m3", "f16"))
TARGET = ScheduleOptions(target="sm_90a")

Run = Callable[[Layer, Mapping[str, np.ndarray]], np.ndarray]
"""Gives the output buffer of a layer's kernel on packed buffers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A gradient.

    Attributes:
        name: its kind and number.
        problem: the convolution that makes it.
        seed: of its data.
    """

    name: str
    problem: ConvProblem
    seed: int


def cases() -> list[Case]:
    """The same ones each time."""
    rng = random.Random(45)
    return [drawn(rng, kind, number) for kind in KINDS for number in range(EACH)]


def drawn(rng: random.Random, kind: str, number: int) -> Case:
    """A case of a kind that is not too large."""
    while True:
        try:
            problem = KINDS[kind](forward(rng, kind, TYPES[number % len(TYPES)]))
        except ConvcError:  # a filter larger than its image, windows of padding alone
            continue
        if problem.macs <= MOST_WORK:
            return Case(name=f"{kind}_{number}", problem=problem, seed=number)


def forward(rng: random.Random, kind: str, types: tuple[str, str]) -> ConvProblem:
    """The convolution whose gradient it is."""
    rank = rng.choice((1, 2, 2, 2, 3))

    def axes(*choices: int) -> tuple[int, ...]:
        return tuple(rng.choice(choices) for _ in range(rank))

    groups = rng.choice((1, 1, 1, 2))
    steps = {"dgrad": (1,), "dgrad_strided": (2, 2, 3), "wgrad": (1, 1, 2)}[kind]
    taps = (1, 1, 2, 3) if kind == "dgrad_strided" else (1, 2, 3, 3)
    return ConvProblem(
        batch=rng.choice((1, 2, 4)),
        in_channels=groups * rng.choice((3, 8, 16, 40)),
        out_channels=groups * rng.choice((8, 16, 24, 64)),
        in_extent=axes(5, 7, 9, 12),
        kernel=axes(*taps),
        stride=axes(*steps),
        dilation=axes(1, 1, 2),
        pad_lo=axes(0, 1, 2),
        pad_hi=axes(0, 1),
        groups=groups,
        operand=types[0],
        out=types[1],
    )


def left(case: Case, run: Run) -> dict[str, Any]:
    """What a kernel leaves: its digest, that of its text, and how many elements differ from the reference."""
    kernel = kernel_of(compile_problem(case.problem, options=TARGET))
    x, w, b = integer_data(case.problem, case.seed)
    layer = layer_of(case.problem, kernel, w, b)
    y = unpack_output(layer.layout, run(layer, input_buffers(layer, x)))
    found = compare(y, expected_result(case.problem, x, w, b), None)
    text = hashlib.sha256(layer.ptx.encode()).hexdigest()[:16]
    return {"name": case.name, "digest": digest(y), "text": text, "wrong": found.count_wrong}


def on(driver: CudaDriver) -> Run:
    """Kernels on a GPU."""

    def run(layer: Layer, buffers: Mapping[str, np.ndarray]) -> np.ndarray:
        contents = {name: np.ascontiguousarray(array).reshape(-1).view(np.uint8) for name, array in buffers.items()}
        done = perform(driver, plan_launch(layer.launch, layer.ptx), layer.ptx.encode(), contents, seconds=10)
        return output_of(layer.layout, done.buffers)

    return run


def main(out: str) -> None:
    """Record every case."""
    driver = CudaDriver()
    device = driver.device()
    record: dict[str, Any] = {
        "device": device.name,
        "arch": device.arch,
        "cuda": device.cuda,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "launches": [],
    }
    for case in cases():
        record["launches"].append(left(case, on(driver)))
        print(record["launches"][-1], flush=True)
    lines = json.dumps(record, indent=1).replace('\n   "', ' "').replace("\n  }", " }").replace('{ "', '{"')
    Path(out).write_text(lines + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
