"""The index arithmetic of a kernel that shares activations, taken from its proved maps."""

from __future__ import annotations

from msgspec.structs import replace

from convc.compiler.index.geometry import Geometry
from convc.compiler.index.lane_masks import column_mask, line_mask, masked_columns, masked_lines
from convc.compiler.index.lower import lower, translate
from convc.compiler.index.reuse import ReuseMaps, reuse_maps
from convc.compiler.index.reuse_claims import prove
from convc.compiler.plan.coordinates import Coordinate, RowCoordinates, coordinate
from convc.compiler.plan.evidence import ROWS_BEFORE, Rule
from convc.compiler.plan.names import RANK
from convc.compiler.plan.offer import Candidate
from convc.compiler.plan.records import Plan, Reuse, Tiling
from convc.compiler.plan.results import demand_proof, result_of
from convc.ir.expr import And, Const, IntExpr, Select, Var
from convc.ir.problem import ConvProblem


def proved_maps(problem: ConvProblem, geometry: Geometry) -> ReuseMaps:
    """The maps of a problem that is cut into tiles.

    Raises:
        PlanError: a claim that the kernel relies on is not proved.
    """
    maps = reuse_maps(problem, geometry)
    proofs = prove(maps)
    demand_proof(problem, proofs)
    return replace(maps, proofs=proofs)


def reuse_of(
    maps: ReuseMaps, rests_on: tuple[Rule, ...], *, masks: bool, whole_tap_first: bool, any_row_first: bool = False
) -> Reuse:
    """Find how the kernel shares activations, and what it takes to write every lane the first time.

    Args:
        maps: the proved maps.
        rests_on: rules of the hardware that the schedule needs.
        masks: whether the schedule masks lanes; else padding is zeroed in another way.
        whole_tap_first: whether a filter column that masks no lane may come first.
        any_row_first: whether some CTA may begin with another filter row than 0, as those that share a K loop.
    """
    columns = masked_columns(maps) if masks else ()
    lines = masked_lines(maps) if masks else ()
    taps = maps.walk.buffers[0].taps
    whole = [index for index, tap in enumerate(taps) if tap.s not in columns]
    first = whole[0] if whole_tap_first and whole else 0
    before = (ROWS_BEFORE,) if maps.stream.merged and not maps.stream.boxed and maps.problem.pad_lo[0] else ()
    return Reuse(
        walk=maps.walk,
        stream=maps.stream,
        tile=maps.tile,
        tiles=maps.tiles,
        spare=maps.spare,
        masked_columns=columns,
        masked_lines=lines,
        clear=taps[first].s in columns or (bool(lines) if any_row_first else 0 in lines),
        first=first,
        rests_on=rests_on + before,
    )


def coordinates_of(candidate: Candidate, maps: ReuseMaps, *, transposed: bool) -> RowCoordinates:
    """Lower what the kernel computes.

    Args:
        candidate: the tiling.
        maps: its proved maps.
        transposed: whether a lane of the accumulator is an output channel; no lane is masked then.
    """
    layout = candidate.tiled.layout
    tiling = candidate.tiled.tiling
    problem = layout.problem
    element = problem.out_dtype.bytes
    first_k = Var("tile_n") * tiling.block_n
    block = Var("block") * candidate.pipeline.channels
    column_masks = not transposed and maps.walk.border == "mask"
    line_masks = not transposed and maps.stream.masked
    return RowCoordinates(
        start_w=result_of(maps.start, "w", "start_w"),
        **_row_starts(maps),
        first_k=first_filter(first_k, tiling),
        tap=coordinate("tap", Var("r") * problem.kernel[1] + Var("s"), "tap (r, s) of the filter"),
        c=coordinate("c", block, "first channel of the block"),
        pack_c=_pack_start(candidate, block) if problem.groups > 1 else None,
        m=coordinate("m", _output(maps, problem.gemm_m), "output pixel of the lane"),
        k=coordinate("k", first_k + Var("lane" if transposed else "column"), "output channel"),
        out_byte=coordinate(
            "out_byte",
            Var("m") * (layout.k_pitch * element) + Var("k") * element,
            f"(m, k) in rows of {layout.k_pitch} channels, in bytes of {problem.out}",
        ),
        first_pixel=(),
        column_mask=coordinate("column_mask", column_mask(maps), "whether filter column s masks the lane")
        if column_masks
        else None,
        line_mask=coordinate("line_mask", line_mask(maps), "whether filter row r masks the lane")
        if line_masks
        else None,
    )


