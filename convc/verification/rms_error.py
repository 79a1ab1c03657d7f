"""The relative RMS error of a network from another run of it, and the RMS error that rounding explains.

The root mean square of the difference, as a share of that of what is expected: see `convc.verification.network`.

A runtime computes Sigmoid, Softmax, Tanh and the like, whose values are up to 1, by approximations that are as near as
float32 is at 1, wherever the result lies: onnxruntime's Sigmoid of -20 is 0 or 1e-7, where 2e-9 is right. Where all
results are so small (a detector that sees nothing) a share of them says nothing: a difference as large as that rounding
is allowed too. Source: MLAS, the kernels of onnxruntime's CPU provider (logistic.cpp, tanh.cpp: arguments are clamped,
quotients of polynomials); seen on published text detectors, whose outputs of 4e-7 differed by 1.2e-7.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from onnx import NodeProto

from convc.host_layout.block_scaled import FORMATS
from convc.host_layout.split_precision import MISSING
from convc.ir import dtypes
from convc.verification.records import LayerReport

_HALF_STEP = 2.0**-9
"""What rounding to 8 bits moves a number by at most, as a share of their range."""


def rms_error(got: np.ndarray, expected: np.ndarray | None, least: float = 0.0) -> float | None:
    """Root mean square of the difference as a share of that of ``expected``, or of ``least`` where that is more.

    None where there is nothing to compare, infinite where shapes differ or where there is nothing but an error. Where
    both are the same infinity, or both NaN, they agree.
    """
    if expected is None:
        return None
    if got.shape != expected.shape:
        return math.inf
    if not expected.size:
        return 0.0
    wide = expected.astype(np.float64)
    values = got.astype(np.float64)
    same = (values == wide) | (np.isnan(values) & np.isnan(wide))
    apart = np.subtract(values, wide, out=np.zeros_like(wide), where=~same)
    size = math.sqrt(float(np.mean(wide**2, where=np.isfinite(wide))) if np.isfinite(wide).any() else 0.0)
    size = max(size, least)
    error = math.sqrt(float(np.mean(apart**2)))
    if size > 0 and not math.isnan(error):
        return error / size
    return 0.0 if error == 0 else math.inf


def allowed_rms_error(depth: int, unit: float) -> float:
    """The RMS error that rounding operands to a type with this unit, ``depth`` times one after the other, may come to.

    Nodes beside the convolutions round to float32, in a network without any too.
    """
    return 8 * math.sqrt(depth) * unit + 8 * max(1, depth) * 2.0**-24


def unit_of(layers: Sequence[LayerReport]) -> float:
    """The unit roundoff of the narrowest type that a layer multiplies or stores; half a step of 8-bit numbers."""
    if any(layer.problem.requantised for layer in layers):
        return _HALF_STEP
    floats = [layer.problem for layer in layers if layer.problem.out in dtypes.OUTPUTS]
    own = MISSING | {name: layout.unit_roundoff for name, layout in FORMATS.items()}
    units = [own.get(problem.operand, problem.operand_dtype.unit_roundoff) for problem in floats]
    units += [problem.out_dtype.unit_roundoff for problem in floats]
    return max(units, default=0.0)


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
    names: set[str] = set()
    for node in nodes:
        sources = node.input if node.op_type == "Concat" else node.input[:1]
        moved = node.op_type in MOVING and bool(sources) and all(name in names for name in sources)
        if moved or node.op_type in BOUNDED:
            names.update(filter(None, node.output))
    return frozenset(names)


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
