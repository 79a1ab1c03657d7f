"""Random weights of sensible scale for a model whose own prove nothing, or are not there.

Models that come without their weights (the light models of the onnx package) fill each tensor with one number; every
channel is then the same, and a kernel that mixes them up goes unnoticed. Here each parameter gets seeded random
numbers by what its node uses it for:

    ==============================================  ======================================================
    filters behind a rectifier                      normal, less the mean of each filter; variance 1.2 / fan-in, or
                                                    2.93 / fan-in where nothing is added before the rectifier
    matrices behind a rectifier                     normal, variance 2 / fan-in (K. He et al., "Delving Deep into
                                                    Rectifiers", 2015)
    filters and matrices elsewhere                  normal, variance 1 / fan-in
    biases, shifts                                  normal, mean 1.5, standard deviation 0.1
    means, shifts just before a residual sum        normal, standard deviation 0.1
    scales, variances of normalisations             uniform in 0.8..1.25
    scale just before a residual sum                half of that, so that sums of many branches stay small
    ==============================================  ======================================================

Rectified numbers have a mean, so that the sums of a filter whose weights add up to something lie around a number of
their own, and below zero everywhere for many filters: the next rectifier would make whole channels zero, and the
weights that read them would go untested. A filter that adds up to zero takes only the deviation from the mean, and a
shift of 1.5 keeps most numbers above zero. A normal number has 1 / 0.89 of the variance of the same number shifted so
and rectified, and 2.93 times that of the number rectified as it is; 1.2 makes up for what pooling averages away.

Fan-in is the number of terms of each sum. Single numbers, integers (also behind a DequantizeLinear), and tensors that
go elsewhere keep their values.
A tensor's numbers depend on the seed and on its own name, not on the rest of the model.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx

from convc.frontend.model_file import ONNX_DOMAINS
from convc.ir import dtypes
from convc.runtime.network.constants import StartValues
from convc.support.memory import require_memory

Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]
"""Makes float32 numbers of a shape."""

_FORWARD = ("Identity", "Cast", "Unsqueeze", "Squeeze", "Reshape", "Flatten", "Transpose", "Expand")
"""Operators that hand on the numbers of their first input."""

_PASSING = (*_FORWARD, "MaxPool", "AveragePool", "GlobalAveragePool", "LRN", "Dropout", "Concat", "Sum", "Pad")
"""Operators that a rectified tensor stays rectified behind, as far as its mean square tells."""

_RECTIFIERS = ("Relu", "LeakyRelu", "PRelu", "Clip", "Elu", "Selu", "HardSwish", "Sigmoid", "HardSigmoid", "Softplus")

_NORMALISATIONS = ("BatchNormalization", "InstanceNormalization", "LayerNormalization", "GroupNormalization")
_LIFT = 1.5
"""Mean of shifts, in standard deviations of what they are added to."""

_LIFTED = 1.2
_UNLIFTED = 2 * math.pi / (math.pi - 1)
"""Variance times fan-in of filters behind a rectifier, with a shift before it and without: 1 / (1 / 2 - 1 / (2 pi))."""

_FLOATS = (np.dtype(np.float16), dtypes.BF16.storage, np.dtype(np.float32), np.dtype(np.float64))


def random_weights(graph: onnx.GraphProto, start: StartValues, seed: int) -> dict[str, np.ndarray]:
    """New values for the parameters of a graph, by the name of the constant; types and shapes stay.

    Raises:
        LimitError: they do not fit into memory.
    """
    producers = {output: node for node in graph.node for output in node.output}
    roles: dict[str, tuple[Draw, np.ndarray]] = {}
    for node, name, draw in _parameters(graph):
        source = name
        while source in producers and producers[source].op_type in _FORWARD and start.value(source) is None:
            source = producers[source].input[0]
        if source in producers and producers[source].op_type in ("QuantizeLinear", "DequantizeLinear"):
            continue
        value = start.value(source)
        if value is not None and value.size > 1 and value.dtype in _FLOATS and node.domain in ONNX_DOMAINS:
            roles.setdefault(source, (draw, value))
    require_memory(sum(value.nbytes for _, value in roles.values()), "random weights of the model")
    weights: dict[str, np.ndarray] = {}
    for source, (draw, value) in roles.items():
        rng = np.random.default_rng([seed, zlib.crc32(source.encode())])
        weights[source] = draw(rng, value.shape).astype(value.dtype, copy=False)
    return weights


def _parameters(graph: onnx.GraphProto) -> Iterator[tuple[onnx.NodeProto, str, Draw]]:
    """Each tensor that a node may use as a parameter, with what to draw for it."""
    residual = {name for node in graph.node if node.op_type in ("Sum", "Add") for name in node.input}
    rectified: set[str] = set()
    lifted: set[str] = set()
    for node in graph.node:
        if node.op_type in _RECTIFIERS or (node.op_type in _PASSING and rectified.intersection(node.input)):
            rectified.update(node.output)
        if _lifts(node) or (node.op_type in (*_RECTIFIERS, *_PASSING) and lifted.intersection(node.input)):
            lifted.update(node.output)
        gain = 2 if rectified.intersection(node.input[:1]) else 1
        own = _LIFTED if lifted.intersection(node.input[:1]) else _UNLIFTED
        inputs = dict(enumerate(node.input))
        draws: dict[int, Draw] = {}
        ends_branch = bool(node.output) and node.output[0] in residual
        shift = _shift if ends_branch else _lift
        match node.op_type:
            case "Conv" | "ConvTranspose":
                draws = {1: _filters(node, own if gain > 1 else None), 2: shift}
            case "Gemm":
                draws = {1: _matrix(-1 if _attribute(node, "transB", 0) else 0, gain), 2: shift}
            case "MatMul":
                draws = {0: _matrix(-1, 1), 1: _matrix(-2, gain)}
            case kind if kind in _NORMALISATIONS:
                draws = {1: _half if ends_branch else _scale, 2: shift, 3: _shift, 4: _scale}
            case "Mul":
                draws = {0: _half if ends_branch and not _adds_parameter(graph, node) else _scale}
                draws[1] = draws[0]
            case "Add":
                draws = {0: shift, 1: shift}
            case _:
                pass
        for index, draw in draws.items():
            if inputs.get(index):
                yield node, inputs[index], draw


def _lifts(node: onnx.NodeProto) -> bool:
    """Whether a node adds a shift, which is a parameter where it is drawn at all."""
    return node.op_type in ("Add", *_NORMALISATIONS) or (
        node.op_type in ("Conv", "ConvTranspose") and len(node.input) > 2
    )


def _adds_parameter(graph: onnx.GraphProto, node: onnx.NodeProto) -> bool:
    """Whether the sum behind a scale adds a parameter (a shift) and is no residual sum.

    A parameter is what comes from no `Conv`-like node: here, what hands on a constant.
    """
    outputs = {output: other for other in graph.node for output in other.output}
    initial = {tensor.name for tensor in graph.initializer}

    def constant(name: str) -> bool:
        while name in outputs and outputs[name].op_type in _FORWARD:
            name = outputs[name].input[0]
        return name in initial or (name in outputs and outputs[name].op_type in ("Constant", "ConstantOfShape"))

    sums = [other for other in graph.node if other.op_type in ("Sum", "Add") and node.output[0] in other.input]
    return all(any(constant(name) for name in other.input) for other in sums)


def _filters(node: onnx.NodeProto, rectified: float | None) -> Draw:
    """Normal numbers for (K, C / groups, *kernel), or for those of `ConvTranspose`, (C, K / groups, *kernel).

    ``rectified``: variance times fan-in of filters that add up to zero; None for others, of variance 1 / fan-in.
    """

    def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        terms = math.prod(shape[1:])
        if node.op_type == "ConvTranspose":  # a pixel gets every stride-th tap of the channels of its group
            steps = math.prod(_attribute(node, "strides", [1]))
            terms = shape[0] // max(1, _attribute(node, "group", 1)) * math.prod(shape[2:]) / max(1, steps)
        elif rectified is not None and terms > 1:
            values = _normal(rng, shape, math.sqrt(rectified / terms))
            return values - values.mean(axis=tuple(range(1, len(shape))), keepdims=True)
        return _normal(rng, shape, math.sqrt((1 if rectified is None else 2) / max(1, terms)))

    return draw


def _matrix(axis: int, gain: int) -> Draw:
    """Normal numbers for a matrix with the terms of each sum along ``axis``."""
    return lambda rng, shape: _normal(rng, shape, math.sqrt(gain / shape[axis if len(shape) > 1 else 0]))


def _shift(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Small normal numbers, for what is added."""
    return _normal(rng, shape, 0.1)


def _lift(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return _shift(rng, shape) + np.float32(_LIFT)


def _scale(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers about 1, for what is multiplied."""
    return rng.uniform(0.8, 1.25, shape).astype(np.float32)


def _half(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers about one half, for branches that are summed."""
    return _scale(rng, shape) / np.float32(2)


def _normal(rng: np.random.Generator, shape: tuple[int, ...], deviation: float) -> np.ndarray:
    """float32, normally distributed around 0."""
    values = rng.standard_normal(shape, dtype=np.float32)
    values *= np.float32(deviation)
    return values


def _attribute(node: onnx.NodeProto, name: str, default: Any) -> Any:
    """The value of an attribute; the default where the node leaves it out."""
    for attribute in node.attribute:
        if attribute.name == name:
            return onnx.helper.get_attribute_value(attribute)
    return default
