"""How planning depends on the size of the image: a 3x3 filter on 40000x40000 pixels against the same on 56x56."""

from __future__ import annotations

from benchmarks.timing import best
from convc.ir.problem import ConvProblem

REPEATS = 5
"""Plans a measurement, for it to be long enough."""


def measure(selection: str) -> dict[str, float]:
    """Processor time of planning both, in milliseconds, and their ratio; the same for every selection of layers."""
    small, large = _seconds(56), _seconds(40000)
    return {"ms_56": 1000 * small, "ms_40000": 1000 * large, "ratio": large / small}


def _seconds(extent: int) -> float:
    """Seconds of one plan."""
    from convc.compiler.planner.search import plan
    from convc.host_layout.device_layout import device_layout

    problem = ConvProblem(
        in_channels=64, out_channels=64, in_extent=(extent, extent), kernel=(3, 3), pad_lo=(1, 1), pad_hi=(1, 1)
    )
    layout = device_layout(problem)
    plan(layout)  # imports, and what is made once for all problems
    return best(lambda: [plan(layout) for _ in range(REPEATS)]) / REPEATS
