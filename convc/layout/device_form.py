"""Host repacking: from the arrays of a model to the arrays a kernel reads, and back.

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
(see `convc.layout.block_scaled`), again rounded up to 16 bytes.

**Groups** are joined to packs, see `convc.layout.groups`.

**Folding.** An axis beyond the limits of tensor maps is folded on the host, and rows and volumes become images, see
`convc.layout.fold`. The problem that the kernel runs, `DeviceLayout.problem`, is then another one than was asked,
`DeviceLayout.model`.
"""

from __future__ import annotations

import dataclasses
import math

import msgspec
import numpy as np

from convc.errors import InputError
from convc.ir import dtypes
from convc.ir.dtypes import DType
from convc.ir.problem import ConvProblem
from convc.layout.block_scaled import (
    FORMATS,
    BlockFormat,
    bytes_of,
    filled_channels,
    filter_blocks,
    quantise,
    tensor_scale,
)
from convc.layout.expand import expand_activation, expand_filter, expanded
from convc.layout.fold import AxisFold, choose_fold, fold_pixels, fold_problem, fold_taps, images
from convc.layout.groups import GroupPacking, device_channels, pack_channels, pack_problem, pack_taps, packs_of
from convc.layout.notes import packing_notes
from convc.layout.transposed import (
    ForwardEquivalent,
    ordinary_bias,
    ordinary_element,
    ordinary_filter,
    ordinary_input,
    ordinary_output,
    transposed_output,
    untransposed,
    way_note,
)
from convc.support.memory import require_memory

PITCH_BYTES = 16
"""Strides of a tensor map are multiples of this."""

BIAS_MULTIPLE = 256
"""The widest tile of output channels: the bias is padded to whole tiles."""


class BufferLayout(msgspec.Struct, frozen=True, kw_only=True):
    """A device buffer: contiguous, last dimension fastest."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes the buffer takes."""
        return math.prod(self.shape) * dtypes.BY_NAME[self.dtype].bytes


class DeviceLayout(msgspec.Struct, frozen=True, kw_only=True):
    """A problem as the kernel sees it.

    Attributes:
        model: the problem that was asked.
        problem: the problem that the kernel runs, of two spatial axes; differs from ``model`` only where an axis
            is folded, or where the model has rows or volumes in place of images.
        base: the problem that repacking starts from: with zero padding, and with parts of numbers as channels
            (see `convc.layout.expand`); mostly `ordinary` itself.
        folds: per spatial axis of the model how it is folded, None where it is not.
        packs: how groups are joined; None where there is one group.
        way: the ordinary convolution in place of a transposed one; None where the model's is ordinary.
        activation, filter, bias, output: the buffers.
        notes: what the repacking does and costs, one sentence each.
    """

    model: ConvProblem
    base: ConvProblem
    problem: ConvProblem
    folds: tuple[AxisFold | None, ...]
    packs: GroupPacking | None = None
    way: ForwardEquivalent | None = None
    activation: BufferLayout
    filter: BufferLayout
    bias: BufferLayout
    output: BufferLayout
    notes: tuple[str, ...]

    @property
    def ordinary(self) -> ConvProblem:
        """The problem that was asked, or the ordinary convolution in its place."""
        return self.model if self.way is None else self.way.problem

    @property
    def residual(self) -> BufferLayout | None:
        """The buffer of the tensor that the epilogue adds, laid out as the output; None where it adds none."""
        return self.output if self.problem.residual else None

    @property
    def blocks(self) -> BlockFormat | None:
        """How channels share scale factors; None where they have none."""
        return FORMATS.get(self.problem.operand)

    @property
    def c_pitch(self) -> int:
        """Elements of a filter tap; with one group, of an input pixel as well. Scale factors lie behind them."""
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


