"""Steps that change the values of the accumulator between the bias and the final rounding (see `convc.ir.epilogue`).

The steps that look at one value at a time are the same whether a lane has an output pixel or a channel; a residual is
read the way the result is stored.
"""

from __future__ import annotations

from dataclasses import dataclass

from convc.compiler.tile.steps.base import Step


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyRelu(Step):
    """value = max(value, 0); NaN stays."""

    columns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyLeakyRelu(Step):
    """value = alpha * value where it is negative."""

    columns: int
    alpha: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyClip(Step):
    """value = min(max(value, low), high); None: no bound; NaN stays."""

    columns: int
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplySigmoid(Step):
    """value = 1 / (1 + 2^(-value * log2 e)), with the approximate functions of the hardware."""

    columns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplySilu(Step):
    """value = value / (1 + 2^(-value * log2 e)), with the approximate functions of the hardware."""

    columns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AddRowResidual(Step):
    """Add the residual of this lane's output pixel, 16 bytes at a time; fields as of `GlobalStore`.

    Where nothing would be stored nothing is read, and zero is added.
    """

    buffer: str
    at: str
    out: str
    columns: int
    row: str
    row_limit: int | None
    channel: str
    channel_limit: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AddLaneResidual(Step):
    """Add the residual of this lane's channel, one output pixel a column; fields as of `PixelStore`.

    Where nothing would be stored nothing is read, and zero is added.
    """

    buffer: str
    out: str
    columns: int
    rows: tuple[str, ...]
    row_limit: int | None
    row_bytes: int
    channel: str
    channel_limit: int | None
