"""Types and extents of what one node makes, by ONNX's own inference for that operator.

Inference of a whole model passes values on inside itself, as lists as long as the values are: a file of 300 bytes with
a `Range` makes it take all memory. So the graph is walked here (`convc.frontend.extents`), node by node, and inference
of a node sees types, and the values of small constants only.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, TypeProto, numpy_helper, shape_inference

from convc.frontend.model_file import ONNX_DOMAINS
from convc.frontend.open_extents import REFUSED

SMALL = 1024
"""Constants of at most this many elements may be extents, axes, pads or repeats."""
_FEW = 8
"""Of other types than whole numbers: scales, one for each axis."""

_STAND_INS = (TensorProto.FLOAT, TensorProto.INT8)

Types = Mapping[str, TypeProto]


class NotInferredError(Exception):
    """ONNX does not know the operator, or refuses the node; it says why."""


class NodeTypes:
    """Inference for the nodes of one model.

    Args:
        opsets: version by domain; the standard one is ``""``.
        ir_version: of the model.
        budget: nodes that are looked at before graphs inside nodes are no longer entered: those of loops in loops in
            loops are walked more often than their file is long.
    """

    def __init__(self, opsets: Mapping[str, int], ir_version: int, budget: int = 300_000) -> None:
        self.opsets = dict(opsets)
        self._imports = [onnx.helper.make_opsetid(domain, version) for domain, version in self.opsets.items()]
        self._ir_version = ir_version
        self._budget = budget

    def has_budget(self) -> bool:
        """Whether graphs inside nodes may still be entered."""
        return self._budget > 0

    def infer(self, node: NodeProto, types: Types, values: Mapping[str, TensorProto]) -> dict[str, TypeProto]:
        """Types of the outputs that have names.

        Args:
            node: of a known domain.
            types: of its inputs, and of what its subgraphs read.
            values: of inputs whose values are known.

        Raises:
            NotInferredError: there is nothing that ONNX can say.
        """
        self._budget -= 1
        domain = "" if node.domain in ONNX_DOMAINS else node.domain
        if domain not in self.opsets:
            raise NotInferredError(f"no shape inference for {node.domain} {node.op_type}")
        try:
            schema = onnx.defs.get_schema(node.op_type, self.opsets[domain], domain)
        except onnx.defs.SchemaError:
            name = f"{node.domain} {node.op_type}" if domain else f"{node.op_type} in operator set {self.opsets['']}"
            raise NotInferredError(f"no shape inference for {name}") from None
        given = dict.fromkeys(filter(None, node.input), TypeProto()) | dict(types)
        try:
            return self._inferred(schema, node, given, values)
        except Exception as error:  # the extension module raises several unrelated types
            made = self._as_another_type(schema, node, given, values)
            if made is not None:
                return made
            lines = str(error).strip().splitlines()
            raise NotInferredError(f"{REFUSED}: {lines[-1] if lines else ''}") from None

    def _inferred(
        self, schema: onnx.defs.OpSchema, node: NodeProto, types: Types, values: Mapping[str, TensorProto]
    ) -> dict[str, TypeProto]:
        """What ONNX says of a node; whatever it raises."""
        made = shape_inference.infer_node_outputs(
            schema, node, dict(types), dict(values), opset_imports=self._imports, ir_version=self._ir_version
        )
        return {name: _without_negative(made[name]) for name in node.output if name and name in made}

    def _as_another_type(
        self, schema: onnx.defs.OpSchema, node: NodeProto, types: Types, values: Mapping[str, TensorProto]
    ) -> dict[str, TypeProto] | None:
        """What ONNX says of a node if the type of its first input were one that the operator takes; or None.

        Runtimes take types that an operator set does not have yet, such as sums of 8-bit numbers: extents are the same.
        """
        own = types[node.input[0]].tensor_type.elem_type if node.input and node.input[0] else 0
        for other in _STAND_INS if own else ():
            swapped = {name: _retyped(kind, own, other) for name, kind in types.items()}
            try:
                made = self._inferred(schema, node, swapped, {})
            except Exception:  # not of this type either
                continue
            return {name: _retyped(kind, other, own) for name, kind in made.items()}
        return None


def opsets_of(model: onnx.ModelProto) -> dict[str, int]:
    """The operator sets that a model uses, by domain."""
    return {("" if entry.domain in ONNX_DOMAINS else entry.domain): entry.version for entry in model.opset_import}


def as_data(array: np.ndarray) -> TensorProto | None:
    """A value for inference to look at; None for one that no operator takes extents from."""
    if array.dtype.kind not in "iufb" or array.size > (SMALL if array.dtype.kind in "iu" else _FEW):
        return None
    return numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape))


def shape_of(kind: TypeProto | None) -> tuple[int | None, ...] | None:
    """Extents, None for one without a number; None when not even their number is known."""
    if kind is None or not kind.HasField("tensor_type") or not kind.tensor_type.HasField("shape"):
        return None
    dims = kind.tensor_type.shape.dim
    return tuple(dim.dim_value if dim.HasField("dim_value") else None for dim in dims)


def is_settled(kind: TypeProto | None) -> bool:
    """Whether it is a tensor whose extents are all known, or no tensor at all."""
    if kind is not None and kind.WhichOneof("value") not in (None, "tensor_type"):
        return True
    shape = shape_of(kind)
    return shape is not None and None not in shape


def _retyped(kind: TypeProto, own: int, other: int) -> TypeProto:
    """A tensor type with another element type in the place of one."""
    if kind.tensor_type.elem_type != own:
        return kind
    swapped = TypeProto()
    swapped.CopyFrom(kind)
    swapped.tensor_type.elem_type = other
    return swapped


def _without_negative(kind: TypeProto) -> TypeProto:
    """A type without extents that no tensor has: those are not known."""
    for dim in kind.tensor_type.shape.dim if kind.HasField("tensor_type") else ():
        if dim.HasField("dim_value") and dim.dim_value < 0:
            dim.ClearField("dim_value")
    return kind
