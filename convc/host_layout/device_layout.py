"""The device layout of a convolution: which problem the kernel runs, and in which buffers.

A model has activations (N, C, H, W) and filters (K, C, R, S). The kernel wants the channels of a pixel side
by side, because one copy of the tensor memory accelerator (TMA) moves whole pixels:

    ==========  ========================  ============================================================
    buffer      shape                     note
    ==========  ========================  ============================================================
    activation  (N, H, W, c_pitch)        c_pitch: C rounded up to 16 bytes; zeros behind C
    filter      (K, R*S, c_pitch)         zeros behind C as well
    bias        (K rounded up to 256,)    float32 or s32; zeros behind K, and everywhere if the model has none;
                                          if scaled (2, K rounded up to 256): then (the bits of) the multipliers
    output      (N, P, Q, k_pitch)        k_pitch: K rounded up to 16 bytes; nothing to read behind K
    residual    (N, P, Q, k_pitch)        only where the epilogue adds one; zeros behind K
    ==========  ========================  ============================================================

The 16 bytes are a rule of tensor maps: every ``globalStrides`` entry is a multiple of 16 (CUDA driver API,
``cuTensorMapEncodeIm2col``).

**Block-scaled types** are bytes: behind the channels of each pixel, and of each filter tap, lie their scale factors
(see `convc.host_layout.block_scaled`), again rounded up to 16 bytes.

**Groups** are joined to packs, see `convc.host_layout.groups`.

**Folding.** An axis beyond the limits of tensor maps is folded on the host, and rows and volumes become images, see
`convc.host_layout.fold`. The problem that the kernel runs, `DeviceLayout.problem`, is then another one than was asked,
`DeviceLayout.model`. So it is where filter columns become channels, see `convc.host_layout.columns`; of rows that
overlap, pixels of the activation buffer are not those of `DeviceLayout.problem`. Where pixels are summed, buffers are
those of `convc.host_layout.summed`. The arrays themselves are repacked by
`convc.host_layout.repack`.
"""

from __future__ import annotations

import dataclasses
import math

import msgspec
import numpy as np

from convc.errors import PlanError
from convc.host_layout.block_scaled import FORMATS, BlockFormat
from convc.host_layout.columns import Overlap, columns_fold, overlap_of, why_not_joined
from convc.host_layout.expand import expanded
from convc.host_layout.fold import AxisFold, choose_fold, fold_problem, images
from convc.host_layout.groups import GroupPacking, choose_packing, device_channels, packed_problem
from convc.host_layout.summed import SUMMED, spanned, walked, why_not_summed
from convc.host_layout.transposed import ForwardEquivalent, forward_equivalent, ordinary_element
from convc.ir import dtypes
from convc.ir.arch import SM_100A
from convc.ir.columns import Columns
from convc.ir.dtypes import DType
from convc.ir.problem import ConvProblem
from convc.support.once import once

LIMITS = SM_100A.limits


