"""Bytes that a launch reads and writes, and its memory traffic."""

from __future__ import annotations

import functools
import math

from convc.compiler.index.traffic import Bytes
from convc.host_layout.device_layout import DeviceLayout
from convc.ir.arch import Rates


def launch_bytes(layout: DeviceLayout, rates: Rates) -> Bytes:
    """Count what a launch reads and writes.

    Of rows and columns that no filter tap reads, a copy reads nothing: 411 MB of activations take an H100 154 us where
    all are read, 74 or 76 with a stride of two along one axis, and 39 along both (1x1, pixels of 512 bytes; 188, 99 and
    48 with pixels of 128).
    """
    problem = layout.walked
    return Bytes(
        activation=round(layout.activation.size_bytes * _reached(problem.stride, problem.kernel, problem.dilation)),
        filter=layout.filter.size_bytes,
        residual=0 if layout.residual is None else layout.residual.size_bytes,
        output=layout.output.size_bytes,
        l2=rates.l2_bytes,
    )


def memory_bytes(size: Bytes, grid: tuple[int, int], *, free: bool) -> int:
    """Bytes that a launch moves from and to memory: none where L2 holds all of them from the start.

    CTAs of one column of tiles come after each other. Where what a column reads and writes does not fit in L2, the next
    one reads the activations again. Row by row it is the filter that is read again, where that does not fit.

    Args:
        size: what the launch reads and writes.
        grid: tiles of output pixels and of output channels.
        free: whether rows may come after each other as well, as where the rasterization order is not chosen yet.
    """
    if size.all <= size.l2:
        return 0
    rows, columns = grid
    passing = size.residual + size.output
    by_columns = _again(size.activation, (size.filter + passing) // columns, columns, size.l2) + size.filter
    by_rows = _again(size.filter, (size.activation + passing) // rows, rows, size.l2) + size.activation
    return passing + (min(by_columns, by_rows) if free else by_columns)


def _again(read: int, beside: int, times: int, l2: int) -> int:
    """Bytes read from memory of an operand that is asked for so many times, with others beside it each time."""
    return times * read if read + beside > l2 else read


@functools.lru_cache(maxsize=256)
def _reached(stride: tuple[int, ...], kernel: tuple[int, ...], dilation: tuple[int, ...]) -> float:
    """The part of the activations that filter taps read."""
    return math.prod(
        min(step, len({tap * between % step for tap in range(taps)})) / step
        for step, taps, between in zip(stride, kernel, dilation, strict=True)
    )
