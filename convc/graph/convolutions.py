"""One convolution node on the arrays that reach it, from its PTX.

The frontend says what the node computes, now that shapes, types and weights are known; the kernel is compiled once
for each distinct problem; the machine runs its text. This is the only place where the graph meets the compiler.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from onnx import NodeProto

from convc import dtypes
from convc.build import Layer
from convc.errors import ConvcError, InputError, MachineFault, NodeError
from convc.findings import Verdict
from convc.frontend.onnx_reader import PRECISIONS, read_node
from convc.kernels import Kernels, layer_of
from convc.machine import RunOptions
from convc.network import ConvNode
from convc.runtime.session import LayerRun, run_layer

Arrays = Sequence[np.ndarray | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvRun:
    """One convolution that ran.

    Attributes:
        conv: what was run.
        arrays: the inputs of the node.
        x: the activations, not yet rounded.
        run: what the machine gave.
    """

    conv: ConvNode
    arrays: tuple[np.ndarray | None, ...]
    x: np.ndarray
    run: LayerRun


@dataclass(slots=True)
class Convolutions:
    """Runs convolution nodes; keeps the kernels, and the packed weights of nodes whose weights are constant.

    Attributes:
        kernels: compiled so far.
        operand: type to multiply in, in place of the model's; None keeps it.
        precision: one of `convc.frontend.onnx_reader.PRECISIONS`; it matters where the model has float32 and
            ``operand`` is None.
        machine: options of the machine.
    """

    kernels: Kernels = field(default_factory=Kernels)
    operand: str | None = None
    precision: str = "tf32"
    machine: RunOptions = field(default_factory=RunOptions)
    _ready: dict[tuple, tuple[ConvNode, Layer]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise InputError(f"precision must be one of {', '.join(PRECISIONS)}, got {self.precision!r}")
        if self.operand is not None and self.operand not in dtypes.OPERANDS:
            raise InputError(f"operand must be one of {', '.join(dtypes.OPERANDS)}, got {self.operand!r}")

    def run(self, node: NodeProto, name: str, arrays: Arrays, constant: bool = False) -> ConvRun:
        """Run a node.

        Args:
            node: for which `convc.frontend.onnx_reader.is_convolution` holds.
            name: unique in the graph.
            arrays: one for each input of the node, None for one that is left out.
            constant: all inputs but the first are the same at every call with this name.

        Raises:
            NodeError, ProblemError, PlanError: it cannot be compiled.
            MachineFault, DeadlockError: its kernel fails, or did what the machine calls an error.
        """
        given = tuple(arrays)
        if any(not isinstance(array, np.ndarray) for array in given if array is not None):
            raise NodeError("the inputs of a convolution must be tensors", where=_where(node, name))
        key = (name, given[0].shape, given[0].dtype) if constant and given and given[0] is not None else None
        if key is None or key not in self._ready:
            ready = self._prepare(node, name, given)
            if key is not None:
                self._ready[key] = ready
        else:
            ready = self._ready[key]
        conv, layer = ready
        run = run_layer(layer, given[0], self.machine)
        if run.verdict >= Verdict.incomplete:
            raise MachineFault(f"the kernel came to an end, but {run.findings[0]}", where=_where(node, name))
        return ConvRun(conv=conv, arrays=given, x=given[0], run=run)

    def _prepare(self, node: NodeProto, name: str, arrays: tuple[np.ndarray | None, ...]) -> tuple[ConvNode, Layer]:
        """Read, compile and pack."""
        try:
            conv = read_node(node, name, arrays, self.operand, None if self.operand else self.precision)
            compiled = self.kernels.compiled(conv.problem)
        except ConvcError as error:
            error.where = error.where if repr(name) in error.where else _where(node, name)
            raise
        layer = layer_of(conv.problem, compiled, conv.weight, conv.bias, conv.multiplier)
        return conv, replace(layer, name=name)


def _where(node: NodeProto, name: str) -> str:
    return f"node {name!r} ({node.op_type})"
