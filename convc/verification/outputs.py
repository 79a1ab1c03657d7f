r"""Outputs of a network, compared with what is expected of them.

One rule decides, and the report says which:

tolerance       |got - expected| <= atol + rtol |expected| for every element, where the user gave one
equality        whole numbers and truth values of an output that is not 8 bits wide
derived bound   the model is one convolution with nothing fused or behind it, and rounding its operands explains
                the difference (`convc.verification.node`)
RMS error       else: the root mean square of the difference, relative, within what rounding explains
                (`convc.verification.rms_error`); more is right where another precision shows that the network
                amplifies rounding (`convc.verification.amplified`)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from convc.errors import InputError
from convc.runtime.network.convolutions import ConvRun
from convc.runtime.network.steps import Value, describe_value
from convc.support.arrays import is_array
from convc.verification.node import against_onnxruntime
from convc.verification.records import RMS_ERROR, OutputReport, Tolerance
from convc.verification.rms_error import Allowed, rms_error

GIVEN = "the given arrays"
"""Who says what is right, where the user does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """Results that a run must have.

    Attributes:
        outputs: arrays for some outputs, or all.
        oracle, silent: see `NetworkReport`.
        tolerance: decides about the outputs, in place of the rules of the module's head.
        tensors: onnxruntime's results of convolutions inside the network, by name.
    """

    outputs: Mapping[str, np.ndarray]
    oracle: str
    silent: str = ""
    tolerance: Tolerance | None = None
    tensors: Mapping[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])


def judge_output(name: str, value: Value, expected: Expected, alone: ConvRun | None, allowed: Allowed) -> OutputReport:
    """Hold an output against what is expected of it.

    Args:
        alone: the run that made it, where the model is that one convolution.
        allowed: the RMS error that rounding explains.

    Raises:
        InputError: an array that the user gave has another shape.
    """
    right = expected.outputs.get(name)
    if not is_array(value):
        return OutputReport(name=name, dtype=describe_value(value), shape=())
    report = partial(OutputReport, name=name, dtype=value.dtype.name, shape=value.shape)
    if right is None or value.dtype.kind in "OUS":
        return report()
    if right.shape != value.shape and expected.oracle == GIVEN:
        raise InputError(
            f"expected an array of the output's shape {list(value.shape)}, got {list(right.shape)}",
            where=f"output {name!r}",
        )
    if right.shape != value.shape:
        return report(
            decided_by=RMS_ERROR,
            count_wrong=1,
            worst_error=math.inf,
            limit=allowed.rms_error,
            measured=math.inf,
        )
    whole = value.dtype.kind in "iub"
    if expected.tolerance is not None or (whole and value.dtype.itemsize > 1):
        return _element_by_element(report, value, right, expected.tolerance)
    bounded = None if whole or alone is None or alone.conv.fused else against_onnxruntime(alone, right)
    if bounded is not None:
        return report(
            decided_by="derived bound",
            count_wrong=bounded.count_wrong,
            worst_error=bounded.worst_error,
            limit=1.0,
            measured=bounded.worst_ratio,
            first=bounded.first,
            got=bounded.got,
            expected=bounded.expected,
            count_nan=bounded.count_nan,
        )
    error = rms_error(value, right, allowed.least)
    assert error is not None, "something is expected"
    return report(
        decided_by=RMS_ERROR,
        count_wrong=int(not error <= allowed.rms_error),
        worst_error=float(_errors(value, right).max(initial=0.0)),
        limit=allowed.rms_error,
        measured=error,
        count_nan=_both_nan(value, right),
    )


def _element_by_element(
    report: Callable[..., OutputReport], value: np.ndarray, expected: np.ndarray, tolerance: Tolerance | None
) -> OutputReport:
    """The report on an output of which every element is held against a tolerance, or must be equal."""
    if not value.size:
        return report(decided_by=str(tolerance or "equality"))
    error = _errors(value, expected)
    wide = np.abs(expected.astype(np.float64))
    allowed = tolerance or Tolerance()
    limit = allowed.atol + allowed.rtol * np.where(np.isfinite(wide), wide, 0.0)
    wrong = ~(error <= limit)
    count = int(np.count_nonzero(wrong))
    where = np.unravel_index(int(np.argmax(wrong if count else error - limit)), value.shape)
    return report(
        decided_by=str(tolerance or "equality"),
        count_wrong=count,
        worst_error=float(error.max()),
        limit=float(limit[where]),
        measured=float(error[where]),
        first=tuple(int(i) for i in where) if count else None,
        got=float(value[where]),
        expected=float(expected[where]),
        count_nan=_both_nan(value, expected),
    )


def _both_nan(value: np.ndarray, expected: np.ndarray) -> int:
    """How many elements are NaN on both sides."""
    return int(np.count_nonzero(np.isnan(value.astype(np.float64)) & np.isnan(expected.astype(np.float64))))


def _errors(value: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """|got - expected| in float64; 0 where both are the same infinity or both NaN, infinite where one is NaN."""
    got = value.astype(np.float64)
    wide = expected.astype(np.float64)
    same = (got == wide) | (np.isnan(got) & np.isnan(wide))
    with np.errstate(invalid="ignore"):
        error = np.abs(got - wide)
    return np.where(same, 0.0, np.where(np.isnan(error), math.inf, error))  # an array also where they are scalars
