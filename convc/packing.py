"""Host repacking: from the arrays of a model to the arrays a kernel reads, and back.

A model has activations (N, C, H, W) and filters (K, C, R, S). The kernel wants the channels of a pixel side
by side, because one copy of the tensor memory accelerator (TMA) moves whole pixels:

    ==========  ========================  ============================================================
    buffer      shape                     note
    ==========  ========================  ============================================================
    activation  (N, H, W, c_pitch)        c_pitch: C rounded up to 16 bytes; zeros behind C
    filter      (K, R*S, c_pitch)         zeros behind C as well
    bias        (K rounded up to 256,)    float32 or s32; zeros behind K, and everywhere if the model has none;
                                          if requantised (2, K rounded up to 256): then the bits of the multipliers
    output      (N, P, Q, k_pitch)        k_pitch: K rounded up to 16 bytes; nothing to read behind K
    ==========  ========================  ============================================================

The 16 bytes are a rule of tensor maps: every ``globalStrides`` entry is a multiple of 16 (CUDA driver API,
``cuTensorMapEncodeIm2col``).

**Groups** are joined to packs, see `convc.packs`.

**Folding an axis.** The same page limits ``elementStrides`` to 1..8 and, for two spatial axes, the corners
of the bounding box to -128..127; the instruction limits im2col offsets (tap times dilation) to 0..255 (PTX
manual, ``cp.async.bulk.tensor``). An axis beyond these limits is folded on the host. Output p and tap r
read the padded coordinate ``p*u + t`` with ``t = r*d``. Cut the padded axis into blocks of u pixels: the
pixel read is in block ``p + t // u`` at place ``t % u``. Turn the places that occur into channels and the
blocks into pixels; what is left is a convolution with stride 1, dilation 1, no padding, and a kernel of
``max(t) // u + 1`` blocks ("space to depth"). If that kernel is too long as well, every tap gets channels
of its own and the kernel is 1 (all t are places, block p alone): this always fits, and stores a pixel once
for each tap.

**Images.** The kernel runs over images (H, W). A row (W) is an image of one line. A volume (D, H, W) is folded
along D, every tap of its own, and what is left are N*D' images, one for each output plane.

The problem that the kernel runs, `DeviceForm.problem`, is then another one than was asked,
`DeviceForm.model`. With both axes folded, its channels are ordered (place along H, place along W, C).
"""

from __future__ import annotations

import dataclasses
import math

import msgspec
import numpy as np

from convc import dtypes
from convc.dtypes import DType
from convc.errors import InputError
from convc.limits import human_bytes, require_memory
from convc.packs import Packs, device_channels, pack_channels, pack_problem, pack_taps, packs_note, packs_of
from convc.problem import AXIS_NAMES, ConvProblem
from convc.transposed import (
    Untransposed,
    ordinary_bias,
    ordinary_element,
    ordinary_filter,
    ordinary_input,
    transposed_output,
    untransposed,
    way_note,
)

PITCH_BYTES = 16
"""Strides of a tensor map are multiples of this."""

BIAS_MULTIPLE = 256
"""The widest tile of output channels: the bias is padded to whole tiles."""


MAX_ELEMENT_STRIDE = 8
MAX_OFFSET = 255
CORNERS = range(-128, 128)
"""What tensor maps and im2col copies of two spatial axes can express; see "Folding an axis" above."""


class AxisFold(msgspec.Struct, frozen=True, kw_only=True):
    """How one spatial axis is folded.

    Attributes:
        step: model pixels per device pixel.
        places: offsets into the padded axis, counted from the first pixel of a block, that become channels.
        taps: for each tap of the model's filter: (block, index into ``places``).
    """

    step: int
    places: tuple[int, ...]
    taps: tuple[tuple[int, int], ...]

    @property
    def blocks(self) -> int:
        """Extent of the device filter along this axis."""
        return 1 + max(block for block, _ in self.taps)


