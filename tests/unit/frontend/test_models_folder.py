"""The models of this repository: reproducible bytes, and layers that are those of ResNet-50."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import onnx
import pytest

from convc.frontend.onnx_reader import read_model

FOLDER = Path(__file__).resolve().parents[3] / "models"


def load_script():
    spec = importlib.util.spec_from_file_location("make_models", FOLDER / "make_models.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


make_models = load_script()


def test_the_committed_models_are_what_the_script_writes(tmp_path):
    make_models.build_small_models(tmp_path)
    made = {path.name: path.read_bytes() for path in tmp_path.glob("*.onnx")}
    kept = {path.name: path.read_bytes() for path in FOLDER.glob("*.onnx")}
    assert made == kept
    assert sum(map(len, kept.values())) < 200_000


@pytest.mark.parametrize(
    ("name", "described"),
    [
        ("tiny_conv", ["1x16x12x12 * 24x16x3x3 -> 1x24x12x12, pad 1, bias, f16,"]),
        (
            "tiny_two_convs",
            [
                "1x3x16x16 * 16x3x5x5 -> 1x16x8x8, stride 2, pad (1, 1, 2, 2), bias, tf32 to f32,",
                "1x16x8x8 * 10x16x1x1 -> 1x10x8x8, tf32 to f32,",
            ],
        ),
        (
            "tiny_bf16",
            ["2x8x10x9 * 17x8x3x2 -> 2x17x5x9, stride (2, 1), dilation (1, 2), pad (1, 0, 0, 2), bf16,"],
        ),
    ],
)
def test_small_models(name, described):
    path = FOLDER / f"{name}.onnx"
    onnx.checker.check_model(path, full_check=True)
    network = read_model(path)
    assert len(network.convs) == len(described)
    for node, text in zip(network.convs, described, strict=True):
        assert f"{node.name}: {text}" in node.problem.describe()
        assert node.problem.y_shape == node.output.shape


def test_the_layer_table_is_resnet50():
    light = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / "light_resnet50.onnx"
    problems = [node.problem for node in read_model(light).convs]
    layers = make_models.read_layers()
    assert len(layers) == len(problems) == 53
    for layer, problem in zip(layers, problems, strict=True):
        assert (layer.in_channels, layer.out_channels) == (problem.in_channels, problem.out_channels)
        assert (layer.extent,) * 2 == problem.in_extent
        assert (layer.kernel,) * 2 == problem.kernel
        assert (layer.stride,) * 2 == problem.stride
        assert (layer.pad,) * 2 == problem.pad_lo == problem.pad_hi
        assert (layer.out_extent,) * 2 == problem.out_extent


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32"])
def test_the_demo_model(tmp_path, dtype):
    path, again = tmp_path / "demo.onnx", tmp_path / "again.onnx"
    layers = make_models.read_layers("demo")
    make_models.build_resnet50_layers(path, layers, dtype, seed=3, batch=2)
    make_models.build_resnet50_layers(again, layers, dtype, seed=3, batch=2)
    assert path.read_bytes() == again.read_bytes()
    network = read_model(path)
    assert [node.name for node in network.convs] == [layer.name for layer in layers]
    problems = [node.problem for node in network.convs]
    assert [(problem.kernel[0], problem.in_channels, problem.in_extent[0]) for problem in problems] == [
        (7, 3, 224),
        (3, 64, 56),
        (1, 64, 56),
        (3, 128, 28),
        (3, 256, 14),
        (3, 512, 7),
    ]
    assert {(problem.batch, problem.out, problem.bias) for problem in problems} == {(2, dtype, True)}


def test_command_line(tmp_path, monkeypatch):
    path = tmp_path / "r.onnx"
    arguments = ["make_models.py", "--resnet50", str(path), "--layers", "demo", "--dtype", "bf16", "--seed", "7"]
    monkeypatch.setattr(sys, "argv", arguments)
    make_models.main()
    expected = tmp_path / "e.onnx"
    make_models.build_resnet50_layers(expected, make_models.read_layers("demo"), "bf16", 7)
    assert path.read_bytes() == expected.read_bytes()
