"""Times layers of other networks than ResNet-50 on a Hopper GPU: convolutions that nothing of the engine was fitted to.

    cd tests
    python -m recordings.record_unseen timing/unseen_h200

Writes two files: the times (.csv, as `record_spans.py`) and what was timed, texts and launches (.json.xz), so that the
same kernels are timed by the engine however convc compiles the layers later. Needs what `convc launch` needs.
"""

from __future__ import annotations

import csv
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

from recordings.hopper_cases import TARGET
from recordings.record_spans import FIELDS, Clocked, spans, with_clocks
from support.recorded_kernels import write_kernels

from benchmarks.layers import square
from convc.compiler.compile import compile_problem
from convc.compiler.options import ScheduleOptions
from convc.gpu.cuda import CudaDriver
from convc.ir.launch import KernelArtifact
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


def compiled(problem: ConvProblem) -> tuple[KernelArtifact, Clocked]:
    """A layer as the planner compiles it, without clocks and with them."""
    made = compile_problem(problem, options=ScheduleOptions(target=TARGET))
    text, launch = with_clocks(made.artifact.ptx, made.artifact.launch)
    tiling = f"{made.plan.tiling}{', walks' if made.plan.launch.persistent else ''}"
    return made.artifact, Clocked(text=text, launch=launch, schedule=made.schedule, tiling=tiling)


def main(out: str) -> None:
    """Record all."""
    problems = unseen()
    kernels: dict[str, KernelArtifact] = {}
    driver = CudaDriver()
    with ProcessPoolExecutor(14, mp_context=get_context("spawn")) as pool, open(f"{out}.csv", "w", newline="") as file:
        table = csv.DictWriter(file, FIELDS, lineterminator="\n")
        table.writeheader()
        for name, (artifact, clocked) in zip(problems, pool.map(compiled, problems.values()), strict=True):
            table.writerow({"case": name, "width": "", **spans(driver, clocked)})
            kernels[name] = artifact
    driver.close()
    write_kernels(Path(f"{out}.json.xz"), kernels)


if __name__ == "__main__":
    main(*sys.argv[1:])
