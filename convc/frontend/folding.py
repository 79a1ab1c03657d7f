"""Nodes whose inputs are all constant, computed before the model runs.

They are computed by who runs them on the host of a whole network, `onnx.reference`, so that a weight has the same bits
for ``compile`` as for ``run``. A model is not to be trusted: ONNX's shape inference says first how large the outputs
become, and one for which it does not, or that memory does not hold, is not computed. So only operators are whose work
and memory grow with these extents.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, TypeProto, ValueInfoProto, helper

from convc.errors import ModelError
from convc.frontend.host_limits import reference_wrong
from convc.frontend.model_file import ONNX_DOMAINS
from convc.frontend.node_types import NodeTypes, NotInferredError, as_data
from convc.frontend.opset_compat import as_defined
from convc.support.memory import named_memory, require_memory

FOLDED = frozenset((
    "Abs", "Add", "And", "ArgMax", "ArgMin", "Cast", "Ceil", "Clip", "Concat", "ConstantOfShape", "CumSum", "Div",
    "Equal", "Exp", "Expand", "EyeLike", "Flatten", "Floor", "Gather", "GatherElements", "GatherND", "Gemm",
    "Greater", "GreaterOrEqual", "Identity", "Less", "LessOrEqual", "Log", "MatMul", "Max", "Mean", "Min", "Mod", "Mul",
    "Neg", "Not", "Or", "Pad", "Pow", "Range", "Reciprocal", "ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean",
    "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare", "Relu", "Reshape", "Round", "ScatterElements",
    "ScatterND", "Shape", "Sigmoid", "Sign", "Size", "Slice", "Split", "Sqrt", "Squeeze", "Sub", "Sum", "Tanh", "Tile",
    "Transpose", "Trilu", "Unsqueeze", "Where", "Xor",
))  # fmt: skip
"""Operators that are computed: the same in every run, elementwise, moving, reducing or multiplying."""

_VALUES = 64
"""Inputs of at most this many elements may be extents, axes or repeats: shape inference is given their values."""
_COPIES = 4
"""Arrays as large as all inputs and outputs together that an operator may make on its way."""


def is_folded(node: NodeProto) -> bool:
    """Whether a node is computed once its inputs are known."""
    return node.domain in ONNX_DOMAINS and node.op_type in FOLDED and any(node.input)


def folded(node: NodeProto, opset: int, arrays: Sequence[np.ndarray | None]) -> list[np.ndarray] | None:
    """The outputs of a node that have names; None where it is not known how large they are, or ONNX refuses it.

    Args:
        node: for which `is_folded` holds.
        opset: operator set of the model.
        arrays: one for each input, None for one that is left out.

    Raises:
        LimitError: memory does not hold what it makes.
    """
    own = NodeProto()
    own.CopyFrom(node)
    own.domain = ""
    given = {name: array for name, array in zip(node.input, arrays, strict=True) if array is not None}
    made = _size(own, opset, given)
    if made is None or reference_wrong(own, opset, arrays):
        return None
    from onnx.reference import ReferenceEvaluator  # slow to load, and most models have nothing to fold

    where = f"node {node.name or node.output[0]!r} ({node.op_type})"
    size = made + sum(array.size * array.itemsize for array in given.values())
    require_memory(_COPIES * size, f"folding {where}")
    nodes, version = as_defined(own, opset)
    graph = onnx.GraphProto(name="folded", node=nodes, input=_names(given), output=_names(filter(None, node.output)))
    with named_memory(f"folding {where}"), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # overflow and NaN in the weights are the model's business
        try:
            results = ReferenceEvaluator(graph, opsets={"": version}).run(None, given)  # pyright: ignore[reportUnknownMemberType]
        except MemoryError:
            raise
        except Exception:  # any operator, on whatever the model gives it; the run says what is wrong
            return None
    return [np.asarray(result) for result in results]


def _size(node: NodeProto, opset: int, given: dict[str, np.ndarray]) -> int | None:
    """Bytes of all outputs of a node; None where shape inference does not know them, or refuses the node."""
    try:
        types: dict[str, TypeProto] = {}
        values: dict[str, TensorProto] = {}
        for name, array in given.items():
            types[name] = helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            data = as_data(array) if array.size <= _VALUES else None
            values |= {} if data is None else {name: data}
        made = NodeTypes({"": opset}, onnx.IR_VERSION).infer(node, types, values)
        return sum(_bytes(name, made[name]) for name in node.output if name)
    except (NotInferredError, ModelError, KeyError, ValueError):  # also of a type that ONNX has not
        return None


def _bytes(name: str, kind: TypeProto) -> int:
    """Bytes of a tensor whose extents are all known; `ModelError` of any other."""
    tensor = kind.tensor_type
    if not tensor.HasField("shape") or not all(dim.HasField("dim_value") for dim in tensor.shape.dim):
        raise ModelError("its extents are not known", where=f"tensor {name!r}")
    if tensor.elem_type in (TensorProto.UNDEFINED, TensorProto.STRING):
        raise ModelError("its elements are no numbers", where=f"tensor {name!r}")
    elements = math.prod(dim.dim_value for dim in tensor.shape.dim)
    return elements * helper.tensor_dtype_to_np_dtype(tensor.elem_type).itemsize


def _names(tensors: Iterable[str]) -> list[ValueInfoProto]:
    """Tensors of types that are not stated."""
    return [ValueInfoProto(name=name) for name in tensors]
