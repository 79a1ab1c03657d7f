"""What a kernel does to a sum before it rounds and stores it: a chain of elementwise steps.

Each step works in float32 on what the one before it made; the first gets the accumulator with the bias added, and what
the last one makes is rounded once, to the output type. The order is kept, because it matters: adding a residual before
or after Relu are two different networks (ResNet has the first, pre-activation ResNet the second).

Definitions are those of the ONNX operators of the same names; SiLU is x * sigmoid(x), also known as Swish. NaN goes in
and NaN comes out, as in ONNX, where Relu and Clip are ``max`` and ``min`` of arrays.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable

import msgspec

from convc.errors import ProblemError

WHOLE = float(1 << 22)
"""Bounds above this may turn a sum of small whole numbers into one that float32 does not hold exactly."""


class Relu(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="relu"):
    """max(x, 0)."""

    def __str__(self) -> str:
        return "relu"


class LeakyRelu(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="leaky_relu"):
    """x, or alpha * x where x is negative. `alpha` is rounded to float32."""

    alpha: float

    def __post_init__(self) -> None:
        if not math.isfinite(self.alpha):
            raise ProblemError(f"the slope of LeakyRelu must be a finite number, got {self.alpha}")
        msgspec.structs.force_setattr(self, "alpha", _float32(self.alpha))

    def __str__(self) -> str:
        return f"leaky_relu({self.alpha:g})"


class Clip(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="clip"):
    """min(max(x, low), high); None: no bound. Where low is above high that is high. Bounds are rounded to float32."""

    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            bound = getattr(self, name)
            if bound is None:
                continue
            if not math.isfinite(bound):
                raise ProblemError(f"a bound of Clip must be a finite number or absent, got {bound}")
            msgspec.structs.force_setattr(self, name, _float32(bound))

    def __str__(self) -> str:
        shown = ("" if bound is None else f"{bound:g}" for bound in (self.low, self.high))
        return f"clip({'..'.join(shown)})"


class Sigmoid(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="sigmoid"):
    """1 / (1 + exp(-x))."""

    def __str__(self) -> str:
        return "sigmoid"


class SiLU(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="silu"):
    """x / (1 + exp(-x))."""

    def __str__(self) -> str:
        return "silu"


class AddResidual(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="kind", tag="add_residual"
):
    """x + residual: a tensor of the output's shape and type, which the kernel reads beside its operands.

    Attributes:
        in_place: whether the output may be the same buffer, as of a gradient that is added to an old one: each value is
            read before it is written, by the thread or the CTA that writes it.
    """

    in_place: bool = False

    def __str__(self) -> str:
        return "accumulate" if self.in_place else "residual"


class ReluGrad(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="relu_grad"):
    """x where the residual is above zero, else 0: the gradient of a Relu that took or made the residual."""

    def __str__(self) -> str:
        return "relu grad"


EpilogueStep = Relu | LeakyRelu | Clip | Sigmoid | SiLU | AddResidual | ReluGrad
"""Any step."""


def check_epilogue(steps: Iterable[object]) -> tuple[EpilogueStep, ...]:
    """The steps as a tuple, once it is sure that they are steps.

    Raises:
        ProblemError: something else is among them, or more than one residual, for which a kernel has no buffer.
    """
    checked: list[EpilogueStep] = []
    for step in steps:
        if not isinstance(step, EpilogueStep):
            known = ", ".join(kind.__name__ for kind in EpilogueStep.__args__)
            raise ProblemError(f"a step of the epilogue must be one of {known}, got {step!r}")
        checked.append(step)
    if sum(isinstance(step, AddResidual | ReluGrad) for step in checked) > 1:
        raise ProblemError(
            "an epilogue reads at most one residual", hint="add the others, or mask by them, after the convolution"
        )
    return tuple(checked)


def has_residual(steps: Iterable[EpilogueStep]) -> bool:
    """Whether a residual is read: added, or a mask."""
    return any(isinstance(step, AddResidual | ReluGrad) for step in steps)


def neutral_residual(steps: Iterable[EpilogueStep]) -> float:
    """A residual that changes nothing: 0 where it is added, 1 where values are masked by it."""
    return float(any(isinstance(step, ReluGrad) for step in steps))


def accumulates(steps: Iterable[EpilogueStep]) -> bool:
    """Whether a residual may lie where the output is written."""
    return any(isinstance(step, AddResidual) and step.in_place for step in steps)


def exact_on_integers(steps: Iterable[EpilogueStep]) -> bool:
    """Whether float32 computes the steps without rounding when the sum and the residual are small whole numbers.

    Relu and Clip choose among numbers; a slope that is a power of two, at most 1, moves the exponent; and whole numbers
    add up exactly. What is no longer whole must not be added to, and exponentials are never exact.
    """
    whole = True
    for step in steps:
        match step:
            case Clip(low=low, high=high):
                bounds = [bound for bound in (low, high) if bound is not None]
                whole = whole and all(bound.is_integer() and abs(bound) <= WHOLE for bound in bounds)
            case LeakyRelu(alpha=alpha):
                if abs(alpha) > 1 or (alpha and abs(math.frexp(alpha)[0]) != 0.5):
                    return False
                whole = whole and alpha in (-1.0, 0.0, 1.0)
            case AddResidual() if not whole:
                return False
            case Sigmoid() | SiLU():
                return False
            case Relu() | AddResidual() | ReluGrad():
                pass
    return True


def saturates_at(steps: Iterable[EpilogueStep]) -> float | None:
    """A magnitude above which many results are the same whatever the sum was; None: there is none.

    Test data beyond it hide mistakes. Relu has no such magnitude: it passes half of all sums on.
    """
    limits: list[float] = []
    for step in steps:
        match step:
            case Clip(low=low, high=high):
                limits += [abs(bound) for bound in (low, high) if bound]
            case Sigmoid():
                limits.append(4.0)  # sigmoid(4) is 0.982, and all larger sums share what is left up to 1
            case _:
                pass
    return min(limits, default=None)


def describe(steps: Iterable[EpilogueStep]) -> str:
    """The steps in a few words, in order: ``relu, residual``."""
    return ", ".join(map(str, steps))


def _float32(value: float) -> float:
    """The nearest float32; ProblemError where there is none."""
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        raise ProblemError(f"a number of the epilogue is too large for float32: {value:g}") from None