class BufferLayout(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A device buffer: contiguous, last dimension fastest."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes the buffer takes."""
        return math.prod(self.shape) * dtypes.BY_NAME[self.dtype].bytes


class DeviceLayout(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A problem as the kernel sees it.

    Attributes:
        model: the problem that was asked.
        problem: the problem that the kernel runs, of two spatial axes; differs from ``model`` only where an axis
            is folded, or where the model has rows or volumes in place of images.
        base: the problem that repacking starts from: with zero padding, with parts of numbers as channels (see
            `convc.host_layout.expand`), and with the channels of rows that overlap; mostly `ordinary` itself.
        folds: per spatial axis of the model how it is folded, None where it is not.
        columns: whether filter columns are channels, and in which way.
        overlap: how rows of the activations overlap; None where they do not.
        packing: how groups are joined; None where there is one group.
        forward: the ordinary convolution in place of a transposed one; None where the model's is ordinary.
        activation, filter, bias, output: the buffers.
    """

    model: ConvProblem
    base: ConvProblem
    problem: ConvProblem
    folds: tuple[AxisFold | None, ...]
    columns: Columns = "off"
    overlap: Overlap | None = None
    packing: GroupPacking | None = None
    forward: ForwardEquivalent | None = None
    activation: BufferLayout
    filter: BufferLayout
    bias: BufferLayout
    output: BufferLayout

    @property
    def ordinary(self) -> ConvProblem:
        """The problem that was asked, or the ordinary convolution in its place."""
        return self.model if self.forward is None else self.forward.problem

    @property
    def folded(self) -> ConvProblem:
        """`base` with its axes folded, over images; the kernel's problem, but for groups that are joined."""
        return images(fold_problem(self.base, self.folds))

    @property
    def residual(self) -> BufferLayout | None:
        """The buffer of the tensor that the epilogue adds, laid out as the output; None where it adds none."""
        return self.output if self.problem.residual else None

    @once
    def blocks(self) -> BlockFormat | None:
        """How channels share scale factors; None where they have none."""
        return FORMATS.get(self.problem.operand)

    @property
    def summed(self) -> bool:
        """Whether pixels are summed, and operands MN-major (`convc.host_layout.summed`)."""
        return self.columns == SUMMED

    @once
    def walked(self) -> ConvProblem:
        """The convolution whose output pixels copies of activations walk through."""
        return walked(self.model) if self.summed else self.problem

    @once
    def c_pitch(self) -> int:
        """Elements of a filter tap; with one group, of an input pixel as well. Scale factors lie behind them."""
        if self.summed:
            return self.activation.shape[-1]
        return _pitch(self.problem.group_channels, self.problem.operand_dtype)

    @property
    def factor_pitch(self) -> int:
        """Bytes of the scale factors of a filter tap, and of a pixel's channels in one group; 0 without any."""
        return 0 if self.blocks is None else _factor_pitch(self.blocks, self.c_pitch)

    @property
    def pixel_pitch(self) -> int:
        """Elements of an input pixel; scale factors lie behind them."""
        return self.problem.groups * self.c_pitch

    @property
    def k_pitch(self) -> int:
        """Elements from one output pixel to the next."""
        return self.output.shape[-1]


def device_layout(problem: ConvProblem, columns: Columns = "off") -> DeviceLayout:
    """Choose the device layout of a problem.

    Args:
        problem: what was asked.
        columns: whether filter columns become channels, and in which way (see `convc.host_layout.columns`).

    Raises:
        PlanError: they cannot; the message says why.
    """
    if columns == SUMMED:
        return _summed_layout(problem)
    forward = forward_equivalent(problem) if problem.transposed else None
    ordinary = problem if forward is None else forward.problem
    base = expanded(ordinary)
    folds = tuple(choose_fold(base, axis) for axis in range(base.rank))
    overlap = None
    if columns != "off":
        reason = why_not_joined(base, columns)
        if reason is not None:
            raise PlanError(f"filter columns cannot become channels: {reason}", where=problem.describe())
        folds = (*folds[:-1], columns_fold(base))
        if columns == "overlap":
            overlap = overlap_of(base)
            base = dataclasses.replace(base, in_channels=overlap.channels)
    folded = images(fold_problem(base, folds))
    packing = choose_packing(folded)
    device = folded if packing is None else packed_problem(folded, packing)
    c_pitch = _pitch(device.group_channels, device.operand_dtype)
    k_pitch = _pitch(device.out_channels, device.out_dtype)
    blocks = FORMATS.get(device.operand)
    factors = 0 if blocks is None else _factor_pitch(blocks, c_pitch)
    pixel = device.groups * (c_pitch + factors)
    tap = c_pitch + factors
    bias = (_whole_tiles(device.out_channels),)
    image = (*device.in_extent, pixel)
    if overlap is not None:
        image = (device.in_extent[0], overlap.width, overlap.channels)
    activation = BufferLayout(dtype=_stored(device.operand), shape=(device.batch, *image))
    return DeviceLayout(
        model=problem,
        base=base,
        problem=device,
        folds=folds,
        columns=columns,
        overlap=overlap,
        packing=packing,
        forward=forward,
        activation=activation,
        filter=BufferLayout(
            dtype=_stored(device.filter_dtype.name), shape=(device.out_channels, math.prod(device.kernel), tap)
        ),
        bias=BufferLayout(
            dtype=device.sum_dtype.name,
            shape=(2, *bias) if has_multipliers(device) else bias,
        ),
        output=BufferLayout(dtype=device.out, shape=(device.batch, *device.out_extent, k_pitch)),
    )


def _summed_layout(problem: ConvProblem) -> DeviceLayout:
    """The layout of a gradient of weights whose pixels are summed."""
    reason = why_not_summed(problem)
    if reason is not None:
        raise PlanError(f"pixels cannot be summed as they lie: {reason}", where=problem.describe())
    forward = walked(problem)
    pixels = (forward.batch, *forward.in_extent)
    made = spanned(problem)
    k_pitch = _pitch(problem.out_channels, problem.out_dtype)
    return DeviceLayout(
        model=problem,
        base=problem,
        problem=made,
        folds=(None,) * problem.rank,
        columns=SUMMED,
        activation=BufferLayout(
            dtype=problem.operand, shape=(*pixels, _pitch(forward.in_channels, problem.operand_dtype))
        ),
        filter=BufferLayout(
            dtype=problem.operand, shape=(forward.gemm_m, _pitch(problem.out_channels, problem.operand_dtype))
        ),
        bias=BufferLayout(dtype=problem.sum_dtype.name, shape=(_whole_tiles(problem.out_channels),)),
        output=BufferLayout(dtype=problem.out, shape=(*problem.out_extent, made.batch, k_pitch)),
    )


def device_bytes(layout: DeviceLayout) -> int:
    """Bytes of all buffers together."""
    buffers = (layout.activation, layout.filter, layout.bias, layout.output, layout.residual)
    return sum(buffer.size_bytes for buffer in buffers if buffer is not None)


def has_tensor_scale(layout: DeviceLayout) -> bool:
    """Whether activations and filters have a scale as a whole, by which the kernel multiplies its sums."""
    return _tensor_scale(layout.problem)


def unread_products(layout: DeviceLayout) -> str:
    """Say why the kernel multiplies activations by zeros of its filter for outputs that do not read them; empty: never.

    That is no matter for finite numbers (see `convc.runtime.special_values`).
    """
    if layout.packing is not None and layout.packing.groups > 1:
        return f"{layout.packing.groups} groups share a pack"
    forward = layout.forward
    if forward is not None and any(len(axis.reads) < axis.count * axis.taps for axis in forward.axes):
        return "the phases of a transposed convolution read other pixels than their neighbours"
    if any(fold is not None and len(fold.taps) < fold.blocks * len(fold.places) for fold in layout.folds):
        return "a folded axis has positions that no tap reads"
    return ""


def output_index(layout: DeviceLayout, element: tuple[int, ...]) -> int:
    """Where in the output buffer the element (n, k, p, q) of the model's output lies, counted in elements."""
    if layout.summed:
        n, k, *pixel = element
        return int(np.ravel_multi_index((*pixel, n, k), layout.output.shape))
    n, k, *pixel = element if layout.forward is None else ordinary_element(layout.forward, layout.model, element)
    if layout.packing is not None:
        k = int(device_channels(layout.ordinary, layout.packing)[k])
    return int(np.ravel_multi_index((n, *pixel, k), (layout.model.batch, *layout.ordinary.out_extent, layout.k_pitch)))


def output_channels(layout: DeviceLayout) -> slice | np.ndarray:
    """Where the model's output channels lie among those of the device."""
    if layout.packing is None:
        return slice(0, layout.ordinary.out_channels)
    return device_channels(layout.ordinary, layout.packing)


def _stored(operand: str) -> str:
    """Element type of a buffer of operands."""
    return "u8" if operand in FORMATS else operand


def has_multipliers(problem: ConvProblem) -> bool:
    """Whether sums are multiplied by a number per output channel."""
    return problem.requantised or problem.multiplier or _tensor_scale(problem)


def _tensor_scale(problem: ConvProblem) -> bool:
    blocks = FORMATS.get(problem.operand)
    return blocks is not None and blocks.tensor


def _factor_pitch(blocks: BlockFormat, size: int) -> int:
    """Bytes of the scale factors of `size` bytes of elements."""
    return _round_up(-(-size // blocks.factor_bytes), LIMITS.tma_unit_bytes)


def _whole_tiles(channels: int) -> int:
    """A length that holds whole tiles of any width, so that no load of a bias needs a guard.

    So few channels as half of the widest tile are less than two tiles of any width that is narrower; of others the last
    tile may reach as far beyond them as a tile is wide, less a step.
    """
    if channels <= LIMITS.mma_n_max // 2:
        return LIMITS.mma_n_max
    return _round_up(channels, LIMITS.mma_n_step) + LIMITS.mma_n_max - LIMITS.mma_n_step


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _pitch(channels: int, dtype: DType) -> int:
    return _round_up(channels, LIMITS.tma_unit_bytes // dtype.bytes)
