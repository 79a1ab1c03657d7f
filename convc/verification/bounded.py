"""Outputs of functions with values up to 1, whose rounding is absolute: Sigmoid, Softmax, Tanh and the like.

A runtime computes them by approximations that are as near as float32 is at 1, wherever the result lies: onnxruntime's
Sigmoid of -20 is 0 or 1e-7, where 2e-9 is right. An RMS error is a share of what is expected, so that where all results
are so small (a detector that sees nothing) it says nothing: a difference as large as that rounding is allowed too.

Source: MLAS, the kernels of onnxruntime's CPU provider (logistic.cpp, tanh.cpp: arguments are clamped, quotients of
polynomials); seen on published text detectors, whose outputs of 4e-7 differed by 1.2e-7.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from onnx import NodeProto

from convc.verification.records import LayerReport
from convc.verification.rms_error import allowed_rms_error, unit_of

BOUNDED = frozenset({"Erf", "HardSigmoid", "Sigmoid", "Softmax", "Softsign", "Tanh"})
"""Operators of ONNX whose results are at most 1, and rounded as numbers near 1 are."""

MOVING = frozenset(
    {
        "Concat",
        "Expand",
        "Flatten",
        "Gather",
        "Identity",
        "Reshape",
        "Slice",
        "Split",
        "Squeeze",
        "Transpose",
        "Unsqueeze",
    }
)
"""Operators whose results are elements of their first input (of all inputs: Concat)."""

STEP = 2.0**-22
"""What such a result may be off by: two steps of float32 at 1."""


def bounded_outputs(nodes: Iterable[NodeProto]) -> frozenset[str]:
    """Find the tensors that hold results of bounded functions alone; nodes in an order in which they run."""
    found: set[str] = set()
    for node in nodes:
        sources = node.input if node.op_type == "Concat" else node.input[:1]
        moved = node.op_type in MOVING and bool(sources) and all(name in found for name in sources)
        if moved or node.op_type in BOUNDED:
            found.update(filter(None, node.output))
    return frozenset(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """The RMS error that an output may have.

    Attributes:
        rms_error: the share of what is expected, or of ``least`` where that is more.
        least: the root mean square below which the rounding of a bounded function counts; 0 for other outputs.
    """

    rms_error: float
    least: float


def allowed_of(name: str, layers: Sequence[LayerReport], bounded: frozenset[str]) -> Allowed:
    """Say how far the output of that name may be off, in a network of these layers; ``bounded``: of the whole graph."""
    allowed = allowed_rms_error(len(layers), unit_of(layers))
    return Allowed(rms_error=allowed, least=STEP / allowed if name in bounded else 0.0)
