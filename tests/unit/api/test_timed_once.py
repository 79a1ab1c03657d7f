"""Kernels of a model are timed: each once, in the order of the layers, and who asks is told how far it is."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import convc
from convc.api import timing

NETWORK = """<ir_version: 8, opset_import: ["": 17]>
g (float[1, 16, 8, 8] x) => (float[1, 16, 8, 8] y)
<float[16, 16, 1, 1] w, float[16, 16, 1, 1] v> {
    a = Conv (x, w)
    b = Relu (a)
    c = Conv (b, v)
    d = Relu (c)
    y = Conv (d, w)
}"""


@pytest.fixture
def model() -> onnx.ModelProto:
    """Three layers, of which the first two are the same but for their weights."""
    made = onnx.parser.parse_model(NETWORK)
    for name, value in (("w", 1.0), ("v", 2.0)):
        array = np.full((16, 16, 1, 1), value, np.float32)
        made.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return made


def test_layers_with_the_same_kernel_are_timed_once(model, monkeypatch):
    timed: list[str] = []
    real = timing.time_kernel

    def time_kernel(text, launch, buffers, chip, *, name, **more):
        timed.append(name)
        return real(text, launch, buffers, chip, name=name, **more)

    monkeypatch.setattr(timing, "time_kernel", time_kernel)
    said: list[tuple[str, float]] = []
    found = convc.time(model, work=convc.WorkOptions(progress=lambda *told: said.append(told)))
    first, second, third = found.layers
    assert first.kernel is second.kernel
    assert first.kernel is not third.kernel
    assert timed == [first.name, third.name]
    assert len({first.name, second.name, third.name}) == 3
    shares = [(what, share) for what, share in said if what.startswith("time ")]
    assert shares == [(f"time {layer.name}", number / 3) for number, layer in enumerate(found.layers)]
    assert [layer.macs for layer in found.layers] == 3 * [16 * 16 * 64]
    assert found.microseconds == pytest.approx(sum(layer.kernel.microseconds for layer in found.layers))


def test_a_name_that_is_asked_about_twice_is_answered_once(model):
    asked = convc.ChipOptions(what_if=("tma.latency", "chip.clock", "tma.latency"))
    found = convc.time(model, chip=asked, schedule=convc.ScheduleOptions(schedule="reload"))
    assert [answer.name for answer in found.what_ifs] == ["tma.latency", "chip.clock"]
    layers = [layer.name for layer in found.layers]
    for answer in found.what_ifs:
        assert [[time.layer for time in one.times] for one in answer.settings] == 3 * [layers]
        assert all(time.planned for one in answer.settings for time in one.times)
