"""The maps of a problem and the way to cut it, in one call."""

from __future__ import annotations

from convc.compiler.index.geometry import geometry_of
from convc.compiler.index.reuse import ReuseMaps, reuse_maps
from convc.ir.problem import ConvProblem


def cut_maps(problem: ConvProblem, **geometry) -> ReuseMaps:
    """The maps of `problem`, not proved; `cut`: as of `geometry`."""
    return reuse_maps(problem, geometry_of(problem, **geometry))
