"""One convolution node on the arrays that reach it, from its PTX.

The frontend says what the node computes, now that shapes, types and weights are known; the kernel is compiled once
for each distinct problem; the simulator runs its text. This is the only place where the graph meets the compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from onnx import NodeProto

from convc.build.folder import Layer
from convc.build.writer import layer_of
from convc.compiler.kernels import Kernels
from convc.errors import ConvcError, InputError, MachineFault, NodeError
from convc.frontend.node_reader import PRECISIONS
from convc.frontend.onnx_reader import read_node
from convc.host_layout.device_layout import has_tensor_scale
from convc.host_layout.handover import Use
from convc.host_layout.repack import pack_activation, pack_residual, scaled_bias
from convc.ir import dtypes
from convc.ir.findings import Verdict
from convc.ir.network import ConvNode
from convc.machine import RunOptions
from convc.runtime.gradients import as_model, ready_for
from convc.runtime.layer import LayerRun, require_room, run_layer, run_packed
from convc.runtime.network.device_tensor import PackedTensor, unpacked
from convc.runtime.network.node_info import node_place
from convc.support.arrays import is_array

Arrays = Sequence[np.ndarray | None]
Ready = tuple[ConvNode, Layer]
"""A node that was read, and its kernel with packed weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvRun:
    """One convolution that ran.

    Attributes:
        node: of the graph, or of one inside its nodes.
        conv: what was run.
        arrays: the inputs of the node.
        run: what the simulator gave.
        residual: what the epilogue added, where nodes were fused that add something.
    """

    node: NodeProto
    conv: ConvNode
    arrays: tuple[np.ndarray | None, ...]
    run: LayerRun
    residual: np.ndarray | None = None

    @property
    def x(self) -> np.ndarray:
        """The activations, not yet rounded."""
        x = self.arrays[0]
        assert x is not None, "a convolution that ran had activations"
        return x


@dataclass(slots=True)
class Convolutions:
    """Runs convolution nodes of any graphs, and keeps the kernels.

    Attributes:
        kernels: compiled so far.
        operand: type to multiply in, in place of the model's; None keeps it.
        precision: one of `convc.frontend.onnx_reader.PRECISIONS`; it matters where the model has float32 and
            ``operand`` is None.
        machine: options of the simulator.
    """

    kernels: Kernels = field(default_factory=Kernels)
    operand: str | None = None
    precision: str = "tf32"
    machine: RunOptions = field(default_factory=RunOptions)

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise InputError(f"precision must be one of {', '.join(PRECISIONS)}, got {self.precision!r}")
        if self.operand is not None and self.operand not in dtypes.FLOAT_OPERANDS:
            raise InputError(f"operand must be one of {', '.join(dtypes.FLOAT_OPERANDS)}, got {self.operand!r}")

    @property
    def how(self) -> tuple[str | None, str | None]:
        """The operand type, or the precision of float32, as `convc.frontend.onnx_reader.read_node` takes them."""
        return self.operand, None if self.operand else self.precision

    def prepare(self, node: NodeProto, name: str, arrays: Arrays) -> Ready:
        """Read, compile and pack a node for inputs of these shapes and types, and with these weights.

        Args:
            node: for which `convc.frontend.onnx_reader.is_convolution` holds.
            name: for messages.
            arrays: one for each input of the node, None for one that is left out.

        Raises:
            NodeError, ProblemError, PlanError, LimitError: it cannot be compiled or does not fit into memory.
        """
        if not all(array is None or is_array(array) for array in arrays):
            raise NodeError("the inputs of a convolution must be tensors", where=node_place(node, name))
        try:
            conv = read_node(node, name, arrays, *self.how)
            return conv, self.layer(conv)
        except ConvcError as error:
            error.where = error.where if repr(name) in error.where else node_place(node, name)
            raise

    def run(self, ready: Ready, node: NodeProto, name: str, arrays: Arrays) -> ConvRun:
        """Run a node that was prepared.

        Raises:
            MachineFault, DeadlockError: its kernel fails, or did what the simulator calls an error.
        """
        conv, layer = ready
        x = arrays[0]
        assert x is not None, "a node that was prepared has activations"
        named = {"x": x} if arrays[1] is None else {"x": x, "dy": arrays[1]}
        bound, activations, _ = ready_for(layer, named)
        run = run_layer(bound, activations, self.machine)
        run = replace(run, y=as_model(layer, run.y))
        _check_end(run, node_place(node, name))
        return ConvRun(node=node, conv=conv, arrays=tuple(arrays), run=run)

    def layer(self, conv: ConvNode) -> Layer:
        """A convolution that was read before it runs, compiled and with its weights packed.

        Raises:
            ProblemError, PlanError, LimitError: it cannot be compiled, or its buffers do not fit into memory.
        """
        made = layer_of(conv.problem, self.kernels.compiled(conv.problem), conv.weight, conv.bias, conv.multiplier)
        layer = replace(made, gradient=conv.gradient)
        require_room(layer.layout)
        return layer

    def run_layer(
        self, layer: Layer, x: np.ndarray | PackedTensor, residual: np.ndarray | PackedTensor | None, where: str
    ) -> tuple[LayerRun, int]:
        """Run a layer on tensors of its shapes and types, which may lie in the layout of the kernel that made them.

        Returns:
            What the simulator gave, y in the layout of the kernel; how many buffers came straight from another kernel.

        Raises:
            MachineFault, DeadlockError: its kernel fails, or did what the simulator calls an error.
        """
        layout = layer.layout
        buffers: dict[str, np.ndarray] = {}
        if has_tensor_scale(layout):  # the scale of the activations is only known now, and the bias is in its unit
            buffers["bias"] = scaled_bias(layout, layer.bias, unpacked(x))
        uses: tuple[tuple[Use, np.ndarray | PackedTensor | None, Callable[..., np.ndarray]], ...] = (
            ("activation", x, pack_activation),
            ("residual", residual, pack_residual),
        )
        handed = 0
        for use, tensor, pack in uses:
            if tensor is None:
                continue
            buffer = tensor.buffer(layout, use) if isinstance(tensor, PackedTensor) else None
            handed += buffer is not None
            buffers[use] = pack(layout, unpacked(tensor)) if buffer is None else buffer
        run = run_packed(layer, buffers, self.machine)
        _check_end(run, where)
        return run, handed


def _check_end(run: LayerRun, where: str) -> None:
    """Raise `MachineFault` where the simulator calls an error what the kernel did."""
    if run.verdict >= Verdict.incomplete:
        raise MachineFault(f"the kernel ended with a finding: {run.findings[0]}", where=where)
