"""Contents of buffers before a launch: those given, small whole numbers of a seed, or poison.

Drawn numbers are -3 to 3 (0 to 6 for unsigned types), which every type has, so that most sums of their products are
exact and do not depend on their order. Element i is the value of number ``mix(seed + i + 1) % 7``, where mix is the
finaliser of splitmix64 (Steele, Lea and Flood, OOPSLA 2014): a program in any language can draw the same
(`convc.gpu.host_program`).
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping

import numpy as np

from convc.errors import LaunchError
from convc.ir.dtypes import ARRAY_TYPES
from convc.ir.launch import BufferSpec, LaunchSpec

POISON = 0xFF
"""The byte that a buffer without contents is full of, on the simulator too."""

VALUES = 7
GAMMA = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


def buffer_seed(seed: int, name: str) -> int:
    """The start of a buffer's numbers: 64 bits that differ between buffers and seeds."""
    return ((seed + 1) * GAMMA + (zlib.crc32(name.encode()) << 32)) & _MASK


def values_of(dtype: str) -> np.ndarray:
    """The seven values of a type that are drawn, as an array of that type."""
    kind = ARRAY_TYPES[dtype]
    least = 0 if kind.kind == "u" else -3
    return np.arange(least, least + VALUES).astype(kind)


def drawn(spec: BufferSpec, name: str, seed: int) -> np.ndarray:
    """Numbers of a seed, with the type and shape of a buffer."""
    count = int(np.prod(spec.shape, dtype=np.int64))
    mixed = _mix(np.arange(1, count + 1, dtype=np.uint64) + np.uint64(buffer_seed(seed, name)))
    return values_of(spec.dtype)[(mixed % np.uint64(VALUES)).astype(np.intp)].reshape(spec.shape)


def _mix(z: np.ndarray) -> np.ndarray:
    """The finaliser of splitmix64, of uint64 numbers; it wraps around, as arrays of numpy do."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def filled(launch: LaunchSpec, given: Mapping[str, np.ndarray], seed: int | None) -> dict[str, np.ndarray]:
    """The contents of a launch's buffers: those given, and with a seed drawn numbers for all others.

    Raises:
        LaunchError: an array is given for no buffer, or has another size.
    """
    for name, array in given.items():
        spec = launch.buffers.get(name)
        if spec is None:
            known = f"its buffers: {', '.join(launch.buffers)}"
            raise LaunchError(f"buffer {name!r} is not in the launch file", hint=known)
        if array.nbytes != spec.size_bytes:
            raise LaunchError(
                f"buffer {name!r} takes {spec.dtype} {list(spec.shape)} ({spec.size_bytes} bytes), "
                f"got {array.dtype} {list(array.shape)} ({array.nbytes} bytes)"
            )
    if seed is None:
        return dict(given)
    return {name: given[name] if name in given else drawn(spec, name, seed) for name, spec in launch.buffers.items()}


def listed(launch: LaunchSpec) -> dict[str, np.ndarray]:
    """The contents of buffers whose elements stand in the launch file, where these are numbers alone."""
    found: dict[str, np.ndarray] = {}
    for name, spec in launch.buffers.items():
        numbers = [value for value in spec.values or () if isinstance(value, int)]
        if spec.values is not None and len(numbers) == len(spec.values):
            found[name] = np.array(numbers, ARRAY_TYPES[spec.dtype]).reshape(spec.shape)
    return found


def digest(array: np.ndarray) -> str:
    """16 hexadecimal digits that stand for an array's bytes, the same as an emitted host program prints.

    The sum of ``mix(word i ^ mix(i + 1))`` over 64-bit words, the last filled up with zeros: it tells arrays apart that
    differ by mistake, and is no protection against anybody.
    """
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    words = np.zeros(-(-data.size // 8), np.uint64)
    words.view(np.uint8)[: data.size] = data
    places = _mix(np.arange(1, words.size + 1, dtype=np.uint64))
    return f"{int(_mix(words ^ places).sum(dtype=np.uint64)):016x}"
