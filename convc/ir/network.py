"""A model as plain records: what the front door found, with nothing of ONNX left in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import msgspec
import numpy as np

from convc.ir.problem import ConvProblem

CONVOLUTIONS = ("Conv", "ConvTranspose", "ConvInteger", "QLinearConv", "ConvGrad")
"""Operators that are convolutions and nothing else: ONNX's, and onnxruntime's gradients of them."""

SHOWN = 5
"""Convolutions that a network names when it is printed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorRef:
    """A tensor that flows between nodes.

    Attributes:
        name: as in the model.
        dtype: convc's word (`convc.ir.dtypes`), or ONNX's for a type that convc has no word for.
        shape: extents, None for one that the model leaves open; None when not even their number is known.
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...] | None


class Gradient(msgspec.Struct, frozen=True, kw_only=True):
    """A layer as the gradient of a convolution (`convc.ir.gradients`).

    Attributes:
        of: ``input`` (dgrad) or ``weights`` (wgrad).
        forward: the convolution.
    """

    of: Literal["input", "weights"]
    forward: ConvProblem


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConvNode:
    """A convolution of the model.

    Attributes:
        name: unique in the network; the node's name, or its output's where it has none.
        problem: the numbers; ``problem.name`` is ``name``.
        input: the activations (N, C, H, W).
        weight: float32 (K, C, R, S), values already rounded to the filters' type; None where ``filter`` is given.
        filter: the tensor that holds the filters, where they are known at the launch only.
        bias: float32 (K,), or None; whole numbers in float64 where the sums are s32.
        multiplier: float32 (K,) where sums are requantised or have `ConvProblem.multiplier`, else None.
        output: the result (N, K, P, Q), of type ``problem.out``: that of the last node fused.
        residual: the tensor that the epilogue adds, where it adds one.
        fused: names of the nodes that the kernel does as well, in the order of the chain; the executor of a graph must
            leave them out, and run the convolution where the last of them stood.
        gradient: what it is the gradient of, where it is one.
    """

    name: str
    problem: ConvProblem
    input: TensorRef
    weight: np.ndarray | None = field(repr=False)
    filter: TensorRef | None = None
    bias: np.ndarray | None = field(repr=False)
    output: TensorRef
    multiplier: np.ndarray | None = field(default=None, repr=False)
    residual: TensorRef | None = None
    fused: tuple[str, ...] = ()
    gradient: Gradient | None = None

    @property
    def inputs(self) -> tuple[TensorRef, ...]:
        """Tensors that the kernel reads and that are no constants: the activations, and filters or a residual."""
        return tuple(tensor for tensor in (self.input, self.filter, self.residual) if tensor is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedNode:
    """A node that is not compiled, and why."""

    name: str
    op_type: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Network:
    """A model: its convolutions in a valid order of execution, which is that of the file unless nodes are fused.

    A node of the graph is a convolution, fused into one, or skipped. ``assumed`` are sentences on what the model left
    open, and how that was read.
    """

    name: str
    convs: tuple[ConvNode, ...]
    skipped: tuple[SkippedNode, ...]
    inputs: tuple[TensorRef, ...]
    outputs: tuple[TensorRef, ...]
    assumed: tuple[str, ...] = ()

    def __repr__(self) -> str:
        first = ", ".join(conv.name for conv in self.convs[:SHOWN])
        more = ", ..." if len(self.convs) > SHOWN else ""
        counts = [f"{len(self.convs)} convolution", f"{len(self.skipped)} other node"]
        convs, others = (text if text.startswith("1 ") else f"{text}s" for text in counts)
        return f"<Network {self.name}: {convs} ({first}{more}), {others}>"

    @property
    def notes(self) -> tuple[str, ...]:
        """What was fused, one line per convolution that took nodes in: ``conv1 + bn1 + relu1``."""
        return tuple(" + ".join((conv.name, *conv.fused)) for conv in self.convs if conv.fused)
