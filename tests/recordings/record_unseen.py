"""Times layers of other networks than ResNet-50 on a Hopper GPU: convolutions that nothing of the engine was fitted to.

    cd tests
    python -m recordings.record_unseen timing/unseen_h200
    python -m recordings.record_unseen unseen_again timing/unseen_h200  # the same texts once more

Writes what `record_spans.py` writes, and needs what it needs.
"""

from __future__ import annotations

import csv
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

from recordings import record_spans
from recordings.hopper_cases import TARGET, Case
from recordings.record_spans import Timed
from support.recorded_kernels import read_kernels

from benchmarks.layers import square
from convc.compiler.options import ScheduleOptions
from convc.ir.problem import ConvProblem

BATCHES = (1, 4, 16)

LAYERS = {
    "vgg.conv1_2": square(64, 64, 224, kernel=3),
    "vgg.conv2_1": square(64, 128, 112, kernel=3),
    "vgg.conv3_2": square(256, 256, 56, kernel=3),
    "vgg.conv4_2": square(512, 512, 28, kernel=3),
    "vgg.conv5_1": square(512, 512, 14, kernel=3),
    "mobilenet.narrow": square(96, 24, 56),
    "mobilenet.expand": square(32, 192, 28),
    "mobilenet.project": square(576, 96, 14),
    "mobilenet.last": square(320, 1280, 7),
    "densenet.bottleneck": square(256, 128, 28),
    "densenet.grow": square(128, 32, 28, kernel=3),
    "densenet.deep": square(992, 128, 7),
    "inception.row": replace(square(192, 192, 17), kernel=(1, 7), pad_lo=(0, 3), pad_hi=(0, 3)),
    "inception.wide": square(48, 64, 35, kernel=5),
    "unet.down": square(64, 128, 128, kernel=3),
    "diffusion.320": square(320, 320, 64, kernel=3),
    "diffusion.640": square(640, 640, 32, kernel=3),
    "diffusion.1280": square(1280, 1280, 16, kernel=3),
    "detect.pyramid": square(256, 256, 100, kernel=3),
    "segment.dilated": square(512, 512, 28, kernel=3, pad=2, dilation=(2, 2)),
    "convnext.patches": square(96, 192, 56, kernel=2, stride=2),
    "yolo.stride": square(64, 128, 160, kernel=3, stride=2),
}
"""Layers of networks that are not in ``models/layers.toml``, batch 1, f16."""


def unseen() -> dict[str, ConvProblem]:
    """All layers with all batches, by name."""
    return {f"{name}_b{batch}": replace(problem, batch=batch) for name, problem in LAYERS.items() for batch in BATCHES}


def prepared(problem: ConvProblem) -> Timed:
    """A layer as the planner compiles it."""
    return record_spans.prepared(Case(name="", problem=problem), ScheduleOptions(target=TARGET))


def again(out: Path) -> dict[str, Timed]:
    """What was recorded before, the same texts."""
    kernels = read_kernels(out.with_suffix(".json.xz"))
    with out.with_suffix(".csv").open(newline="") as file:
        rows = {row["case"]: row for row in csv.DictReader(file)}
    return {
        name: Timed(kernel=kernel, schedule=rows[name]["schedule"], tiling=rows[name]["tiling"])
        for name, kernel in kernels.items()
    }


def main(out: str, once_more: str = "") -> None:
    """Record all; with a second argument the texts that lie there, as they are."""
    if once_more:
        timed = again(Path(once_more))
    else:
        problems = unseen()
        with ProcessPoolExecutor(14, mp_context=get_context("spawn")) as pool:
            timed = dict(zip(problems, pool.map(prepared, problems.values()), strict=True))
    record_spans.write(out, {(name, None): each for name, each in timed.items()})


if __name__ == "__main__":
    main(*sys.argv[1:])
