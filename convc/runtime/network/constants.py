"""The tensors that a graph starts from: initializers, and the results of nodes that make constants of constants.

A constant is read when a node first asks for it. Where `convc.frontend.constants` can read it, it is a view of the
model's bytes or of one number; other types (strings, booleans, 8-bit integers...) are read by onnx itself.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping
from pathlib import Path

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, numpy_helper

from convc.errors import ModelError
from convc.frontend.constants import Constants
from convc.frontend.folding import is_folded
from convc.frontend.linear_scales import is_dequantize, is_quantize
from convc.frontend.model_file import ONNX_DOMAINS
from convc.frontend.tensors import NUMPY_TYPES
from convc.support.memory import require_memory

_KEEP_BYTES = 1 << 20
"""Constants up to this size are kept once they were read."""


class StartValues:
    """Constants of the main graph, by name.

    Args:
        graph: the main graph.
        folder: of the model, for external data.
        replaced: values in place of constants of the model; of the same shapes.
        opset: operator set of the model; without it no nodes are folded.
    """

    def __init__(
        self,
        graph: GraphProto,
        folder: Path,
        replaced: Mapping[str, np.ndarray] | None = None,
        opset: int | None = None,
    ) -> None:
        if graph.sparse_initializer:
            raise ModelError("sparse initializers are not read", hint="store the weights as dense tensors")
        self._graph = graph
        self._folder = folder
        self._opset = opset
        self._replaced = dict(replaced or {})
        self._constants = Constants(graph, folder, {}, self._replaced, opset=opset)
        self._initializers = self._constants.initializers
        self._made = {node.output[0] for node in graph.node if _makes_constants(node)}
        if opset is not None:
            self._made |= {name for node in graph.node if is_folded(node) for name in node.output if name}
        self._kept: dict[str, np.ndarray] = dict(self._replaced)
        unknown = set(self._kept) - set(self._initializers) - self._made
        if unknown:
            raise ModelError(f"the model has no constant named {', '.join(sorted(unknown))}")
        self._not_read: set[str] = set()

    def value(self, name: str) -> np.ndarray | None:
        """The value of a constant; None for a tensor that is none, or that only its node can make.

        Raises:
            ModelError: what the model says about it is wrong.
            LimitError: it does not fit into memory.
        """
        if name in self._kept:
            return self._kept[name]
        tensor = self._initializers.get(name)
        if tensor is not None:
            array = self._constants.value(name) if tensor.data_type in NUMPY_TYPES else _other(tensor)
        elif name in self._made and name not in self._not_read:
            try:
                array = self._constants.value(name)
            except ModelError:  # a constant of a type or form that the frontend does not read: its node is run
                array = None
            if array is None:
                self._not_read.add(name)
        else:
            return None
        if array is not None and array.nbytes <= _KEEP_BYTES:
            self._kept[name] = array
        return array

    def constant(self, names: Iterable[str]) -> bool:
        """Whether all of these tensors are the same in every run; names that are empty count as such."""
        return all(not name or self.value(name) is not None for name in names)

    def constants_without(self, fed: Container[str]) -> Constants:
        """The constants of a run that is given these initializers; also what nodes make of constants alone."""
        return Constants(self._graph, self._folder, {}, self._replaced, fed, self._opset)

    @property
    def initializers(self) -> set[str]:
        """Names of the initializers."""
        return set(self._initializers)


def _makes_constants(node: NodeProto) -> bool:
    """Whether a node may have a constant result that `convc.frontend.constants` computes."""
    if is_quantize(node) or is_dequantize(node):
        return True
    return node.domain in ONNX_DOMAINS and node.op_type in ("Constant", "ConstantOfShape") and len(node.output) == 1


def _other(tensor: TensorProto) -> np.ndarray:
    """An initializer of a type that the frontend does not read."""
    where = f"tensor {tensor.name!r}"
    if tensor.data_location == TensorProto.EXTERNAL:
        kind = TensorProto.DataType.Name(tensor.data_type).lower()
        raise ModelError(f"external data of type {kind} are not read", where=where)
    if any(extent < 0 for extent in tensor.dims):
        raise ModelError(f"extents must not be negative, got {tuple(tensor.dims)}", where=where)
    require_memory(math.prod(tensor.dims), f"{where} of shape {tuple(tensor.dims)}")
    try:
        return numpy_helper.to_array(tensor)
    except Exception as error:  # TypeError, ValueError and others, by type
        raise ModelError(f"cannot be read: {error}", where=where) from None
