"""A tensor copy done the slow way: one element at a time, from the rules as the PTX manual words them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from convc.ir.tensormap import TensorMap

SPAN = {"32B": 32, "64B": 64}
NAN = bytes([0xF7, 0x7F]) * 4


def shuffle(mode: str, p: int) -> int:
    """Where byte address p of the plain layout really is."""
    match mode:
        case "32B":
            return p ^ (p >> 7 & 1) << 4
        case "64B":
            return p ^ (p >> 7 & 3) << 4
        case "128B":
            return p ^ (p >> 7 & 7) << 4
        case "128B_atom32":
            return p ^ (p >> 7 & 3) << 5
        case "128B_atom32_flip8":
            return p ^ (p >> 7 & 3) << 5 ^ (p >> 7 & 1) << 3
        case "128B_atom64":
            return p ^ (p >> 7 & 1) << 6
        case _:
            return p


def walk(tmap: TensorMap, start: tuple[int, ...], offsets: tuple[int, ...]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """(shared row, position along dimensions 1 and up) of every row that a copy fills."""
    if tmap.mode == "tile":
        ranges = [range(0, box, step) for box, step in zip(tmap.box[1:], tmap.element_strides[1:], strict=True)]
        for row, rest in enumerate(itertools.product(*reversed(ranges))):
            yield row, tuple(c + r for c, r in zip(start, reversed(rest), strict=True))
        return
    wide = tmap.mode != "im2col"
    taps = (offsets[1],) + (0,) * (len(start) - 1) if wide else (*offsets, 0)
    cursor = list(start)
    pixels = {"im2col": tmap.pixels, "im2col_w": tmap.pixels, "im2col_w128": 128}[tmap.mode]
    halo = offsets[0] if wide else 0
    for step in range(pixels + halo):
        position = tuple(c + t for c, t in zip(cursor, taps, strict=True))
        if tmap.mode != "im2col_w128" or step < 128:
            yield step, position
        if tmap.mode == "im2col_w128":
            for group in range(4):
                if 0 <= step - 32 * (group + 1) < halo:
                    yield 128 + 4 * (step - 32 * (group + 1)) + group, position
        for axis in range(1 if wide else len(cursor) - 1):
            cursor[axis] += tmap.element_strides[axis + 1]
            if cursor[axis] < tmap.dims[axis + 1] + tmap.upper[axis]:
                break
            cursor[axis] = tmap.lower[axis]
        else:
            cursor[-1] += tmap.element_strides[-1]


def copy(
    tmap: TensorMap,
    memory: np.ndarray,
    smem: np.ndarray,
    address: int,
    coords: tuple[int, ...],
    offsets: tuple[int, ...] = (),
) -> tuple[int, int, set[int]]:
    """Fill one CTA's shared memory, uint8 (bytes,); the byte count, how many are fill, and the addresses written."""
    size = tmap.element_bytes
    elements = tmap.row_bytes // size
    pitch = 0 if tmap.swizzle == "none" else SPAN.get(tmap.swizzle, 128)
    filled, touched = 0, set()
    for row, position in walk(tmap, coords[1:], offsets):
        inside = all(0 <= p < extent for p, extent in zip(position, tmap.dims[1:], strict=True))
        line = tmap.offset + sum(p * s for p, s in zip(position, tmap.strides, strict=True))
        for x in range(elements):
            channel = coords[0] + x
            if inside and 0 <= channel < tmap.dims[0]:
                value = bytes(memory[line + channel * size : line + (channel + 1) * size])
            else:
                value = NAN[:size] if tmap.fill == "nan" else bytes(size)
                filled += size
            for byte in range(size):
                place = shuffle(tmap.swizzle, address + row * (pitch or elements * size) + x * size + byte)
                smem[place] = value[byte]
                touched.add(place)
    return len(touched), filled, touched
