"""``python -m benchmarks.limits [--write]``: what limits the kernels that the planner takes, by the timing engine.

Of each layer its time on a B200, the part of it in which the tensor core of an SM is busy, the time were it fed without
limit, the time of as many results of a single channel block, and the two largest waits of the critical path.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from benchmarks.layers import square
from convc.compiler.compile import compile_problem
from convc.ir.problem import ConvProblem
from convc.timing.kernel import KernelTime, time_kernel
from convc.timing.parameters import read_chip

PAGE = Path(__file__).resolve().parents[1] / "convc" / "docs" / "timing_measurements.md"
MARKED = re.compile(r"(<!-- begin limits -->\n).*?(<!-- end limits -->)", re.DOTALL)

FED = ("chip.l2=2000", "chip.memory=2000", "gpc.port=200000", "tma.fill=20000", "tma.row=100", "tma.latency=1")
"""A chip that brings operands in no time."""

STAGES = {128: 28, 256: 14, 512: 7}
"""Height and width of ResNet-50's images with so many channels."""

LAYERS: dict[str, ConvProblem] = {"GEMM 4096 x 4096 x 4096": square(4096, 4096, 64)}
for _batch in (32, 256):
    for _channels, _extent in STAGES.items():
        _name = f"3x3, {_channels} -> {_channels}"
        LAYERS[f"{_name}, stride 2, batch {_batch}"] = square(
            _channels, _channels, 2 * _extent, kernel=3, stride=2, batch=_batch, pad=1
        )
        LAYERS[f"{_name}, batch {_batch}"] = square(_channels, _channels, _extent, kernel=3, batch=_batch)


def timed(problem: ConvProblem, settings: tuple[str, ...] = ()) -> KernelTime:
    """The kernel that the planner takes, on a B200 with some parameters set otherwise."""
    made = compile_problem(problem)
    chip = read_chip("b200", settings)
    return time_kernel(made.artifact.ptx, made.artifact.launch, {}, chip, order=made.plan.launch.order.timed)


def around(problem: ConvProblem) -> ConvProblem:
    """A convolution with the same output, and nothing to multiply but 64 channels of its own pixels.

    Its time is about what the layer takes besides its K loop, where no CTA has another tile to multiply meanwhile.
    """
    return square(64, problem.out_channels, problem.out_extent[0], batch=problem.batch)


def line(name: str, problem: ConvProblem) -> str:
    """The row of a layer."""
    found = timed(problem)
    waits = sorted(found.waits.items(), key=lambda one: -one[1])[:2]
    limits = ", ".join(f"{cause} {100 * share:.0f} %" for cause, share in waits)
    busy = 100 * found.launch.use["tensor core"]
    fed = timed(problem, FED)
    least = timed(around(problem))
    times = " | ".join(f"{each.microseconds:.1f}" for each in (found, fed, least))
    return f"| {name} | {times} | {busy:.0f} % | {limits} |"


def main() -> None:
    """Print the table; with ``--write`` also put it into the page."""
    parser = argparse.ArgumentParser(prog="benchmarks.limits", description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"also write it into {PAGE.name}")
    chosen = parser.parse_args()
    columns = ("layer", "us", "fed without limit", "of 64 channels", "tensor core", "critical path")
    head = f"| {' | '.join(columns)} |\n| --- | ---: | ---: | ---: | ---: | --- |\n"
    made = head + "".join(f"{line(name, problem)}\n" for name, problem in LAYERS.items())
    if chosen.write:
        text = PAGE.read_text("utf-8")
        PAGE.write_text(MARKED.sub(lambda match: match[1] + made + match[2], text), "utf-8")
    print(made, end="")


if __name__ == "__main__":
    main()
