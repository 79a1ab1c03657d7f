"""``convc time``: a model, a build, anybody's kernel; its numbers, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import convc as package
from convc import ChipOptions

FOREIGN = Path(__file__).resolve().parents[2] / "foreign" / "matmul_tma_f16"


def test_a_model_has_a_line_for_each_layer(convc, two):
    shown = convc.good("time", two)
    lines = shown.splitlines()
    assert lines[0].split()[:4] == ["layer", "schedule", "cycles", "us"]
    assert [line.split()[0] for line in lines[1:3]] == ["stem", "head"]
    assert "us in all, the kernels alone" in shown


def test_one_layer_is_shown_with_what_it_waits_for_and_what_it_rests_on(convc, tiny):
    shown = convc.good("time", tiny)
    assert "cycles" in shown
    assert "critical path of the first round" in shown
    assert "numbers that the answer rests on by 2 % and more" in shown
    assert "tma.latency (inferred)" in shown


def test_a_build_takes_as_long_as_its_model(convc, tiny, build, tmp_path):
    convc.good("time", tiny, "--json", tmp_path / "model.json")
    convc.good("time", build, "--json", tmp_path / "build.json")
    model, built = (json.loads((tmp_path / name).read_text()) for name in ("model.json", "build.json"))
    assert model["format"] == "convc-time/1"
    assert model["layers"][0]["cycles"] == built["layers"][0]["cycles"]
    path = model["layers"][0]["critical_path"]
    assert sum(part["cycles"] for part in path) == pytest.approx(model["layers"][0]["cycles"])


def test_anybodys_kernel_is_timed_by_lines(convc):
    shown = convc.good("time", FOREIGN / "kernel.ptx", FOREIGN / "launch.json", "--passes")
    assert "line " in shown
    assert "2 tcgen05.mma of 128 x 128, step by step" in shown
    assert "read A" in shown


def test_parameters_and_the_clock_can_be_set(tiny):
    [usual] = package.time(tiny).layers
    [slow] = package.time(tiny, chip=ChipOptions(settings=("tma.latency=5000",))).layers
    [clocked] = package.time(tiny, chip=ChipOptions(clock=0.925)).layers
    [hopper] = package.time(tiny, chip=ChipOptions(chip="h200")).layers
    assert slow.kernel.cycles > usual.kernel.cycles + 4000
    assert clocked.kernel.microseconds == pytest.approx(2 * usual.kernel.microseconds)
    assert hopper.kernel.cycles < usual.kernel.cycles
    assert repr(package.time(tiny)).startswith("<TimeReport tiny_conv.onnx: 1 kernels,")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--chip", "b100"], "there is no chip 'b100': expected one of b200, b300, h200"),
        (["--set", "tma.fil=3"], "no parameter 'tma.fil'; did you mean tma.fill?"),
        (["--set", "tma.fill=3 GHz"], "tma.fill is in B/clk"),
        (["--set", "tma.fill"], "expected NAME=VALUE"),
        (["--clock", "0"], "0.1<=x<=10.0"),
        (["--layer", "conw"], "conv"),
    ],
)
def test_what_there_is_not_is_refused(convc, tiny, arguments, said):
    assert said in convc.refused("time", tiny, *arguments)


def test_a_kernel_needs_its_launch_file(convc):
    assert "a kernel is timed with its launch file" in convc.refused("time", FOREIGN / "kernel.ptx")
    assert "cannot read" in convc.refused("time", FOREIGN / "kernel.ptx", FOREIGN / "none.json")