def first_filter(first_k: IntExpr, tiling: Tiling) -> Coordinate:
    """The output channel of the first filter row that a CTA brings: the tile's, or that of its part."""
    if tiling.cluster[0] == 1:
        return coordinate("first_k", first_k, "first output channel of the tile")
    meaning = f"first output channel of the CTA's {tiling.b_piece} filter rows"
    place = Var(RANK) if tiling.ctas > 1 else Var("tile_m") % tiling.multicast[0]
    return coordinate("first_k", first_k + place * tiling.b_piece, meaning)


def row_coordinates(plan: Plan) -> RowCoordinates:
    """The coordinates of a plan of a schedule that shares activations."""
    coordinates = plan.indexing.coordinates
    if not isinstance(coordinates, RowCoordinates):
        raise TypeError(f"schedule {plan.schedule.title} does not walk along image rows")
    return coordinates


def shared(plan: Plan) -> Reuse:
    """The sharing of a plan whose schedule shares activations."""
    if plan.reuse is None:
        raise TypeError(f"schedule {plan.schedule.title} shares no activations")
    return plan.reuse


def _filter_row(maps: ReuseMaps) -> IntExpr:
    """Input rows from an output row, times the stride, to where filter row r reads."""
    return Var("r") * maps.problem.dilation[0] - maps.problem.pad_lo[0]


def _row_starts(maps: ReuseMaps) -> dict[str, Coordinate | None]:
    """Where a copy begins along the rows, by the names of the fields."""
    if maps.stream.boxed:
        row = lower(maps.start["row"], maps.start.ranges)
        rows = maps.stream.image_rows
        first = row % rows * maps.problem.stride[0] - maps.problem.pad_lo[0]
        return {
            "start_h": coordinate("start_h", first, "input row of the tile's first lane at the first filter row"),
            "start_n": coordinate("start_n", row // rows, "image of the tile's first lane"),
            "start_row": None,
            "off_h": coordinate("off_h", Var("r") * maps.problem.dilation[0], "offset of filter row r"),
        }
    if maps.stream.merged:
        return {"start_h": None, "start_n": None, "start_row": _start_row(maps)}
    return {"start_h": _start_h(maps), "start_n": result_of(maps.start, "row", "start_n"), "start_row": None}


def _start_h(maps: ReuseMaps) -> Coordinate:
    """Where a copy begins along H, if a stream is one output row."""
    rows = lower(maps.start["p"], maps.start.ranges) * maps.problem.stride[0] + _filter_row(maps)
    return coordinate("start_h", rows, "input row of output row p at filter row r")


def _start_row(maps: ReuseMaps) -> Coordinate:
    """Where a copy begins, if all output rows are one stream."""
    image_row = lower(maps.start["row"], maps.start.ranges) * maps.stream.step
    meaning = "input row of the tile's first lane at filter row r, all images counted through"
    return coordinate("start_row", image_row + _filter_row(maps), meaning)


def _pack_start(candidate: Candidate, block: IntExpr) -> Coordinate:
    """First activation channel of a block, in the group that the tile's output channels belong to."""
    layout = candidate.tiled.layout
    tiles = layout.problem.out_channels // layout.problem.groups // candidate.tiled.tiling.block_n
    meaning = f"first channel of the block in the group of the tile, which is tile_n // {tiles}"
    return coordinate("pack_c", Var("tile_n") // tiles * layout.c_pitch + block, meaning)


def _output(maps: ReuseMaps, beyond: int) -> IntExpr:
    """Number of the lane's output pixel; a number past the last one where it has none."""
    number = translate(maps.pixel["m"])
    if not maps.pixel.guard:
        return number
    return Select(And(tuple(translate(condition) for condition in maps.pixel.guard)), number, Const(beyond))
