"""The schedules that fetch activations once per filter row and share them between its columns.

    slide           the tile and its halo stay in shared memory; filter column s reads them from j(s) rows further on
    shift, chain    the tile goes to tensor memory; tcgen05.shift moves its rows by one lane, and the last lane of each
                    sub-partition is refreshed from the halo. Every link is a pair of instructions that keep order
    shift, ashift   the same, but the MMA itself moves the rows (.ashift); since a refresh is not ordered after that,
                    the issuing thread waits before each one
    shift, windows  the four sub-partitions hold windows of the stream that overlap by the halo, so that nothing has to
                    be refreshed; .ashift alone moves the rows
    stationary      weights are the first operand (tcgen05.mma.ws), pixels the columns of the second; filter column s
                    shifts those by j(s), and zeroed columns stand for padding

A survey looks at each way to cut the output (border ``mask`` or ``zero``, rows ``outer`` or ``merged``), keeps the one
with the fewest tiles, and proposes tilings for it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from convc.compiler.index.geometry import Geometry, geometry
from convc.compiler.index.reuse_claims import OFFSET_LIMIT
from convc.compiler.index.row_walk import BORDERS, padding_run
from convc.compiler.plan.candidates import BLOCK_M, depths, pixel_bytes, row_bytes, widths
from convc.compiler.plan.constraints import TILING_RULES, WALK_RULES, TiledProblem, check_problem
from convc.compiler.plan.proposals import Candidate, ScheduleCandidates, propose
from convc.compiler.plan.records import Rejection, Tiling
from convc.compiler.plan.reuse_storage import reuse_storage
from convc.compiler.plan.reuse_work import reuse_work
from convc.errors import PlanError
from convc.ir.arch import SM_100A, Arch
from convc.layout.device_layout import DeviceLayout

VARIANTS = (
    ("slide", ""), ("shift", "chain"), ("shift", "ashift"), ("shift", "windows"), ("stationary", ""),
)  # fmt: skip
ROWS = ("outer", "merged")
SPANS = SM_100A.limits.wide_swizzle_spans
WS_COLUMNS = SM_100A.limits.ws_n
WS_ROWS = SM_100A.limits.ws_m
HALO_LIMIT = {
    "slide": SM_100A.limits.wide_halo,
    "stationary": SM_100A.limits.ws_column_shift,
    "chain": SM_100A.limits.wide_128_halo,
    "ashift": SM_100A.limits.wide_128_halo,
    "windows": SM_100A.limits.tmem_part_lanes - 1,
}
"""Longest halo: wHalo of im2col::w and ::w::128, the column shift of tcgen05.mma.ws with M = 128, a window's lanes."""
RUN_LIMIT = SM_100A.limits.zero_run
HELD = (2, 3, 4)
"""Activation tiles in flight, as far as there are so many."""


def survey(
    layout: DeviceLayout,
    arch: Arch,
    schedule: str,
    variant: str,
    *,
    border: str | None = None,
    rows: str | None = None,
    block_n: int | None = None,
    stages: int | None = None,
) -> ScheduleCandidates:
    """Every tiling of one variant, legal or not; `border` and `rows` fix how the output is cut."""
    rejected = list(check_problem(layout, arch, WALK_RULES))
    legal: list[Candidate] = []
    if not rejected:
        for lanes in WS_COLUMNS if schedule == "stationary" else (BLOCK_M,):
            cuts, refused = _cuts(layout, schedule, variant, lanes, border, rows)
            rejected += refused
            if cuts:
                found, refused = _proposals(layout, arch, schedule, variant, _fewest(cuts), block_n, stages)
                legal += found
                rejected += refused
    return ScheduleCandidates(schedule=schedule, variant=variant, legal=tuple(legal), rejected=tuple(rejected))


def _cuts(
    layout: DeviceLayout, schedule: str, variant: str, lanes: int, border: str | None, rows: str | None
) -> tuple[list[Geometry], list[Rejection]]:
    """The ways to cut the output that the schedule can use, and what is wrong with the others."""
    cuts, refused = [], []
    for edge in (border,) if border else BORDERS:
        for merged in (rows == "merged",) if rows else (False, True):
            try:
                cut = geometry(layout.problem, merged=merged, border=edge, lanes=lanes, windowed=variant == "windows")
            except PlanError as error:
                refused.append(Rejection(rule="geometry", reason=error.message))
                continue
            reason = _illegal(schedule, variant, cut)
            if reason is None:
                cuts.append(cut)
            else:
                refused.append(Rejection(rule="reuse", reason=reason))
    return cuts, refused


