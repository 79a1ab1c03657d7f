"""Builds the ONNX models of this folder, and larger ones on request; nothing is downloaded.

    python models/make_models.py                        rewrite the small models here
    python models/make_models.py --resnet50 out.onnx    the layers of layers.toml, each with its own input
    python models/make_models.py --resnet50 out.onnx --layers demo --dtype f16

Weights are random with a fixed seed, from numpy's legacy generator: its stream is frozen (NEP 19), so the
bytes of a model depend on nothing but this file.
"""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper

HERE = Path(__file__).resolve().parent

ELEMENT_TYPES = {
    "f16": (TensorProto.FLOAT16, np.dtype(np.float16)),
    "bf16": (TensorProto.BFLOAT16, np.dtype(ml_dtypes.bfloat16)),
    "f32": (TensorProto.FLOAT, np.dtype(np.float32)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A convolution with square images and filters; see layers.toml."""

    name: str
    in_channels: int
    out_channels: int
    extent: int
    kernel: int
    stride: int
    pad: int

    @property
    def out_extent(self) -> int:
        """Height and width of the output."""
        return (self.extent + 2 * self.pad - self.kernel) // self.stride + 1


def read_layers(selection: str = "all") -> tuple[Layer, ...]:
    """The layers of layers.toml: ``all`` 53, or the ``demo`` ones."""
    table = tomllib.loads((HERE / "layers.toml").read_text())
    names = ("name", "in_channels", "out_channels", "extent", "kernel", "stride", "pad")
    layers = [Layer(**dict(zip(names, row, strict=True))) for row in table["resnet50"]]
    return tuple(layer for layer in layers if selection == "all" or layer.name in table[selection])


def build_resnet50_layers(
    path: Path, layers: Sequence[Layer], dtype: str = "f16", seed: int = 0, batch: int = 1, bias: bool = True
) -> None:
    """Write a model with one Conv node per layer, each with a graph input and a graph output of its own.

    Args:
        path: the .onnx file to write.
        dtype: f16, bf16 or f32.
    """
    graph = GraphBuilder("resnet50_layers", dtype, seed)
    for layer in layers:
        x = graph.input(f"{layer.name}.x", (batch, layer.in_channels, layer.extent, layer.extent))
        shape = (layer.out_channels, layer.in_channels, layer.kernel, layer.kernel)
        pads = [layer.pad] * 4
        y = graph.conv(layer.name, x, shape, bias=bias, strides=[layer.stride] * 2, pads=pads)
        graph.output(y, (batch, layer.out_channels, layer.out_extent, layer.out_extent))
    graph.save(path)


def build_small_models(folder: Path) -> None:
    """Write the committed models."""
    graph = GraphBuilder("tiny_conv", "f16", seed=1)
    x = graph.input("x", (1, 16, 12, 12))
    graph.output(graph.conv("conv", x, (24, 16, 3, 3), pads=[1, 1, 1, 1]), (1, 24, 12, 12))
    graph.save(folder / "tiny_conv.onnx")

    graph = GraphBuilder("tiny_two_convs", "f32", seed=2)
    x = graph.input("x", (1, 3, 16, 16))
    hidden = graph.conv("stem", x, (16, 3, 5, 5), strides=[2, 2], auto_pad="SAME_UPPER")
    hidden = graph.node("Relu", "relu", [hidden])
    graph.output(graph.conv("head", hidden, (10, 16, 1, 1), bias=False), (1, 10, 8, 8))
    graph.save(folder / "tiny_two_convs.onnx")

    graph = GraphBuilder("tiny_bf16", "bf16", seed=3)
    x = graph.input("x", (2, 8, 10, 9))
    y = graph.conv("conv", x, (17, 8, 3, 2), bias=False, strides=[2, 1], dilations=[1, 2], pads=[1, 0, 0, 2])
    graph.output(y, (2, 17, 5, 9))
    graph.save(folder / "tiny_bf16.onnx")


class GraphBuilder:
    """Collects nodes, weights, inputs and outputs of one element type."""

    def __init__(self, name: str, dtype: str, seed: int) -> None:
        self.name = name
        self.element_type, self.storage = ELEMENT_TYPES[dtype]
        self.random = np.random.RandomState(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []

    def input(self, name: str, shape: Sequence[int]) -> str:
        """Add a graph input; returns its name."""
        self.inputs.append(helper.make_tensor_value_info(name, self.element_type, shape))
        return name

    def output(self, name: str, shape: Sequence[int]) -> None:
        """Make a tensor a graph output."""
        self.outputs.append(helper.make_tensor_value_info(name, self.element_type, shape))

    def node(self, op_type: str, name: str, inputs: Sequence[str], **attributes: object) -> str:
        """Add a node with one output; returns the name of the output."""
        output = f"{name}.y"
        self.nodes.append(helper.make_node(op_type, inputs, [output], name=name, **attributes))
        return output

    def conv(
        self, name: str, x: str, shape: tuple[int, int, int, int], *, bias: bool = True, **attributes: object
    ) -> str:
        """Add a Conv with weights (K, C, R, S), scaled so that results have variance about 1."""
        inputs = [x, self._weight(f"{name}.weight", shape, np.prod(shape[1:]) ** -0.5)]
        if bias:
            inputs.append(self._weight(f"{name}.bias", shape[:1], 1.0))
        return self.node("Conv", name, inputs, kernel_shape=list(shape[2:]), **attributes)

    def save(self, path: Path) -> None:
        """Write the model; equal graphs give equal bytes."""
        graph = helper.make_graph(self.nodes, self.name, self.inputs, self.outputs, self.weights)
        model = helper.make_model(
            graph, producer_name="convc", ir_version=10, opset_imports=[helper.make_opsetid("", 22)]
        )
        path.write_bytes(model.SerializeToString(deterministic=True))

    def _weight(self, name: str, shape: Sequence[int], scale: float) -> str:
        values = (self.random.standard_normal(shape) * scale).astype(self.storage)
        self.weights.append(helper.make_tensor(name, self.element_type, shape, values.tobytes(), raw=True))
        return name


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Write ONNX models with random weights.")
    parser.add_argument("--resnet50", type=Path, metavar="FILE", help="write the layers of layers.toml to FILE")
    parser.add_argument("--layers", choices=("all", "demo"), default="all", help="which layers (default: all)")
    parser.add_argument("--dtype", choices=tuple(ELEMENT_TYPES), default="f16", help="element type")
    parser.add_argument("--seed", type=int, default=0, help="seed of the weights")
    parser.add_argument("--batch", type=int, default=1, help="images in each input")
    arguments = parser.parse_args()
    if arguments.resnet50:
        layers = read_layers(arguments.layers)
        build_resnet50_layers(arguments.resnet50, layers, arguments.dtype, arguments.seed, arguments.batch)
    else:
        build_small_models(HERE)


if __name__ == "__main__":
    main()
