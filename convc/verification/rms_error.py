"""The relative RMS error of a network from another run of it, and the RMS error that rounding explains.

The root mean square of the difference, as a share of that of what is expected: see `convc.verification.network`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

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
    made = got.astype(np.float64)
    same = (made == wide) | (np.isnan(made) & np.isnan(wide))
    apart = np.subtract(made, wide, out=np.zeros_like(wide), where=~same)
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
