"""The formulas of `convc.derive.hosted`, of convolutions that the host turns into others, with numbers or arrays.

Phases of transposed convolutions, folded axes, rows and planes: whoever lays out arrays of a model has its formulas
from here, and from nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from convc.derived.record import derived
from convc.ir.problem import ConvProblem

PHASES = "phases of a transposed convolution"
CHANNELS = "channels of phases"
SPREAD = "input of a transposed convolution, spread out"
FOLDED = "a folded axis"
OWN = "channels for every tap"
PLANES = "planes of a volume"
LINES = "rows as images"
"""Facts, by their names."""


def axis_sizes(problem: ConvProblem, axis: int) -> dict[str, int]:
    """The numbers of one spatial axis, by the names of their sizes."""
    return {
        "U": problem.stride[axis],
        "D": problem.dilation[axis],
        "PAD": problem.pad_lo[axis],
        "S": problem.kernel[axis],
    }


def hosted(fact: str, name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Results of a map, by their names.

    Args:
        fact, name: of the map.
        values: of sizes, integers; of axes integers, integer arrays, which are broadcast, or index expressions.
    """
    found = derived()
    results = found.facts[fact].maps[name].results
    return {result: found.expressions[formula].value(values) for result, formula in results}


def numbered(outer: Any, count: int, inner: Any) -> Any:
    """The number of (outer, inner), of `count` inner ones; values as of `hosted`."""
    return hosted(CHANNELS, "number", {"COUNT": count, "outer": outer, "inner": inner})["number"]


def digits(number: Any, count: int) -> tuple[Any, Any]:
    """The inverse of `numbered`: outer and inner one."""
    found = hosted(CHANNELS, "digits", {"COUNT": count, "number": number})
    return found["outer"], found["inner"]
