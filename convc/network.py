"""A model as plain records: what the front door found, with nothing of ONNX left in it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from convc.problem import ConvProblem


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorRef:
    """A tensor that flows between nodes.

    Attributes:
        name: as in the model.
        dtype: f16, bf16, f32, or the model's word for a type that convc does not compute with.
        shape: extents, None for one that the model leaves open; None when not even their number is known.
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConvNode:
    """A convolution of the model.

    Attributes:
        name: unique in the network; the node's name, or its output's where it has none.
        problem: the numbers; ``problem.name`` is ``name``.
        input: the activations (N, C, H, W).
        weight: float32 (K, C, R, S), values already rounded to the filters' type.
        bias: float32 (K,), or None; whole numbers in float64 where the sums are s32.
        output: the result (N, K, P, Q), of type ``problem.out``.
        multiplier: float32 (K,) of a requantised problem, else None.
    """

    name: str
    problem: ConvProblem
    input: TensorRef
    weight: np.ndarray = field(repr=False)
    bias: np.ndarray | None = field(repr=False)
    output: TensorRef
    multiplier: np.ndarray | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedNode:
    """A node that is not compiled, and why."""

    name: str
    op_type: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Network:
    """A model: its convolutions in the order of the file, which in ONNX is a valid order of execution."""

    name: str
    convs: tuple[ConvNode, ...]
    skipped: tuple[SkippedNode, ...]
    inputs: tuple[TensorRef, ...]
    outputs: tuple[TensorRef, ...]