class BufferForm(msgspec.Struct, frozen=True, kw_only=True):
    """A device buffer: contiguous, last dimension fastest."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes the buffer takes."""
        return math.prod(self.shape) * dtypes.BY_NAME[self.dtype].bytes


class DeviceForm(msgspec.Struct, frozen=True, kw_only=True):
    """A problem as the kernel sees it.

    Attributes:
        model: the problem that was asked.
        problem: the problem that the kernel runs, of two spatial axes; differs from ``model`` only where an axis
            is folded, or where the model has rows or volumes in place of images.
        folds: per spatial axis of the model how it is folded, None where it is not.
        packs: how groups are joined; None where there is one group.
        way: the ordinary convolution in place of a transposed one; None where the model's is ordinary.
        activation, filter, bias, output: the buffers.
        notes: what the repacking does and costs, one sentence each.
    """

    model: ConvProblem
    problem: ConvProblem
    folds: tuple[AxisFold | None, ...]
    packs: Packs | None = None
    way: Untransposed | None = None
    activation: BufferForm
    filter: BufferForm
    bias: BufferForm
    output: BufferForm
    notes: tuple[str, ...]

    @property
    def ordinary(self) -> ConvProblem:
        """The problem that was asked, or the ordinary convolution in its place."""
        return self.model if self.way is None else self.way.problem

    @property
    def c_pitch(self) -> int:
        """Elements from one filter tap to the next; with one group, from one input pixel to the next as well."""
        return self.filter.shape[-1]

    @property
    def k_pitch(self) -> int:
        """Elements from one output pixel to the next."""
        return self.output.shape[-1]


def device_form(problem: ConvProblem) -> DeviceForm:
    """Choose the device layout of a problem."""
    way = untransposed(problem) if problem.transposed else None
    ordinary = problem if way is None else way.problem
    folds = tuple(_choose_fold(ordinary, axis) for axis in range(problem.rank))
    folded = _images(_fold_problem(ordinary, folds))
    packs = packs_of(folded)
    device = folded if packs is None else pack_problem(folded, packs)
    c_pitch = _pitch(device.group_channels, device.operand_dtype)
    k_pitch = _pitch(device.out_channels, device.out_dtype)
    activation = BufferForm(dtype=device.operand, shape=(device.batch, *device.in_extent, device.groups * c_pitch))
    return DeviceForm(
        model=problem,
        problem=device,
        folds=folds,
        packs=packs,
        way=way,
        activation=activation,
        filter=BufferForm(
            dtype=device.filter_dtype.name, shape=(device.out_channels, math.prod(device.kernel), c_pitch)
        ),
        bias=BufferForm(
            dtype=device.sum_dtype.name,
            shape=(2,) * device.requantised + (_round_up(device.out_channels, BIAS_MULTIPLE),),
        ),
        output=BufferForm(dtype=device.out, shape=(device.batch, *device.out_extent, k_pitch)),
        notes=(
            *(() if way is None else (way_note(way, problem),)),
            *_notes(ordinary, folded, device, folds, packs, activation.size_bytes, c_pitch, k_pitch),
        ),
    )


def device_bytes(form: DeviceForm) -> int:
    """Bytes of all buffers together."""
    return sum(buffer.size_bytes for buffer in (form.activation, form.filter, form.bias, form.output))


def pack_activation(form: DeviceForm, x: np.ndarray) -> np.ndarray:
    """Activations (N, C, H, W) of any real type, rounded to the operand type, as `DeviceForm.activation`."""
    _expect_shape(form, x, form.model.x_shape, "x")
    pixels = _channels_last(form, x if form.way is None else ordinary_input(form.way, form.model, x), "x")
    for axis, fold in reversed(tuple(enumerate(form.folds))):
        if fold is not None:
            blocks = form.ordinary.out_extent[axis] + fold.blocks - 1
            pixels = _fold_pixels(pixels, axis + 1, fold, form.ordinary.pad_lo[axis], blocks)
    pixels = pixels.reshape(*form.activation.shape[:-1], -1)
    if form.packs is not None:
        pixels = pack_channels(pixels, form.ordinary, form.packs)
    return _with_pitch(pixels, form.activation.shape)


