"""Filter columns that are channels (`convc.host_layout.columns`), by the derivation (`convc.derive.columns`).

The kernel runs a convolution with one filter column whose channels are runs. Its own maps say which element of which
row it reads; those of the derivation say which channel of which pixel that is. The host writes the filter by ``run``
too, so both operands hold the same (s, c) at the same element.
"""

from __future__ import annotations

from convc.compiler.index.changes import Fact
from convc.compiler.index.formulas import Instance
from convc.compiler.index.maps import Axis, IndexMap
from convc.derived.numbers import problem_sizes
from convc.ir.problem import ConvProblem

MAPS = ("read", "run", "mapped", "stored")


def column_layout(
    problem: ConvProblem, *, left: int, width: int, pitch: int, strides: tuple[int, ...], run: int
) -> Fact:
    """The layout of a problem of one group and two spatial axes, its columns not yet joined; channels filled up.

    Args:
        problem: over images.
        left, width: padding in front of an image row in the buffer and its pixels, of rows that overlap; width 0: the
            host wrote a row for each output column.
        pitch: elements of such a row.
        strides: of the tensor map, in elements, from output columns on; two where it counts image rows through.
        run: channels that are copied of a row.
    """
    across, down, *image = strides
    steps = {"STEP_Q": across, "STEP_H": down, "STEP_N": image[0] if image else down * problem.in_extent[0]}
    buffer = {"LEFT": left, "WIDTH": width} if width else {"PITCH": pitch}
    name = "columns that overlap" if width else "columns that the host writes"
    return Fact(name, {**problem_sizes(problem), **steps, **buffer, "RUN": run})


def layout_maps(layout: Fact) -> tuple[IndexMap, ...]:
    """The maps of a layout, in reading order."""
    extents = {"n": "N", "h": "H", "q": "Q", "s": "S", "c": "C"}
    axes = {name: Axis(name, layout.sizes[extent]) for name, extent in extents.items()}
    instance = Instance(layout.name, layout.sizes, axes)
    return tuple(instance.map(name, small=False) for name in MAPS)
