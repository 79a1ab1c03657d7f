r"""Numbers of few bits, with a scale factor for each block of channels: mxfp8, mxfp4 and nvfp4.

    ======  ========  =====  ==============  ================  =========================================
    name    elements  block  scale factors   kind              factor of a block with the largest |x| m
    ======  ========  =====  ==============  ================  =========================================
    mxfp8   e4m3      32     ue8m0 (2^e)     mxf8f6f4          2^(floor(log2 m) - 8)
    mxfp4   e2m1      32     ue8m0           mxf4              2^(floor(log2 m) - 2)
    nvfp4   e2m1      16     ue4m3           mxf4nvf4          ue4m3(m / (6 t)), t of the whole tensor
    ======  ========  =====  ==============  ================  =========================================

A block is that many neighbouring channels of one pixel, or of one tap of a filter, so that the scale factors of an MMA
row are those of the pixel that the row holds: they are fetched like the pixel. An element is x over its factor, to
nearest, ties to even, and cut to the largest number of its type. t, of nvfp4 alone, is a power of two, the smallest
with which no factor is above 448: activations and filters have one each, and the kernel multiplies its sums by both.

Groups have their own blocks: the channels of each are filled up with zeros to a multiple of `CHANNELS`. A block with an
infinity or a NaN has a factor that is NaN, and so are all results that it takes part in.

Sources: OCP, "Microscaling Formats (MX) Specification" 1.0, sections 5.2 and 6.3 (mxfp8, mxfp4); NVIDIA, "Pretraining
Large Language Models with NVFP4", arXiv 2509.25149, appendix B (nvfp4, whose t need not be a power of two there).
"""

from __future__ import annotations

import math

import ml_dtypes
import msgspec
import numpy as np

from convc.ir import dtypes
from convc.ir.problem import ConvProblem

CHANNELS = 32
"""Channels of a group come in multiples of this: one block, or two, and 16 bytes of the smallest elements."""
NAN_FACTOR = {"ue8m0": 0xFF, "ue4m3": 0x7F}
"""The code of NaN by type of scale factors."""
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
"""The magnitudes of e2m1, by code."""
_TIES = (E2M1[1:] + E2M1[:-1]) / 2
_TIES[1::2] = np.nextafter(_TIES[1::2], 0)  # ties go to the even code: from an odd one up, from an even one down
UE8M0_BIAS = 127
"""A code e of ue8m0 stands for 2^(e - 127)."""


class BlockFormat(msgspec.Struct, frozen=True, kw_only=True):
    """A block-scaled type.

    Attributes:
        name: in `ConvProblem.operand`.
        element: e4m3 or e2m1.
        block: elements with one scale factor.
        factor: type of the scale factors, ue8m0 or ue4m3.
        packed: elements in a byte.
        size: the qualifier of tcgen05.mma that says how many factors a row has.
        largest, smallest: largest number and smallest normal number of the elements.
        tensor: whether the tensor has a scale as well.
    """

    name: str
    element: str
    block: int
    factor: str
    packed: int
    size: str
    largest: float
    smallest: float
    tensor: bool = False

    @property
    def factor_bytes(self) -> int:
        """Bytes of elements that one factor is for."""
        return self.block // self.packed

    @property
    def unit_roundoff(self) -> float:
        """Largest error of an element relative to the largest one of its block, which may be cut by that much."""
        return 2.0**-3 if self.element == "e4m3" else 2.0**-2


FORMATS = {
    fmt.name: fmt
    for fmt in (
        BlockFormat(
            name="mxfp8",
            element="e4m3",
            block=32,
            factor="ue8m0",
            packed=1,
            size="scale_vec::1X",
            largest=448.0,
            smallest=2.0**-6,
        ),
        BlockFormat(
            name="mxfp4",
            element="e2m1",
            block=32,
            factor="ue8m0",
            packed=2,
            size="scale_vec::2X",
            largest=6.0,
            smallest=1.0,
        ),
        BlockFormat(
            name="nvfp4",
            element="e2m1",
            block=16,
            factor="ue4m3",
            packed=2,
            size="scale_vec::4X",
            largest=6.0,
            smallest=1.0,
            tensor=True,
        ),
    )
}
"""By name."""