def pack_filter(form: DeviceForm, w: np.ndarray) -> np.ndarray:
    """Filters (K, C, R, S) of any real type, rounded to the operand type, as `DeviceForm.filter`."""
    _expect_shape(form, w, form.model.w_shape, "w")
    taps = _channels_last(form, w if form.way is None else ordinary_filter(form.way, form.model, w), "w")
    for axis, fold in reversed(tuple(enumerate(form.folds))):
        if fold is not None:
            taps = _fold_taps(taps, axis + 1, fold)
    taps = taps.reshape(len(taps), -1, taps.shape[-1])
    if form.packs is not None:
        taps = pack_taps(taps, form.ordinary.groups, form.packs)
    return _with_pitch(taps, form.filter.shape)


def pack_bias(form: DeviceForm, bias: np.ndarray | None, multiplier: np.ndarray | None = None) -> np.ndarray:
    """Bias (K,) of any real type or None, rounded to the type of the sums, as `DeviceForm.bias`.

    Args:
        multiplier: (K,) of a requantised problem, rounded to float32.
    """
    channels, sums = form.model.out_channels, form.problem.sum_dtype
    packed = np.zeros(form.bias.shape, sums.storage)
    rows = packed.reshape(-1, form.bias.shape[-1])
    if bias is not None:
        _expect_shape(form, bias, (channels,), "bias")
        bias = bias if form.way is None else ordinary_bias(form.way, form.model, bias)
        rows[0, _device_channels(form)] = dtypes.encode(sums, bias)
    if (multiplier is not None) != form.problem.requantised:
        needs = "needs a multiplier per channel" if form.problem.requantised else "takes no multipliers"
        raise InputError(f"a result of {form.problem.out} {needs}", where=f"convolution {form.model.name!r}")
    if multiplier is not None:
        _expect_shape(form, multiplier, (channels,), "multiplier")
        multiplier = multiplier if form.way is None else ordinary_bias(form.way, form.model, multiplier)
        rows[1, _device_channels(form)] = dtypes.encode(dtypes.F32, multiplier).view(np.int32)
    return packed


def unpack_output(form: DeviceForm, y: np.ndarray) -> np.ndarray:
    """What the kernel wrote (`DeviceForm.output`) as contiguous (N, K, P, Q) of the same element type."""
    _expect_shape(form, y, form.output.shape, "the output buffer")
    pixels = y[..., _device_channels(form)].reshape(form.model.batch, *form.ordinary.out_extent, -1)
    found = np.ascontiguousarray(np.moveaxis(pixels, -1, 1))
    return found if form.way is None else transposed_output(form.way, form.model, found)


def output_index(form: DeviceForm, element: tuple[int, ...]) -> int:
    """Where in the output buffer the element (n, k, p, q) of the model's output lies, counted in elements."""
    n, k, *pixel = element if form.way is None else ordinary_element(form.way, form.model, element)
    if form.packs is not None:
        k = int(device_channels(form.ordinary, form.packs)[k])
    return int(np.ravel_multi_index((n, *pixel, k), (form.model.batch, *form.ordinary.out_extent, form.k_pitch)))


def _device_channels(form: DeviceForm) -> slice | np.ndarray:
    """Where the model's output channels lie among those of the device."""
    if form.packs is None:
        return slice(0, form.ordinary.out_channels)
    return device_channels(form.ordinary, form.packs)