def device_form(problem: ConvProblem) -> DeviceLayout:
    """Choose the device layout of a problem."""
    way = untransposed(problem) if problem.transposed else None
    ordinary = problem if way is None else way.problem
    base = expanded(ordinary)
    folds = tuple(choose_fold(base, axis) for axis in range(base.rank))
    folded = images(fold_problem(base, folds))
    packs = packs_of(folded)
    device = folded if packs is None else pack_problem(folded, packs)
    c_pitch = _pitch(device.group_channels, device.operand_dtype)
    k_pitch = _pitch(device.out_channels, device.out_dtype)
    pixel, tap = device.groups * c_pitch, c_pitch
    blocks = FORMATS.get(device.operand)
    if blocks is not None:
        factors = _factor_pitch(blocks, c_pitch)
        pixel, tap = pixel + device.groups * factors, tap + factors
    activation = BufferLayout(dtype=_stored(device.operand), shape=(device.batch, *device.in_extent, pixel))
    return DeviceLayout(
        model=problem,
        base=base,
        problem=device,
        folds=folds,
        packs=packs,
        way=way,
        activation=activation,
        filter=BufferLayout(
            dtype=_stored(device.filter_dtype.name), shape=(device.out_channels, math.prod(device.kernel), tap)
        ),
        bias=BufferLayout(
            dtype=device.sum_dtype.name,
            shape=(2,) * _has_multipliers(device) + (_round_up(device.out_channels, BIAS_MULTIPLE),),
        ),
        output=BufferLayout(dtype=device.out, shape=(device.batch, *device.out_extent, k_pitch)),
        notes=(
            *(() if way is None else (way_note(way, problem),)),
            *packing_notes(ordinary, folded, device, folds, packs, activation.size_bytes, c_pitch, k_pitch),
        ),
    )


def device_bytes(form: DeviceLayout) -> int:
    """Bytes of all buffers together."""
    buffers = (form.activation, form.filter, form.bias, form.output, form.residual)
    return sum(buffer.size_bytes for buffer in buffers if buffer is not None)


def pack_activation(form: DeviceLayout, x: np.ndarray) -> np.ndarray:
    """Activations (N, C, H, W) of any real type, rounded to the operand type, as `DeviceLayout.activation`."""
    _expect_shape(form, x, form.model.x_shape, "x")
    x = x if form.way is None else ordinary_input(form.way, form.model, x)
    if form.blocks is None:
        return _with_pitch(_pixels(form, expand_activation(form.ordinary, x)), form.activation.shape)
    _require_blocks(form, x, "x")
    planes = bytes_of(form.blocks, quantise(form.blocks, x, form.ordinary.groups))
    pixels = (_pixels(form, plane, step) for plane, step in zip(planes, (1, form.blocks.factor_bytes), strict=True))
    return _with_factors(form, *pixels, form.activation.shape, form.problem.groups)


def has_tensor_scale(form: DeviceLayout) -> bool:
    """Whether activations and filters have a scale as a whole, by which the kernel multiplies its sums."""
    return _tensor_scale(form.problem)


