"""Two small networks, MobileNet-like and ResNet-like, quantised by onnxruntime's own tools.

Both take images (1, 3, 16, 16) float32 and give 10 numbers. Their weights are seeded random numbers, their calibration
data and test images too, so that every test sees the same models.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

from convc.runtime.network.ort_unsigned import without_signs

SHAPE = (1, 3, 16, 16)
FORMATS = {"qdq": QuantFormat.QDQ, "qoperator": QuantFormat.QOperator}
TYPES = {"u8": QuantType.QUInt8, "s8": QuantType.QInt8}


class Layers:
    """Nodes and weights of a network in the making; every method adds nodes and gives the name of what they make."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def node(self, kind: str, *inputs: str, **attributes) -> str:
        """One node with one output."""
        name = f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [f"{name}.y"], name, **attributes))
        return f"{name}.y"

    def weight(self, array: np.ndarray) -> str:
        """A float32 initializer."""
        name = f"weight{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array, np.float32), name))
        return name

    def conv(self, x: str, channels: int, out: int, kernel: int, stride: int = 1, groups: int = 1) -> str:
        """A convolution with a bias, padded so that stride 1 keeps the extent."""
        terms = channels // groups * kernel * kernel
        spread = np.exp(self.rng.uniform(-1, 1, (out, 1, 1, 1)))  # channels of different size: scales per channel pay
        w = self.rng.standard_normal((out, channels // groups, kernel, kernel)) * spread / np.sqrt(terms)
        bias = self.rng.standard_normal(out) * 0.2
        more = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [kernel // 2] * 4, "group": groups}
        return self.node("Conv", x, self.weight(w), self.weight(bias), **more)

    def relu6(self, x: str, opset: int) -> str:
        """Clip to 0..6, whose bounds are attributes before operator set 11."""
        if opset < 11:
            return self.node("Clip", x, min=0.0, max=6.0)
        return self.node("Clip", x, self.weight(np.array(0.0)), self.weight(np.array(6.0)))

    def model(self, x: str, channels: int, opset: int) -> onnx.ModelProto:
        """The network with its classifier behind ``x``."""
        flat = self.node("Flatten", self.node("GlobalAveragePool", x))
        w = self.rng.standard_normal((10, channels)) / np.sqrt(channels)
        y = self.node("Gemm", flat, self.weight(w), self.weight(self.rng.standard_normal(10)), transB=1)
        given = helper.make_tensor_value_info("image", onnx.TensorProto.FLOAT, SHAPE)
        made = helper.make_tensor_value_info(y, onnx.TensorProto.FLOAT, (1, 10))
        graph = helper.make_graph(self.nodes, "net", [given], [made], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def mobilenet(opset: int = 17) -> onnx.ModelProto:
    """A stem, and an inverted residual block of MobileNetV2: expand, depthwise, project, add."""
    net = Layers(1)
    x = net.relu6(net.conv("image", 3, 8, 3, stride=2), opset)
    y = net.relu6(net.conv(x, 8, 24, 1), opset)
    y = net.relu6(net.conv(y, 24, 24, 3, groups=24), opset)
    y = net.node("Add", x, net.conv(y, 24, 8, 1))
    y = net.relu6(net.conv(y, 8, 16, 1), opset)
    return net.model(y, 16, opset)


def resnet(opset: int = 17) -> onnx.ModelProto:
    """A stem with pooling, a residual block, and one with a projection."""
    net = Layers(2)
    x = net.node("Relu", net.conv("image", 3, 8, 7, stride=2))
    x = net.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    y = net.conv(net.node("Relu", net.conv(x, 8, 8, 3)), 8, 8, 3)
    x = net.node("Relu", net.node("Add", y, x))
    y = net.conv(net.node("Relu", net.conv(x, 8, 16, 3, stride=2)), 16, 16, 3)
    x = net.node("Relu", net.node("Add", y, net.conv(x, 8, 16, 1, stride=2)))
    return net.model(x, 16, opset)


NETWORKS = {"mobilenet": mobilenet, "resnet": resnet}


def images(count: int, seed: int) -> Iterator[np.ndarray]:
    """Standard normal images."""
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(SHAPE).astype(np.float32) for _ in range(count))


class _Images(CalibrationDataReader):
    """Four images to calibrate with."""

    def __init__(self) -> None:
        self.left = images(4, seed=5)

    def get_next(self) -> dict[str, np.ndarray] | None:
        image = next(self.left, None)
        return None if image is None else {"image": image}


def quantised(
    model: onnx.ModelProto,
    form: str,
    *,
    per_channel: bool = False,
    activations: str = "u8",
    weights: str = "s8",
    **extra: bool,
) -> onnx.ModelProto:
    """A network as `onnxruntime.quantization.quantize_static` makes it.

    Args:
        form: one of `FORMATS`.
        activations, weights: one of `TYPES` each.
        extra: ``ActivationSymmetric``, ``WeightSymmetric`` and the like.
    """
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "float.onnx"
        target = Path(folder) / "quantised.onnx"
        onnx.save(model, source)
        logging.disable(logging.WARNING)
        try:
            quantize_static(
                source,
                target,
                _Images(),
                quant_format=FORMATS[form],
                per_channel=per_channel,
                activation_type=TYPES[activations],
                weight_type=TYPES[weights],
                extra_options=extra,
            )
        finally:
            logging.disable(logging.NOTSET)
        return onnx.load(target)


def onnxruntime_outputs(
    model: onnx.ModelProto, feeds: dict[str, np.ndarray], extra: list[str]
) -> dict[str, np.ndarray]:
    """onnxruntime's results without any of its graph optimisations: the outputs, and the tensors ``extra``."""
    shown = onnx.ModelProto()
    shown.CopyFrom(model)
    outputs = {value.name for value in shown.graph.output}
    shown.graph.output.extend(onnx.ValueInfoProto(name=name) for name in extra if name not in outputs)
    without_signs(shown)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(shown.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))
