r"""One convolution of a network against two oracles, on the input that reached it.

1. `convc.verification.reference` in float64, on the operands as the kernel gets them, within
`convc.verification.bound`: this is the test
   of the kernel, the same as ``convc verify`` makes.
2. onnxruntime on the node as the model has it. With S the sum of the magnitudes |x * w| and the bias, it may differ
   from the kernel's accumulator by

       bound + r S + gamma(n) S :

   the kernel's own bound, the rounding of operands (r, below), and the float32 sums of onnxruntime, which add the
   same terms in whatever order and grouping, so that its error is at most gamma(n) S too. Rounding both factors to a
   type of unit u gives r = 2u + u^2; operands of the model's own type have r = 0, and so has float32 that is
   multiplied in parts, where the bound has what is missing. Where the result is not float32, onnxruntime's is rounded
   once more: half a unit of its type. This is what the operator means, seen by another program: a wrong reading of
   pads, groups or strides shows here.

Convolutions of integers have exact sums: no int32 may differ from `onnx.reference` or from onnxruntime. A sum that is
scaled and rounded to 8 bits may be one step away: ONNX does not say in which type and order its three scales are put
together, and the two oracles themselves differ by one near a tie.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from convc.ir import dtypes
from convc.ir.gradients import wgrad_operands, wgrad_result
from convc.runtime.network.convolutions import ConvRun
from convc.verification.bound import error_bound, expected_result, sum_gamma
from convc.verification.compare import Comparison, compare


def against_reference(ran: ConvRun, host: Callable[[], np.ndarray]) -> Comparison:
    """Compare a convolution that ran with the float64 reference, on the operands as the kernel got them.

    Args:
        ran: what ran, and on what.
        host: gives the answer of `onnx.reference`, which is asked for integers only.
    """
    if ran.run.y.dtype.kind in "iu":
        return compare_integers(ran.run.y, host(), _slack(ran.run.y))
    problem = ran.conv.problem
    operands = _operands(ran)
    added = None if ran.residual is None else dtypes.quantise(problem.out_dtype, ran.residual)
    scale = ran.conv.multiplier
    expected = expected_result(problem, *operands, scale, added)
    bound = error_bound(problem, *operands, added, ran.run.sums, scale)
    return compare(ran.run.y, _as_made(ran, expected), None if bound is None else _as_made(ran, bound))


def against_onnxruntime(ran: ConvRun, answer: np.ndarray) -> Comparison | None:
    """Compare a convolution that ran with onnxruntime's answer on the same input.

    None where r is no bound: the operand type has not the range of the model's, or rounds relative to the largest
    number of a block.
    """
    if ran.run.y.dtype.kind in "iu":
        return compare_integers(ran.run.y, answer, _slack(ran.run.y))
    problem = ran.conv.problem
    model_type = dtypes.of_array(ran.x)
    if problem.operand_dtype.min_exponent > model_type.min_exponent or problem.operand in dtypes.SCALED_OPERANDS:
        return None
    _, gamma = sum_gamma(problem, ran.run.sums)
    bound = error_bound(problem, *_operands(ran), sums=ran.run.sums, multiplier=ran.conv.multiplier)
    assert bound is not None, "only sums of integers have none"
    unit = problem.operand_dtype.unit_roundoff
    bound = _as_made(ran, bound)
    magnitude = bound / gamma / (1 - unit) ** 2  # not less than S: operands were rounded
    expected = answer.astype(np.float64)
    rounding = 0.0 if problem.out == "f32" else problem.out_dtype.unit_roundoff * np.abs(expected)
    return compare(ran.run.y, expected, bound + (_operand_error(ran) + gamma) * magnitude + rounding)


def compare_integers(y: np.ndarray, expected: np.ndarray, slack: int) -> Comparison:
    """Judge integers: no element may be off by more than ``slack``; `InputError` where the shapes differ."""
    return compare(y, expected.astype(np.float64), np.full(expected.shape, float(slack)))


def _slack(y: np.ndarray) -> int:
    """How far a right integer result may be off: see the module's text."""
    return 0 if y.dtype == np.int32 else 1


def _operands(ran: ConvRun) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """x, w and bias as the kernel gets them."""
    operand = ran.conv.problem.operand_dtype
    if ran.conv.weight is not None:
        return dtypes.quantise(operand, ran.x), ran.conv.weight, ran.conv.bias
    gradient = ran.conv.gradient
    dy = ran.arrays[1]
    assert gradient is not None, "filters are missing of gradients alone"
    assert dy is not None, "a gradient of weights ran"
    x, filters = (dtypes.quantise(operand, each) for each in wgrad_operands(gradient, ran.x, dy))
    return x, filters, None


def _as_made(ran: ConvRun, array: np.ndarray) -> np.ndarray:
    """What the reference says, in the order of the node's result: that of weights for their gradient."""
    return array if ran.conv.weight is not None else wgrad_result(array)


def _operand_error(ran: ConvRun) -> float:
    """r of the module's text."""
    operand = ran.conv.problem.operand_dtype
    if operand.precision >= dtypes.of_array(ran.x).precision:
        return 0.0
    return 2 * operand.unit_roundoff + operand.unit_roundoff**2
