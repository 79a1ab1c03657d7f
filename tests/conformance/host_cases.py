"""Cases for the nodes that run on the host: each operator of ONNX at the corners of its attributes.

A case is a node with arrays; it is tried in each operator set from 7 on that changed its operator and that reads it so.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
from onnx import helper

OLDEST = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCase:
    """A node and its data.

    Attributes:
        op: of the standard domain.
        what: the corner, in a few words.
        inputs: an array for each, None for one that is left out.
        attributes: of the node.
        outputs: how many are asked for.
        since, until: the operator sets in which the node means this.
        opset: the one to try it in.
    """

    op: str
    what: str
    inputs: tuple[np.ndarray | None, ...]
    attributes: Mapping[str, Any]
    outputs: int = 1
    since: int = OLDEST
    until: int = 1000
    opset: int = 0

    @property
    def name(self) -> str:
        """As a test is called."""
        return f"{self.op}-{self.opset}-{self.what}"

    @property
    def node(self) -> onnx.NodeProto:
        """The node; its inputs are called x0, x1, ..., its outputs y0, y1, ..."""
        inputs = [f"x{at}" if array is not None else "" for at, array in enumerate(self.inputs)]
        outputs = [f"y{at}" for at in range(self.outputs)]
        return helper.make_node(self.op, inputs, outputs, self.op.lower(), **self.attributes)

    @property
    def feeds(self) -> dict[str, np.ndarray]:
        """The arrays by the names of the inputs."""
        return {f"x{at}": array for at, array in enumerate(self.inputs) if array is not None}

    @property
    def model(self) -> onnx.ModelProto:
        """The node as a model of its own."""
        graph = onnx.GraphProto(name="one", node=[self.node])
        for name, array in self.feeds.items():
            kind = helper.np_dtype_to_tensor_dtype(array.dtype)
            graph.input.append(helper.make_tensor_value_info(name, kind, array.shape))
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in self.node.output)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)


def case(
    op: str, what: str, *inputs: Any, outputs: int = 1, opsets: tuple[int, int] = (OLDEST, 1000), **attributes: Any
) -> HostCase:
    """A case of an operator; ``opsets``: the first and the last operator set in which the node means this."""
    arrays = tuple(None if each is None else np.asarray(each) for each in inputs)
    return HostCase(
        op=op, what=what, inputs=arrays, attributes=attributes, outputs=outputs, since=opsets[0], until=opsets[1]
    )


def in_each_opset(cases: Sequence[HostCase], newest: int) -> Iterator[HostCase]:
    """Each case in each operator set that brought a version of its operator, as far as its schema has what it says."""
    for each in cases:
        for opset in versions(each.op, newest):
            shown = max(opset, OLDEST)
            if each.since <= shown <= each.until and fits(each, shown):
                yield replace(each, opset=shown)


def versions(op: str, newest: int) -> list[int]:
    """The operator sets that changed an operator, the last one before `OLDEST` included."""
    found = [version for version in history().get(op, ()) if version <= newest]
    older = [version for version in found if version <= OLDEST]
    return sorted({*(version for version in found if version > OLDEST), *([max(older)] if older else [])})


@functools.cache
def history() -> dict[str, list[int]]:
    """The operator sets that changed an operator of ONNX's own domain, by the name of the operator."""
    found: dict[str, list[int]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if not schema.domain:
            found.setdefault(schema.name, []).append(schema.since_version)
    return found


def fits(each: HostCase, opset: int) -> bool:
    """Whether the operator has these attributes and as many inputs in an operator set, and takes their types."""
    schema = onnx.defs.get_schema(each.op, opset, "")
    if schema.deprecated or not set(each.attributes) <= set(schema.attributes):
        return False
    if not schema.min_input <= len(each.inputs) <= schema.max_input or each.outputs > schema.max_output:
        return False
    required = {name for name, attribute in schema.attributes.items() if attribute.required}
    return required <= set(each.attributes) and all(_takes(schema, at, array) for at, array in enumerate(each.inputs))


def _takes(schema: Any, at: int, array: np.ndarray | None) -> bool:
    """Whether an input may have the type of an array."""
    formal = schema.inputs[min(at, len(schema.inputs) - 1)]
    if array is None:
        return formal.option == onnx.defs.OpSchema.FormalParameterOption.Optional
    kind = onnx.TensorProto.DataType.Name(helper.np_dtype_to_tensor_dtype(array.dtype)).lower()
    return f"tensor({kind})" in formal.types


def drawn(name: str, every: int) -> bool:
    """Whether a case is one of those that are run by default: always the same ones."""
    return zlib.crc32(name.encode()) % every == 0


RNG = np.random.default_rng(39)


def normal(*shape: int, scale: float = 1.0, dtype: str = "f4") -> np.ndarray:
    """Normal numbers."""
    return (RNG.standard_normal(shape) * scale).astype(dtype)


def counts(*shape: int, low: int = -9, high: int = 10, dtype: str = "i4") -> np.ndarray:
    """Whole numbers of low..high-1."""
    return RNG.integers(low, high, shape).astype(dtype)


def ints(*values: int) -> np.ndarray:
    """int64, as extents, axes and repeats are."""
    return np.array(values, np.int64)


def floats(*values: float) -> np.ndarray:
    """float32."""
    return np.array(values, np.float32)
