"""Results and residuals of a stream that go through tensor copies: their maps, and where the copies begin.

Where rows of the stream are those of the output, lanes are consecutive output pixels, and a copy takes those of a warp.
Else each lane names its pixel, if it has one; a residual is then read by copies that walk through the stream's box.
"""

from __future__ import annotations

import msgspec

from convc.compiler.index.conditions import met
from convc.compiler.index.formulas import Instance
from convc.compiler.index.geometry import Geometry
from convc.compiler.index.maps import Outcome
from convc.compiler.index.reuse import ReuseMaps
from convc.compiler.index.row_results import (
    consecutive,
    consecutive_lanes,
    first_pixel,
    result_box,
    walked_lanes,
)
from convc.compiler.plan.coordinates import Coordinate
from convc.compiler.plan.offer import Candidate
from convc.compiler.plan.residual_tile import residual_map
from convc.compiler.plan.result_tile import LINES, result_map, result_pixels, stream_map
from convc.compiler.plan.results import demand_proof, result_of
from convc.compiler.schedules.base import DIRECT, TMA, Ways
from convc.host_layout.device_layout import DeviceLayout
from convc.ir.arch import Arch
from convc.ir.epilogue import accumulates
from convc.ir.tensormap import TensorMap


class StagedResults(msgspec.Struct, frozen=True, kw_only=True):
    """The copies of results and of a residual, as far as a kernel has them.

    Attributes:
        out, residual: the maps over both.
        first_m, first_pixel: as of `RowCoordinates`.
        proofs: claims about them.
    """

    out: TensorMap | None = None
    residual: TensorMap | None = None
    first_m: Coordinate | None = None
    first_pixel: tuple[Coordinate, ...] = ()
    proofs: tuple[Outcome, ...] = ()


def not_copied(geometry: Geometry, layout: DeviceLayout, arch: Arch, ways: Ways) -> str | None:
    """Give the reason why results cannot leave in one way, or a residual cannot arrive in it; None where both can.

    Args:
        geometry: the way in which the output is cut.
        layout, arch: the problem and the target.
        ways: of results and residual.
    """
    if ways.store == DIRECT:
        return None
    if consecutive(layout.problem, geometry):
        return result_pixels(layout, arch)
    if arch.tensor_core != "tcgen05":
        return (
            f"the lanes of a warp are no consecutive output pixels, and {arch.name} has no copy that takes each line "
            "to a pixel of its own (tile::scatter4)"
        )
    if ways.residual_load == TMA and accumulates(layout.problem.epilogue):
        return "copies of a residual bring pixels of other tiles too, and other CTAs write these in place"
    box = result_box(layout.problem, geometry) if ways.residual_load == TMA else None
    return box if isinstance(box, str) else result_pixels(layout, arch)


def line_copies(geometry: Geometry, layout: DeviceLayout, arch: Arch) -> int:
    """Copies in which a warp's part of a slab leaves, line by line; 0 where it is one box."""
    return 0 if consecutive(layout.problem, geometry) else arch.limits.warp_rows // LINES


def staged_results(candidate: Candidate, maps: ReuseMaps, shared: Instance) -> StagedResults:
    """Derive the copies of a candidate, and see that they take the pixels of its lanes.

    Args:
        candidate, maps: the tiling and its maps.
        shared: the form of the schedule, with the numbers of the tiling.

    Raises:
        PlanError: they do not.
    """
    layout = candidate.tiled.layout
    results = candidate.storage.results
    residual = candidate.storage.residual
    rows = candidate.tiled.arch.limits.warp_rows
    if results is None:
        return StagedResults()
    if consecutive(layout.problem, maps):
        fact = consecutive_lanes(shared)
        proofs = (met(fact),)
        demand_proof(layout.problem, proofs)
        return StagedResults(
            out=result_map(layout, results, rows),
            residual=None if residual is None else residual_map(layout, candidate.tiled.tiling),
            first_m=result_of(first_pixel(shared, maps.tile.lanes, rows), "m", "first_m", fact.record.theorem),
            proofs=proofs,
        )
    out = result_map(layout, results, 1)
    box = result_box(layout.problem, maps)
    if residual is None or isinstance(box, str):
        return StagedResults(out=out)
    each = rows if maps.windowed else maps.tile.lanes
    fact = walked_lanes(shared, box)
    proof = met(fact)
    demand_proof(layout.problem, (proof,))
    first = first_pixel(shared, maps.tile.lanes, rows)
    return StagedResults(
        out=out,
        residual=stream_map(layout, residual, box, each),
        first_pixel=tuple(result_of(first, axis, f"first_{axis}", fact.record.theorem) for axis in box.axes),
        proofs=(proof,),
    )
