"""What each feature was worth on an H200: the recording is of the kernels that convc compiles, and the page has it.

Those that it compiles otherwise since are listed (`features_since.json`), with what an H100 says to their new tiles.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from recordings.record_features import BATCHES, FEATURES, compiled, jobs, text_of

from convc.support.resources import PACKAGE

RECORD = json.loads((Path(__file__).parents[2] / "recordings" / "features_h200.json").read_text())
SINCE = json.loads((Path(__file__).parents[2] / "recordings" / "features_since.json").read_text())
OTHERWISE = {tuple(job) for job in (*SINCE["tiles"], *SINCE["text"])}
LAUNCHES = Path(__file__).parents[2] / "recordings" / "launches_h200.json"
JOBS = {(job[0], job[1]): job for job in jobs()}
CHEAP = (("layer2.0.conv3_b32_f16", "auto"), ("layer4.1.conv1_b1_f16", "split"))
PAGE = (PACKAGE / "docs" / "hardware_measurements.md").read_text()


def check(layer: str, what: str) -> None:
    """The kernel that was timed is the one that convc compiles, unless it is listed as another one."""
    made = compiled(JOBS[layer, what])
    recorded = RECORD[layer].get(what)
    assert (made is None) == (recorded is None)
    if made is not None:
        same = (made[1], text_of(made[0].ptx)) == (recorded["tiling"], recorded["text"])
        assert same == ((layer, what) not in OTHERWISE)


@pytest.mark.parametrize(("layer", "what"), CHEAP)
def test_what_was_timed_is_what_is_compiled(layer, what):
    check(layer, what)


@pytest.mark.slow
@pytest.mark.parametrize(("layer", "what"), [job for job in JOBS if job not in CHEAP])
def test_what_was_timed_is_what_is_compiled_always(layer, what):
    check(layer, what)


def test_the_page_says_what_is_compiled_otherwise_since():
    timed = SINCE["h100"]
    assert set(timed) == {layer for layer, what in SINCE["tiles"] if what == "auto"}
    for batch in (8, 32):
        ratios = [one["taken_us"] / one["timed_us"] for name, one in timed.items() if f"_b{batch}_" in name]
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        told = f"{len(ratios)} of batch {batch} ({mean:.2f} of the time, {min(ratios):.2f} to {max(ratios):.2f})"
        assert told in " ".join(PAGE.split())


@pytest.mark.parametrize("layer", ["layer3.0.conv2_b8_f16", "layer4.1.conv1_b32_f16"])
def test_the_tiles_that_an_h100_timed_are_taken(layer):
    made = compiled(JOBS[layer, "auto"])
    assert made is not None
    assert made[1] == SINCE["h100"][layer]["taken"] != RECORD[layer]["auto"]["tiling"]


def test_every_way_left_the_same_bytes():
    """But where columns become channels: the host packs other pixels then, of the same random numbers."""
    for layer, ways in RECORD.items():
        left = {found["digest"] for what, found in ways.items() if what not in ("cudnn", "columns as channels")}
        assert len(left) == 1 or "conv1, 7x7" in layer, layer


def other(times: dict[str, dict], way: str) -> str:
    """The time of a way that is not what the planner takes."""
    found = times.get(way)
    return f"{found['streamed']:.1f}" if found and found["tiling"] != times["auto"]["tiling"] else "-"


def test_the_page_has_the_times_of_types():
    launches = {one["name"]: one for one in json.loads(LAUNCHES.read_text())["launches"]}
    table = PAGE.partition("Types, batch 8,")[2].partition("\n\n###")[0]
    for layer in ("layer1.0.conv2", "layer2.0.downsample", "layer3.1.conv2", "layer4.0.conv3"):
        found = [launches[f"{layer}_b8_{operand}"] for operand in ("f16", "bf16", "tf32", "e4m3", "s8")]
        cells = [f"{one['streamed']:.1f}" + (f" : {one['cudnn']:.1f}" if "cudnn" in one else "") for one in found]
        assert f"| {layer} | {' | '.join(cells)} |" in table


def test_the_page_has_the_times_that_were_measured():
    layers = [name.removesuffix("_b1_f16") for name in RECORD if name.endswith("_b1_f16")]
    assert len(layers) == 23
    for layer in layers:
        times = [RECORD[f"{layer}_b{batch}_f16"] for batch in BATCHES]
        cells = [f"{each['auto']['streamed']:.1f} : {each['cudnn']:.1f}" for each in times]
        cells += [other(times[0], "split"), other(times[-1], "off")]
        assert f"| {layer} | {' | '.join(cells)} |\n" in PAGE
    for layer in [name for name in RECORD if "plain" in RECORD[name]]:
        line = next(line for line in PAGE.splitlines() if line.startswith(f"| {layer} |"))
        for feature in FEATURES:
            found = RECORD[layer].get(feature)
            if found is not None and (feature != "columns as channels" or "conv1" in layer):
                assert f" {found['streamed']:.1f} : " in line
