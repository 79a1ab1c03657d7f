"""What single nodes are that a kernel can do as it stores: a scale and a shift per channel, or a step of the epilogue.

Source: ONNX operators of these names. A node with an attribute that is not known here, or that is no number, is none of
them: it stays a node of its own.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from onnx import AttributeProto, NodeProto

from convc.frontend.graph_view import GraphView
from convc.ir import dtypes
from convc.ir.epilogue import Clip, EpilogueStep, LeakyRelu, Relu, Sigmoid, SiLU
from convc.ir.problem import ConvProblem


def scale_and_shift(
    view: GraphView, node: NodeProto, tensor: str, problem: ConvProblem
) -> tuple[np.ndarray, np.ndarray] | None:
    """Scale and shift, float64 (K,) each, of a node that does nothing else to a tensor; None: it does something else.

    Args:
        view: the graph.
        node: reads the tensor once.
        tensor: (N, K, P, Q).
        problem: the convolution whose result it is.
    """
    channels = problem.out_channels
    if node.op_type == "BatchNormalization":
        return _normalisation(view, node, tensor, channels)
    if node.op_type not in ("Mul", "Add") or len(node.input) != 2:
        return None
    (other,) = (name for name in node.input if name != tensor)
    number = _per_channel(view, other, channels, problem.rank)
    if number is None:
        return None
    return (number, np.zeros(channels)) if node.op_type == "Mul" else (np.ones(channels), number)


def activation_step(view: GraphView, node: NodeProto) -> EpilogueStep | None:
    """The step that a node of one operand is; None: it is none."""
    if node.op_type == "Clip":
        return _clip(view, node)
    if len(node.input) != 1:
        return None
    match node.op_type:
        case "Relu":
            return Relu()
        case "Sigmoid":
            return Sigmoid()
        case "LeakyRelu":
            given = _numbers(node, {"alpha": 0.01})
            return None if given is None or not np.isfinite(given["alpha"]) else LeakyRelu(given["alpha"])
        case "Swish":
            given = _numbers(node, {"alpha": 1.0})
            return None if given is None or given["alpha"] != 1 else SiLU()
        case _:
            return None


def _normalisation(
    view: GraphView, node: NodeProto, tensor: str, channels: int
) -> tuple[np.ndarray, np.ndarray] | None:
    """BatchNormalization in its inference form: (x - mean) / sqrt(var + epsilon) * scale + B."""
    given = _numbers(node, {"epsilon": 1e-5, "momentum": 0.9, "training_mode": 0, "spatial": 1})
    if given is None or given["training_mode"] != 0 or given["spatial"] != 1 or len(node.input) != 5:
        return None
    if node.input[0] != tensor:
        return None
    read = (view.constant(name) for name in node.input[1:])
    arrays = [array for array in read if array is not None and array.shape == (channels,)]
    if len(arrays) != 4:
        return None
    scale, shift, mean, variance = arrays
    with np.errstate(all="ignore"):
        factor = scale / np.sqrt(variance + given["epsilon"])
        return factor, shift - mean * factor


def _per_channel(view: GraphView, name: str, channels: int, rank: int) -> np.ndarray | None:
    """A constant that is the same for all pixels of a channel, as (K,); None where it is another tensor."""
    number = view.constant(name)
    if number is None or number.ndim > rank + 2:
        return None
    shape = (1,) * (rank + 2 - number.ndim) + number.shape
    if shape[1] not in (1, channels) or any(extent != 1 for axis, extent in enumerate(shape) if axis != 1):
        return None
    return np.broadcast_to(number.reshape(-1), (channels,))


def _clip(view: GraphView, node: NodeProto) -> Clip | None:
    """Bounds as attributes (before opset 11) or as constant inputs; float's largest and infinities are no bounds."""
    given = _numbers(node, {"min": -np.inf, "max": np.inf})
    if given is None:
        return None
    bounds = [given["min"], given["max"]]
    for place, name in enumerate(node.input[1:3]):
        if name:
            array = view.constant(name)
            if array is None or array.size != 1:
                return None
            bounds[place] = float(array.reshape(()))
    if any(np.isnan(bound) for bound in bounds) or bounds[0] == np.inf or bounds[1] == -np.inf:
        return None
    limit = dtypes.F32.max_finite
    low, high = bounds
    return Clip(None if low <= -limit else low, None if high >= limit else high)


def _numbers(node: NodeProto, defaults: Mapping[str, float]) -> dict[str, float] | None:
    """The attributes of a node, all of them numbers of known names; None where there is another."""
    found = dict(defaults)
    for attribute in node.attribute:
        if attribute.name not in found or attribute.type not in (AttributeProto.FLOAT, AttributeProto.INT):
            return None
        found[attribute.name] = attribute.f if attribute.type == AttributeProto.FLOAT else attribute.i
    return found
