"""The index arithmetic of a kernel, taken from the proved index maps.

`convc.compiler.index` derives where every tile, lane and tap reads and writes and proves that one im2col copy visits
exactly the pixels of a tile. What is left to compute at run time is here: a few integer expressions, each with the map
it is a result of. This is the last place of the compiler that sees sympy.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sympy import Integer

from convc.compiler.index.conv import ConvMaps, conv_maps
from convc.compiler.index.lower import lower
from convc.compiler.index.maps import IndexMap, Outcome, Proof
from convc.compiler.plan.records import SLAB, Coordinate, Pipeline, Tiling
from convc.compiler.plan.scale_factors import factor_coordinates, prove_factors
from convc.errors import PlanError
from convc.ir import dtypes
from convc.ir.problem import ConvProblem
from convc.layout.device_layout import DeviceLayout


@dataclass(frozen=True, slots=True, kw_only=True)
class Indexing:
    """What the index maps say about a plan: see the fields of the same name of `Plan`."""

    coordinates: tuple[Coordinate, ...]
    derivation: tuple[str, ...]
    row_limit: int | None
    channel_limit: int | None


def indexing_of(layout: DeviceLayout, tiling: Tiling, pipeline: Pipeline) -> Indexing:
    """Derive the maps of a tiling and lower what the kernel computes.

    Raises:
        PlanError: where a claim that the kernel relies on is not proved.
    """
    maps = conv_maps(
        layout.problem,
        block_m=tiling.block_m,
        block_n=tiling.block_n,
        channels_per_step=pipeline.channels,
        c_pitch=layout.c_pitch,
        k_pitch=layout.k_pitch,
    )
    factors = () if layout.blocks is None else (prove_factors(layout, tiling, pipeline),)
    demand_proof(layout.problem, (*maps.proofs, *factors))
    column = next(axis for axis in maps.column.domain if axis.name == "column")
    element = dtypes.BY_NAME[layout.problem.out].bytes
    return Indexing(
        coordinates=(
            result_of(maps.start, "w", "start_w"),
            result_of(maps.start, "h", "start_h"),
            result_of(maps.start, "n", "start_n"),
            Coordinate(
                name="first_k",
                value=lower(maps.column["k"].xreplace({column.symbol: Integer(0)}), maps.column.ranges),
                meaning="first output channel of the tile",
            ),
            *(result_of(maps.step, name, name) for name in ("off_w", "off_h", "tap", "c")),
            *((result_of(maps.slab, "c", SLAB),) if layout.problem.groups > 1 else ()),
            *(() if layout.blocks is None else factor_coordinates(layout, tiling, pipeline)),
            result_of(maps.row, "m", "m"),
            result_of(maps.column, "k", "k"),
            Coordinate(
                name="out_byte",
                value=lower(maps.store["offset"], maps.store.ranges) * element,
                meaning=f"store.offset in bytes of {layout.problem.out}",
            ),
        ),
        derivation=(*_derivation(maps), *map(str, factors)),
        row_limit=layout.problem.gemm_m if maps.row.guard else None,
        channel_limit=layout.k_pitch if maps.column.guard else None,
    )


def demand_proof(problem: ConvProblem, outcomes: Iterable[Outcome]) -> None:
    """PlanError with the first claim that is not proved."""
    for outcome in outcomes:
        if not isinstance(outcome, Proof):
            raise PlanError(
                f"the index maps do not carry this kernel: {outcome}", where=f"convolution {problem.name!r}"
            )


def result_of(index_map: IndexMap, result: str, name: str) -> Coordinate:
    """A result of a map as a number of the kernel."""
    domain = ", ".join(axis.name for axis in index_map.domain)
    return Coordinate(
        name=name, value=lower(index_map[result], index_map.ranges), meaning=f"{result} of {index_map.name}({domain})"
    )


def _derivation(maps: ConvMaps) -> tuple[str, ...]:
    """What was proved, and which conditions were found to hold always."""
    dropped = (f"{name}: no test of {condition} is needed ({reason})" for name, condition, reason in maps.dropped)
    return (*map(str, maps.proofs), *dropped)
