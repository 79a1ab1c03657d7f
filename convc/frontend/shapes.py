"""Shapes of all tensors of a graph, by ONNX's own shape inference.

Inference gets a skeleton of the model: weights are replaced by their types and extents, so it neither
copies nor sees hundreds of megabytes. Small constants stay, because a `Reshape` may need their values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec
import onnx
from onnx import numpy_helper, shape_inference

from convc.errors import ModelError
from convc.frontend.constants import Constants
from convc.frontend.contrib_shapes import as_standard

_SMALL = 1024
"""Constants of at most this many elements keep their values in the skeleton."""


class ValueType(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a tensor: ONNX element type (0: unknown), extents (None: unknown, also one by one)."""

    element_type: int
    shape: tuple[int | None, ...] | None


UNKNOWN = ValueType(element_type=0, shape=None)


def infer_types(
    model: onnx.ModelProto,
    constants: Constants,
    batch: int | None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
) -> dict[str, ValueType]:
    """Types of the tensors of the main graph, by name; tensors of which nothing is known are left out.

    Args:
        model: whose graph it is.
        constants: of the graph.
        batch: replaces the first extent of every 4-D graph input that is not a constant, and that of a 3-D or 5-D one
            where it is open; the types that the model states for other tensors are then forgotten and inferred anew.
        shapes: of graph inputs, by name, in place of those that the model states; with the same effect on the types of
            other tensors.

    Raises:
        ModelError: inference refuses the model, or the external data of a small constant are wrong.
    """
    skeleton = _skeleton(model, constants, batch, shapes or {})
    try:
        inferred = shape_inference.infer_shapes(skeleton, data_prop=True).graph
    except Exception as error:  # the extension module raises several unrelated types
        reason = str(error).strip().splitlines()
        raise ModelError(f"ONNX shape inference refuses the model: {reason[0] if reason else ''}") from None
    found: dict[str, ValueType] = {}
    for value in (*inferred.input, *inferred.value_info, *inferred.output):
        if value.type.HasField("tensor_type"):
            tensor = value.type.tensor_type
            found[value.name] = ValueType(element_type=tensor.elem_type, shape=_shape(tensor))
    return found


def _skeleton(
    model: onnx.ModelProto, constants: Constants, batch: int | None, shapes: Mapping[str, tuple[int, ...]]
) -> onnx.ModelProto:
    """The model with types and extents in place of large constants."""
    # Before IR version 4 an initializer was typed by a graph input of its name; since then it types itself.
    skeleton = onnx.ModelProto(ir_version=max(4, model.ir_version))
    skeleton.opset_import.extend(model.opset_import)
    skeleton.functions.extend(model.functions)
    graph = skeleton.graph
    graph.name = model.graph.name or "graph"
    for value in model.graph.input:
        if value.name not in constants.initializers:
            _add_input(graph, value, None if value.name in constants.bound else batch, shapes.get(value.name))
    for tensor in model.graph.initializer:
        if tensor.name in constants.initializers:
            _add_initializer(graph, tensor, constants)
    for node in model.graph.node:
        tensor = node.attribute[0].t if node.op_type == "Constant" and len(node.attribute) == 1 else None
        if tensor is not None and len(node.output) == 1 and math.prod(tensor.dims) > _SMALL:
            _declare(graph, node.output[0], tensor)
        else:
            graph.node.append(as_standard(node))
    if batch is None and not shapes:
        graph.value_info.extend(model.graph.value_info)
        graph.output.extend(model.graph.output)
    else:
        graph.output.extend(onnx.ValueInfoProto(name=value.name) for value in model.graph.output)
    return skeleton


def _add_input(
    graph: onnx.GraphProto, value: onnx.ValueInfoProto, batch: int | None, shape: tuple[int, ...] | None
) -> None:
    """Add a graph input; ``batch`` replaces the first extent of a 4-D one and an open one of others, ``shape`` all."""
    entry = graph.input.add()
    entry.CopyFrom(value)
    dims = entry.type.tensor_type.shape.dim
    if batch is not None and (len(dims) == 4 or (len(dims) in (3, 5) and not dims[0].HasField("dim_value"))):
        dims[0].dim_value = batch
    if shape is not None and entry.type.HasField("tensor_type"):
        entry.type.tensor_type.ClearField("shape")
        entry.type.tensor_type.shape.dim.extend(onnx.TensorShapeProto.Dimension(dim_value=extent) for extent in shape)


def _add_initializer(graph: onnx.GraphProto, tensor: onnx.TensorProto, constants: Constants) -> None:
    """Add a constant: a small one with its values, any other as an input of its type and extents."""
    small = math.prod(tensor.dims) <= _SMALL
    if small and tensor.data_location != onnx.TensorProto.EXTERNAL:
        graph.initializer.append(tensor)
        return
    value = constants.value(tensor.name) if small and tensor.data_type == onnx.TensorProto.INT64 else None
    if value is None:
        _declare(graph, tensor.name, tensor)
    else:  # small, and whole numbers: it may be a shape
        graph.initializer.append(numpy_helper.from_array(value, tensor.name))


def _declare(graph: onnx.GraphProto, name: str, tensor: onnx.TensorProto) -> None:
    """Add a graph input of the tensor's type and extents, in place of the tensor."""
    entry = graph.input.add(name=name)
    entry.type.tensor_type.elem_type = tensor.data_type
    for extent in tensor.dims:
        entry.type.tensor_type.shape.dim.add(dim_value=extent)


def _shape(tensor: onnx.TypeProto.Tensor) -> tuple[int | None, ...] | None:
    """Extents, None for one without a number; None when not even their number is known."""
    if not tensor.HasField("shape"):
        return None
    return tuple(dim.dim_value if dim.HasField("dim_value") else None for dim in tensor.shape.dim)
