"""Layers under the roofs of a chip: operations a second by operations a byte, both on scales of powers.

The slanted roofs are the chip's memory and L2, the flat ones its tensor cores, one for each size of operands in use. A
layer's bytes are those of the buffers that its launch reads and writes, each once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from convc.draw.svg import MARGIN, SHADES, TITLE, Picture, group, line, rect, text, titled
from convc.errors import InputError
from convc.timing.kernel import KernelTime
from convc.timing.parameters import Chip
from convc.timing.tensor_core import SLICE_BYTES, MmaShape, multiply_cycles

WIDTH = 760
HEIGHT = 420
"""Pixels of the plot."""

LEFT = 90
DOT = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class RoofPoint:
    """A layer in the plot.

    Attributes:
        name: of the layer.
        macs: multiply-adds of the convolution.
        element_bits: of its operands.
        kernel: its time.
    """

    name: str
    macs: int
    element_bits: int
    kernel: KernelTime

    @property
    def intensity(self) -> float:
        """Operations for each byte of its operands."""
        operands = self.kernel.operands
        return 2 * self.macs / max(1, operands.read + operands.written)

    @property
    def tflops(self) -> float:
        """Operations in 10^12 a second."""
        return 2e-6 * self.macs / self.kernel.microseconds


def peak_tflops(chip: Chip, element_bits: int) -> float:
    """Dense operations of all tensor cores with operands of a size, in 10^12 a second."""
    shape = MmaShape(m=128, n=256)
    products = shape.m * shape.n * SLICE_BYTES * 8 / element_bits
    return 2e-3 * products / multiply_cycles(shape, chip) * chip["chip.sms"] * chip["chip.clock"]


def roofline_picture(points: Sequence[RoofPoint], chip: Chip) -> Picture:
    """Draw layers, and the roofs of the chip.

    Raises:
        InputError: there is no layer.
    """
    if not points:
        raise InputError("a roofline has layers of a model or of a build folder, and there is none")
    sizes = sorted({point.element_bits for point in points})
    peaks = {bits: peak_tflops(chip, bits) for bits in sizes}
    slopes = {"memory": chip["chip.memory"], "L2": chip["chip.l2"]}
    most = max(*peaks.values(), *(point.tflops for point in points))
    least = min(point.tflops for point in points)
    knee = most / min(slopes.values())
    plot = _Plot(
        low_x=_power(min(point.intensity for point in points) / 2),
        high_x=_power(2 * max(knee, *(point.intensity for point in points))) + 1,
        low_y=_power(least / 2),
        high_y=_power(most) + 1,
    )
    parts = [*plot.axes(), *_roofs(plot, peaks, slopes)]
    for number, point in enumerate(points):
        parts.append(_dot(plot, point, SHADES[number % len(SHADES)], len(points) <= 12))
    title = f"roofline of {chip.name}: {len(points)} layer{'s' if len(points) > 1 else ''}"
    return titled(title, LEFT + WIDTH + 150 + MARGIN, TITLE + HEIGHT + 50, parts)


def _power(value: float) -> int:
    """The power of ten at or below a number."""
    return math.floor(math.log10(max(value, 1e-9)))


@dataclass(frozen=True, slots=True)
class _Plot:
    """A plot between powers of ten."""

    low_x: int
    high_x: int
    low_y: int
    high_y: int

    def x(self, value: float) -> float:
        """Pixels of a number of operations a byte."""
        share = (math.log10(value) - self.low_x) / (self.high_x - self.low_x)
        return LEFT + WIDTH * share

    def y(self, value: float) -> float:
        """Pixels of a number of operations a second."""
        share = (math.log10(value) - self.low_y) / (self.high_y - self.low_y)
        return TITLE + HEIGHT * (1 - share)

    def axes(self) -> Iterator[str]:
        """Lines at the powers of ten, with numbers."""
        for power in range(self.low_x, self.high_x + 1):
            x = self.x(10.0**power)
            yield line(x, TITLE, x, TITLE + HEIGHT)
            yield text(x, TITLE + HEIGHT + 16, f"{10.0**power:g}", "soft mid")
        for power in range(self.low_y, self.high_y + 1):
            y = self.y(10.0**power)
            yield line(LEFT, y, LEFT + WIDTH, y)
            yield text(LEFT - 6, y + 4, f"{10.0**power:g}", "soft end")
        yield text(LEFT + WIDTH / 2, TITLE + HEIGHT + 34, "FLOP/byte of operands and results, each once", "mid")
        yield text(MARGIN, TITLE + HEIGHT / 2 + 4, "TFLOP/s")


def _roofs(plot: _Plot, peaks: dict[int, float], slopes: dict[str, float]) -> Iterable[str]:
    """The roofs with their names; a slope ends at the highest flat roof."""
    top = max(peaks.values())
    right = 10.0**plot.high_x
    for bits, peak in peaks.items():
        tip = f"tensor cores, {bits}-bit operands"
        parts = (
            line(plot.x(peak / max(slopes.values())), plot.y(peak), plot.x(right), plot.y(peak), "mark thick"),
            text(LEFT + WIDTH + 6, plot.y(peak) + 4, f"{bits} bits: {peak:.0f} TFLOP/s"),
        )
        yield group(parts, tip, roof=f"{bits} bits", tflops=f"{peak:.6g}")
    for name, rate in slopes.items():
        first = max(10.0**plot.low_x, 10.0**plot.low_y / rate)
        last = top / rate
        below = rate == min(slopes.values())
        # Words stand below the lowest roof and above the others, two thirds up, where no roof crosses them.
        point = first ** (1 / 3) * last ** (2 / 3)
        x = plot.x(point)
        y = plot.y(point * rate)
        side = 8 if below else -8
        parts = (
            line(plot.x(first), plot.y(first * rate), plot.x(last), plot.y(top), "mark"),
            text(x + side, y + (12 if below else -6), f"{name}: {rate:g} TB/s", "halo" if below else "halo end"),
        )
        yield group(parts, f"{name}: {rate:g} TB/s", roof=name, rate=f"{rate:g}")


def _dot(plot: _Plot, point: RoofPoint, kind: str, named: bool) -> str:
    x = plot.x(point.intensity)
    y = plot.y(point.tflops)
    tip = f"{point.name}: {point.tflops:.3g} TFLOP/s at {point.intensity:.3g} FLOP/byte"
    parts = [rect(x - DOT / 2, y - DOT / 2, DOT, DOT, f"{kind} box", tip)]
    if named:
        parts.append(text(x + DOT, y + 4, point.name, "halo"))
    return group(parts, layer=point.name, intensity=f"{point.intensity:.6g}", tflops=f"{point.tflops:.6g}")
