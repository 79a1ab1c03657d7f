"""The nine light models of the onnx package with random weights: every layer against the float64 reference and against
onnxruntime within the derived bounds, and the networks end to end."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from convc import api

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
CONVOLUTIONS = {
    "bvlc_alexnet": 5, "densenet121": 121, "inception_v1": 57, "inception_v2": 69, "resnet50": 53, "shufflenet": 49,
    "squeezenet": 26, "vgg19": 16, "zfnet512": 5,
}  # fmt: skip


def verify(name: str, seed: int, host: str) -> None:
    report = api.verify(LIGHT / f"light_{name}.onnx", mode="network", seed=seed, host=host)
    assert not report.network.stats.refused
    assert len(report.layers) == CONVOLUTIONS[name]
    assert report.departs is None
    assert report.network.silent == ""
    for layer in report.layers:
        for oracle in ("reference", "onnxruntime"):
            found = layer.compared("network", oracle)
            assert found is not None
            assert found.ok
        assert (
            layer.relative_rms_error < 5 * 2.0**-10
        )  # measured: 3e-4 behind the first layer, up to 4e-3 behind inception_v2's last
    for output in report.network.outputs:
        assert 0 < output.measured <= output.limit


def test_the_table_is_complete():
    assert {path.stem.removeprefix("light_") for path in LIGHT.glob("*.onnx")} == set(CONVOLUTIONS)
    assert sum(CONVOLUTIONS.values()) == 401


@pytest.mark.slow
@pytest.mark.parametrize("host", ["reference", "onnxruntime"])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_light_network(name, host):
    verify(name, seed=11, host=host)
