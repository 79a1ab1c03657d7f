"""Convolutions among the nodes of a graph, and the names that nodes have in a `Network`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import onnx

from convc.frontend.expand_gradients import gradient_of
from convc.frontend.model_file import ONNX_DOMAINS
from convc.ir.network import CONVOLUTIONS

NOT_A_CONVOLUTION = "not a convolution"
NO_GEMM = {
    "DeformConv": "its read addresses depend on data, so it is no implicit GEMM; whole networks run it on the host",
    "CausalConvWithState": "onnx cannot expand it to a Conv here; whole networks run it on the host",
}
"""Why operators that are called convolutions are not compiled."""

OPTIMISED = (
    "it is specific to onnxruntime's optimiser: give the original model, or one optimised with "
    "graph_optimization_level ORT_ENABLE_BASIC"
)
"""Why a convolution that onnxruntime has fused or laid out anew is not compiled."""

_OPTIMISERS = ("com.microsoft.nchwc", "com.ms.internal.nhwc")
_FUSED = ("FusedConv", "NhwcConv", "NhwcFusedConv", "QLinearConv")

_BLANK = str.maketrans("\t\n\r", "   ")
"""What a report would take for the end of a line or a cell; `convc.support.visible` spells all else."""


def is_convolution(node: onnx.NodeProto) -> bool:
    """Whether a node is one of `convc.ir.network.CONVOLUTIONS`; who reads it may still refuse it.

    A ConvGrad is where it stands for one gradient (`convc.frontend.expand_gradients`).
    """
    return node.op_type in CONVOLUTIONS and (node.domain in ONNX_DOMAINS or gradient_of(node) is not None)


def is_optimised(node: onnx.NodeProto) -> bool:
    """Whether a node is a convolution of onnxruntime's optimiser.

    Source: onnxruntime, "Contrib Operators", and its transformers of layouts (NCHWc, NHWC), whose domains these are.
    """
    return (node.domain == "com.microsoft" and node.op_type in _FUSED) or (
        node.domain in _OPTIMISERS and "Conv" in node.op_type
    )


def node_names(nodes: Sequence[onnx.NodeProto]) -> list[str]:
    """The names of nodes in a `Network`: its own, its first output's, or kind and index; repeated ones get a number.

    Each is one line, with blanks for tabs and ends of lines.
    """
    names: dict[str, None] = {}  # ordered
    copies: Counter[str] = Counter()
    for index, node in enumerate(nodes):
        own = node.name or next(filter(None, node.output), "") or f"{node.op_type}_{index}"
        name = base = own.translate(_BLANK)
        while name in names:
            copies[base] += 1
            name = f"{base}_{copies[base] + 1}"
        names[name] = None
    return list(names)
