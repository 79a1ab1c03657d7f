"""Types that ONNX's shape inference knows of the results of a node once its inputs are there; results must have them.

Types and extents of the inputs are those of the arrays, and small arrays are known by their values, so that the extents
of a `Reshape`, a `Slice` or a `Resize` are known as well. What inference does not know it does not judge.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, TypeProto, helper, numpy_helper, shape_inference

from convc.frontend.contrib_shapes import as_standard
from convc.frontend.model_file import ONNX_DOMAINS
from convc.runtime.network.node_info import element_dtype
from convc.runtime.network.steps import describe_value
from convc.support.arrays import is_array
from convc.support.memory import require_memory

_VALUES = 64
"""Arrays of at most this many elements may be extents, axes or repeats."""
_POOLS = ("AveragePool", "LpPool", "MaxPool")
_ASK_BYTES = 1 << 24
"""Results that take more are not made before it is known that memory holds them."""


def expected_types(
    node: NodeProto, opsets: Mapping[str, int], values: Mapping[str, Any], functions: Sequence[onnx.FunctionProto] = ()
) -> Mapping[str, TypeProto]:
    """Types of the outputs of a node, by name; those that inference does not know are left out.

    Args:
        node: of any domain; what it stands for in its place, where ONNX does not know it (`as_standard`).
        opsets: by domain.
        values: by name, at least what `convc.runtime.network.node_info.needed` lists.
        functions: of the model.
    """
    known = _one_sided(as_standard(node))
    try:
        types = {name: _type(value) for name, value in values.items()}
    except (ValueError, TypeError):  # a sequence, or elements that ONNX has no type for
        return {}
    data = {
        name: numpy_helper.from_array(np.ascontiguousarray(value).reshape(value.shape), name)
        for name, value in values.items()
        if value.size <= _VALUES and value.dtype.kind in "iufb"
    }
    domain = "" if known.domain in ONNX_DOMAINS else known.domain
    try:
        if domain == "" and "" in opsets:
            schema = onnx.defs.get_schema(known.op_type, opsets[""], "")
            imports = [helper.make_operatorsetid(name, version) for name, version in opsets.items()]
            made = shape_inference.infer_node_outputs(schema, known, types, data, None, imports)
            return _starting_inside(known, made, values)
        return _called(known, opsets, types, functions) if functions else {}
    except Exception:  # inference raises several unrelated types; whoever runs the node says what is wrong with it
        return {}


def difference(who: str, node: NodeProto, made: Sequence[Any], expected: Mapping[str, TypeProto]) -> str:
    """Say how results differ from what inference knows; "" where they do not.

    Args:
        who: made them.
        made: the outputs that have names, in their order.
        expected: types by name.
    """
    names = [name for name in node.output if name]
    if len(names) != len(made):
        return f"{who} makes {len(made)} results in place of {len(names)}"
    for name, value in zip(names, made, strict=True):
        kind = expected.get(name)
        if kind is None or not is_array(value) or not kind.HasField("tensor_type"):
            continue
        if not _fits(value, kind.tensor_type):
            shown = _shown(kind.tensor_type)
            return f"{who} makes {name!r} {describe_value(value)}, where ONNX's shape inference says {shown}"
    return ""


def check_room(expected: Mapping[str, TypeProto], where: str) -> None:
    """Raise `LimitError` where memory does not hold results of these types."""
    for name, kind in expected.items():
        dtype = element_dtype(kind.tensor_type.elem_type)
        extents = [dim.dim_value if dim.HasField("dim_value") else 1 for dim in kind.tensor_type.shape.dim]
        size = math.prod(extents) * (1 if dtype is None else dtype.itemsize)
        if size > _ASK_BYTES:
            require_memory(size, f"{name!r} of {where}")


def _type(value: Any) -> TypeProto:
    if not is_array(value):
        raise TypeError("no array")
    return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)


def _one_sided(node: NodeProto) -> NodeProto:
    """The node with the default of STFT's ``onesided``, 1, which inference takes for 0."""
    if node.op_type != "STFT" or any(attribute.name == "onesided" for attribute in node.attribute):
        return node
    explicit = NodeProto()
    explicit.CopyFrom(node)
    explicit.attribute.append(helper.make_attribute("onesided", 1))
    return explicit


def _starting_inside(
    node: NodeProto, made: Mapping[str, TypeProto], values: Mapping[str, Any]
) -> Mapping[str, TypeProto]:
    """Types of pooled images without the windows that would start behind the image, which inference counts.

    Source: ONNX, ``MaxPool`` and ``AveragePool``, on ceil_mode: such sliding windows are ignored.
    """
    given = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    if node.op_type not in _POOLS or not given.get("ceil_mode"):
        return made
    extents = values[node.input[0]].shape[2:]
    strides = given.get("strides", [1] * len(extents))
    pads = given.get("pads", [0] * len(extents))
    for kind in made.values():
        for dim, extent, stride, pad in zip(kind.tensor_type.shape.dim[2:], extents, strides, pads, strict=False):
            if dim.HasField("dim_value") and (dim.dim_value - 1) * stride >= extent + pad:
                dim.dim_value -= 1
    return made


def _called(
    node: NodeProto, opsets: Mapping[str, int], types: Mapping[str, TypeProto], functions: Sequence[onnx.FunctionProto]
) -> dict[str, TypeProto]:
    graph = onnx.GraphProto(name="one", node=[node])
    graph.input.extend(onnx.ValueInfoProto(name=name, type=kind) for name, kind in types.items())
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in node.output if name)
    imports = [helper.make_operatorsetid(name, version) for name, version in opsets.items()]
    model = helper.make_model(graph, functions=functions, opset_imports=imports)
    return {value.name: value.type for value in shape_inference.infer_shapes(model).graph.output}


def _fits(value: np.ndarray, tensor: TypeProto.Tensor) -> bool:
    dtype = element_dtype(tensor.elem_type) if tensor.elem_type else None
    text = dtype is not None and dtype.kind in "OUS" and value.dtype.kind in "OUS"
    if dtype is not None and value.dtype != dtype and not text:
        return False
    if not tensor.HasField("shape"):
        return True
    dims = tensor.shape.dim
    sizes = zip(dims, value.shape, strict=False)
    return len(dims) == value.ndim and all(
        not dim.HasField("dim_value") or dim.dim_value == size for dim, size in sizes
    )


def _shown(tensor: TypeProto.Tensor) -> str:
    dtype = element_dtype(tensor.elem_type)
    kind = "any type" if dtype is None else dtype.name
    if not tensor.HasField("shape"):
        return kind
    return f"{kind} [{', '.join(str(dim.dim_value) if dim.HasField('dim_value') else '?' for dim in tensor.shape.dim)}]"
