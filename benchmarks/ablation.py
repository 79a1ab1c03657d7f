"""``python -m benchmarks.ablation [--write]``: what each feature of the kernels is worth, by the timing engine.

Features come one on top of the other: a column is the column before it and one thing more. Every number is an estimate
of `convc.timing` for a B200 with its own parameters, the operands in L2.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.layers import square
from convc.api.timing import element_bits
from convc.compiler.compile import compile_problem
from convc.compiler.options import ScheduleOptions
from convc.draw.roofline import peak_tflops
from convc.errors import InputError, PlanError
from convc.ir.problem import ConvProblem
from convc.timing.kernel import time_kernel
from convc.timing.parameters import Chip, read_chip

PAGE = Path(__file__).resolve().parents[1] / "convc" / "docs" / "timing_measurements.md"
MARKED = re.compile(r"(<!-- begin ablation -->\n).*?(<!-- end ablation -->)", re.DOTALL)

PLAIN = ScheduleOptions(
    schedule="reload",
    store="direct",
    persistent="off",
    cta_group="1",
    columns="off",
    split_k="off",
    rasterization_order="rows",
)
FEATURES: Mapping[str, Mapping[str, str]] = {
    "plain": {},
    "TMA store": {"store": "tma"},
    "folded columns": {"columns": "overlap"},
    "persistent": {"persistent": "on"},
    "multicast": {"multicast": "2x1"},
    "2-CTA MMA": {"cta_group": "2", "multicast": "off"},
    "rasterization order": {"rasterization_order": "auto"},
    "split K": {"split_k": "estimate", "store": "direct", "persistent": "off", "cta_group": "1"},
}
"""What each adds to the options of those before it; pairs come instead of clusters that share loads, and CTAs that
share a tile instead of tensor stores, walks and pairs."""

CHOSEN = "what auto takes"
"""The column behind the features: everything is left to the planner."""

DEPENDENT = "its gap with PDL"
"""The last column: what auto takes, and the time between the kernel before it in a graph and its first cycle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One kernel: its time, the bytes that it moves through L2, the part of the tensor cores' peak that it reaches.

    Attributes:
        microseconds: of the kernel. gap: microseconds that lie in front of it in a graph, which are not in that.
    """

    microseconds: float
    gap: float
    l2_bytes: int
    peak_share: float

    def __str__(self) -> str:
        return f"{self.microseconds:.1f} us, {self.l2_bytes / 1e6:.0f} MB, {100 * self.peak_share:.0f} %"


LAYERS = {
    "GEMM 4096 x 4096 x 4096": square(4096, 4096, 64),
    "ResNet-50 conv1, 7x7, 3 -> 64": square(3, 64, 224, kernel=7, stride=2, batch=32),
    "ResNet-50 layer1, 3x3, 64 -> 64": square(64, 64, 56, kernel=3, batch=32),
    "ResNet-50 layer1, 1x1, 64 -> 256": square(64, 256, 56, batch=32),
    "ResNet-50 layer3, 3x3, 256 -> 256": square(256, 256, 14, kernel=3, batch=32),
    "ResNet-50 layer4, 1x1, 2048 -> 512": square(2048, 512, 7, batch=32),
    "VGG conv3, 3x3, 256 -> 256": square(256, 256, 56, kernel=3, batch=32),
}
"""Layers that an H200 has run with these features too (`tests/recordings/record_features.py`)."""

MORE = {
    "ResNet-50 layer3, 3x3, 256 -> 256, batch 1": square(256, 256, 14, kernel=3),
    "ResNet-50 layer4, 1x1, 2048 -> 512, batch 1": square(2048, 512, 7),
    "ResNet-50 layer2, 1x1 of stride 2, 256 -> 512, batch 256": square(256, 512, 56, stride=2, batch=256),
}
"""Layers of few tiles, and one whose operands L2 does not hold."""


NOT_LEGAL = "not legal"
DECLINED = "declined"


def measure(problem: ConvProblem, options: ScheduleOptions, chip: Chip) -> Measured | str:
    """Compile and time a layer; `NOT_LEGAL` where a feature is not for it, `DECLINED` without split-K."""
    try:
        compiled = compile_problem(problem, options=options)
    except (PlanError, InputError):
        return NOT_LEGAL
    if options.split_k == "estimate" and compiled.plan.launch.parts == 1:
        return DECLINED
    order = compiled.plan.launch.order.timed
    timed = time_kernel(compiled.artifact.ptx, compiled.artifact.launch, {}, chip, order=order)
    rate = 2e-6 * problem.macs / timed.microseconds
    return Measured(
        microseconds=timed.microseconds,
        gap=timed.gap,
        l2_bytes=compiled.plan.estimate.traffic_bytes,
        peak_share=rate / peak_tflops(chip, element_bits(problem)),
    )


def ladder(problem: ConvProblem, chip: Chip) -> dict[str, Measured | str]:
    """A layer with more and more features; one that is not for it is left out of the columns behind it."""
    found: dict[str, Measured | str] = {}
    options = PLAIN
    for feature, added in FEATURES.items():
        wider = dataclasses.replace(options, **added)
        found[feature] = measure(problem, wider, chip)
        options = wider if isinstance(found[feature], Measured) else options
    chosen = measure(problem, ScheduleOptions(), chip)
    dependent = measure(problem, ScheduleOptions(pdl=True), chip)
    return found | {CHOSEN: chosen, DEPENDENT: _gaps(chosen, dependent)}


def _gaps(alone: Measured | str, dependent: Measured | str) -> str:
    """What a launch that depends on the one in front takes off the gap, and what it adds to the kernel."""
    if isinstance(alone, str) or isinstance(dependent, str):
        return NOT_LEGAL
    return (
        f"{dependent.gap:.2f} us for {alone.gap:.2f} us, kernel {dependent.microseconds - alone.microseconds:+.2f} us"
    )


def table(rows: Mapping[str, Mapping[str, Measured | str]]) -> str:
    """A table of Markdown: time, bytes through L2, part of the tensor cores' peak."""
    columns = (*FEATURES, CHOSEN, DEPENDENT)
    lines = [f"| layer | {' | '.join(columns)} |", f"| --- |{' ---: |' * len(columns)}"]
    lines += [f"| {name} | {' | '.join(map(str, row.values()))} |" for name, row in rows.items()]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Print the table; with ``--write`` also put it into the page."""
    parser = argparse.ArgumentParser(prog="benchmarks.ablation", description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"also write it into {PAGE.name}")
    chosen = parser.parse_args()
    chip = read_chip("b200")
    made = table({name: ladder(problem, chip) for name, problem in (LAYERS | MORE).items()})
    if chosen.write:
        text = PAGE.read_text("utf-8")
        PAGE.write_text(MARKED.sub(lambda match: match[1] + made + match[2], text), "utf-8")
    print(made, end="")


if __name__ == "__main__":
    main()
