"""Times the tiles that the planner takes on a Hopper GPU against those that it took before, in turns.

    cd tests
    python -m recordings.record_tiles tiles.json

`tiles_h200.json` has what was taken before, layer by layer, and is read; where the planner takes the same today the
times stay. Needs what `record_hopper.py` needs.
"""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
from recordings.hopper_cases import TARGET, resnet50
from recordings.record_features import NUMPY, launched

from convc.compiler.compile import Compiled, compile_problem
from convc.compiler.options import ScheduleOptions
from convc.gpu.cuda import CudaDriver
from convc.ir.problem import ConvProblem

RECORD = Path(__file__).with_name("tiles_h200.json")
TURNS = 4
TILING = re.compile(r"(?P<schedule>\w+) (?P<rows>\d+)x(?P<width>\d+) tile, .*?(?P<stages>\d+) stages(?P<rest>.*)")


def problem_of(name: str) -> ConvProblem:
    """The problem of `layer_bBATCH operand out`."""
    layer, operand, out = name.split()
    batch = int(re.search(r"_b(\d+)$", layer)[1])
    found = next(case.problem for case in resnet50(batch) if case.name == f"{layer}_f16")
    return dataclasses.replace(found, operand=operand, out=out)


def tiling_of(made: Compiled) -> str:
    """The schedule, the tile, and how many CTAs walk."""
    launch = made.plan.launch
    walking = f", {launch.ctas} CTAs walk" if launch.persistent else ""
    return f"{made.plan.schedule.title} {made.plan.tiling}{walking}"


def taken(problem: ConvProblem) -> Compiled:
    """The kernel of the tiles that the planner takes, a CTA each: split-K was to be asked for at that time."""
    return compile_problem(problem, options=ScheduleOptions(target=TARGET, split_k="off"))


def asked(problem: ConvProblem, tiling: str) -> Compiled:
    """The kernel of tiles that are asked for, as `tiling_of` names them."""
    found = TILING.fullmatch(tiling)
    walk = re.search(r"(\d+) CTAs walk", found["rest"])
    way = {"persistent": "on", "ctas": int(walk[1])} if walk else {"persistent": "off"}
    options = ScheduleOptions(target=TARGET, schedule=found["schedule"], split_k="off", **way)
    made = compile_problem(problem, options=options, block_n=int(found["width"]), stages=int(found["stages"]))
    if tiling_of(made) != tiling:
        raise SystemExit(f"asked for {tiling}, got {tiling_of(made)}")
    return made


def main(out: str) -> None:
    """Record every layer."""
    NUMPY["tf32"] = np.float32
    driver = CudaDriver()
    record: dict[str, dict[str, Any]] = json.loads(RECORD.read_text())
    for name, entry in record.items():
        problem = problem_of(name)
        now = taken(problem)
        if entry.get("after") == tiling_of(now):
            continue
        pair = (asked(problem, entry["before"]).artifact, now.artifact)
        times: tuple[list[float], list[float]] = ([], [])
        for _ in range(TURNS):
            for into, artifact in zip(times, pair, strict=True):
                into.append(launched(driver, artifact)["streamed"])
        entry |= {"after": tiling_of(now), "before_us": times[0], "after_us": times[1]}
        print(name, f"{min(times[1]) / min(times[0]):.3f}", flush=True)
    driver.close()
    Path(out).write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
