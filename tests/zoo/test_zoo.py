"""The zoo through the commands that people use, held against onnxruntime: none is refused, none is wrong.

By default each network runs as a whole on drawn data: every convolution is compared with the float64 reference on what
reached it, and the outputs with onnxruntime. The commands read a network one by one; `make slow` has all of them.
"""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner

import convc
from convc.cli.main import main
from convc.frontend.convolution_nodes import is_convolution
from zoo.networks import NETWORKS

SHAPES = {
    "float16": {"image": (2, 3, 24, 24)},
    "mamba": {"tokens": (1, 12, 16)},
    "shufflenet": {"image": (2, 3, 24, 24)},
}
"""Extents of inputs that a network leaves open."""

LEFT_OUT = {"empty-detector": ["conv13"], "siamfc": ["conv6"], "stylegan2": ["conv10"]}
"""Convolutions of which only a run knows enough: crops that may be none, filters that the network makes."""

COMMANDS = ("unet",)
"""Networks that go through all commands by default: extents that nodes compute, integers, filters made in a run."""


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """The networks as files, each written when it is asked for."""
    return tmp_path_factory.mktemp("zoo")


def written(place: Path, name: str) -> Path:
    path = place / f"{name}.onnx"
    if not path.exists():
        onnx.save(NETWORKS[name](), path)
    return path


def test_there_are_24_networks():
    assert len(NETWORKS) == 24


@pytest.mark.one_of(3)
@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_runs_as_onnxruntime_has_it(place, name):
    read = convc.ReadOptions(shapes=SHAPES.get(name, {}))
    report = convc.verify(written(place, name), feeds=convc.InputData(seed=1), read=read)
    assert report.network.silent == ""
    assert [layer.name for layer in report.layers if not layer.ok] == []
    assert [output.name for output in report.network.outputs if not output.ok or not output.decided_by] == []
    assert report.network.stats.refused == {}
    nodes = onnx.load(written(place, name)).graph.node
    assert len(report.layers) + len(report.network.stats.empty) == sum(map(is_convolution, nodes))


def commands(place: Path, name: str) -> None:
    """inspect, verify, run, time and report of a network, each with exit code 0."""
    path = written(place, name)
    shapes = [
        word
        for each, shape in SHAPES.get(name, {}).items()
        for word in ("--shape", f"{each}:{'x'.join(map(str, shape))}")
    ]
    listed = convc.load(path, batch=SHAPES.get(name, {}))
    assert [node.name for node in listed.skipped if node.op_type in convc.ir.network.CONVOLUTIONS] == LEFT_OUT.get(
        name, []
    )
    layer = listed.convs[-1].name
    calls = (
        ("inspect", path),
        ("inspect", path, "--layer", layer),
        ("verify", path, "--jobs", 1),
        ("run", path, "--seed", 1, "-o", place / f"{name}.npz"),
        ("time", path),
        ("report", path, "--layer", layer, "-o", place / f"{name}.html"),
    )
    for call in calls:
        done = CliRunner().invoke(main, [*map(str, call), *shapes], prog_name="convc")
        assert done.exit_code == 0, (call, done.output)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_commands_take_a_network(place, name):
    commands(place, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NETWORKS if name not in COMMANDS])
def test_the_commands_take_every_network(place, name):
    commands(place, name)
