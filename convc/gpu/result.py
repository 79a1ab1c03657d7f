"""Results of a launch on a GPU, beside those of the simulator: byte for byte, or as near as is allowed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from convc.gpu.driver import Device
from convc.gpu.perform import Timing
from convc.ir.tuned import Tuning


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferComparison:
    """A buffer of the GPU beside the simulator's.

    Attributes:
        buffer: its name.
        count: elements.
        differ: elements whose bytes differ.
        wrong: elements that differ by more than is allowed.
        worst: largest difference of numbers; None where nothing differs, or it is no number.
        first: index of the first wrong element, or else of the first that differs; None where none does.
        got, expected: that element on the GPU and on the simulator, as text.
    """

    buffer: str
    count: int
    differ: int
    wrong: int
    worst: float | None
    first: tuple[int, ...] | None
    got: str
    expected: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """A launch on a GPU that came to an end.

    Attributes:
        entry: name of the kernel.
        device: where it ran.
        buffers: every buffer after the (first) launch, with the type and shape of the launch file.
        y: the result (N, K, P, Q), of a layer of a build.
        maps: the tensor maps that the kernel was given, 128 bytes each.
        timing: where launches were timed.
        comparison: with the simulator, buffer by buffer, where that was asked for.
        saved: files that were written, by buffer.
        tuned: of a layer of a build, the tuning record by which its kernel was chosen.
    """

    entry: str
    device: Device
    buffers: Mapping[str, np.ndarray]
    y: np.ndarray | None
    maps: tuple[bytes, ...]
    timing: Timing | None
    comparison: tuple[BufferComparison, ...] | None
    saved: Mapping[str, Path]
    tuned: Tuning | None = None

    @property
    def ok(self) -> bool:
        """Nothing differs by more than is allowed, as far as it was compared."""
        return not any(each.wrong for each in self.comparison or ())

    def __repr__(self) -> str:
        return f"<Launched {self.entry} on {self.device.name}: {'ok' if self.ok else 'wrong'}>"


def compare_buffers(
    name: str, got: np.ndarray, expected: np.ndarray, atol: float = 0.0, rtol: float = 0.0
) -> BufferComparison:
    """Compare a buffer with the simulator's, of the same type and shape.

    Elements with the same bytes agree, NaN too. Of a floating-point type others agree where they differ by at most
    atol + rtol * |expected|, or are both NaN, if one of atol and rtol is not 0.
    """
    width = got.dtype.itemsize
    differ = (got.reshape(-1).view(f"u{width}") != expected.reshape(-1).view(f"u{width}")).reshape(got.shape)
    wrong = differ
    worst = None
    if differ.any() and got.dtype.kind not in "iu":
        with np.errstate(invalid="ignore", over="ignore"):
            left = got.astype(np.float64)
            right = expected.astype(np.float64)
            apart = np.abs(left - right)
            near = (apart <= atol + rtol * np.abs(right)) | (np.isnan(left) & np.isnan(right))
        if atol or rtol:
            wrong = differ & ~near
        finite = apart[differ & np.isfinite(apart)]
        worst = float(finite.max()) if finite.size else None
    shown = wrong if wrong.any() else differ
    first = tuple(int(i) for i in np.unravel_index(int(np.argmax(shown)), got.shape)) if shown.any() else None
    return BufferComparison(
        buffer=name,
        count=got.size,
        differ=int(np.count_nonzero(differ)),
        wrong=int(np.count_nonzero(wrong)),
        worst=worst,
        first=first,
        got="" if first is None else str(got[first]),
        expected="" if first is None else str(expected[first]),
    )
