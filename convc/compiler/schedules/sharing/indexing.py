"""The index arithmetic of a kernel that shares activations, taken from its proved maps."""

from __future__ import annotations

from msgspec.structs import replace

from convc.compiler.index.formulas import Instance
from convc.compiler.index.geometry import ADDRESSED, EXCHANGED, MOVED, Geometry, form_of
from convc.compiler.index.lane_masks import column_mask, line_mask, masked_columns, masked_lines
from convc.compiler.index.limits import prove_wide_limits
from convc.compiler.index.reuse import ReuseMaps, output_pixel, reuse_maps, shared_instance
from convc.compiler.plan.coordinates import Coordinate, RowCoordinates, coordinate, moved
from convc.compiler.plan.evidence import ROWS_BEFORE, Rule
from convc.compiler.plan.names import RANK
from convc.compiler.plan.offer import Candidate
from convc.compiler.plan.records import Plan, Reuse, Tiling
from convc.compiler.plan.results import demand_proof, result_of
from convc.compiler.schedules.base import Schedule
from convc.compiler.schedules.features.multicast import place_of
from convc.compiler.schedules.nesting import tile_numbers
from convc.ir.expr import IntExpr, substitute
from convc.ir.problem import ConvProblem


def proved_maps(problem: ConvProblem, geometry: Geometry) -> ReuseMaps:
    """The maps of a problem that is cut into tiles.

    Raises:
        PlanError: a limit of the hardware is passed.
    """
    maps = reuse_maps(problem, geometry)
    proofs = prove_wide_limits(maps)
    demand_proof(problem, proofs)
    return replace(maps, proofs=proofs)


def reuse_of(
    maps: ReuseMaps, assumes: tuple[Rule, ...], *, masks: bool, whole_tap_first: bool, any_row_first: bool = False
) -> Reuse:
    """Find how the kernel shares activations, and what it takes to write every lane the first time.

    Args:
        maps: the proved maps.
        assumes: rules of the hardware that the schedule needs.
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
        form=maps.form,
        walk=maps.walk,
        stream=maps.stream,
        tile=maps.tile,
        tiles=maps.tiles,
        grid=maps.grid,
        spare=maps.spare,
        masked_columns=columns,
        masked_lines=lines,
        clear=taps[first].s in columns or (bool(lines) if any_row_first else 0 in lines),
        first=first,
        assumes=assumes + before,
    )


def coordinates_of(candidate: Candidate, maps: ReuseMaps, shared: Instance) -> RowCoordinates:
    """Read what the kernel computes off the loop nest of its schedule, with the numbers of a tiling put in.

    Args:
        candidate: the tiling.
        maps: its proved maps.
        shared: the form of the schedule, with the numbers of the tiling. If a lane of the accumulator is an output
            channel, no lane is masked.
    """
    layout = candidate.tiled.layout
    tiling = candidate.tiled.tiling
    problem = layout.problem
    transposed = "lane" in shared.record.maps["column"].axes

    def read(name: str, of: str, result: str, meaning: str) -> Coordinate:
        return coordinate(name, shared.coordinate(of, result), meaning)

    tiles = problem.out_channels // problem.groups // tiling.block_n
    of_group = f"first channel of the block in the group of the tile, which is tile_n // {tiles}"
    rows_of = f"(m, k) in rows of {layout.k_pitch} channels, in bytes of {problem.out}"
    column_masks = not transposed and maps.walk.border == "mask"
    line_masks = not transposed and maps.stream.masked
    return RowCoordinates(
        start_w=result_of(maps.start, "w", "start_w"),
        **_row_starts(shared, maps),
        first_k=_first_filter(shared, tiling),
        tap=read("tap", "tap", "tap", "tap (r, s) of the filter"),
        c=read("c", "c", "c", "first channel of the block"),
        pack_c=read("pack_c", "pack", "c", of_group) if problem.groups > 1 else None,
        m=coordinate("m", output_pixel(maps), "output pixel of the lane"),
        k=read("k", "column", "k", "output channel"),
        out_byte=read("out_byte", "out_byte", "byte", rows_of),
        first_pixel=(),
        column_mask=coordinate("column_mask", column_mask(maps), "whether filter column s masks the lane")
        if column_masks
        else None,
        line_mask=coordinate("line_mask", line_mask(maps), "whether filter row r masks the lane")
        if line_masks
        else None,
    )


def instance_of(candidate: Candidate, schedule: Schedule) -> Instance:
    """The derivation of a schedule, with the numbers of a candidate."""
    if candidate.geometry is None:
        raise TypeError("a candidate of a schedule that shares activations has a geometry")
    tiled = candidate.tiled
    numbers = tile_numbers(tiled.layout, tiled.tiling, candidate.pipeline)
    return shared_instance(
        tiled.layout.problem, candidate.geometry, schedule_form(candidate.geometry, schedule), numbers
    )


def schedule_form(geometry: Geometry, schedule: Schedule) -> str:
    """Name the form of a schedule that cuts the output so (`convc.derive.forms`)."""
    return form_of(geometry, reading_of(schedule))


def reading_of(schedule: Schedule) -> str:
    """Say how the lanes of a schedule come to the pixels that they need."""
    if schedule.transposed:
        return EXCHANGED
    return MOVED if schedule.activations == "tensor memory" else ADDRESSED


def _first_filter(shared: Instance, tiling: Tiling) -> Coordinate:
    """The output channel of the first filter row that a CTA brings: the tile's, or that of its part."""
    if tiling.cluster[0] == 1:
        return coordinate("first_k", shared.coordinate("first_k", "k"), "first output channel of the tile")
    meaning = f"first output channel of the CTA's {tiling.b_piece} filter rows"
    value = shared.coordinate("first_filter", "k")
    if tiling.ctas == 1:
        value = substitute(value, {RANK: place_of(tiling)[0]})
    return coordinate("first_k", value, meaning)


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


def _row_starts(shared: Instance, maps: ReuseMaps) -> dict[str, Coordinate | None]:
    """Where a copy begins along the rows, by the names of the fields."""
    found: dict[str, Coordinate | None] = {"start_h": None, "start_n": None, "start_row": None}

    def copy(name: str, result: str, meaning: str, **known: IntExpr) -> None:
        found[name] = moved(coordinate(name, shared.coordinate("copy", result), meaning), **known)

    if maps.stream.boxed:
        begun = maps.start["row"]
        copy("start_h", "h", "input row of the tile's first lane at the first filter row", begun=begun)
        copy("start_n", "n", "image of the tile's first lane", begun=begun)
        copy("off_h", "off_h", "offset of filter row r")
    elif maps.stream.merged:
        copy("start_row", "row", "input row of the tile's first lane at filter row r, all images counted through")
    else:
        copy("start_h", "h", "input row of output row p at filter row r")
        found["start_n"] = result_of(maps.start, "row", "start_n")
    return found