def _fewest(cuts: list[Geometry]) -> Geometry:
    """The cut with the fewest tiles; of those, one without masks."""
    return min(cuts, key=lambda cut: (cut.all_tiles, cut.walk.border == "mask", cut.stream.masked))


def _illegal(schedule: str, variant: str, cut: Geometry) -> str | None:
    """The condition that a cut breaks, with its numbers."""
    buffers = cut.walk.buffers
    halo, offset, step = (max(getattr(b, name) for b in buffers) for name in ("halo", "offset", "step"))
    limit = HALO_LIMIT[variant or schedule]
    if halo > limit:
        return f"the last filter column is {halo} lanes from the first of its buffer, at most {limit} can be held"
    if offset > OFFSET_LIMIT:
        return f"a buffer starts {offset} pixels on, the copy takes offsets up to {OFFSET_LIMIT}"
    if variant in ("ashift", "windows") and step > 1:
        return f"filter columns of a buffer are {step} lanes apart, and .ashift moves by one"
    if schedule == "stationary":
        return _no_zero_mask(cut)
    return None


def _no_zero_mask(cut: Geometry) -> str | None:
    """Why the padding of a tile is no pattern that a zero-column mask can express."""
    if cut.stream.masked:
        return "several images in one stream need whole rows masked, which no zero-column mask can say"
    if cut.walk.border == "zero":
        return None
    for buffer in cut.walk.buffers:
        for tap in buffer.taps:
            zeroed = padding_run(cut.walk, tap)[1]
            used = cut.walk.period - zeroed
            if zeroed and used and max(zeroed, used) > RUN_LIMIT:
                return f"rows of {zeroed} columns of padding and {used} pixels; zero-column masks count to {RUN_LIMIT}"
    return None


def _proposals(
    layout: DeviceLayout,
    arch: Arch,
    schedule: str,
    variant: str,
    cut: Geometry,
    block_n: int | None,
    stages: int | None,
) -> tuple[list[Candidate], list[Rejection]]:
    """The legal tilings of one cut, and the others."""
    problem = layout.problem
    candidates = (
        TiledProblem(
            layout=layout,
            arch=arch,
            tiling=tiling,
            storage=reuse_storage(layout, tiling, arch, schedule, variant, cut),
            grid=(cut.all_tiles, -(-problem.out_channels // tiling.block_n)),
        )
        for tiling in _tilings(layout, schedule, cut, block_n, stages)
    )
    return propose(
        schedule,
        variant,
        candidates,
        lambda tiling, pipeline: reuse_work(tiling, pipeline, schedule, variant, cut, problem.out_dtype.bytes),
        rules=(*TILING_RULES[1:], ws_shape) if schedule == "stationary" else TILING_RULES,
        cut=cut,
    )


def _tilings(
    layout: DeviceLayout, schedule: str, cut: Geometry, block_n: int | None, stages: int | None
) -> Iterator[Tiling]:
    """Candidates, narrow before wide and shallow before deep."""
    span = row_bytes(layout, SPANS)
    tiles = layout.problem.kernel[0] * -(-pixel_bytes(layout) // span) * len(cut.walk.buffers)
    if schedule == "stationary" and block_n is None:
        block_n = WS_ROWS
    for width, depth, held in itertools.product(
        widths(layout, block_n), depths(layout, span, stages), sorted({min(held, tiles) for held in HELD})
    ):
        yield Tiling(block_m=cut.tile.lanes, block_n=width, row_bytes=span, stages=depth, held=held)


def ws_shape(candidate: TiledProblem) -> str | None:
    """``tcgen05.mma.ws`` with weights of 128 channels takes N = 64, 128 or 256 (PTX manual, tcgen05.mma shapes)."""
    if candidate.tiling.block_n != WS_ROWS:
        return f"{candidate.tiling.block_n} output channels: the weights of a stationary tile are {WS_ROWS} rows"
    return None