def scaled_bias(form: DeviceLayout, bias: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The buffer of `pack_bias` for these activations: where they have a scale as a whole, its multipliers have it."""
    if not has_tensor_scale(form):
        return bias
    scaled = bias.copy()
    scaled[1] *= np.float32(tensor_scale(form.blocks, x))
    return scaled


def _pixels(form: DeviceLayout, x: np.ndarray, step: int = 1) -> np.ndarray:
    """Channels last, folded and packed; `step` of the kernel's channels have one number of x."""
    pixels = _channels_last(form, x, "x")
    for axis, fold in reversed(tuple(enumerate(form.folds))):
        if fold is not None:
            blocks = form.base.out_extent[axis] + fold.blocks - 1
            pixels = fold_pixels(pixels, axis + 1, fold, form.base.pad_lo[axis], blocks)
    pixels = pixels.reshape(*form.activation.shape[:-1], -1)
    return pixels if form.packs is None else pack_channels(pixels, _fewer(form.base, step), _slabs(form.packs, step))


def pack_filter(form: DeviceLayout, w: np.ndarray) -> np.ndarray:
    """Filters (K, C, R, S) of any real type, rounded to the operand type, as `DeviceLayout.filter`."""
    _expect_shape(form, w, form.model.w_shape, "w")
    w = w if form.way is None else ordinary_filter(form.way, form.model, w)
    if form.blocks is None:
        return _with_pitch(_taps(form, expand_filter(form.ordinary, w)), form.filter.shape)
    _require_blocks(form, w, "w")
    planes = bytes_of(form.blocks, filter_blocks(form.ordinary, w))
    taps = (_taps(form, plane, step) for plane, step in zip(planes, (1, form.blocks.factor_bytes), strict=True))
    return _with_factors(form, *taps, form.filter.shape, 1)


def _taps(form: DeviceLayout, w: np.ndarray, step: int = 1) -> np.ndarray:
    """Channels last, folded and packed; `step` of the kernel's channels have one number of w."""
    taps = _channels_last(form, w, "w")
    for axis, fold in reversed(tuple(enumerate(form.folds))):
        if fold is not None:
            taps = fold_taps(taps, axis + 1, fold)
    taps = taps.reshape(len(taps), -1, taps.shape[-1])
    return taps if form.packs is None else pack_taps(taps, form.ordinary.groups, _slabs(form.packs, step))


def pack_weights(
    form: DeviceLayout, w: np.ndarray, bias: np.ndarray | None, multiplier: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """`pack_filter` and `pack_bias`, whose multipliers are the scale of the filters as a whole where they have one."""
    if has_tensor_scale(form):
        multiplier = np.full(form.model.out_channels, tensor_scale(form.blocks, w))
    return pack_filter(form, w), pack_bias(form, bias, multiplier)


def pack_bias(form: DeviceLayout, bias: np.ndarray | None, multiplier: np.ndarray | None = None) -> np.ndarray:
    """Bias (K,) of any real type or None, rounded to the type of the sums, as `DeviceLayout.bias`.

    Args:
        multiplier: (K,) of a problem whose sums are scaled, rounded to float32.
    """
    channels, sums = form.model.out_channels, form.problem.sum_dtype
    packed = np.zeros(form.bias.shape, sums.storage)
    rows = packed.reshape(-1, form.bias.shape[-1])
    if bias is not None:
        _expect_shape(form, bias, (channels,), "bias")
        bias = bias if form.way is None else ordinary_bias(form.way, form.model, bias)
        rows[0, _device_channels(form)] = dtypes.encode(sums, bias)
    scaled = _has_multipliers(form.problem)
    if (multiplier is not None) != scaled:
        needs = "needs a multiplier per channel" if scaled else "takes no multipliers"
        raise InputError(f"a result of {form.problem.out} {needs}", where=f"convolution {form.model.name!r}")
    if multiplier is not None:
        _expect_shape(form, multiplier, (channels,), "multiplier")
        multiplier = multiplier if form.way is None else ordinary_bias(form.way, form.model, multiplier)
        rows[1, _device_channels(form)] = dtypes.encode(dtypes.F32, multiplier).view(sums.storage)
    return packed


def pack_residual(form: DeviceLayout, residual: np.ndarray) -> np.ndarray:
    """Residual (N, K, P, Q) of any real type, rounded to the output type, as `DeviceLayout.residual`."""
    _expect_shape(form, residual, form.model.y_shape, "the residual")
    rounded = dtypes.encode(form.problem.out_dtype, residual)
    rounded = rounded if form.way is None else ordinary_output(form.way, form.model, rounded)
    packed = np.zeros(form.output.shape, rounded.dtype)
    packed[..., _device_channels(form)] = np.moveaxis(rounded, 1, -1).reshape(*form.output.shape[:-1], -1)
    return packed


def unpack_output(form: DeviceLayout, y: np.ndarray) -> np.ndarray:
    """What the kernel wrote (`DeviceLayout.output`) as contiguous (N, K, P, Q) of the same element type."""
    _expect_shape(form, y, form.output.shape, "the output buffer")
    pixels = y[..., _device_channels(form)].reshape(form.model.batch, *form.ordinary.out_extent, -1)
    found = np.ascontiguousarray(np.moveaxis(pixels, -1, 1))
    return found if form.way is None else transposed_output(form.way, form.model, found)


def output_index(form: DeviceLayout, element: tuple[int, ...]) -> int:
    """Where in the output buffer the element (n, k, p, q) of the model's output lies, counted in elements."""
    n, k, *pixel = element if form.way is None else ordinary_element(form.way, form.model, element)
    if form.packs is not None:
        k = int(device_channels(form.ordinary, form.packs)[k])
    return int(np.ravel_multi_index((n, *pixel, k), (form.model.batch, *form.ordinary.out_extent, form.k_pitch)))


def _device_channels(form: DeviceLayout) -> slice | np.ndarray:
    """Where the model's output channels lie among those of the device."""
    if form.packs is None:
        return slice(0, form.ordinary.out_channels)
    return device_channels(form.ordinary, form.packs)


def _channels_last(form: DeviceLayout, array: np.ndarray, what: str) -> np.ndarray:
    """Round to the operand type, and view with dimension 1 (channels) last."""
    buffer = form.activation if what == "x" else form.filter
    require_memory(buffer.size_bytes, f"repacking {what} of {form.model.name!r}")
    return np.moveaxis(dtypes.encode(dtypes.BY_NAME[buffer.dtype], array), 1, -1)


def _require_blocks(form: DeviceLayout, array: np.ndarray, what: str) -> None:
    """Quantising takes some float64 arrays of the size of the tensor, its groups filled up."""
    filled = filled_channels(form.ordinary.in_channels, form.ordinary.groups) / form.ordinary.in_channels
    require_memory(int(6 * 8 * array.size * filled), f"quantising {what} of {form.model.name!r}")


def _with_pitch(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Contiguous copy whose last dimension is widened with zeros."""
    packed = np.zeros(shape, array.dtype)
    packed[..., : array.shape[-1]] = array
    return packed


def _with_factors(
    form: DeviceLayout, elements: np.ndarray, factors: np.ndarray, shape: tuple[int, ...], groups: int
) -> np.ndarray:
    """Bytes of the elements of some groups, and behind them their factors, each group's from a multiple of 16 on."""
    packed = _with_pitch(elements, shape)
    behind = packed[..., groups * form.c_pitch :].reshape(*shape[:-1], groups, form.factor_pitch)
    factors = factors.reshape(*shape[:-1], groups, -1)
    behind[..., : factors.shape[-1]] = factors
    packed[..., groups * form.c_pitch :] = behind.reshape(*shape[:-1], -1)
    return packed


def _fewer(problem: ConvProblem, step: int) -> ConvProblem:
    """The problem with one channel for each `step`."""
    return dataclasses.replace(problem, in_channels=problem.in_channels // step)


def _slabs(packs: GroupPacking, step: int) -> GroupPacking:
    return msgspec.structs.replace(packs, c_slab=packs.c_slab // step)


def _stored(operand: str) -> str:
    """Element type of a buffer of operands."""
    return "u8" if operand in FORMATS else operand


def _has_multipliers(problem: ConvProblem) -> bool:
    """Whether sums are multiplied by a number per output channel."""
    return problem.requantised or _tensor_scale(problem)


def _tensor_scale(problem: ConvProblem) -> bool:
    blocks = FORMATS.get(problem.operand)
    return blocks is not None and blocks.tensor


def _factor_pitch(blocks: BlockFormat, size: int) -> int:
    """Bytes of the scale factors of `size` bytes of elements."""
    return _round_up(-(-size // blocks.factor_bytes), PITCH_BYTES)


def _expect_shape(form: DeviceLayout, array: np.ndarray, shape: tuple[int, ...], what: str) -> None:
    if array.shape != shape:
        raise InputError(f"{what} must have shape {shape}, got {array.shape}", where=f"convolution {form.model.name!r}")


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _pitch(channels: int, dtype: DType) -> int:
    return _round_up(channels, PITCH_BYTES // dtype.bytes)
