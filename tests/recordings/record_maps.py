"""Asks the driver for the 128 bytes of tensor maps of every type, mode, swizzle, fill, interleave and promotion.

    python tests/recordings/record_maps.py maps.json

Needs a GPU with its driver, and nothing beside Python. Nothing is launched: the encoders do not look at memory.
"""

from __future__ import annotations

import ctypes
import json
import random
import sys
from typing import Any

MAPS = 600
MOST = 200 << 10
"""Bytes of a box."""
SIZES = (1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4)
"""Bytes of an element, by its type's number in CUtensorMapDataType."""


def drawn(rng: random.Random, number: int) -> dict[str, Any]:
    """The arguments of an encoder, but for those that follow from others."""
    im2col = number % 3 == 2
    rank = rng.randint(3, 5) if im2col else rng.randint(1, 5)
    dtype = number % len(SIZES)
    size = SIZES[dtype]
    interleave = 0 if rank < 3 or rng.random() < 0.8 else rng.randint(1, 2)
    dims = [rng.randint(1, 40) for _ in range(rank)]
    dims[rng.randrange(rank)] = rng.randint(1, 1 << 24)
    strides: list[int] = []
    least = dims[0] * size
    for dim in dims[1:]:
        strides.append((least + 31) // 32 * 32 + rng.choice((0, 32, 1 << 12)))
        least = strides[-1] * dim
    swizzle = rng.choice((0, 1, 2, 3, 3, 4, 5, 6))
    row = rng.randint(1, (16, 2, 4, 8, 8, 8, 8)[swizzle]) * 16  # bytes
    room = MOST // row
    box = [row // size]
    for _ in dims[1:]:
        box.append(rng.randint(1, min(256, room)))
        room //= box[-1]
    limit = {3: 32767, 4: 127, 5: 15}.get(rank, 0)
    corners = [[rng.randint(-limit - 1, limit) for _ in range(rank - 2)] for _ in range(2)]
    return {
        "im2col": im2col,
        "dtype": dtype,
        "rank": rank,
        "address": rng.randrange(0, 1 << 47, 32),
        "dims": dims,
        "strides": strides,
        "lower": corners[0] if im2col else [],
        "upper": corners[1] if im2col else [],
        "channels": row // size if im2col else 0,
        "pixels": rng.randint(1, min(1024, MOST // row)) if im2col else 0,
        "box": [] if im2col else box,
        "steps": [rng.randint(1, 8) for _ in range(rank)],
        "interleave": interleave,
        "swizzle": swizzle,
        "promotion": rng.randrange(4),
        "fill": int(dtype in (6, 7, 8, 9, 10, 11, 12) and rng.random() < 0.5),
    }


def encode(cuda: ctypes.CDLL, asked: dict[str, Any]) -> str | None:
    """The driver's 128 bytes in hexadecimal, or None where it refuses."""
    raw = ctypes.create_string_buffer(256)
    place = (ctypes.addressof(raw) + 63) & ~63
    rank = asked["rank"]
    front = [
        ctypes.c_void_p(place),
        ctypes.c_int(asked["dtype"]),
        ctypes.c_uint(rank),
        ctypes.c_void_p(asked["address"]),
        (ctypes.c_uint64 * rank)(*asked["dims"]),
        (ctypes.c_uint64 * max(1, rank - 1))(*asked["strides"]),
    ]
    steps = (ctypes.c_uint32 * rank)(*asked["steps"])
    behind = [ctypes.c_int(asked[name]) for name in ("interleave", "swizzle", "promotion", "fill")]
    if asked["im2col"]:
        corners = [(ctypes.c_int * (rank - 2))(*asked[name]) for name in ("lower", "upper")]
        sizes = [ctypes.c_uint(asked[name]) for name in ("channels", "pixels")]
        refused = cuda.cuTensorMapEncodeIm2col(*front, *corners, *sizes, steps, *behind)
    else:
        refused = cuda.cuTensorMapEncodeTiled(*front, (ctypes.c_uint32 * rank)(*asked["box"]), steps, *behind)
    return None if refused else ctypes.string_at(place, 128).hex()


def main(file: str) -> None:
    """Record until there are enough maps."""
    cuda = ctypes.CDLL("libcuda.so.1")
    device = ctypes.c_int()
    context = ctypes.c_void_p()  # without one the encoders answer 201
    assert cuda.cuInit(0) == cuda.cuDeviceGet(ctypes.byref(device), 0) == 0
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == cuda.cuCtxSetCurrent(context) == 0
    rng = random.Random(20261126)
    found: list[dict[str, Any]] = []
    number = 0
    while len(found) < MAPS and number < 50 * MAPS:
        asked = drawn(rng, number)
        raw = encode(cuda, asked)
        number += 1
        if raw is not None:
            found.append({**asked, "raw": raw})
    version = ctypes.c_int()
    cuda.cuDriverGetVersion(ctypes.byref(version))
    with open(file, "w", encoding="ascii") as out:
        json.dump({"driver": version.value, "asked": number, "maps": found}, out)


if __name__ == "__main__":
    main(sys.argv[1])
