"""One convolution as numbers: the record that every package works from.

A 2-D convolution takes activations x (N, C, H, W) and filters w (K, C, R, S) and makes y (N, K, P, Q):

    y[n, k, p, q] = bias[k] + sum over c, r, s of
                    x[n, c, p*u_h + r*d_h - top, q*u_w + s*d_w - left] * w[k, c, r, s]

where x is zero outside its extent (cross-correlation, as ONNX defines ``Conv``). With G groups, filters are
(K, C/G, R, S), and the K/G output channels of group g see only the C/G input channels of group g. As a matrix
product ("implicit GEMM") it has N*P*Q rows, one for each output pixel, K columns, one for each output channel,
and sums of C/G*R*S terms. Extents and steps are tuples with one entry per spatial axis, outermost first, so that
nothing here knows the rank.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from convc.errors import ProblemError
from convc.ir import dtypes
from convc.ir.dtypes import DType
from convc.ir.epilogue import EpilogueStep, check_epilogue, describe, has_residual

AXIS_NAMES = {1: ("W",), 2: ("H", "W"), 3: ("D", "H", "W")}
"""Names of the spatial axes by rank, outermost first."""

_AXIS_FIELDS = ("in_extent", "kernel", "stride", "dilation", "pad_lo", "pad_hi", "output_padding")
_COUNTS = ("batch", "in_channels", "out_channels", "groups")
_DEFAULTS = {"stride": 1, "dilation": 1, "pad_lo": 0, "pad_hi": 0, "output_padding": 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvProblem:
    """A convolution.

    Attributes:
        name: for messages and folders; it does not change what is computed.
        batch: images (N).
        in_channels, out_channels: C and K.
        in_extent: (H, W) of the input; (W,) of rows, (D, H, W) of volumes.
        kernel: (R, S), filter taps.
        stride, dilation: (u_h, u_w) and (d_h, d_w), in pixels; empty: 1.
        pad_lo, pad_hi: (top, left) and (bottom, right), in pixels, not negative; empty: 0.
        groups: groups of channels (G); divides C and K.
        transposed: whether it is the transposed convolution of these numbers (ONNX ``ConvTranspose``): filters are
            (C, K/G, R, S), every input pixel is added, times the filter, into the output, the pads are cropped.
        output_padding: pixels that a transposed convolution has at the end, in addition; empty: 0.
        operand: type of the activations (see `convc.ir.dtypes`): f16, bf16, tf32, e4m3 or e5m2, whose sums are float32;
            bf16x3, bf16x6 or tf32x3, float32 multiplied in parts; mxfp8, mxfp4 or nvfp4, float32 multiplied in blocks
            with scale factors; or u8 or s8, whose sums are s32 and wrap modulo 2^32.
        filter_operand: type of the filters where it is another one (e4m3 with e5m2, u8 with s8); None: the same.
        out: type that the result is rounded to: f16, bf16 or f32; of u8 and s8 s32, u8 or s8.
        bias: whether a number per output channel, of the type of the sums, is added before that rounding.
        out_zero_point: of an `out` of 8 bits: the stored number that stands for 0. Such a convolution is *requantised*:
            it stores saturate(round(float32(sum) * multiplier[k]) + out_zero_point) with a multiplier per channel.
        multiplier: of float sums: whether each is multiplied by a float32 number per output channel, before the bias.
        epilogue: what else is done to the sum, in order, after the bias and before that rounding.
        pad_value: what x is outside its extent; other than 0 with activations of whole numbers only.
        late_filter: whether filters come with the activations, at the launch: of gradients of weights.
        filter_parts: of s8 filters: how many such parts each weight is the sum of, where 8 bits do not hold it.

    Raises:
        ProblemError: when the numbers do not fit together.
    """

    name: str = "conv"
    batch: int = 1
    in_channels: int
    out_channels: int
    in_extent: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...] = ()
    dilation: tuple[int, ...] = ()
    pad_lo: tuple[int, ...] = ()
    pad_hi: tuple[int, ...] = ()
    groups: int = 1
    transposed: bool = False
    output_padding: tuple[int, ...] = ()
    operand: str = "f16"
    out: str = "f16"
    bias: bool = False
    filter_operand: str | None = None
    out_zero_point: int = 0
    epilogue: tuple[EpilogueStep, ...] = ()
    pad_value: int = 0
    filter_parts: int = 1
    multiplier: bool = False
    late_filter: bool = False

    def __post_init__(self) -> None:
        self._check_types()
        for field in _COUNTS:
            if getattr(self, field) < 1:
                hint = "an extent that is open has a name, or none: 0 is a number" if field == "batch" else ""
                raise self._error(f"{field} must be at least 1, got {getattr(self, field)}", hint=hint)
        for field in ("in_channels", "out_channels"):
            if getattr(self, field) % self.groups:
                raise self._error(f"{field} must be a multiple of groups, {self.groups}, got {getattr(self, field)}")
        if self.rank not in AXIS_NAMES:
            raise self._error(f"a convolution has 1 to 3 spatial axes, got in_extent {self.in_extent}")
        for field in _AXIS_FIELDS:
            self._check_axes(field, least=0 if "pad" in field else 1)
        if self.operand not in dtypes.OPERANDS:
            raise self._error(f"operand must be one of {', '.join(dtypes.OPERANDS)}, got {self.operand!r}")
        self._check_element_types()
        if self.epilogue and self.operand_dtype.integer:
            raise self._error("sums of whole numbers have no epilogue but their requantisation")
        if self.multiplier and (self.operand_dtype.integer or self.operand in dtypes.SCALED_OPERANDS):
            why = "sums of whole numbers have one by their out" if self.operand_dtype.integer else "blocks have scales"
            raise self._error(f"multiplier of {self.operand} must be False: {why}")
        try:
            object.__setattr__(self, "epilogue", check_epilogue(self.epilogue))
        except ProblemError as problem:
            raise self._error(problem.message, hint=problem.hint) from None
        self._check_output()

    @property
    def rank(self) -> int:
        """Number of spatial axes."""
        return len(self.in_extent)

    @property
    def span(self) -> tuple[int, ...]:
        """Pixels from the first to the last tap of the filter, along each axis."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilation, strict=True))

    @property
    def out_extent(self) -> tuple[int, ...]:
        """(P, Q): floor((in + pads - span) / stride) + 1; transposed: (in - 1) * stride + span + output_padding - pads.

        Source: ONNX operators ``Conv`` and ``ConvTranspose``.
        """
        if self.transposed:
            return tuple(
                (extent - 1) * stride + span + more - lo - hi
                for extent, lo, hi, span, stride, more in zip(
                    self.in_extent, self.pad_lo, self.pad_hi, self.span, self.stride, self.output_padding, strict=True
                )
            )
        return tuple(
            (extent + lo + hi - span) // stride + 1
            for extent, lo, hi, span, stride in zip(
                self.in_extent, self.pad_lo, self.pad_hi, self.span, self.stride, strict=True
            )
        )

    @property
    def group_channels(self) -> int:
        """Input channels of a group, C/G."""
        return self.in_channels // self.groups

    @property
    def one_group(self) -> ConvProblem:
        """The convolution of one group; they are all alike."""
        return replace(self, in_channels=self.group_channels, out_channels=self.out_channels // self.groups, groups=1)

    @property
    def gemm_m(self) -> int:
        """Rows of the matrix product: output pixels, N*P*Q."""
        return self.batch * math.prod(self.out_extent)

    @property
    def gemm_n(self) -> int:
        """Columns of the matrix product: output channels."""
        return self.out_channels

    @property
    def gemm_k(self) -> int:
        """Terms of each sum: C/G*R*S; transposed: at most that."""
        return self.group_channels * math.prod(self.kernel)

    @property
    def macs(self) -> int:
        """Multiply-adds of the whole convolution, products with padding included."""
        return self.gemm_m * self.gemm_n * self.gemm_k

    @property
    def x_shape(self) -> tuple[int, ...]:
        """(N, C, H, W)."""
        return (self.batch, self.in_channels, *self.in_extent)

    @property
    def w_shape(self) -> tuple[int, ...]:
        """(K, C/G, R, S); transposed: (C, K/G, R, S)."""
        if self.transposed:
            return (self.in_channels, self.out_channels // self.groups, *self.kernel)
        return (self.out_channels, self.group_channels, *self.kernel)

    @property
    def y_shape(self) -> tuple[int, ...]:
        """(N, K, P, Q)."""
        return (self.batch, self.out_channels, *self.out_extent)

    @property
    def operand_dtype(self) -> DType:
        """The record of ``operand``."""
        return dtypes.BY_NAME[self.operand]

    @property
    def filter_dtype(self) -> DType:
        """The record of the filters' type."""
        return dtypes.BY_NAME[self.filter_operand or self.operand]

    @property
    def sum_dtype(self) -> DType:
        """The record of the type that sums and bias have: f32, or s32."""
        return dtypes.S32 if self.operand_dtype.integer else dtypes.F32

    @property
    def requantised(self) -> bool:
        """Whether sums of whole numbers are scaled and stored as 8 bits."""
        return self.out in dtypes.INTEGER_OPERANDS

    @property
    def types(self) -> str:
        """Types of activations, filters and result in words, such as ``u8 x s8 -> s32``."""
        return f"{self._operands} -> {self.out}"

    @property
    def _operands(self) -> str:
        """Types of activations and filters in words."""
        parts = f"{self.filter_parts} parts of " if self.filter_parts > 1 else ""
        filters = f" x {parts}{self.filter_dtype.name}" if self.filter_operand or parts else ""
        return f"{self.operand}{filters}"

    @property
    def out_dtype(self) -> DType:
        """The record of ``out``."""
        return dtypes.BY_NAME[self.out]

    @property
    def residual(self) -> bool:
        """Whether the kernel adds a tensor of the output's shape and type."""
        return has_residual(self.epilogue)

    def describe(self) -> str:
        """One line for people."""
        parts = [f"{self.name}: {shape_text(self.x_shape)} * {shape_text(self.w_shape)} -> {shape_text(self.y_shape)}"]
        if self.transposed:
            parts.append("transposed")
        if any(step != 1 for step in self.stride):
            parts.append(f"stride {_same_or_all(self.stride)}")
        if any(step != 1 for step in self.dilation):
            parts.append(f"dilation {_same_or_all(self.dilation)}")
        if any(self.pad_lo + self.pad_hi):
            parts.append(f"pad {_same_or_all(self.pad_lo + self.pad_hi)}")
        if self.groups > 1:
            parts.append(f"{self.groups} groups")
        if self.multiplier:
            parts.append("scale per channel")
        if self.bias:
            parts.append("bias")
        if self.epilogue:
            parts.append(describe(self.epilogue))
        if self.pad_value:
            parts.append(f"padded with {self.pad_value}")
        parts.append(self._operands if self._operands == self.out else f"{self._operands} to {self.out}")
        parts.append(f"GEMM {self.gemm_m} x {self.gemm_n} x {self.gemm_k}, {macs_text(self.macs)}")
        return ", ".join(parts)

    def _check_element_types(self) -> None:
        """Check that the hardware has the mix of types, and drop a filter type that says nothing new."""
        filters = self.filter_operand
        if filters is not None and filters not in dtypes.OPERANDS:
            raise self._error(f"filter_operand must be one of {', '.join(dtypes.OPERANDS)}, got {filters!r}")
        if filters == self.operand:
            object.__setattr__(self, "filter_operand", None)
        elif filters is not None:
            kind = dtypes.KINDS[self.operand]
            if kind not in dtypes.MIXED_KINDS or dtypes.KINDS[filters] != kind:
                partners = [name for name, other in dtypes.KINDS.items() if other == kind]
                partners = partners if kind in dtypes.MIXED_KINDS else [self.operand]
                raise self._error(
                    f"the tensor core cannot multiply {self.operand} by {filters}: with activations of {self.operand} "
                    f"it takes filters of {' or '.join(partners)}"
                )
        outputs = dtypes.INTEGER_OUTPUTS if self.operand_dtype.integer else dtypes.FLOAT_OUTPUTS
        if self.out not in outputs:
            raise self._error(f"out of {self.operand} must be one of {', '.join(outputs)}, got {self.out!r}")
        if self.pad_value and not self.operand_dtype.integer:
            raise self._error(f"pad_value of {self.operand} must be 0, got {self.pad_value}")
        if self.pad_value and self.transposed:
            raise self._error(f"pad_value of a transposed convolution must be 0, got {self.pad_value}")
        if not self.operand_dtype.min_finite <= self.pad_value <= self.operand_dtype.max_finite:
            raise self._error(f"pad_value must be a number of {self.operand}, got {self.pad_value}")
        if self.filter_parts < 1 or (self.filter_parts > 1 and self.filter_dtype is not dtypes.S8):
            raise self._error(f"filter_parts of {self.filter_dtype.name} must be 1, got {self.filter_parts}")
        low, high = (int(self.out_dtype.min_finite), int(self.out_dtype.max_finite)) if self.requantised else (0, 0)
        if not low <= self.out_zero_point <= high:
            raise self._error(f"out_zero_point of {self.out} must be in {low}..{high}, got {self.out_zero_point}")

    def _check_types(self) -> None:
        """Accept any integer type and any sequence; keep plain ints and tuples."""
        for field in (*_COUNTS, "out_zero_point", "pad_value", "filter_parts"):
            self._keep(field, operator.index)
        for field in _AXIS_FIELDS:
            self._keep(field, _whole_numbers)
        for field, default in _DEFAULTS.items():
            if not getattr(self, field):
                object.__setattr__(self, field, (default,) * len(self.in_extent))

    def _keep(self, field: str, as_numbers: Callable[[Any], int | tuple[int, ...]]) -> None:
        """Set a field to what a function makes of it; ProblemError where that is a TypeError."""
        given = getattr(self, field)
        try:
            object.__setattr__(self, field, as_numbers(given))
        except TypeError:
            raise self._error(f"{field} must be whole numbers, got {given!r}") from None

    def _check_axes(self, field: str, least: int) -> None:
        """Check that a field has a number for each axis, none below ``least``."""
        values = getattr(self, field)
        if len(values) != self.rank:
            raise self._error(f"{field} must have {self.rank} entries, as in_extent {self.in_extent} has, got {values}")
        if min(values) < least:
            hint = "crop the input before the convolution instead" if field.startswith("pad") else ""
            raise self._error(f"{field} must be at least {least} along every axis, got {values}", hint=hint)

    def _check_output(self) -> None:
        for axis, extent in enumerate(self.out_extent):
            if extent >= 1:
                continue
            name = AXIS_NAMES[self.rank][axis]
            if self.transposed:
                raise self._error(
                    f"the output has {extent} pixels along {name}: the pads "
                    f"{self.pad_lo[axis]} and {self.pad_hi[axis]} crop more than there is"
                )
            padded = self.in_extent[axis] + self.pad_lo[axis] + self.pad_hi[axis]
            raise self._error(
                f"the output has no pixel along {name}: the filter spans "
                f"{self.span[axis]} pixels, the input with its padding has {padded}",
                hint="use a larger image, more padding, or a smaller kernel or dilation",
            )

    def _error(self, message: str, hint: str = "") -> ProblemError:
        return ProblemError(message, where=f"convolution {self.name!r}", hint=hint)


def _whole_numbers(values: Iterable[Any]) -> tuple[int, ...]:
    return tuple(operator.index(value) for value in values)


def shape_text(shape: tuple[int, ...]) -> str:
    """A shape as messages have it: ``1x3x8x8``."""
    return "x".join(map(str, shape))


def _same_or_all(values: tuple[int, ...]) -> str:
    return str(values[0]) if len(set(values)) == 1 else "(" + ", ".join(map(str, values)) + ")"


def macs_text(count: int) -> str:
    """A number of multiply-adds in the largest unit that leaves a digit before the point: ``9.664 GMAC``."""
    for unit, size in (("E", 1e18), ("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= size:
            return f"{count / size:.4g} {unit}MAC"
    return f"{count} MAC"
