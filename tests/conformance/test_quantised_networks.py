"""A MobileNet-like and a ResNet-like network, quantised by onnxruntime's own tools, beside onnxruntime.

onnxruntime runs them without optimisations: the QDQ form in floating point, the QOperator form in its integer kernels.
Every tensor of 8 bits and the result are compared. A convolution may be one step off where the exact result is a
rounding error from a tie; how often that is, is counted, and what it may do behind it as well.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnxruntime.quantization import quantize_dynamic
from support.quantised_models import FORMATS, NETWORKS, images, onnxruntime_outputs, quantised

from convc import api
from convc.runtime.network.convolutions import Convolutions
from convc.runtime.network.executor import Graph, with_integers

WAYS = {
    "plain": {},
    "channels": {"per_channel": True},
    "s8": {"activations": "s8"},
    "s8 channels": {"activations": "s8", "per_channel": True},
    "symmetric": {"activations": "s8", "ActivationSymmetric": True},
    "u8 weights": {"weights": "u8"},
    "asymmetric weights": {"WeightSymmetric": False},
    "fake quantised": {"AddQDQPairToWeight": True},
}
OPSETS = {"plain": (10, 11, 13, 17, 21), "channels": (13, 21), "symmetric": (12, 17)}
"""Operator sets by way; 17 for the others."""

KINDS = [
    (form, way, opset)
    for form in FORMATS
    for way in WAYS
    for opset in OPSETS.get(way, (17,))
    if (form, way) != ("qoperator", "fake quantised")
]
IN_TURNS = [
    pytest.param(network, *kind, marks=() if (turn + 3 * n) % (3 * len(NETWORKS)) == 0 else pytest.mark.slow)
    for turn, kind in enumerate(KINDS)
    for n, network in enumerate(NETWORKS)
]
"""A third of all kinds on one network, and every kind on each in ``make slow``."""

SHARED = Convolutions()
"""The kernels of one operator set are those of the others."""

CONVOLUTIONS = {"mobilenet": 5, "resnet": 6}


def shown(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model, with the result of every QuantizeLinear and QLinearConv among its outputs."""
    known = {value.name for value in model.graph.output}
    made = [node.output[0] for node in model.graph.node if node.op_type in ("QuantizeLinear", "QLinearConv")]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in made if name not in known)
    return model


@pytest.mark.one_of(2)
@pytest.mark.parametrize(("network", "form", "way", "opset"), IN_TURNS)
def test_quantised_network(network, form, way, opset):
    model = shown(quantised(NETWORKS[network](opset), form, **WAYS[way]))
    graph = Graph(with_integers(model, None), convolutions=SHARED, fuse=True, host="onnxruntime")
    steps = 0
    for x in images(2, seed=9):
        got = graph.run({"image": x})
        expected = onnxruntime_outputs(model, {"image": x}, [])
        assert list(got) == list(expected)
        assert len(graph.stats.compiled) == CONVOLUTIONS[network]
        assert graph.stats.floating == {}
        assert graph.stats.elsewhere == {}
        off = [np.abs(y.astype(int) - expected[name]) for name, y in got.items() if y.dtype.kind in "iu"]
        assert len(off) > CONVOLUTIONS[network]
        assert max(each.max() for each in off) <= 1
        here = sum(np.count_nonzero(each) for each in off)
        real = next(iter(got))
        assert np.abs(got[real] - expected[real]).max() <= (0.02 * np.abs(expected[real]).max() if here else 0)
        steps += here
    assert steps <= 3  # of 3,400 to 22,000 numbers; measured: 0 in every case


@pytest.mark.parametrize(
    ("network", "form"),
    [
        ("resnet", "qoperator"),
        pytest.param("mobilenet", "qdq", marks=pytest.mark.slow),
        pytest.param("mobilenet", "qoperator", marks=pytest.mark.slow),
        pytest.param("resnet", "qdq", marks=pytest.mark.slow),
    ],
)
def test_the_verbs(network, form, tmp_path):
    """Compiled, verified layer by layer and as a network, and run, from a file."""
    model = quantised(NETWORKS[network](), form, per_channel=True)
    onnx.save(model, path := tmp_path / "model.onnx")
    (x,) = images(1, seed=9)
    loaded = api.load(path)
    assert len(loaded.convs) == CONVOLUTIONS[network]
    assert all(conv.problem.requantised for conv in loaded.convs)
    build = api.compile(path, tmp_path / "build")
    assert len(build.names) == CONVOLUTIONS[network]
    assert api.verify(path).ok
    report = api.verify(path, mode="network")
    assert report.departs is None
    assert len(report.layers) == CONVOLUTIONS[network]
    for layer in report.layers:
        assert [check.oracle for check in layer.checks] == ["reference", "onnxruntime"]
    ran = api.run_network(path, x)
    expected = onnxruntime_outputs(model, {"image": x}, [])
    for name, mine in ran.outputs.items():
        np.testing.assert_array_equal(mine, expected[name])


@pytest.mark.parametrize("network", NETWORKS)
def test_scales_that_are_known_when_it_runs(network, tmp_path):
    """quantize_dynamic writes DynamicQuantizeLinear and ConvInteger, whose zero points are results."""
    onnx.save(NETWORKS[network](), tmp_path / "float.onnx")
    quantize_dynamic(tmp_path / "float.onnx", tmp_path / "model.onnx")
    model = onnx.load(tmp_path / "model.onnx")
    (x,) = images(1, seed=9)
    ran = api.run_network(tmp_path / "model.onnx", x)
    assert len(ran.stats.compiled) == CONVOLUTIONS[network]
    for name, expected in onnxruntime_outputs(model, {"image": x}, []).items():
        np.testing.assert_allclose(ran.outputs[name], expected, rtol=1e-5)
