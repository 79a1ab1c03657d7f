"""The data that a layer is checked on, with what a right result is and may be off by.

Two kinds of data (`convc.verification.data`): *integer* data have exact sums, so every bit must agree (unless the
epilogue computes exponentials or the like: then what that may err by, and no more, is allowed); *normal* data with the
model's own weights must stay inside a derived bound (`convc.verification.bound`).

Normal data have one infinity or NaN, in a pixel and a channel at random: it must reach the outputs that read it, and no
other, so that a few outputs are not finite and all others are what they would be. Some layouts multiply it by zeros for
outputs that do not read it (`convc.runtime.special_values`).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from convc.ir import dtypes
from convc.ir.epilogue import exact_on_integers
from convc.ir.network import ConvNode
from convc.ir.problem import ConvProblem
from convc.ir.sums import Sums
from convc.verification import reference
from convc.verification.bound import error_bound, expected_result
from convc.verification.compare import Comparison
from convc.verification.data import integer_data, multipliers, normal_data, residual_data
from convc.verification.epilogue_bound import through_epilogue
from convc.verification.records import Mode

MOST = 0.25
"""The largest share of outputs that may read what is not finite: they show nothing of the sums that are made there."""

INFINITE = 0.25
"""The share of infinities; the others are NaN, which take fewer launches where a layout needs some."""

Box = tuple[slice, ...]
"""Outputs (n, k, pixel) that read a number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A number that is not finite.

    Attributes:
        place: (n, c, pixel) among the activations.
        value: infinity, -infinity or NaN.
        box: the outputs that read it, and perhaps some between them that do not.
    """

    place: tuple[int, ...]
    value: float
    box: Box


def draw_special(problem: ConvProblem, seed: int) -> Drawn | None:
    """Choose a place and a value; None for whole numbers, and where too many outputs would read it."""
    if problem.operand_dtype.integer:
        return None
    rng = np.random.default_rng((seed, 2))
    place = tuple(int(rng.integers(extent)) for extent in problem.x_shape)
    value = np.nan
    if rng.random() < INFINITE and _has_infinity(problem.operand):
        value = float(rng.choice((np.inf, -np.inf)))
    n, channel, *pixel = place
    own = problem.out_channels // problem.groups
    group = channel // problem.group_channels
    ranges = [_outputs(problem, axis, at) for axis, at in enumerate(pixel)]
    box = (slice(n, n + 1), slice(group * own, (group + 1) * own), *(slice(*ends) for ends in ranges))
    share = own * np.prod([last - first for first, last in ranges], dtype=float) / np.prod(problem.y_shape, dtype=float)
    return None if share > MOST else Drawn(place=place, value=value, box=box)


def without_drawn(comparison: Comparison, y: np.ndarray, drawn: Drawn | None) -> Comparison:
    """A comparison that does not count as remarkable what is not finite because of what was drawn."""
    if drawn is None or not comparison.ok:
        return comparison
    values = dtypes.decode(dtypes.of_array(y), y[drawn.box])
    return dataclasses.replace(
        comparison,
        count_nan=comparison.count_nan - int(np.isnan(values).sum()),
        count_infinite=comparison.count_infinite - int(np.isinf(values).sum()),
    )


def _has_infinity(operand: str) -> bool:
    """Whether infinity stays one when it is rounded to a type: not in e4m3, nor in blocks, whose factor becomes NaN."""
    return operand != "e4m3" and operand not in dtypes.SCALED_OPERANDS


def _outputs(problem: ConvProblem, axis: int, at: int) -> tuple[int, int]:
    """First and last-but-one output along an axis that may read the pixel ``at``."""
    step = problem.stride[axis]
    pad = problem.pad_lo[axis]
    span = problem.span[axis]
    extent = problem.out_extent[axis]
    if problem.transposed:
        first = at * step - pad
        last = first + span
    else:
        first = -((span - 1 - at - pad) // step)
        last = (at + pad) // step + 1
    first = min(max(0, first), extent)
    return first, min(max(first, last), extent)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerData:
    """Operands that a layer is run on: x (N, C, H, W), w (K, C, R, S), the rest as far as the problem has it.

    ``drawn``: what is not finite among the activations.
    """

    x: np.ndarray
    weight: np.ndarray
    bias: np.ndarray | None
    multiplier: np.ndarray | None
    residual: np.ndarray | None
    drawn: Drawn | None = None


def drawn_for(mode: Mode, conv: ConvNode, seed: int) -> Drawn | None:
    """Choose an infinity or NaN for normal data; None for other data, and where the weights of the model have some."""
    own = (conv.weight, conv.bias, conv.multiplier)
    if mode == "integer" or not all(array is None or np.isfinite(array).all() for array in own):
        return None
    return draw_special(conv.problem, seed)


def data_of(mode: Mode, conv: ConvNode, seed: int) -> LayerData:
    """The operands of one check: exact numbers without the model's, or normal data with its weights."""
    integer = mode == "integer"
    if integer:
        x, weight, bias = integer_data(conv.problem, seed)
    else:
        x, weight, bias = normal_data(conv.problem, seed, conv.weight, conv.bias)
    drawn = drawn_for(mode, conv, seed)
    if drawn is not None:
        x[drawn.place] = drawn.value
    multiplier = conv.multiplier
    if integer or multiplier is None:
        multiplier = multipliers(conv.problem, seed, integer=integer)
    return LayerData(
        x=x,
        weight=weight,
        bias=bias,
        multiplier=multiplier,
        residual=residual_data(conv.problem, seed, integer=integer),
        drawn=drawn,
    )


def expected_of(problem: ConvProblem, data: LayerData) -> np.ndarray:
    """The right result before the final rounding, float64 (N, K, P, Q)."""
    return expected_result(problem, data.x, data.weight, data.bias, data.multiplier, data.residual)


def bound_of(mode: Mode, problem: ConvProblem, data: LayerData, sums: Sums) -> np.ndarray | None:
    """Bound what a right result may be off by; None: it must agree bit for bit."""
    if mode == "normal":
        return error_bound(problem, data.x, data.weight, data.bias, data.residual, sums, data.multiplier)
    if exact_on_integers(problem.epilogue):
        return None
    exact = reference.scaled_sums(problem, data.x, data.weight, data.bias, data.multiplier)
    return through_epilogue(problem, exact, np.zeros_like(exact), data.residual)
