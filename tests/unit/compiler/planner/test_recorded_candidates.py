"""What the planner takes for Hopper, of candidates that an H100 timed (`candidates_h100.json.xz`).

For each of 39 layers every kernel that options can force, 1523 in all: microseconds of a launch among many in a row.
The rates of Hopper that plans have (`convc.ir.arch`) come from copies on an H100 and from every other layer by name, as
in ``tests/unit/timing/test_blind_layers.py``; the others set no number, but what was lost on all of them was in sight
when it was decided what is priced, and that filled rows fold columns.
"""

from __future__ import annotations

import json
import lzma
import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from recordings.blind_layers import blind

from benchmarks import silicon
from convc.compiler.compile import compile_problem
from convc.compiler.contestants import Contestant
from convc.compiler.options import ScheduleOptions

FILE = Path(__file__).parents[3] / "recordings" / "timing" / "candidates_h100.json.xz"
MEASURED: dict[str, list[tuple[str, float]]] = json.loads(lzma.decompress(FILE.read_bytes()))
PROBLEMS = dict(blind())
PROVES = sorted(MEASURED)[1::2]
SINCE = (
    *("effnetv2.fused24_b4", "effnetv2.fused24_b16", "medical.down_b4", "medical.down_b16", "aspp.d12_b1"),
    *("whisper.conv1_b1", "whisper.conv1_b4", "whisper.conv1_b16"),
)
"""Layers whose kernel was not among the candidates then: an H200 timed it since (`benchmarks/silicon.csv`)."""
FEW = ("sdxl.vae512_b1", "sam.neck3_b16", "aspp.d12_b16", "medical.down_b1", "yolo8.cv1_b16")
"""Of those that prove: what was lost most, and some where nothing was."""

MEAN, WORST = 1.03, 1.23
"""Of the chosen over the best: the geometric mean, and the worst, a stem of 3 channels whose best kernel multicasts."""


def lost(names: Iterable[str]) -> dict[str, float]:
    """How much longer what is taken takes than the best of all candidates."""
    found: dict[str, float] = {}
    for name in names:
        made = compile_problem(PROBLEMS[name], options=ScheduleOptions(target="sm_90a"))
        walks = ", walks" if made.plan.launch.persistent else ""
        taken = _alike(f"{made.schedule} {made.plan.tiling}{walks}")
        found[name] = min(us for kernel, us in MEASURED[name] if _alike(kernel) == taken)
        found[name] /= min(us for _, us in MEASURED[name])
    return found


def _alike(kernel: str) -> str:
    """A kernel but for its stages, of which a few more or less were not all timed."""
    return re.sub(r"\d+ stages", "stages", kernel)


def mean(ratios: Iterable[float]) -> float:
    """The geometric mean."""
    return float(np.exp(np.mean(np.log(list(ratios)))))


@pytest.mark.parametrize("name", SINCE)
def test_layers_that_were_timed_since_are_planned_as_tuning_found_them(name):
    options = ScheduleOptions(target="sm_90a")
    made = Contestant(choice={}, block_n=None, compiled=compile_problem(PROBLEMS[name], options=options))
    assert made.title == silicon.read()[name].kernel


def test_layers_are_those_that_were_timed():
    assert set(PROBLEMS) == set(MEASURED)
    assert sum(map(len, MEASURED.values())) == 1523


def test_a_few_layers_are_planned_as_the_best_of_their_candidates():
    found = lost(FEW)
    assert mean(found.values()) <= MEAN, found
    assert max(found.values()) <= 1.10, found


@pytest.mark.slow
def test_all_layers_are_planned_nearly_as_the_best_of_their_candidates():
    found = lost(name for name in MEASURED if name not in SINCE)
    assert mean(found.values()) <= MEAN, found
    assert mean(found[name] for name in PROVES if name not in SINCE) <= MEAN, found
    assert max(found.values()) <= WORST, found
