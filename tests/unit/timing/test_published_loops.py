"""Loops that others measured on a B200, replayed: one SM's mainloop, chains of MMAs, of copies, of shifts, and stores.

What a data set says of itself is taken from it: its clock, what a launch costs beside its loop, what is scheduled by
hand. The store of one cell sets the fixed cost of a store, the two rows of N = 16 and bf16 the floors.
"""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import convc
from convc.timing.engine import Replay
from convc.timing.parameters import Chip, read_chip
from convc.timing.shares import sm_share
from convc.timing.tensor_core import MmaShape
from convc.timing.trace import Trace, Work
from tests.support.loops import chain, mainloop, tensor_store

ROWS = Path(__file__).resolve().parents[2] / "recordings" / "timing" / "published_loops.csv"
PAGE = (Path(convc.__file__).parent / "docs" / "timing_measurements.md").read_text("utf-8")
B200 = read_chip("b200")

LAUNCH = 10_000
"""Cycles of a mainloop's launch that are not its loop: what its bf16 and fp8 rows differ by."""

K_BYTES = {"BF16": 2 * 131072, "FP8_E4M3": 131072}
"""Bytes of K of a mainloop."""

SHARED = 227 * 1024
"""Bytes that stages are made of, where the source says "auto"."""

SLOW = B200.changed({"chip.clock": 1.3, "tma.latency": B200["tma.latency"] * 1.3 / 1.965})
"""The chip of the mainloops, whose SMs run at 1.3 GHz: L2, which has a clock of its own, is as quick as ever."""

BY_HAND = B200.changed({"tensor_core.issue": 7})
COMPILED = B200.changed({"tensor_memory.shift": 44})

LINES = {
    ("one_sm_mainloop", "calibrate"): ("B200, mainloop of one SM, bf16", 0.015, 0.06),
    ("one_sm_mainloop", "held-out"): ("B200, mainloop of one SM, fp8", 0.02, 0.12),
    ("mma_throughput", "held-out"): ("B200, chains of 256 MMAs", 0.01, 0.04),
    ("sequence", "held-out"): ("B200, chains of tcgen05.cp and of tcgen05.shift", 0.05, 0.10),
    ("store", "held-out"): ("B200, tcgen05.st with its wait", 0.05, 0.10),
}


def replayed(trace: Trace, chip: Chip = B200) -> tuple[float, float]:
    """Cycles of an SM alone, from its entry, until the last instruction and until the last work is done."""
    replay = Replay(trace, chip, sm_share(chip, 1), 1)
    cycles = replay.run() - chip["launch.entry"]
    works = max((end for end, _ in replay.work_ends.values()), default=0.0) - chip["launch.entry"]
    return cycles, works


def mainloop_cycles(config: str) -> float:
    """Cycles an MMA of a mainloop, with the launch's share."""
    kind, tile, stages = (part.rpartition("=")[2] for part in config.split(";")[:3])
    m, n, k = (int(number) for number in tile.split("x"))
    slices = k * (2 if kind == "BF16" else 1) // 32
    shape = MmaShape(m=m, n=n)
    count = SHARED // ((m + n) * slices * 32) if stages == "auto" else int(stages)
    short, long = (replayed(mainloop(shape, slices, count, turns), SLOW)[1] for turns in (40, 120))
    return (long - short) / (80 * slices) + LAUNCH / (K_BYTES[kind] / 32)


def throughput(config: str) -> float:
    """FLOP a cycle of 256 MMAs behind each other."""
    found = dict(part.split("=") for part in config.split(";") if "=" in part)
    pair = found["cta_group"] == "2"
    shape = MmaShape(m=int(found["M"]), n=int(found["N"]), pair=pair, a_in_tensor=found["A"] == "tmem")
    bits = {"f16": 16, "mxf4": 4}.get(found["kind"], 8)
    flops = 2 * shape.m * shape.n * 32 * 8 / bits
    return 256 * flops / replayed(chain(Work(kind="mma", row=0, step="", line=0, mma=shape), 256))[1]


def sequence(config: str) -> float:
    """Cycles of a chain of copies or shifts; those that ptxas wraps in a loop over lanes take 44 cycles each."""
    if "copies" in config:
        size = {"128x256b": 4096, "128x128b": 2048}[config.partition(";")[0]]
        count = int(re.findall(r"(\d+) copies", config)[0])
        return replayed(chain(Work(kind="cp", row=0, step="", line=0, bytes=size), count))[1]
    chip = COMPILED if "compiled" in config else BY_HAND
    count = int(re.findall(r"n=(\d+)", config)[0])
    return replayed(chain(Work(kind="shift", row=0, step="", line=0), count), chip)[1]


def store(config: str) -> float:
    """Cycles of a store of tensor memory and its wait."""
    return replayed(tensor_store(int(re.findall(r"\.x(\d+)", config)[0])))[0]


MODELS = {
    "one_sm_mainloop_cycles_per_atom": ("one_sm_mainloop", mainloop_cycles),
    "mma_throughput": ("mma_throughput", throughput),
    "cp_total": ("sequence", sequence),
    "shift_total": ("sequence", sequence),
    "tmem_st_latency": ("store", store),
}


@cache
def errors() -> dict[tuple[str, str], list[tuple[float, str]]]:
    """Relative errors and configurations, by group and use."""
    found = defaultdict(list)
    for row in csv.DictReader(ROWS.read_text().splitlines()):
        name, model = MODELS[row["quantity"]]
        found[name, row["use"]].append((abs(model(row["config"]) / float(row["value"]) - 1), row["config"]))
    return found


@pytest.mark.parametrize("group", LINES, ids=" ".join)
def test_loops_take_as_long_as_others_measured(group):
    line, mean, worst = LINES[group]
    found = [error for error, _ in errors()[group]]
    assert np.mean(found) <= mean, errors()[group]
    assert max(found) <= worst, max(errors()[group])
    said = f"| {line} | {len(found)} | {100 * np.mean(found):.1f} % | {100 * max(found):.1f} % |"
    assert said in PAGE, said


@pytest.mark.parametrize(("count", "cycles"), [(1, 200), (32, 200 + 64 * 31 + 12)])
def test_a_chain_of_mmas_costs_its_latency_its_intervals_and_the_chain(count, cycles):
    trace = chain(Work(kind="mma", row=0, step="", line=0, mma=MmaShape(m=128, n=128)), count)
    assert replayed(trace)[1] - B200["tensor_core.issue"] == pytest.approx(cycles)
