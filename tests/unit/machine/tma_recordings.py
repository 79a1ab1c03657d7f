"""Reads the recorded tensor copies (see tests/recordings/README.md)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from convc.ir.tensormap import TensorMap

FOLDER = Path(__file__).resolve().parents[2] / "recordings"
TYPES = ("u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f64", "bf16", None, "tf32")
SWIZZLES = ("none", "32B", "64B", "128B")
SPECIAL = 63 << 20
UNTOUCHED = 0xCD


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One recorded case: what was asked, how it ended, and the shared memory after it."""

    tag: str
    tmap: TensorMap
    coords: tuple[int, ...]
    offsets: tuple[int, ...]
    bytes: int
    address: int
    status: int
    smem: np.ndarray


@lru_cache(maxsize=1)
def global_memory() -> np.ndarray:
    """uint8 (64 MiB,), read-only: the recorder's global memory."""
    size, multiplier, step = 1 << 24, 1664525, 1013904223
    words = np.empty(size, np.uint32)
    words[0] = (12345 * multiplier + step) % 2**32
    known = 1
    while known < size:  # the generator advanced by `known` is x -> multiplier * x + step
        words[known : 2 * known] = words[:known] * np.uint32(multiplier) + np.uint32(step)
        multiplier, step = multiplier * multiplier % 2**32, (multiplier * step + step) % 2**32
        known *= 2
    special = words[SPECIAL // 4 :]
    number = np.arange(special.size)
    ties, infinite, subnormal, huge = (number % 4 == i for i in range(4))
    special[ties] = (special[ties] & np.uint32(0xFFFFE000)) | np.uint32(0x1000)
    special[infinite] = (special[infinite] & np.uint32(0x807FFFFF)) | np.uint32(0x7F800000)
    special[infinite & (number >= 131072)] &= np.uint32(0xFF800000)
    special[subnormal] &= np.uint32(0x807FFFFF)
    special[huge] = (special[huge] & np.uint32(0x80000FFF)) | np.uint32(0x7F7FF000)
    words.flags.writeable = False
    return words.view(np.uint8)


def read(name: str, address_fields: bool) -> list[Case]:
    """All cases of one file; ``address_fields``: a line ends with shared offset, global offset, encode-only."""
    with np.load(FOLDER / name) as stored:
        data = {key: stored[key] for key in stored.files}
    tags = data.get("tags", ["copy"] * len(data["cases"]))
    starts = np.concatenate([[0], data["ends"][:-1]])
    cases = []
    for line, tag, status, start, end in zip(data["cases"], tags, data["status"], starts, data["ends"], strict=True):
        numbers = [int(word) for word in line.split()]
        tail = (numbers.pop(-3), numbers.pop(-2), numbers.pop(-1)) if address_fields else (0, 0, 0)
        cases.append(_case(numbers, str(tag), int(status), data["smem"][start:end], *tail[:2]))
    return cases


def _case(numbers: list[int], tag: str, status: int, smem: np.ndarray, address: int, offset: int) -> Case:
    _, im2col, rank, _, dtype, swizzle, fill = numbers[:7]
    rest = iter(numbers[7:])

    def take(count: int) -> tuple[int, ...]:
        return tuple(next(rest) for _ in range(count))

    dims, strides, box = take(rank), take(rank - 1), take(2 if im2col else rank)
    steps, coords = take(rank), take(rank)
    lower, upper, offsets = (take(rank - 2 if im2col else 0) for _ in range(3))
    tmap = TensorMap(
        mode="im2col" if im2col else "tile",
        buffer="g",
        offset=offset,
        dtype=TYPES[dtype],
        dims=dims,
        strides=strides,
        element_strides=steps,
        swizzle=SWIZZLES[swizzle],
        fill="nan" if fill else "zero",
        **({"channels": box[0], "pixels": box[1], "lower": lower, "upper": upper} if im2col else {"box": box}),
    )
    return Case(
        tag=tag,
        tmap=tmap,
        coords=coords,
        offsets=offsets,
        bytes=next(rest),
        address=address,
        status=status,
        smem=smem,
    )