def _channels_last(form: DeviceForm, array: np.ndarray, what: str) -> np.ndarray:
    """Round to the operand type, and view with dimension 1 (channels) last."""
    buffer = form.activation if what == "x" else form.filter
    require_memory(buffer.size_bytes, f"repacking {what} of {form.model.name!r}")
    dtype = form.problem.operand_dtype if what == "x" else form.problem.filter_dtype
    return np.moveaxis(dtypes.encode(dtype, array), 1, -1)


def _with_pitch(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Contiguous copy whose last dimension is widened with zeros."""
    packed = np.zeros(shape, array.dtype)
    packed[..., : array.shape[-1]] = array
    return packed


def _expect_shape(form: DeviceForm, array: np.ndarray, shape: tuple[int, ...], what: str) -> None:
    if array.shape != shape:
        raise InputError(f"{what} must have shape {shape}, got {array.shape}", where=f"convolution {form.model.name!r}")


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _pitch(channels: int, dtype: DType) -> int:
    return _round_up(channels, PITCH_BYTES // dtype.bytes)


def _notes(
    problem: ConvProblem,
    folded: ConvProblem,
    device: ConvProblem,
    folds: tuple[AxisFold | None, ...],
    packs: Packs | None,
    activation_bytes: int,
    c_pitch: int,
    k_pitch: int,
) -> list[str]:
    """What is done and what it costs, in words."""
    before = math.prod(problem.x_shape) * problem.operand_dtype.bytes
    notes = [
        "activations go from NCHW to NHWC on the host: "
        f"{human_bytes(before)} become {human_bytes(activation_bytes)} ({activation_bytes / before:.2f}x)"
    ]
    notes += [_fold_note(problem, axis, fold) for axis, fold in enumerate(folds) if fold is not None]
    if packs is not None:
        return [*notes, packs_note(folded, device, packs)]
    channels = device.in_channels
    if c_pitch != channels:
        notes.append(
            f"{channels} channels padded to {c_pitch} ({c_pitch * device.operand_dtype.bytes} bytes a pixel, "
            f"as the tensor map needs): {c_pitch / channels:.2f}x activation and filter bytes"
        )
    channels = device.out_channels
    if k_pitch != channels:
        notes.append(
            f"{channels} output channels padded to {k_pitch} ({k_pitch * device.out_dtype.bytes} bytes a "
            f"pixel): {k_pitch / channels:.2f}x output bytes"
        )
    return notes


def _images(problem: ConvProblem) -> ConvProblem:
    """The same convolution over images: a row is an image of one line, and planes of a folded volume are images."""
    if problem.rank == 2:
        return problem
    names = ("in_extent", "kernel", "stride", "dilation", "pad_lo", "pad_hi")
    if problem.rank == 3:
        planes = {name: getattr(problem, name)[1:] for name in names}
        return dataclasses.replace(problem, batch=problem.batch * problem.in_extent[0], output_padding=(), **planes)
    lines = {name: (0 if name.startswith("pad") else 1, *getattr(problem, name)) for name in names}
    return dataclasses.replace(problem, output_padding=(), **lines)


def _choose_fold(problem: ConvProblem, axis: int) -> AxisFold | None:
    """How to bring an axis within the limits of tensor maps; None when it is within them already."""
    stride, reach = problem.stride[axis], problem.span[axis] - 1
    if problem.rank == 3 and axis == 0:
        offsets = tuple(tap * problem.dilation[0] for tap in range(problem.kernel[0]))
        return AxisFold(step=stride, places=offsets, taps=tuple((0, tap) for tap in range(len(offsets))))
    if stride <= MAX_ELEMENT_STRIDE and _encodable(problem.pad_lo[axis], problem.pad_hi[axis], reach):
        return None
    offsets = [tap * problem.dilation[axis] for tap in range(problem.kernel[axis])]
    if stride > MAX_ELEMENT_STRIDE and _encodable(0, 0, reach // stride):
        places = sorted({offset % stride for offset in offsets})
        taps = [(offset // stride, places.index(offset % stride)) for offset in offsets]
    else:
        places = offsets
        taps = [(0, tap) for tap in range(len(offsets))]
    return AxisFold(step=stride, places=tuple(places), taps=tuple(taps))


def _fold_problem(problem: ConvProblem, folds: tuple[AxisFold | None, ...]) -> ConvProblem:
    """The convolution that is left when the axes are folded."""
    names = ("in_extent", "kernel", "stride", "dilation", "pad_lo", "pad_hi")
    fields = {name: list(getattr(problem, name)) for name in names}
    channels = problem.in_channels
    for axis, fold in enumerate(folds):
        if fold is not None:
            extent = problem.out_extent[axis] + fold.blocks - 1
            for name, value in zip(names, (extent, fold.blocks, 1, 1, 0, 0), strict=True):
                fields[name][axis] = value
            channels *= len(fold.places)
    changes = {name: tuple(values) for name, values in fields.items()}
    return dataclasses.replace(problem, in_channels=channels, **changes)


def _fold_pixels(pixels: np.ndarray, dim: int, fold: AxisFold, pad_lo: int, blocks: int) -> np.ndarray:
    """Fold dimension ``dim`` of activations (N, *spatial, C): it becomes ``blocks``, C becomes places x C."""
    lines = np.moveaxis(pixels, dim, 0)
    folded = np.zeros((blocks, len(fold.places), *lines.shape[1:]), pixels.dtype)
    for index, place in enumerate(fold.places):
        first = place - pad_lo  # input coordinate of this place in block 0
        skip = min(blocks, max(0, -(first // fold.step)))  # blocks whose pixel lies before the input
        source = lines[first + skip * fold.step :: fold.step][: blocks - skip]
        folded[skip : skip + len(source), index] = source
    return _places_to_channels(folded, dim)


def _fold_taps(taps: np.ndarray, dim: int, fold: AxisFold) -> np.ndarray:
    """The same for filters (K, *kernel, C); a place of a block that no tap reads stays zero."""
    lines = np.moveaxis(taps, dim, 0)
    folded = np.zeros((fold.blocks, len(fold.places), *lines.shape[1:]), taps.dtype)
    for line, (block, place) in zip(lines, fold.taps, strict=True):
        folded[block, place] = line
    return _places_to_channels(folded, dim)


def _fold_note(problem: ConvProblem, axis: int, fold: AxisFold) -> str:
    """One sentence: why an axis is folded, and into what."""
    name = AXIS_NAMES[problem.rank][axis]
    if problem.rank == 3 and name == "D":
        return (
            f"along D every output plane becomes an image whose channels are the {len(fold.places)} planes that its "
            "filter reads"
        )
    if fold.step > MAX_ELEMENT_STRIDE:
        cause = f"stride {fold.step} along {name} is above {MAX_ELEMENT_STRIDE}, the largest of a tensor map"
    else:
        cause = (
            f"along {name} the filter spans {problem.span[axis]} pixels with padding "
            f"({problem.pad_lo[axis]}, {problem.pad_hi[axis]}), more than an im2col tensor map can express"
        )
    return (
        f"{cause}: folded on the host, {len(fold.places)} pixels of every block of {fold.step} become "
        f"channels, and the kernel sees {fold.blocks} tap(s) with stride 1"
    )


def _encodable(pad_lo: int, pad_hi: int, reach: int) -> bool:
    """Whether im2col can express an axis: corners -pad_lo and pad_hi - reach, largest offset ``reach``."""
    return -pad_lo in CORNERS and pad_hi - reach in CORNERS and reach <= MAX_OFFSET


def _places_to_channels(folded: np.ndarray, dim: int) -> np.ndarray:
    """(blocks, places, ..., C) to (..., blocks at ``dim``, ..., places * C)."""
    array = np.moveaxis(folded, (0, 1), (dim, -2))
    return array.reshape(*array.shape[:-2], -1)
