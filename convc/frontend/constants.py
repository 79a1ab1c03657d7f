"""Which tensors of a graph are constants, and their values.

A weight may be an initializer, the result of a `Constant` or `ConstantOfShape` node, or what nodes make of these:
`Identity`, `Cast`, `QuantizeLinear`, `DequantizeLinear`, and those of `convc.frontend.folding`. Nothing is computed
before a convolution asks for it.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from pathlib import Path

import numpy as np
from onnx import AttributeProto, GraphProto, NodeProto

from convc.errors import InputError, ModelError
from convc.frontend import linear_scales
from convc.frontend.folding import folded, is_folded
from convc.frontend.model_file import ONNX_DOMAINS
from convc.frontend.tensors import (
    NUMPY_TYPES,
    STORED_TYPES,
    checked_shape,
    stored_array,
    tensor_array,
    type_name,
)
from convc.ir import dtypes

_MAX_NESTING = 4
"""How many nodes with constants of their own may stand behind one another; a cycle ends here too."""
_MAX_FOLDS = 64
"""How many folded nodes may stand behind one another: Python nests no deeper than some hundreds of calls."""
_DENSE = "store the weights as dense tensors"


class Constants:
    """The constants of a graph."""

    def __init__(
        self,
        graph: GraphProto,
        folder: Path,
        bound: Mapping[str, np.ndarray],
        replaced: Mapping[str, np.ndarray] | None = None,
        fed: Container[str] = (),
        opset: int | None = None,
        outer: Constants | None = None,
    ) -> None:
        """Collect what is constant.

        Args:
            graph: of the model.
            folder: the model's, for external data.
            bound: values for graph inputs, by name.
            replaced: values in place of constants of the model, by name.
            fed: initializers that are no constants, since a run is given others.
            opset: operator set of the model; without it no nodes are folded.
            outer: constants of the graph around a subgraph.

        Raises:
            InputError: a bound value is for no input, or of a type that is not read.
        """
        self.bound = {name: _bindable(name, array) for name, array in bound.items()}
        self.initializers = {tensor.name: tensor for tensor in graph.initializer if tensor.name not in fed}
        self._producers = {output: node for node in graph.node for output in node.output if output}
        self.folder = folder
        self._outer = outer
        self._learnt: dict[str, np.ndarray] = {}
        self._opset = opset
        self._depth = 0
        self._folded: dict[str, np.ndarray | None] = {}
        self._sparse = {tensor.values.name for tensor in graph.sparse_initializer}
        unknown = set(self.bound) - {value.name for value in graph.input}
        if unknown:
            raise InputError(f"the model has no input named {', '.join(sorted(unknown))}")
        self.bound |= replaced or {}

    def value(self, name: str, nesting: int = 0) -> np.ndarray | None:
        """The value of a tensor, None when it is not constant.

        Raises:
            ModelError: it is constant, and what the file says about it is wrong.
            LimitError: it does not fit in memory.
        """
        casts: list[NodeProto] = []
        seen: set[str] = set()
        while (array := self._stored(name)) is None:
            node = self._producers.get(name)
            if node is None and name in self._sparse:
                raise ModelError("sparse initializers are not read", where=f"tensor {name!r}", hint=_DENSE)
            if node is None and self._outer is not None:
                array = self._outer.value(name, nesting)
                break
            if node is None or name in seen or nesting > _MAX_NESTING:
                return None
            seen.add(name)
            if node.domain not in ONNX_DOMAINS or node.op_type not in ("Identity", "Cast") or len(node.input) != 1:
                array = self._computed(node, name, nesting)
                break
            if node.op_type == "Cast":
                casts.append(node)
            name = node.input[0]
        for node in reversed(casts):
            if array is not None:
                array = _cast(array, node)
        return array

    def learn(self, values: Mapping[str, np.ndarray]) -> None:
        """Take in what follows of the extents of the graph's inputs, by name, as constants of this reading."""
        read = {dtype for dtype, _ in NUMPY_TYPES.values()}
        self._learnt |= {name: array for name, array in values.items() if array.dtype in read}

    def _stored(self, name: str) -> np.ndarray | None:
        """The value of an initializer, of a bound input or of what was learnt; None for anything else."""
        if name in self.bound:
            return self.bound[name]
        if name in self._learnt:
            return self._learnt[name]
        return tensor_array(self.initializers[name], self.folder) if name in self.initializers else None

    def _computed(self, node: NodeProto, name: str, nesting: int) -> np.ndarray | None:
        """The output of a node that makes a constant of nothing, of a shape, with a scale or of constants; or None."""
        if linear_scales.is_quantize(node) or linear_scales.is_dequantize(node):
            return self._rescaled(node, nesting)
        if node.domain not in ONNX_DOMAINS:
            return None
        if node.op_type == "Constant":
            return self.of_constant(node)
        if node.op_type == "ConstantOfShape" and len(node.input) == 1:
            return self._filled(node, nesting)
        if self._opset is not None and is_folded(node) and name not in self._folded:
            self._folded |= dict.fromkeys(node.output)  # for whoever asks meanwhile, in a cycle
            self._folded |= self._results(node, self._opset)
        return self._folded.get(name)

    def _results(self, node: NodeProto, opset: int) -> dict[str, np.ndarray]:
        """The outputs of a node by name; empty where an input is no constant, or cannot be read."""
        if self._depth >= _MAX_FOLDS:
            return {}
        arrays: list[np.ndarray | None] = []
        self._depth += 1
        try:
            for name in node.input:
                array = self.value(name) if name else None
                if name and array is None:
                    return {}
                arrays.append(array)
        except ModelError:  # of a type that is not read: whoever runs the node may
            return {}
        finally:
            self._depth -= 1
        made = folded(node, opset, arrays) or []
        return dict(zip(filter(None, node.output), made, strict=False))

    def of_constant(self, node: NodeProto) -> np.ndarray:
        """Value of a `Constant` node, in any of the forms that are numbers."""
        where = _where(node)
        if len(node.attribute) != 1:
            raise ModelError("a Constant has exactly one attribute", where=where)
        attribute = node.attribute[0]
        match attribute.name, attribute.type:
            case "value", AttributeProto.TENSOR:
                return tensor_array(attribute.t, self.folder)
            case "value_float", AttributeProto.FLOAT:
                return np.array(attribute.f, np.float32)
            case "value_floats", AttributeProto.FLOATS:
                return np.array(attribute.floats, np.float32)
            case "value_int", AttributeProto.INT:
                return np.array(attribute.i, np.int64)
            case "value_ints", AttributeProto.INTS:
                return np.array(attribute.ints, np.int64)
            case _:
                raise ModelError(f"a Constant given as {attribute.name!r} is not read", where=where)

    def _filled(self, node: NodeProto, nesting: int) -> np.ndarray | None:
        """Value of a `ConstantOfShape` node: one number everywhere, 0.0 by default.

        The array is a view of that one number, so that absurd shapes cost nothing before they are judged.
        """
        where = _where(node)
        dims = self.value(node.input[0], nesting + 1)
        if dims is None:
            return None
        if dims.dtype != np.int64 or dims.ndim != 1:
            raise ModelError(f"a shape must be a list of int64, got {dims.ndim}-D {dims.dtype}", where=where)
        fill = np.zeros(1, np.float32)
        for attribute in node.attribute:
            if attribute.name == "value" and attribute.type == AttributeProto.TENSOR:
                fill = tensor_array(attribute.t, self.folder)
        if fill.size != 1:
            raise ModelError(f"expected one number to fill with, got {fill.size}", where=where)
        return np.broadcast_to(fill.reshape(()), checked_shape(dims, fill.dtype, where))

    def _rescaled(self, node: NodeProto, nesting: int) -> np.ndarray | None:
        """Value of a `QuantizeLinear` or `DequantizeLinear` node; None where one of its inputs is no constant."""
        x = self._numbers(node.input[0], nesting + 1)
        scale = None if x is None else self.value(node.input[1], nesting + 1)
        has_zero = len(node.input) == 3 and bool(node.input[2])
        zero = self._numbers(node.input[2], nesting + 1) if has_zero and scale is not None else None
        if x is None or scale is None or (has_zero and zero is None):
            return None
        rescale = linear_scales.quantised if linear_scales.is_quantize(node) else linear_scales.dequantised
        return rescale(node, x, scale, zero)

    def _numbers(self, name: str, nesting: int) -> np.ndarray | None:
        """The value of a tensor that may be of a type in which numbers are only stored."""
        tensor = None if name in self.bound else self.initializers.get(name)
        node = self._producers.get(name)
        if node is not None and node.op_type == "Constant" and node.domain in ONNX_DOMAINS and len(node.attribute) == 1:
            tensor = node.attribute[0].t
        if tensor is not None and tensor.data_type in STORED_TYPES:
            return stored_array(tensor, self.folder)
        return self.value(name, nesting)


def _cast(array: np.ndarray, node: NodeProto) -> np.ndarray:
    """Value of a `Cast` node; rounding is to nearest even."""
    targets = [attribute.i for attribute in node.attribute if attribute.name == "to"]
    if len(targets) != 1 or targets[0] not in NUMPY_TYPES:
        raise ModelError(f"a cast to {', '.join(map(type_name, targets))} is not computed", where=_where(node))
    dtype = NUMPY_TYPES[targets[0]][0]
    for floating in (dtypes.F16, dtypes.BF16, dtypes.F32):
        if floating.storage == dtype:
            return dtypes.encode(floating, array)
    with np.errstate(invalid="ignore"):
        return array.astype(dtype)


def _bindable(name: str, array: np.ndarray) -> np.ndarray:
    array = np.asarray(array)
    if array.dtype not in {dtype for dtype, _ in NUMPY_TYPES.values()}:
        raise InputError(f"the constant for {name!r} has elements of {array.dtype}, which are not read")
    return array


def _where(node: NodeProto) -> str:
    return f"node {node.name or node.output[0]!r} ({node.op_type})"
