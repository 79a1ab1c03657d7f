"""Notes on repacking: what it does and what it costs, one sentence each, from the facts of a `DeviceLayout`."""

from __future__ import annotations

import math

from convc.host_layout.block_scaled import CHANNELS, FORMATS
from convc.host_layout.device_layout import DeviceLayout
from convc.host_layout.expand import copies_of
from convc.host_layout.fold import AxisFold
from convc.host_layout.groups import GroupPacking
from convc.host_layout.split_precision import PARTS, PASSES
from convc.host_layout.transposed import ForwardEquivalent
from convc.ir.arch import SM_100A
from convc.ir.problem import AXIS_NAMES, ConvProblem
from convc.support.counted import counted
from convc.support.memory import human_bytes


def layout_notes(layout: DeviceLayout) -> tuple[str, ...]:
    """The sentences, in the order of what the host does."""
    if layout.summed:
        return _summed(layout)
    problem = layout.ordinary
    before = math.prod(problem.x_shape) * problem.operand_dtype.storage.itemsize
    after = layout.activation.size_bytes
    notes = [] if layout.forward is None else [_equivalent(layout.forward, layout.model)]
    notes.append(
        "the host converts activations from NCHW to NHWC: "
        f"{human_bytes(before)} become {human_bytes(after)} ({after / before:.2f}x)"
    )
    notes += _expansion(problem)
    folds = layout.folds if layout.columns == "off" else layout.folds[:-1]
    notes += [_fold(problem, axis, fold) for axis, fold in enumerate(folds) if fold is not None]
    notes += _columns(layout)
    notes += _padding(layout) if layout.packing is None else [_packing(layout.folded, layout.packing)]
    return tuple(notes)


def _summed(layout: DeviceLayout) -> tuple[str, ...]:
    """Pixels that are summed as they lie: nothing is transposed but the result."""
    n, *_, channels = layout.activation.shape
    notes = [
        "x and dy stay in NHWC, without a transposed copy: the tensor core reads both MN-major and sums over "
        f"{layout.filter.shape[0]} pixels of {counted(n, 'image')}"
    ]
    rows = layout.output.shape[-2]
    if rows != layout.model.batch:
        notes.append(f"{layout.model.batch} channels of x padded to {rows} by whole copies; x itself has {channels}")
    return tuple(notes)


def _padding(layout: DeviceLayout) -> list[str]:
    """What rounding channels up to whole 16 bytes costs."""
    problem = layout.problem
    notes: list[str] = []
    channels = problem.in_channels
    if layout.c_pitch != channels:
        notes.append(
            f"{channels} channels padded to {layout.c_pitch} ({layout.c_pitch * problem.operand_dtype.bytes} bytes a "
            f"pixel, a multiple of 16 for the tensor map): {layout.c_pitch / channels:.2f}x activation and filter bytes"
        )
    channels = problem.out_channels
    if layout.k_pitch != channels:
        notes.append(
            f"{channels} output channels padded to {layout.k_pitch} ({layout.k_pitch * problem.out_dtype.bytes} bytes "
            f"a pixel): {layout.k_pitch / channels:.2f}x output bytes"
        )
    return notes


def _fold(problem: ConvProblem, axis: int, fold: AxisFold) -> str:
    """One sentence: why an axis is folded, and into what."""
    name = AXIS_NAMES[problem.rank][axis]
    if problem.rank == 3 and name == "D":
        return (
            f"along D every output plane becomes an image, with the {len(fold.places)} planes that its filter reads as "
            "channels"
        )
    longest = SM_100A.limits.tma_element_stride
    if fold.step > longest:
        cause = f"stride {fold.step} along {name} exceeds {longest}, the maximum of a tensor map"
    else:
        cause = (
            f"along {name} the filter spans {problem.span[axis]} pixels with padding "
            f"({problem.pad_lo[axis]}, {problem.pad_hi[axis]}), which exceeds the corners of an im2col tensor map"
        )
    return (
        f"{cause}: the host folds {len(fold.places)} pixels of every block of {fold.step} into channels, "
        f"and the kernel has {fold.blocks} tap(s) with stride 1"
    )


def _columns(layout: DeviceLayout) -> list[str]:
    """How filter columns became channels, where they did."""
    overlap = layout.overlap
    if layout.columns == "off":
        return []
    columns = layout.base.kernel[-1]
    start = f"the {columns} columns of a filter row are folded into K"
    if overlap is None:
        return [f"{start}: the host copies each pixel once for every column that reads it"]
    step = overlap.step * overlap.channels * layout.problem.operand_dtype.bytes
    return [
        f"{start}: the rows of the tensor map are {columns} pixels of {overlap.channels} channels, {step} bytes apart, "
        f"so that they overlap; image rows have {overlap.width} pixels, padding included"
    ]


def _expansion(problem: ConvProblem) -> list[str]:
    """What the host does besides."""
    notes: list[str] = []
    if problem.pad_value:
        notes.append(f"the host pads the image with {problem.pad_value}, the zero point of the activations")
    fmt = FORMATS.get(problem.operand)
    if fmt is not None:
        pairs = ", two per byte, which counts as one channel of the kernel" if fmt.packed == 2 else ""
        notes.append(
            f"{problem.operand}: {fmt.element} elements{pairs}, and one {fmt.factor} scale factor per {fmt.block} "
            f"channels, stored behind the channels of the pixel; the channels of a group are padded to a multiple of "
            f"{CHANNELS}"
        )
    if problem.operand in PASSES:
        notes.append(
            f"{problem.operand}: float32 is split into {PARTS[problem.operand].name} parts, and the "
            f"{copies_of(problem)} products of parts per term become additional channels"
        )
    elif problem.filter_parts > 1:
        notes.append(
            f"weights minus their zero points exceed 8 bits: each is the sum of {problem.filter_parts} s8 parts, "
            "on copies of the channels"
        )
    return notes


def _packing(problem: ConvProblem, packing: GroupPacking) -> str:
    """One sentence: what is joined, and what share of the multiplications is with zeros."""
    shape = f"{problem.groups} groups of {problem.group_channels} channels"
    useful = problem.out_channels * problem.group_channels
    done = packing.count * packing.k_per_pack * packing.c_per_pack
    share = f"{100 * useful / done:.3g} % of the products are useful, the others are with zeros"
    if packing.count == 1:
        return f"{shape} form one block-diagonal filter: {share}"
    return (
        f"{shape}, {packing.groups} per pack: {packing.count} block-diagonal filters of "
        f"{packing.c_per_pack} x {packing.k_per_pack} channels; {share}"
    )


def _equivalent(equivalent: ForwardEquivalent, model: ConvProblem) -> str:
    """One sentence: what is computed in its place, and what share of the multiplications that wastes."""
    taps = "x".join(map(str, equivalent.problem.kernel))
    share = 100 * _products(model) / equivalent.problem.macs
    done = f"{min(share, 100):.3g} % of its products are useful"
    if equivalent.strategy == "dilated":
        return f"transposed: a {taps} convolution of the dilated input; {done}"
    phases = math.prod(model.stride)
    count = math.prod(axis.count for axis in equivalent.axes)
    those = f"the {phases} phases of the output as channels"
    if count < phases:
        those = f"{count} of {those}; the others have no taps and are zero"
    return f"transposed: a {taps} convolution with stride 1 computes {those}; {done}"


def _products(model: ConvProblem) -> int:
    """Products of the definition: every input pixel with every tap."""
    return model.batch * math.prod(model.in_extent) * model.out_channels * model.gemm_k
