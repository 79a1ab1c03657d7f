"""Tensor maps as the driver encodes them, read back from their 128 bytes.

NVIDIA does not publish what the bytes mean. The layout was found from 1,600 maps that the driver of an H200 encoded
(`tests/recordings`), of all types of whole bytes, ranks, swizzles, fills and interleaves: every field of each is where
this file says. 32-bit words, little endian:

    0, 1    address of the tensor
    2       bit 0 im2col mode; 1 the second half means nothing; 4..6 rank - 1; 7..10 type; 11..12 interleave; 13..14
            swizzle; 15 NaN fill; 16 rounding to tf32; 17..18 promotion to L2; 21 set by some drivers for small
            tensors, see `convc.gpu.tensormaps`
    3..6    strides of dimensions 1.. in units of 16 bytes, without their upper 4 bits, which are in word 7
    8..12   extents - 1
    13      steps - 1, of 3 bits each; bits 24..31 box of dimension 0, or channels, - 1
    14      box of dimensions 1.. - 1, of 8 bits each; or the lower and the upper corners, 16 bits for those of all axes
    15      pixels - 1
    16, 18  what the driver notes for itself: bytes of a box, and where in shared memory it may begin

CuTe DSL makes maps without a driver: it sets bit 1 of word 2, writes the first 16 words, and leaves in the others what
lay there.

What only sm_100 has (other types of less than a byte, atoms of a swizzle, im2col_w) was not recorded. A bit without a
known meaning is a fault.
"""

from __future__ import annotations

import struct

from convc.errors import MachineFault
from convc.ir.tensormap import CORNER_BITS, Swizzle, TensorMap

TYPES = ("u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f32_ftz", "f64", "bf16", "b4x16")
"""Element types by their number; the last as CuTe DSL has it, which tells of no other type of less than a byte."""

ROUNDED = {"f32": "tf32", "f32_ftz": "tf32_ftz"}
"""Types that round to tf32 where bit 16 says so."""

SWIZZLES: tuple[Swizzle, ...] = ("none", "32B", "64B", "128B")

HALF = 2
"""The bit of word 2 that says that only the first half of the map counts."""

KNOWN = {2: 0x0027FFF3, 13: 0xFF007FFF, 15: 0x3FF, 17: 0, 19: 0, **dict.fromkeys(range(20, 32), 0)}
"""Bits of each word that have a meaning; of words that are not named, all."""


def decode_driver_map(raw: bytes) -> tuple[TensorMap, int]:
    """The map (without buffer and offset) and the global address that 128 bytes of the driver hold.

    Raises:
        MachineFault: these are no such bytes, or some have no known meaning, or the layout is not modelled.
    """
    words = struct.unpack("<32I", raw)
    flags = words[2]
    counted = len(words) // 2 if flags & HALF else len(words)
    unknown = next((at for at, bits in KNOWN.items() if at < counted and words[at] & ~bits), None)
    rank = (flags >> 4 & 7) + 1
    number = flags >> 7 & 15
    if unknown is not None or rank > 5 or number >= len(TYPES):
        at = 2 if unknown is None else unknown
        raise MachineFault(
            f"these 128 bytes are not a tensor map that the simulator can decode: word {at} is {words[at]:#010x}",
            hint="maps can be made by tensormap.replace from 128 zero bytes, or come as parameters of the launch file, "
            "described or as the bytes of a driver for sm_90",
        )
    if interleave := flags >> 11 & 3:
        raise MachineFault(f"the simulator has no interleaved layouts, got {16 * interleave}B")
    im2col = bool(flags & 1)
    dtype = TYPES[number]
    bits = CORNER_BITS.get(rank, 16)
    corners = range(rank - 2) if im2col else range(0)
    return TensorMap(
        mode="im2col" if im2col else "tile",
        buffer="",
        dtype=ROUNDED.get(dtype, dtype) if flags >> 16 & 1 else dtype,
        dims=tuple(words[8 + axis] + 1 for axis in range(rank)),
        strides=tuple((words[3 + axis] | (words[7] >> 4 * axis & 15) << 32) << 4 for axis in range(rank - 1)),
        box=() if im2col else ((words[13] >> 24) + 1, *((words[14] >> 8 * axis & 255) + 1 for axis in range(rank - 1))),
        element_strides=tuple((words[13] >> 3 * axis & 7) + 1 for axis in range(rank)),
        lower=tuple(_signed(words[14] >> bits * axis, bits) for axis in corners),
        upper=tuple(_signed(words[14] >> 16 + bits * axis, bits) for axis in corners),
        channels=(words[13] >> 24) + 1 if im2col else 0,
        pixels=words[15] + 1 if im2col else 0,
        swizzle=SWIZZLES[flags >> 13 & 3],
        fill="nan" if flags >> 15 & 1 else "zero",
    ), words[0] | words[1] << 32


def _signed(value: int, bits: int) -> int:
    low = value & (1 << bits) - 1
    return low - (1 << bits) if low >> bits - 1 else low
