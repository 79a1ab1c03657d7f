"""Numbers, shapes and convolutions as several reports print them."""

from __future__ import annotations

from convc.ir.epilogue import describe
from convc.ir.problem import ConvProblem
from convc.ir.problem import shape_text as times
from convc.support.counted import counted as counted
from convc.support.memory import human_bytes as human_bytes


def convolution(problem: ConvProblem) -> str:
    """A convolution in a table cell: ``1x64x56x56 * 64x3x3, pad 1 -> 56x56``."""
    parts = [f"{times(problem.x_shape)} * {problem.out_channels}x{times(problem.kernel)}"]
    if problem.transposed:
        parts.append("transposed")
    for word, values, plain in (
        ("stride", problem.stride, 1),
        ("dilation", problem.dilation, 1),
        ("pad", problem.pad_lo + problem.pad_hi, 0),
        ("output padding", problem.output_padding, 0),
    ):
        if any(value != plain for value in values):
            parts.append(f"{word} {values[0] if len(set(values)) == 1 else ','.join(map(str, values))}")
    if problem.groups > 1:
        parts.append(f"{problem.groups} groups")
    then = f", then {describe(problem.epilogue)}" if problem.epilogue else ""
    return f"{', '.join(parts)} -> {times(problem.out_extent)}{then}"


def number(value: float) -> str:
    """A real number in a table: three significant digits."""
    return f"{value:.3g}"


OUT_AXES = {1: "q", 2: "pq", 3: "opq"}
"""Letters of the output's spatial axes by rank; the depth of a volume is o."""


def element_place(element: tuple[int, ...]) -> str:
    """An element of an output, ``n=0, k=1, p=2, q=3``."""
    axes = "nk" + OUT_AXES[len(element) - 2]
    return ", ".join(f"{axis}={index}" for axis, index in zip(axes, element, strict=True))
