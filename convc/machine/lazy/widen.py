"""Raw elements to float32, in memory that is used again and in blocks that stay inside a cache."""

from __future__ import annotations

import numpy as np

from convc.machine.base.narrow_formats import table
from convc.machine.tensor_core import formats
from convc.machine.tma.load import TensorLoader

BLOCK = 1 << 16
"""Elements that are widened together."""

OFTEN = 2
"""How often elements are read until all of the tensor is widened at once."""

EXPONENTS = {
    "f16": (np.dtype(np.uint16), 0x7C00),
    "bf16": (np.dtype(np.uint16), 0x7F80),
    "tf32": (np.dtype(np.uint32), 0x7F800000),
    "e5m2": (np.dtype(np.uint8), 0x7C),
    "e4m3": (np.dtype(np.uint8), 0x7F),
}
"""The bits that are all set in an infinity or a NaN, and only there."""

WHOLE = {"u8": 255, "s8": 128}
"""The largest magnitude of a type of whole numbers."""

CODES = {
    "f16": np.dtype(np.int16), "bf16": np.dtype(np.uint16), "tf32": np.dtype(np.uint32), "e4m3": np.dtype(np.uint8),
    "e5m2": np.dtype(np.uint8), "u8": np.dtype(np.uint8), "s8": np.dtype(np.int8),
}  # fmt: skip
"""The formats whose elements can wait, and what their bits are read as to be widened."""


class Workspace:
    """Memory to work in: arrays, each with a name and as large as it ever had to be."""

    def __init__(self) -> None:
        self._arrays: dict[str, np.ndarray] = {}

    def array(self, name: str, size: int, kind: np.dtype) -> np.ndarray:
        """An array (size,) of anything; it lives until the next array of this name, of whatever kind."""
        needed = size * kind.itemsize
        array = self._arrays.get(name)
        if array is None or array.size < needed:
            array = self._arrays[name] = np.empty(needed, np.uint8)
        return array[:needed].view(kind)


def is_finite(loader: TensorLoader, element: str) -> bool:
    """Whether copies of a tensor bring only finite elements."""
    if element in WHOLE:
        return True
    return loader.tmap.fill == "zero" and not loader.any_word(*EXPONENTS[element])


def widened(raw: np.ndarray, element: str, finite: bool, workspace: Workspace) -> np.ndarray:
    """float32 (elements,) of raw elements in a contiguous array; it lives until the next call with this workspace."""
    codes = raw.view(CODES[element])
    return _widened(codes, element, finite, workspace.array("widened", codes.size, np.dtype(np.float32)))


def widened_source(loader: TensorLoader, element: str, finite: bool, size: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Bytes, uint8, of the float32 elements of all that copies of a tensor bring, and of 16 bytes of fill.

    None where that is more work than it saves.

    ``size``: bytes of it that are about to be gathered. Once they are more than it has, those gathered before included,
    elements have been widened twice: filter taps overlap, or all tiles of a filter come back.
    """
    if element not in loader.widened:
        if loader.gathered + size <= OFTEN * loader.source.nbytes:
            return None
        whole, fill = (
            _widened(codes, element, finite, np.empty(codes.size, np.float32)).view(np.uint8)
            for codes in (loader.source.view(CODES[element]), loader.fill[:1].view(CODES[element]))
        )
        loader.widened[element] = whole, fill
    return loader.widened[element]


def _widened(codes: np.ndarray, element: str, finite: bool, out: np.ndarray) -> np.ndarray:
    for low in range(0, codes.size, BLOCK):
        block = codes[low : low + BLOCK]
        if element == "f16" and not finite:
            out[low : low + BLOCK] = formats.widen_f16(block.view(np.uint16))
        else:
            _widen(block, element, out[low : low + BLOCK])
    return out


def _widen(codes: np.ndarray, element: str, out: np.ndarray) -> None:
    """Widen elements of a block: of f16 finite ones alone, of the other types any."""
    if element == "f16":  # as in `formats.widen_f16`: fields into place, then the exponent
        words = out.view(np.int32)
        np.left_shift(codes, 13, out=words, dtype=np.int32, casting="unsafe")
        np.bitwise_and(words, -0x70002000, out=words)
        np.multiply(out, np.float32(2.0**112), out=out)
    elif element == "bf16":
        np.left_shift(codes, 16, out=out.view(np.uint32), dtype=np.uint32, casting="unsafe")
    elif element == "tf32":
        np.bitwise_and(codes, np.uint32(0xFFFFE000), out=out.view(np.uint32))
    elif element in WHOLE:
        np.copyto(out, codes)
    else:
        table(element).take(codes, out=out, mode="clip")