class Blocks(msgspec.Struct, frozen=True, kw_only=True):
    """A quantised tensor.

    Attributes:
        elements: codes, uint8 (N, C', *extent); C' as `filled_channels` says.
        factors: codes of the scale factors, uint8 (N, C' / block, *extent).
        tensor: the scale of the tensor, a power of two; 1 where the format has none.
    """

    elements: np.ndarray
    factors: np.ndarray
    tensor: float


def filled_channels(channels: int, groups: int = 1) -> int:
    """Channels with those that fill up each group."""
    return groups * -(-channels // (groups * CHANNELS)) * CHANNELS


def quantise(fmt: BlockFormat, array: np.ndarray, groups: int = 1, tensor: float | None = None) -> Blocks:
    """Numbers (N, C, *extent) of any real type, in blocks along axis 1.

    Args:
        tensor: the scale of the tensor that the array is a part of; None: it is all of it.
    """
    array = np.asarray(array)
    count, channels, *extent = array.shape
    own = filled_channels(channels, groups) // groups
    whole = np.zeros((count, groups, own, *extent))
    whole[:, :, : channels // groups] = array.reshape(count, groups, -1, *extent)
    blocks = whole.reshape(count, -1, fmt.block, *extent)
    finite = np.isfinite(blocks).all(axis=2, keepdims=True)
    blocks = np.where(finite, blocks, 0.0)
    most = np.abs(blocks).max(axis=2, keepdims=True)
    tensor = tensor_scale(fmt, array) if tensor is None else tensor
    factors = np.where(finite, _factors(fmt, most / tensor), np.uint8(NAN_FACTOR[fmt.factor]))
    scale = factor_values(fmt, factors) * tensor
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(finite & (scale > 0), blocks / scale, 0.0)
    elements = _elements(fmt, ratio)
    shape = (count, groups * own, *extent)
    return Blocks(elements=elements.reshape(shape), factors=factors.reshape(count, -1, *extent), tensor=tensor)


def dequantise(fmt: BlockFormat, blocks: Blocks, channels: int, groups: int = 1, *, floors: bool = False) -> np.ndarray:
    """The numbers that blocks stand for, float64 (N, channels, *extent).

    Args:
        floors: their magnitudes instead, each element and each factor other than zero at least as large as the smallest
            normal number of its type.
    """
    values = element_values(fmt, blocks.elements)
    factors = factor_values(fmt, blocks.factors)
    if floors:
        values = np.where(values != 0, np.maximum(np.abs(values), fmt.smallest), 0.0)
        least = dtypes.E4M3.min_normal if fmt.factor == "ue4m3" else 0.0
        factors = np.where(factors > 0, np.maximum(factors, least), factors)
    count, _, *extent = values.shape
    scaled = values.reshape(count, -1, fmt.block, *extent) * factors[:, :, None] * blocks.tensor
    own = channels // groups
    return scaled.reshape(count, groups, -1, *extent)[:, :, :own].reshape(count, channels, *extent)


def tensor_scale(fmt: BlockFormat, array: np.ndarray) -> float:
    """The scale of a whole tensor: a power of two, 1 where the format has none or the tensor has no number."""
    if not fmt.tensor:
        return 1.0
    most = float(np.max(np.abs(array), initial=0.0, where=np.isfinite(array)))
    if most == 0:
        return 1.0
    fraction, exponent = math.frexp(most / (fmt.largest * dtypes.E4M3.max_finite))
    return 2.0 ** (exponent - (fraction == 0.5))


def bytes_of(fmt: BlockFormat, blocks: Blocks) -> tuple[np.ndarray, np.ndarray]:
    """Elements and factors as bytes, (N, C' / packed, *extent) and (N, C' / block, *extent); even channels below."""
    elements = blocks.elements
    if fmt.packed == 2:
        elements = elements[:, 0::2] | elements[:, 1::2] << 4
    return elements, blocks.factors


def filter_blocks(problem: ConvProblem, w: np.ndarray) -> Blocks:
    """The blocks of filters as `ConvProblem.w_shape` has them, as (K, C/G, *kernel) also where it is transposed."""
    return quantise(FORMATS[problem.operand], _output_first(problem, w))


def as_multiplied(
    problem: ConvProblem, x: np.ndarray, w: np.ndarray, *, floors: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """What the tensor core multiplies in place of x and w, float64 of the same shapes; themselves for other types.

    Args:
        floors: magnitudes, as of `dequantise`.
    """
    fmt = FORMATS.get(problem.operand)
    if fmt is None:
        return x, w
    pixels = dequantise(fmt, quantise(fmt, x, problem.groups), x.shape[1], problem.groups, floors=floors)
    taps = dequantise(fmt, filter_blocks(problem, w), problem.group_channels, floors=floors)
    return pixels, as_filters(problem, taps)


def element_values(fmt: BlockFormat, codes: np.ndarray) -> np.ndarray:
    """The values of element codes, float64."""
    if fmt.element == "e4m3":
        return codes.view(dtypes.E4M3.storage).astype(np.float64)
    return np.where(codes & 8, -1.0, 1.0) * E2M1[codes & 7]


def factor_values(fmt: BlockFormat, codes: np.ndarray) -> np.ndarray:
    """The values of factor codes, float64."""
    if fmt.factor == "ue4m3":
        return codes.view(dtypes.E4M3.storage).astype(np.float64)
    return codes.view(ml_dtypes.float8_e8m0fnu).astype(np.float64)


def _factors(fmt: BlockFormat, most: np.ndarray) -> np.ndarray:
    """Codes of the factors of blocks whose largest magnitudes are given, uint8 of the same shape."""
    if fmt.factor == "ue4m3":
        return dtypes.encode(dtypes.E4M3, most / fmt.largest).view(np.uint8)
    exponent = np.frexp(most)[1] - 1 - int(math.log2(fmt.largest))  # floor(log2 m) - floor(log2 largest)
    code = np.clip(exponent + UE8M0_BIAS, 0, 2 * UE8M0_BIAS)
    return np.where(most > 0, code, 0).astype(np.uint8)


def _elements(fmt: BlockFormat, ratio: np.ndarray) -> np.ndarray:
    """Codes of numbers, uint8 of the same shape: to nearest, ties to even, cut to the largest."""
    if fmt.element == "e4m3":
        return dtypes.encode(dtypes.E4M3, np.clip(ratio, -fmt.largest, fmt.largest)).view(np.uint8)
    codes = np.searchsorted(_TIES, np.abs(ratio)).astype(np.uint8)
    return codes | np.signbit(ratio).astype(np.uint8) << 3


def as_filters(problem: ConvProblem, taps: np.ndarray) -> np.ndarray:
    """Filters (K, C/G, *kernel) as `ConvProblem.w_shape` has them."""
    if not problem.transposed:
        return taps
    grouped = taps.reshape(problem.groups, -1, problem.group_channels, *problem.kernel)
    return grouped.swapaxes(1, 2).reshape(problem.w_shape)


def _output_first(problem: ConvProblem, w: np.ndarray) -> np.ndarray:
    """The inverse of `as_filters`: filters of any problem as (K, C/G, *kernel)."""
    if not problem.transposed:
        return w
    grouped = w.reshape(problem.groups, problem.group_channels, -1, *problem.kernel)
    return grouped.swapaxes(1, 2).reshape(problem.out_channels, problem.group_channels, *problem.kernel)
