"""The index arithmetic of a kernel that shares activations, taken from its proved maps."""

from __future__ import annotations

from dataclasses import replace

from convc.compiler.index.lane_masks import column_mask, line_mask, masked_columns, masked_lines
from convc.compiler.index.lower import lower, translate
from convc.compiler.index.reuse import ReuseMaps, reuse_maps
from convc.compiler.index.reuse_claims import prove
from convc.compiler.plan.coordinates import Indexing, demand_proof, result_of
from convc.compiler.plan.evidence import RESTS_ON, ROWS_BEFORE
from convc.compiler.plan.proposals import Candidate
from convc.compiler.plan.records import SLAB, Coordinate, Reuse
from convc.ir import dtypes
from convc.ir.expr import And, Const, IntExpr, Select, Var


def maps_of(proposal: Candidate) -> ReuseMaps:
    """The maps of a proposal, proved.

    Raises:
        PlanError: a claim that the kernel relies on is not proved.
    """
    problem = proposal.candidate.layout.problem
    maps = reuse_maps(problem, proposal.cut)
    proofs = prove(maps)
    demand_proof(problem, proofs)
    return replace(maps, proofs=proofs)


def reuse_of(proposal: Candidate, maps: ReuseMaps) -> Reuse:
    """How the kernel shares activations, and what it takes to write every lane the first time."""
    columns = masked_columns(maps) if proposal.schedule != "stationary" else ()
    lines = masked_lines(maps) if proposal.schedule != "stationary" else ()
    taps = maps.walk.buffers[0].taps
    whole = [index for index, tap in enumerate(taps) if tap.s not in columns]
    first = whole[0] if proposal.schedule == "slide" and whole else 0
    before = (ROWS_BEFORE,) if maps.stream.merged and maps.problem.pad_lo[0] else ()
    return Reuse(
        variant=proposal.variant,
        walk=maps.walk,
        stream=maps.stream,
        tile=maps.tile,
        tiles=maps.tiles,
        masked_columns=columns,
        masked_lines=lines,
        clear=taps[first].s in columns or 0 in lines,
        first=first,
        rests_on=RESTS_ON[proposal.variant or proposal.schedule] + before,
    )


def reuse_indexing(proposal: Candidate, maps: ReuseMaps) -> Indexing:
    """Lower what the kernel computes."""
    layout, tiling = proposal.candidate.layout, proposal.candidate.tiling
    problem, stationary = layout.problem, proposal.schedule == "stationary"
    start = maps.start
    image_row = lower(start["row"], start.ranges) * maps.stream.step if maps.stream.merged else None
    filter_row = Var("r") * problem.dilation[0] - problem.pad_lo[0]
    found = [result_of(start, "w", "start_w")]
    if image_row is None:
        rows = lower(start["p"], start.ranges) * problem.stride[0] + filter_row
        found += [
            Coordinate(name="start_h", value=rows, meaning="input row of output row p at filter row r"),
            result_of(start, "row", "start_n"),
        ]
    else:
        meaning = "input row of the tile's first lane at filter row r, all images counted through"
        found.append(Coordinate(name="start_row", value=image_row + filter_row, meaning=meaning))
    found += [
        Coordinate(name="first_k", value=Var("tile_n") * tiling.block_n, meaning="first output channel of the tile"),
        Coordinate(name="tap", value=Var("r") * problem.kernel[1] + Var("s"), meaning="tap (r, s) of the filter"),
        Coordinate(name="c", value=Var("block") * proposal.pipeline.channels, meaning="first channel of the block"),
        *_slab(proposal),
        Coordinate(name="m", value=_output(maps, problem.gemm_m), meaning="output pixel of the lane"),
        Coordinate(
            name="k",
            value=Var("tile_n") * tiling.block_n + Var("lane" if stationary else "column"),
            meaning="output channel",
        ),
    ]
    element = dtypes.BY_NAME[problem.out].bytes
    found.append(
        Coordinate(
            name="out_byte",
            value=Var("m") * (layout.k_pitch * element) + Var("k") * element,
            meaning=f"(m, k) in rows of {layout.k_pitch} channels, in bytes of {problem.out}",
        )
    )
    if not stationary and maps.walk.border == "mask":
        found.append(
            Coordinate(name="column_mask", value=column_mask(maps), meaning="whether filter column s masks the lane")
        )
    if not stationary and maps.stream.masked:
        found.append(Coordinate(name="line_mask", value=line_mask(maps), meaning="whether filter row r masks the lane"))
    ends = layout.k_pitch if -(-problem.out_channels // tiling.block_n) * tiling.block_n > layout.k_pitch else None
    return Indexing(
        coordinates=tuple(found),
        derivation=tuple(map(str, maps.proofs)),
        row_limit=problem.gemm_m if maps.pixel.guard else None,
        channel_limit=ends,
    )


def _slab(proposal: Candidate) -> tuple[Coordinate, ...]:
    """First activation channel of a block, in the group that the tile's output channels belong to."""
    layout, tiling = proposal.candidate.layout, proposal.candidate.tiling
    if layout.problem.groups == 1:
        return ()
    tiles = layout.problem.out_channels // layout.problem.groups // tiling.block_n
    first = Var("tile_n") // tiles * layout.c_pitch
    return (
        Coordinate(
            name=SLAB,
            value=first + Var("block") * proposal.pipeline.channels,
            meaning=f"first channel of the block in the group of the tile, which is tile_n // {tiles}",
        ),
    )


def _output(maps: ReuseMaps, beyond: int) -> IntExpr:
    """Number of the lane's output pixel; a number past the last one where it has none."""
    number = translate(maps.pixel["m"])
    if not maps.pixel.guard:
        return number
    return Select(And(tuple(translate(condition) for condition in maps.pixel.guard)), number, Const(beyond))
