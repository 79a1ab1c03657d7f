"""Launches kernels for sm_90a with and without features on a Hopper GPU; records their times, and cuDNN's.

    cd tests
    python -m recordings.record_features features.json

Needs what `record_hopper.py` needs.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from recordings.hopper_cases import TARGET, resnet50
from recordings.record_hopper import CUDNN_TYPES, PROCESSES, all_of_cudnn

from benchmarks.ablation import LAYERS
from convc.compiler.compile import compile_problem
from convc.compiler.options import ScheduleOptions
from convc.errors import InputError, PlanError
from convc.gpu.contents import digest
from convc.gpu.cuda import CudaDriver
from convc.gpu.perform import perform
from convc.gpu.plan import plan_launch
from convc.ir.launch import KernelArtifact
from convc.ir.problem import ConvProblem

TIMED = 20
BATCHES = (1, 8, 32)
PLAIN = ScheduleOptions(
    schedule="reload", store="direct", persistent="off", columns="off", registers="off", target=TARGET
)
FEATURES: dict[str, dict[str, str]] = {
    "plain": {},
    "TMA store": {"store": "tma"},
    "columns as channels": {"columns": "overlap"},
    "persistent": {"persistent": "on"},
    "multicast": {"multicast": "2x1"},
}
"""What each adds to the options of those before it, as in `benchmarks.ablation`; pairs are not for this target."""
WAYS = {
    "off": ScheduleOptions(target=TARGET, persistent="off", split_k="off"),
    "auto": ScheduleOptions(target=TARGET, split_k="off"),
    "split": ScheduleOptions(target=TARGET, split_k="estimate"),
}
"""Each layer of ResNet-50: a CTA for each tile, what the planner takes, and that with tiles that CTAs may share."""
NUMPY = {"f16": np.float16, "f32": np.float32}

Job = tuple[str, str, ConvProblem, ScheduleOptions]
"""Name of the layer, of what is compared, and what is compiled."""


def jobs() -> Iterator[Job]:
    """Every kernel."""
    for name, problem in LAYERS.items():
        options = PLAIN
        for feature, added in FEATURES.items():
            wider = dataclasses.replace(options, **added)
            yield name, feature, problem, wider
            if feature != "columns as channels" or "conv1" in name:
                options = wider
        yield name, "what auto takes", problem, WAYS["auto"]
    for batch in BATCHES:
        for case in resnet50(batch):
            yield from ((case.name, way, case.problem, options) for way, options in WAYS.items())


def compiled(job: Job) -> tuple[KernelArtifact, str] | None:
    """The kernel and its tiling; None where a feature is not for the layer."""
    try:
        made = compile_problem(job[2], options=job[3])
    except (PlanError, InputError):
        return None
    parts = made.plan.launch.parts
    shared = f", {parts} CTAs a tile" if parts > 1 else ""
    walking = f", {made.plan.launch.ctas} CTAs walk" if made.plan.launch.persistent else ""
    return made.artifact, f"{made.plan.schedule.title} {made.plan.tiling}{walking}{shared}"


def text_of(ptx: str) -> str:
    """A number of a kernel's text without its comments."""
    return hashlib.sha256(re.sub(r"[ \t]*//.*", "", ptx).encode()).hexdigest()[:16]


def launched(driver: CudaDriver, made: KernelArtifact) -> dict[str, Any]:
    """What a kernel leaves of small whole numbers, and its times."""
    rng = np.random.default_rng(5)
    contents: dict[str, np.ndarray] = {}
    for name, spec in made.launch.buffers.items():
        if name != "output":
            some = rng.integers(-3, 4, 99991).astype(NUMPY[spec.dtype])
            contents[name] = np.resize(some, spec.shape).reshape(-1).view(np.uint8)
    done = perform(driver, plan_launch(made.launch, made.ptx), made.ptx.encode(), contents, repeat=TIMED, seconds=20.0)
    assert done.timing is not None
    return {
        "text": text_of(made.ptx),
        "digest": digest(done.buffers["output"]),
        "streamed": round(done.timing.streamed, 2),
        "clock_ghz": round(done.timing.clock_ghz, 3),
    }


def main(out: str) -> None:
    """Record everything."""
    record: dict[str, dict[str, Any]] = {}
    asked = list(jobs())
    with ProcessPoolExecutor(15, mp_context=get_context("spawn")) as pool:
        found = list(pool.map(compiled, asked, chunksize=2))
    driver = CudaDriver()
    for (layer, what, _, _), made in zip(asked, found, strict=True):
        if made is not None:
            record.setdefault(layer, {})[what] = {"tiling": made[1], **launched(driver, made[0])}
    driver.close()
    Path(out).write_text(json.dumps(record, indent=1) + "\n")
    cases = {layer: problem for layer, _, problem, _ in asked if problem.operand in CUDNN_TYPES}
    for _ in range(PROCESSES):  # the algorithm that is found differs between processes
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            times = pool.submit(all_of_cudnn, list(cases.values())).result()
        for layer, time in zip(cases, times, strict=True):
            record[layer]["cudnn"] = min(record[layer].get("cudnn", time), time)
        Path(out).write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
