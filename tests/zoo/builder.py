"""Networks node by node: every method adds nodes as an exporter writes them, and gives the name of what they make.

Weights are seeded random numbers of a size that keeps activations near 1, so that a long network says something.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT


class Net:
    """A network in the making, of float32 unless a method says otherwise."""

    def __init__(self, opset: int = 17, seed: int = 0) -> None:
        self.opset = opset
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []

    def input(self, name: str, shape: Sequence[int | str], kind: int = FLOAT) -> str:
        """An input of the network; a text is an axis that is left open."""
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def output(self, value: str, rank: int | None = None, kind: int = FLOAT) -> None:
        """An output of the network, all of whose axes are left to inference."""
        shape = None if rank is None else [f"{value}_{axis}" for axis in range(rank)]
        self.outputs.append(helper.make_tensor_value_info(value, kind, shape))

    def op(self, kind: str, *inputs: str, outputs: int = 1, domain: str = "", **attributes: object) -> str:
        """One node; the name of its first output, the others being ``NAME.1`` and so on (see `results`)."""
        name = f"{kind.lower()}{len(self.nodes)}"
        names = results(f"{name}.y", outputs)
        self.nodes.append(helper.make_node(kind, inputs, names, name, domain=domain, **attributes))
        return names[0]

    def const(self, values: object, kind: str = "f4") -> str:
        """An initializer."""
        name = f"const{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(values, kind), name))
        return name

    def ints(self, *values: int) -> str:
        """A list of int64, as shapes, axes and starts are."""
        return self.const(values, "i8")

    def random(self, *shape: int, scale: float = 1.0) -> str:
        """A normal initializer."""
        return self.const(self.rng.standard_normal(shape) * scale)

    def conv(
        self, x: str, channels: int, out: int, filters: Sequence[int] = (3, 3), *, bias: bool = True, **more: object
    ) -> str:
        """A convolution; without ``pads`` it is padded so that stride 1 keeps the extents."""
        groups = int(more.get("group", 1))  # type: ignore[call-overload]
        per_group = channels // groups
        scale = (per_group * float(np.prod(filters))) ** -0.5
        weights = [self.random(out, per_group, *filters, scale=scale)]
        if bias:
            weights.append(self.random(out, scale=0.1))
        if "pads" not in more and "auto_pad" not in more:
            spread = more.get("dilations", [1] * len(filters))
            half = [(extent - 1) * step // 2 for extent, step in zip(filters, spread, strict=True)]  # type: ignore[call-overload]
            more["pads"] = half * 2
        return self.op("Conv", x, *weights, kernel_shape=list(filters), **more)

    def transposed(self, x: str, channels: int, out: int, filters: Sequence[int], **more: object) -> str:
        """A transposed convolution with a bias."""
        scale = (channels * float(np.prod(filters)) / float(np.prod(more["strides"]))) ** -0.5  # type: ignore[arg-type]
        w = self.random(channels, out, *filters, scale=scale)
        return self.op("ConvTranspose", x, w, self.random(out, scale=0.1), kernel_shape=list(filters), **more)

    def norm(self, x: str, channels: int) -> str:
        """BatchNormalization with statistics that it was trained with."""
        gain = self.const(self.rng.uniform(0.5, 1.5, channels))
        variance = self.const(self.rng.uniform(0.5, 1.5, channels))
        return self.op(
            "BatchNormalization",
            x,
            gain,
            self.random(channels, scale=0.1),
            self.random(channels, scale=0.1),
            variance,
            epsilon=1e-5,
        )

    def silu(self, x: str) -> str:
        """x * sigmoid(x)."""
        return self.op("Mul", x, self.op("Sigmoid", x))

    def gelu(self, x: str) -> str:
        """GELU by the error function, as torch.onnx wrote it before Gelu was an operator."""
        inner = self.op("Erf", self.op("Div", x, self.const(2**0.5)))
        scaled = self.op("Mul", x, self.op("Add", inner, self.const(1.0)))
        return self.op("Mul", scaled, self.const(0.5))

    def block(self, x: str, channels: int, out: int, filters: Sequence[int] = (3, 3), **more: object) -> str:
        """Convolution, BatchNormalization, SiLU."""
        return self.silu(self.norm(self.conv(x, channels, out, filters, bias=False, **more), out))

    def extent(self, x: str, axis: int) -> str:
        """One extent of a tensor as a scalar: Shape, then Gather, as ``x.shape[axis]`` is exported."""
        return self.op("Gather", self.op("Shape", x), self.const(axis, "i8"), axis=0)

    def listed(self, *scalars: str) -> str:
        """Scalars joined to a list: an Unsqueeze each, then Concat."""
        if self.opset < 13:
            parts = [self.op("Unsqueeze", scalar, axes=[0]) for scalar in scalars]
        else:
            parts = [self.op("Unsqueeze", scalar, self.ints(0)) for scalar in scalars]
        return self.op("Concat", *parts, axis=0)

    def split(self, x: str, *sizes: int, axis: int = 1) -> list[str]:
        """Parts of a tensor."""
        count = len(sizes)
        if self.opset < 13:
            first = self.op("Split", x, outputs=count, axis=axis, split=list(sizes))
        else:
            first = self.op("Split", x, self.ints(*sizes), outputs=count, axis=axis)
        return results(first, count)

    def mean(self, x: str, *axes: int, keepdims: int = 1) -> str:
        """ReduceMean, whose axes are an input since operator set 18."""
        if self.opset < 18:
            return self.op("ReduceMean", x, axes=list(axes), keepdims=keepdims)
        return self.op("ReduceMean", x, self.ints(*axes), keepdims=keepdims)

    def model(self) -> onnx.ModelProto:
        """The network as a model; names of more than one domain are those of onnxruntime."""
        graph = helper.make_graph(self.nodes, "zoo", self.inputs, self.outputs, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)


def results(first: str, count: int) -> list[str]:
    """The names of ``count`` outputs of a node whose first is ``first``."""
    return [first, *(f"{first}.{i}" for i in range(1, count))]
