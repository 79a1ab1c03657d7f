"""Gradients for sm_90a: the simulator leaves of whole numbers what an H200 left, byte for byte; no GPU is needed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from recordings.record_gradients import EACH, KINDS, cases, left

from convc import machine
from convc.build.folder import Layer
from convc.runtime.layer import output_of

RECORD = json.loads((Path(__file__).parents[2] / "recordings" / "gradients_h200.json").read_text())
LAUNCHES = {each["name"]: each for each in RECORD["launches"]}
CASES = {case.name: case for case in cases()}
CHEAP = ("dgrad_15", "dgrad_strided_5", "dgrad_strided_10", "wgrad_0", "wgrad_14")


def simulated(layer: Layer, buffers: Mapping[str, np.ndarray]) -> np.ndarray:
    """What the simulator leaves, and finds nothing in."""
    ran = machine.run(layer.ptx, layer.launch, dict(buffers))
    assert not ran.findings
    return output_of(layer.layout, ran.buffers)


def check(name: str) -> None:
    """The digest of the result is the recorded one, whether the text still is or not."""
    found = left(CASES[name], simulated)
    recorded = LAUNCHES[name]
    text = "of the recorded text" if found["text"] == recorded["text"] else "of another text than the recorded one"
    assert (found["digest"], found["wrong"]) == (recorded["digest"], 0), text


@pytest.mark.parametrize("name", CHEAP)
def test_the_machine_leaves_the_gradients_of_the_gpu(name):
    check(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CASES if name not in CHEAP])
def test_the_machine_leaves_the_gradients_of_the_gpu_always(name):
    check(name)


def test_every_gradient_was_right_on_the_gpu():
    assert set(LAUNCHES) == set(CASES)
    assert len(CASES) == EACH * len(KINDS)
    assert [name for name, each in LAUNCHES.items() if each["wrong"]] == []
    assert len({each["digest"] for each in LAUNCHES.values()}) == len(CASES)
