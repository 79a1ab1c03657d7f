"""The read port of shared memory: what MMAs leave of it to loads and stores, and what their addresses ask of it.

An H200 measured loads and stores of four warps beside chains of wgmma. The rows where MMAs take all of the port set
what is left then (``shared_memory.beside``). Loads that were left more than 32 bytes a cycle waited for each other.
"""

from __future__ import annotations

import csv
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import convc
from convc.timing.accesses import wavefronts
from convc.timing.engine import Replay
from convc.timing.parameters import Chip, read_chip
from convc.timing.shares import sm_share
from convc.timing.tensor_core import MmaShape
from tests.support.loops import beside_shared

ROWS = Path(__file__).resolve().parents[2] / "recordings" / "timing" / "shared_h200.csv"
PAGE = (Path(convc.__file__).parent / "docs" / "timing_measurements.md").read_text("utf-8")
H200 = read_chip("h200")
LANES = np.arange(32)[:, None]
LINES = {"st": "H200, st.shared beside MMAs", "ld": "H200, ld.shared beside MMAs that leave 32 B/clk at most"}
LIMIT = 33


def rate(access: str, n: int, a: str, groups: int, chip: Chip = H200) -> float:
    """Bytes a cycle that other warps move while the tensor core multiplies."""
    shape = MmaShape(m=64, n=n, a_in_tensor=a == "registers")
    replay = Replay(beside_shared(shape, access, groups, 4), chip, sm_share(chip, 1), 1)
    replay.run()
    end = max(event.start for event in replay.events if event.name == "mma")
    begin = min(event.start for event in replay.events if event.name == "mma")
    served = [request for request, _, _ in replay.sms[0].shared.served if begin <= request < end]
    return 512 * len(served) / (end - begin)


@cache
def errors() -> dict[str, list[float]]:
    """Relative errors, of stores and of loads."""
    found: dict[str, list[float]] = {"st": [], "ld": []}
    for row in csv.DictReader(ROWS.read_text("utf-8").splitlines()):
        measured = float(row["bytes_per_clk"])
        said = rate(row["access"], int(row["n"]), row["a"], int(row["warpgroups"]))
        if row["access"] == "st" or said < 1.1 * LIMIT:
            found[row["access"]].append(abs(said / measured - 1))
    return found


@pytest.mark.parametrize(("access", "rows"), [("st", 12), ("ld", 6)])
def test_others_get_what_mmas_leave(access: str, rows: int):
    found = errors()[access]
    assert len(found) == rows
    assert np.mean(found) <= 0.20
    said = f"| {LINES[access]} | {rows} | {100 * np.mean(found):.1f} % | {100 * max(found):.1f} % |"
    assert said in PAGE, said


@pytest.mark.parametrize("access", ["st", "ld"])
def test_the_latency_of_a_load_is_not_what_these_rows_show(access: str):
    slow = H200.changed({"shared_memory.load_latency": 60})
    assert rate(access, 64, "shared", 2, slow) == rate(access, 64, "shared", 2)


def test_a_wider_port_leaves_more():
    wide = H200.changed({"shared_memory.read_port": 256})
    assert rate("st", 64, "shared", 2, wide) > 10 * rate("st", 64, "shared", 2)


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        pytest.param(LANES * 4 + np.arange(4), 1, id="words side by side"),
        pytest.param(LANES * 0 + np.arange(4), 1, id="one word for all"),
        pytest.param(LANES * 16 + np.arange(16), 4, id="16 bytes a lane"),
        pytest.param(LANES % 2 * 64 + np.arange(16), 1, id="16 bytes, one of two places"),
        pytest.param(LANES * 0 + np.arange(16), 1, id="the same 16 bytes for all"),
        pytest.param(LANES * 128 + np.arange(4), 32, id="one bank"),
        pytest.param(LANES * 128 + np.arange(16), 32, id="16 bytes a lane, rows of 128 bytes"),
        pytest.param(LANES[:1] + np.arange(8), 1, id="one lane"),
    ],
)
def test_wavefronts_of_addresses(places: np.ndarray, expected: int):
    assert wavefronts(places) == expected


def by_sets(places: np.ndarray) -> int:
    """Wavefronts as their docstring says it, set by set."""
    together = min(len(places), 128 // max(4, places.shape[1]))
    groups = {
        frozenset((places[first : first + together] // 4).ravel().tolist()) for first in range(0, len(places), together)
    }
    return sum(max(Counter(word % 32 for word in words).values()) for words in groups)


def test_wavefronts_are_counted_alike_whether_words_meet_in_banks_or_not():
    """Near words take a shorter way; whichever lane asks for which, and however often, counts on neither."""
    rng = np.random.default_rng(3)
    for size in (4, 8, 16):
        for reach in (1, 8, 32 // (size // 4), 40, 300):
            starts = int(rng.integers(100)) * 128 + size * rng.integers(0, reach, (60, 32, 1))
            for lanes in starts:
                places = lanes + np.arange(size)
                assert wavefronts(places) == by_sets(places), (size, reach, lanes)
    halves = 16 * np.concatenate([np.arange(8), np.arange(8)[::-1]])[:, None]
    assert wavefronts(halves + np.arange(16)) == 1
