"""``python -m tests.docs.planner_errors --write``: the planner's model against the engine, in `timing_measurements.md`.

Every legal schedule of a layer is planned and timed with its narrowest and its widest tiles. The constants in
`convc.compiler.plan.issue_cycles` are fitted to every other layer of ResNet-50 at batch 1; other groups set none.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx

from benchmarks.layers import square
from convc.api.models import chosen_convolutions, read_network
from convc.compiler.kernels import shared_problem
from convc.ir.problem import ConvProblem
from tests.support.planned_times import TERMS, Compared, all_compared, spearman

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "convc" / "docs" / "timing_measurements.md"
MARKED = re.compile(r"(<!-- begin planner -->\n).*?(<!-- end planner -->)", re.DOTALL)
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
EVERY = 48
"""Of the distinct convolutions of the light models one in so many is timed: all take an hour."""

Layers = list[tuple[str, ConvProblem]]


def resnet50(batch: int) -> Layers:
    """The distinct convolutions of ResNet-50 in float16."""
    found: dict[tuple[int, ...], tuple[str, ConvProblem]] = {}
    for name, channels, filters, size, kernel, stride, pad in tomllib.loads(
        (ROOT / "models" / "layers.toml").read_text("utf-8")
    )["resnet50"]:
        problem = square(channels, filters, size, kernel, stride, pad, batch=batch, bias=False)
        found.setdefault((channels, filters, size, kernel, stride), (name, problem))
    return list(found.values())


def light_layers() -> Layers:
    """The distinct convolutions of the light models, in order of their files and layers."""
    found: dict[ConvProblem, str] = {}
    for path in sorted(LIGHT.glob("*.onnx")):
        for conv in chosen_convolutions(read_network(str(path), None, None), None):
            found.setdefault(shared_problem(conv.problem), f"{path.stem} {conv.name}")
    return [(name, problem) for problem, name in found.items()]


def groups() -> Iterator[tuple[str, Layers]]:
    """Layers by what they are for."""
    yield "ResNet-50, every other layer, which set the constants", resnet50(1)[::2]
    yield "ResNet-50, the others", resnet50(1)[1::2]
    yield "ResNet-50, batch 32, some", resnet50(32)[1::9]
    yield f"light models, one layer in {EVERY}", light_layers()[::EVERY]


def table(rows: dict[str, list[Compared]]) -> str:
    """Errors of each term by group, and the rank correlation of whole launches."""
    lines = [
        f"| term | {' | '.join(f'{name}: mean | worst' for name in rows)} |",
        f"| --- |{' ---: | ---: |' * len(rows)}",
    ]
    for term in TERMS:
        cells = [term]
        for found in rows.values():
            errors = np.abs([row.error(term) for row in found])
            cells += [f"{100 * errors.mean():.1f} %", f"{100 * errors.max():.1f} %"]
        lines.append(f"| {' | '.join(cells)} |")
    ranks = [f"{correlation(found):.3f} | {len(found)}" for found in rows.values()]
    lines.append(f"| rank correlation of launches; kernels | {' | '.join(ranks)} |")
    return "\n".join(lines) + "\n"


def correlation(rows: list[Compared]) -> float:
    """Rank correlation of the model's and the engine's cycles, over all candidates of all layers."""
    return spearman([row.model["launch"] for row in rows], [row.engine["launch"] for row in rows])


def measured() -> dict[str, list[Compared]]:
    """Every group, planned and timed."""
    return {
        name: [row for layer, problem in layers for row in all_compared(layer, problem)] for name, layers in groups()
    }


if __name__ == "__main__":
    made = table(measured())
    if "--write" in sys.argv:
        text = MARKED.sub(lambda match: match[1] + made + match[2], PAGE.read_text("utf-8"))
        PAGE.write_text(text, "utf-8")
    print(made)
