"""Small questions about nodes and types that several parts of a graph ask."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from onnx import NodeProto, TensorProto, helper

from convc.errors import NodeError
from convc.frontend.graph_view import needed as needed
from convc.frontend.model_file import subgraphs


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why a host has no results for a node.

    Attributes:
        kind: "absent": it is not installed; "missing": it has no such operator; "wrong": it is known to have it wrong;
            "fails": on these values; "differs": from what shape inference says.
        reason: a sentence that names who it is.
        detail: what the library said, where the sentence does not.
    """

    kind: str
    reason: str
    detail: str = ""


def node_place(node: NodeProto, name: str) -> str:
    """The node as the place of an error."""
    return f"node {name!r} ({node.op_type})"


def refuse_external(nodes: Iterable[NodeProto], where: str) -> None:
    """Raise `NodeError` where a tensor inside nodes lies in a file: the host would look for that in any folder."""
    if any(tensor.data_location == TensorProto.EXTERNAL for node in nodes for tensor in _tensors(node)):
        raise NodeError("external data inside a node are not read", where=where)


def element_dtype(element_type: int) -> np.dtype | None:
    """numpy's type for an ONNX element type; None where it has none."""
    try:
        return np.dtype(helper.tensor_dtype_to_np_dtype(element_type))
    except (KeyError, ValueError, TypeError):
        return None


def _tensors(node: NodeProto) -> Iterator[TensorProto]:
    """Tensors among the attributes of a node, those in its subgraphs included."""
    for attribute in node.attribute:
        if attribute.HasField("t"):
            yield attribute.t
        yield from attribute.tensors
    for graph in subgraphs(node):
        yield from graph.initializer
        for inner in graph.node:
            yield from _tensors(inner)


def first_line(error: Exception) -> str:
    """The kind of an exception and the first line of what it says, at most 300 characters of it."""
    lines: Sequence[str] = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__
