"""The encoders of tensor maps (``cuTensorMapEncodeTiled`` and its kin): arguments in, 128 bytes out.

The bytes are the simulator's own (`convc.machine.tma.tensormap_bytes`), with the tensor's address in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from convc.errors import LaunchError
from convc.ir.tensormap import SWIZZLE_SPAN, Swizzle, TensorMap, check
from convc.machine.tma.tensormap_bytes import MODES, encode
from convc.recorder.memory import DeviceMemory

TYPES = (
    "u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f64", "bf16", "f32_ftz", "tf32", "tf32_ftz",
    "b4x16", "b4x16_p64", "b6x16_p32",
)  # fmt: skip
"""By the numbers of ``CUtensorMapDataType``, of which some have no name here."""

HEAD = 4
"""Numbers at the beginning: encoder, type, rank, address."""

TAIL = 9
"""Numbers behind them: interleave, swizzle, promotion, fill, channels, pixels, and three that are free."""


def encoded(numbers: Sequence[int], memory: DeviceMemory) -> bytes:
    """The map that an encoder makes, as libcuda.c hands over its arguments.

    Raises:
        LaunchError: the driver would refuse it, or the tensor leaves its allocation.
    """
    encoder, dtype, rank, address = numbers[:HEAD]
    interleave, swizzle, _, fill, channels, pixels = numbers[HEAD : HEAD + 6]
    if dtype >= len(TYPES) or swizzle >= len(SWIZZLE_SPAN) or fill > 1 or encoder >= len(MODES):
        raise LaunchError(f"tensor map: type {dtype}, swizzle {swizzle}, fill {fill}: one of them is none")
    if interleave:
        raise LaunchError("tensor map: the simulator has no interleaved layouts")
    rest = iter(numbers[HEAD + TAIL :])
    dims, strides, steps = (tuple(next(rest) for _ in range(count)) for count in (rank, rank - 1, rank))
    left = tuple(_signed(number) for number in rest)
    tiled = encoder == 0
    half = len(left) // 2
    held = memory.at(address)
    tmap = TensorMap(
        mode=MODES[encoder],
        buffer="" if held is None else held.name,
        offset=0 if held is None else address - held.address,
        dtype=TYPES[dtype],
        dims=dims,
        strides=strides,
        element_strides=steps,
        box=left if tiled else (),
        lower=() if tiled else left[:half],
        upper=() if tiled else left[half:],
        channels=0 if tiled else channels,
        pixels=0 if tiled else pixels,
        swizzle=cast("Swizzle", list(SWIZZLE_SPAN)[swizzle]),
        fill="nan" if fill else "zero",
    )
    check(tmap, 1 << 62 if held is None else held.bytes.size)  # of no allocation: a map that must not be used
    return encode(tmap, address)


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number
