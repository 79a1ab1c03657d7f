"""Tensor maps as calls of the driver's encoders.

Source: CUDA driver API, section Tensor Map Object Management. The names of the arguments and the numbers of the
enumerations are the driver's. Interleaved layouts and promotion to L2 are not used: the launch file has neither.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from convc.ir.tensormap import TensorMap

MAP_BYTES = 128

DATA_TYPES = (
    "u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f64", "bf16", "f32_ftz", "tf32", "tf32_ftz",
    "b4x16", "b4x16_p64", "b6x16_p32",
)  # fmt: skip
"""Element types by their number in CUtensorMapDataType."""

SWIZZLES = ("none", "32B", "64B", "128B", "128B_atom32", "128B_atom32_flip8", "128B_atom64")
"""Swizzles by their number in CUtensorMapSwizzle."""

FILLS = ("zero", "nan")
"""What elements outside read as, by the number in CUtensorMapFloatOOBfill."""

ENCODERS = {
    "tile": "cuTensorMapEncodeTiled",
    "im2col": "cuTensorMapEncodeIm2col",
    "im2col_w": "cuTensorMapEncodeIm2colWide",
    "im2col_w128": "cuTensorMapEncodeIm2colWide",
}
WIDE_MODES = ("im2col_w", "im2col_w128")
"""Modes by their number in CUtensorMapIm2ColWideMode."""

LAST_DRIVER_TO_FIX = 13010
"""Drivers up to CUDA 13.1 encode maps of small tensors wrongly for Blackwell (see `fixed`)."""

SMALL_TENSOR_BYTES = 128 << 10

Value = int | tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodeCall:
    """A call of an encoder, but for the address of the tensor.

    Attributes:
        function: name of the driver's function.
        before: arguments in front of ``globalAddress``, by name, in order.
        after: arguments behind it.
        buffer, offset: where the tensor begins.
        tensor_bytes: bytes from its first to its last element.
    """

    function: str
    before: tuple[tuple[str, Value], ...]
    after: tuple[tuple[str, Value], ...]
    buffer: str
    offset: int
    tensor_bytes: int


def encode_call(tmap: TensorMap) -> EncodeCall:
    """The call that encodes a map, which `convc.ir.tensormap.check` let pass."""
    tensor: list[tuple[str, Value]] = [("globalDim", tmap.dims), ("globalStrides", tmap.strides)]
    layout: list[tuple[str, Value]] = [
        ("interleave", 0),
        ("swizzle", SWIZZLES.index(tmap.swizzle)),
        ("l2Promotion", 0),
        ("oobFill", FILLS.index(tmap.fill)),
    ]
    steps: tuple[str, Value] = ("elementStrides", tmap.element_strides)
    match tmap.mode:
        case "tile":
            own: list[tuple[str, Value]] = [("boxDim", tmap.box), steps]
        case "im2col":
            own = [
                ("pixelBoxLowerCorner", tmap.lower),
                ("pixelBoxUpperCorner", tmap.upper),
                ("channelsPerPixel", tmap.channels),
                ("pixelsPerColumn", tmap.pixels),
                steps,
            ]
        case _:
            own = [
                ("pixelBoxLowerCornerWidth", tmap.lower[0]),
                ("pixelBoxUpperCornerWidth", tmap.upper[0]),
                ("channelsPerPixel", tmap.channels),
                ("pixelsPerColumn", tmap.pixels),
                steps,
            ]
            layout.insert(1, ("mode", WIDE_MODES.index(tmap.mode)))
    return EncodeCall(
        function=ENCODERS[tmap.mode],
        before=(("tensorDataType", DATA_TYPES.index(tmap.dtype)), ("tensorRank", tmap.rank)),
        after=(*tensor, *own, *layout),
        buffer=tmap.buffer,
        offset=tmap.offset,
        tensor_bytes=tmap.tensor_bytes,
    )


def fixed(encoded: bytes, tensor_bytes: int, driver_version: int) -> bytes:
    """A map as the hardware must have it: bit 21 of the second 64-bit word is cleared where the driver is known to err.

    Drivers up to CUDA 13.1 set it for tensors of less than 128 KiB too, and Blackwell then takes wrong addresses for
    elements outside. Source: the same correction in CUTLASS (include/cute/atom/copy_traits_sm90_tma.hpp), which calls
    the bit reserved on Hopper, and in Triton's launcher. On an H200 the driver never set it (1000 recorded maps).

    Args:
        encoded: 128 bytes of an encoder.
        tensor_bytes: bytes from the first to the last element of the tensor.
        driver_version: as of ``cuDriverGetVersion``: 13010 is CUDA 13.1.
    """
    if driver_version > LAST_DRIVER_TO_FIX or tensor_bytes >= SMALL_TENSOR_BYTES:
        return encoded
    words = list(struct.unpack("<16Q", encoded))
    words[1] &= ~(1 << 21)
    return struct.pack("<16Q", *words)
