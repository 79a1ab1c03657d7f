"""The schedule ``reload``: every filter tap loads its own activation tile, and the copy engine does the im2col.

This is "Algorithm 2" of implicit GEMM: the plain loop nest mapped to tiles, with no reuse. It is the schedule that
block-scaled operands have: their factors come along in the same stages (`convc.compiler.schedules.scaled`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from convc.compiler.index.changes import Fact
from convc.compiler.index.conditions import met
from convc.compiler.index.conv import RELOAD
from convc.compiler.index.formulas import Instance
from convc.compiler.index.kernel_nest import KernelNest
from convc.compiler.index.limits import prove_limits
from convc.compiler.index.maps import Outcome, by_theorem
from convc.compiler.index.shares import share
from convc.compiler.plan.candidate import ScheduleCandidates
from convc.compiler.plan.candidates import tilings
from convc.compiler.plan.constraints import TILING_RULES, check_problem
from convc.compiler.plan.coordinates import Coordinate, TapCoordinates, coordinate, moved
from convc.compiler.plan.issue_cycles import ROW_STORE
from convc.compiler.plan.loads import loads_of
from convc.compiler.plan.meanings import COLUMNS_TILED, LANES_TILED
from convc.compiler.plan.names import ACC, A, B, RingName
from convc.compiler.plan.offer import Candidate, Offer
from convc.compiler.plan.records import Indexing, Pipeline, Plan, Rejection, Tiling
from convc.compiler.plan.residual_tile import copied, residual_map, with_residual
from convc.compiler.plan.result_tile import (
    number_tile,
    result_map,
    result_pixels,
    result_rows,
    result_tile,
    staged,
)
from convc.compiler.plan.results import demand_proof, met_conditions, result_of
from convc.compiler.plan.scale_factors import (
    factor_coordinates,
    filter_rows,
    prove_factors,
    scaled_storage,
)
from convc.compiler.plan.storage import BarrierRing, Storage, TmemTile, lay_out, tile_ring
from convc.compiler.plan.tap_maps import filter_start_of, first_row, start_of, tap_maps, warp_rows
from convc.compiler.plan.validation import check_candidate
from convc.compiler.plan.work import (
    FACTOR_ROW_BYTES,
    STORE_BYTES,
    UNROLLED_TURNS,
    CtaWork,
    RingUse,
    row_chunk,
    row_store_cycles,
    stored_columns,
)
from convc.compiler.schedules import scaled
from convc.compiler.schedules.base import TMA, Method, Request, Roles, Schedule, Ways, ways_of
from convc.compiler.schedules.cores.all import core_of
from convc.compiler.schedules.epilogue import row_epilogue
from convc.compiler.schedules.features.multicast import part_of, parts_loaded, peers, place_of
from convc.compiler.schedules.nesting import in_loops, levels, nest_of
from convc.compiler.schedules.residual import load_residual
from convc.compiler.schedules.skeleton import (
    MAP_A,
    MAP_B,
    TURN,
    channels_of,
    number,
    shares_blocks,
)
from convc.compiler.tile.steps.base import Loop, Step
from convc.compiler.tile.steps.copies import TmaLoad
from convc.compiler.tile.steps.rings import Advance, ExpectBytes, RingWait
from convc.host_layout.device_layout import DeviceLayout
from convc.ir.arch import Arch
from convc.ir.expr import Var

FULL = RingName("full")
EMPTY = RingName("empty")


def in_each_way(
    schedule: Schedule,
    layout: DeviceLayout,
    arch: Arch,
    request: Request,
    offer: Callable[[DeviceLayout, Arch, Request, int, Ways], Offer],
) -> ScheduleCandidates:
    """Every tiling, with results that leave in each way there is; offer: the tilings of so many rows in one way."""
    rejected = check_problem(layout, arch)
    if rejected:
        return ScheduleCandidates(schedule=schedule.id, parts=rejected)
    parts: list[Offer | Rejection] = []
    for ways in ways_of(schedule, layout, arch, request):
        outside = result_pixels(layout, arch) if ways.store == TMA else None
        if outside is not None:
            parts.append(Rejection(rule=result_pixels.__name__, reason=outside))
            continue
        parts += (offer(layout, arch, request, rows, ways) for rows in request.tile_rows(arch))
    return ScheduleCandidates(schedule=schedule.id, parts=tuple(parts))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reload(Method):
    """One activation tile and one filter tile for every tap and channel block."""

    def candidates(self, layout: DeviceLayout, arch: Arch, request: Request) -> ScheduleCandidates:
        """Look at every tiling."""
        return in_each_way(self.schedule, layout, arch, request, self._offer)

    def _offer(self, layout: DeviceLayout, arch: Arch, request: Request, rows: int, ways: Ways) -> Offer:
        """The tilings with tiles of so many output pixels whose results leave, and whose residual comes, in one way."""

        def work(tiling: Tiling, pipeline: Pipeline) -> CtaWork:
            done = self.work(layout, tiling, pipeline, arch)
            if ways.store == TMA:
                done = staged(done, result_tile(layout, tiling))
            return copied(done, layout, tiling) if ways.residual_load == TMA else done

        return Offer(
            layout=layout,
            arch=arch,
            depths=tuple(
                tilings(
                    layout,
                    rows,
                    least=stored_columns(layout, arch),
                    block_n=request.block_n,
                    stages=request.stages,
                )
            ),
            rows=-(-layout.problem.gemm_m // rows),
            storage=lambda tiling: self.storage(layout, tiling, arch, ways),
            work=work,
            rules=(*TILING_RULES, result_rows) if ways.store == TMA else TILING_RULES,
        )

    def storage(self, layout: DeviceLayout, tiling: Tiling, arch: Arch, ways: Ways | None = None) -> Storage:
        """Lay out one CTA; by default its results leave from registers.

        Three rings: `full` (copies have landed: load signals, mma waits), `empty` (the stage has been multiplied: mma
        signals, load waits) and, where that is another role, `done` (the accumulator is complete: mma signals, the
        epilogue waits).
        """
        ways = ways or Ways()
        if ways.residual_load == TMA:
            without = Ways(store=ways.store)
            return with_residual(self.storage(layout, tiling, arch, without), layout, tiling, arch)
        results = result_tile(layout, tiling) if ways.store == TMA else None
        numbers = number_tile(layout, tiling) if ways.store == TMA else None
        if layout.blocks is not None:
            return scaled_storage(layout.blocks, tiling, arch, results, numbers)
        a = tile_ring(A, tiling.block_m, tiling.row_bytes, tiling.b_stages, 0)
        b = tile_ring(B, tiling.b_rows, tiling.row_bytes, tiling.b_stages, a.end)
        acc = TmemTile(name=ACC, lanes=tiling.block_m, columns=tiling.block_n, column_offset=0)
        core = core_of(arch)
        releases = core.releases(tiling.block_m)
        rings = (
            BarrierRing(name=FULL, stages=tiling.b_stages, producer="load", consumer="mma"),
            BarrierRing(name=EMPTY, stages=tiling.b_stages, producer="mma", consumer="load", arrivals=releases),
            *core.done(),
        )
        return lay_out((a, b), (acc,), rings, arch, results=results, numbers=numbers)

    def work(self, layout: DeviceLayout, tiling: Tiling, pipeline: Pipeline, arch: Arch) -> CtaWork:
        """Count the K loop: two tiles a step, each with its scale factors if there are any."""
        steps = math.prod(pipeline.taps) * pipeline.blocks
        factors_a = 0 if layout.blocks is None else steps * tiling.block_m * FACTOR_ROW_BYTES
        factors_b = 0 if layout.blocks is None else steps * filter_rows(tiling) * FACTOR_ROW_BYTES
        rows = arch.limits.mma_m
        return CtaWork(
            mmas=steps * pipeline.atoms * (tiling.block_m // rows),
            m=rows,
            ctas=tiling.ctas,
            n=tiling.block_n,
            activation_bytes=steps * tiling.block_m * tiling.row_bytes + factors_a,
            filter_bytes=steps * tiling.b_rows * tiling.row_bytes + factors_b,
            factor_bytes=factors_a + factors_b,
            row_bytes=tiling.row_bytes,
            chunks=tiling.block_n // row_chunk(tiling.block_n),
            stores=tiling.block_n * layout.problem.out_dtype.bytes // STORE_BYTES,
            store_own=ROW_STORE,
            store_cycles=row_store_cycles(layout, arch.rates),
            loads=steps * (2 if layout.blocks is None else 4),
            rings=(
                RingUse(
                    steps=steps,
                    stages=tiling.b_stages,
                    load_unrolled=steps if pipeline.blocks <= UNROLLED_TURNS else 0,
                    multiply_unrolled=steps if steps <= UNROLLED_TURNS else 0,
                ),
            ),
        )

    def indexing(self, candidate: Candidate) -> Indexing:
        """Derive the maps of a tiling; what is left to prove are limits of the hardware, and rows that copies take."""
        layout = candidate.tiled.layout
        tiling = candidate.tiled.tiling
        pipeline = candidate.pipeline
        derived = tap_maps(layout, tiling, pipeline.channels, candidate.tiled.grid[0])
        row, step, column, store = map(derived.map, ("row", "step", "column", "store"))
        loads = loads_of(layout, tiling)
        blocks = layout.blocks
        factors = None if blocks is None else factor_coordinates(blocks, layout, tiling, pipeline)
        results = candidate.storage.results
        rows = candidate.tiled.arch.limits.warp_rows
        residual = candidate.storage.residual
        check_candidate(candidate, derived.sizes)
        conditions = met_conditions(self.schedule.name, layout.problem, derived)
        proofs = [*conditions, *prove_limits(derived, loads.a), *_prove_rows(candidate, derived, rows)]
        if blocks is not None and factors is not None:
            proofs.append(prove_factors(factors, blocks, layout, tiling, pipeline))
        demand_proof(layout.problem, proofs)
        element = layout.problem.out_dtype.bytes
        first = result_of(derived.map("first_k"), "k", "first_k").value
        first_k = coordinate("first_k", first, "first output channel of the tile")
        filters = filter_start_of(derived, tiling)
        if filters is not None:
            first_k = result_of(filters, "k", "first_k")
        if tiling.multicast[0] > 1:
            along, _ = place_of(tiling)
            first_k = moved(first_k, rank=along)
        byte = share("place of an element", "byte", ELEMENT=element, offset=store["offset"])
        return Indexing(
            coordinates=TapCoordinates(
                **_starts(derived, tiling),
                first_k=first_k,
                off_w=result_of(step, "off_w", "off_w"),
                off_h=result_of(step, "off_h", "off_h"),
                tap=result_of(step, "tap", "tap"),
                c=result_of(step, "c", "c"),
                pack_c=result_of(derived.map("pack"), "c", "pack_c") if layout.problem.groups > 1 else None,
                factors=factors,
                first_m=None if results is None else _first_row(derived, rows),
                m=result_of(row, "m", "m"),
                k=result_of(column, "k", "k"),
                out_byte=coordinate("out_byte", byte, f"store.offset in bytes of {layout.problem.out}"),
            ),
            loads=replace(
                loads,
                out=None if results is None else result_map(layout, results, rows),
                residual=None if residual is None else residual_map(layout, tiling),
            ),
            derivation=(*map(str, proofs), *_dropped(derived)),
            form=RELOAD,
            row_limit=layout.problem.gemm_m if row.guard else None,
            channel_limit=layout.k_pitch if column.guard else None,
        )

    def roles(self, plan: Plan) -> Roles:
        """A fresh activation tile and a fresh filter tile for every tap and channel block."""
        coordinates = tap_coordinates(plan)
        nest = nest_of(plan)
        carry = scaled.carry_factors(plan, nest, coordinates)
        epilogue = row_epilogue(plan, carry)
        return Roles(load=_load(plan, nest, coordinates), multiply=_multiply(plan, nest), epilogue=epilogue)


def tap_coordinates(plan: Plan) -> TapCoordinates:
    """The coordinates of a plan of this schedule."""
    coordinates = plan.indexing.coordinates
    if not isinstance(coordinates, TapCoordinates):
        raise TypeError(f"schedule {plan.schedule.title} loads no tile for every tap")
    return coordinates


def _starts(derived: Instance, tiling: Tiling) -> dict[str, Coordinate]:
    """Where a CTA's copies of activations begin: at its tile, or at the part of it that it brings."""
    pieces = tiling.multicast[1]
    _, across = place_of(tiling)
    start = start_of(derived, tiling)
    where = {} if pieces == 1 else {"tile_m": share("part of a tile", "tile_m", CHANNELS=pieces, across=across)}
    return {f"start_{axis}": moved(result_of(start, axis, f"start_{axis}"), **where) for axis in "whn"}


def _first_row(derived: Instance, rows: int) -> Coordinate:
    """The output pixel of the first row of a warp."""
    return result_of(first_row(derived, rows), "m", "first_m", warp_rows(derived, rows).record.theorem)


def _prove_rows(candidate: Candidate, derived: Instance, rows: int) -> Iterator[Outcome]:
    """Whether the rows of a warp, and those of a residual's tile, lie as copies take them."""
    if candidate.storage.results is not None:
        yield met(warp_rows(derived, rows))
    if candidate.storage.residual is not None:
        yield met(Fact("rows of a tile", {}))


def _dropped(derived: Instance) -> Iterator[str]:
    """Say which conditions of the kernel's maps hold always, with the theorem that asks for the test."""
    found: dict[tuple[str, str], list[str]] = {}
    for name in ("row", "start", "step", "pack", "column", "store"):
        for dropped in derived.map(name).dropped:
            found.setdefault(dropped, []).append(name)
    for (condition, reason), names in found.items():
        by = by_theorem(COLUMNS_TILED if "column" in names else LANES_TILED)
        yield f"{', '.join(names)}: no test of {condition} is needed ({reason}, {by})"


def _load(plan: Plan, nest: KernelNest, coordinates: TapCoordinates) -> tuple[Step, ...]:
    """Copy an activation tile and a filter tile in every iteration of the mainloop."""
    start = coordinates.start_w, coordinates.start_h, coordinates.start_n
    stage = (
        RingWait(id="load.wait", note="until the stage is free", ring=EMPTY, starts_open=True),
        ExpectBytes(
            id="load.expect",
            note="both tiles of the stage",
            ring=FULL,
            bytes=plan.tiling.ctas * (nest.number("bytes", "a") + nest.number("bytes", "b")),
        ),
        TmaLoad(
            id="load.a",
            note="this tap's pixels, this block's channels",
            map=MAP_A,
            tile=A,
            ring=FULL,
            coords=(channels_of(coordinates).name, *(each.name for each in start)),
            offsets=(coordinates.off_w.name, coordinates.off_h.name),
            **part_of(plan, A),
        ),
        TmaLoad(
            id="load.b",
            note="filter rows of this tap and block",
            map=MAP_B,
            tile=B,
            ring=FULL,
            coords=(coordinates.c.name, coordinates.tap.name, coordinates.first_k.name),
            **part_of(plan, B),
        ),
        *scaled.load_factors(plan, coordinates),
        Advance(id="load.next", note="next stage", stages=plan.tiling.b_stages),
    )
    made = levels(
        nest,
        "load",
        *((each, "start", axis) for each, axis in zip(start, "whn", strict=True)),
        (coordinates.first_k, "first_k", "k"),
        (coordinates.off_h, "step", "off_h"),
        (coordinates.off_w, "step", "off_w"),
        (coordinates.tap, "step", "tap"),
        (coordinates.c, "step", "c"),
        (coordinates.pack_c, "pack", "c"),
    )
    loops = in_loops("load", nest.mainloop, made, stage)
    return (*parts_loaded(plan), *made[""], *loops, *load_residual(plan))


def _multiply(plan: Plan, nest: KernelNest) -> tuple[Step, ...]:
    """Multiply stage after stage until the accumulator is complete."""
    k_step = number("k_step")
    first = k_step if plan.launch.parts == 1 or shares_blocks(plan) else TURN
    core = core_of(plan.arch)
    mma = core.product(
        id="mma.multiply",
        note="accumulate activations x filter rows",
        acc=ACC,
        a=A,
        b=B,
        operand=plan.problem.operand,
        m=plan.tiling.block_m,
        n=plan.tiling.block_n,
        atoms=plan.pipeline.atoms,
        counter=first,
        filter_operand=plan.problem.filter_operand,
    )
    body = (
        RingWait(id="mma.wait", note="until both tiles have landed", ring=FULL, starts_open=False),
        *scaled.wait_for_factors(plan),
        mma if plan.layout.blocks is None else scaled.multiply_scaled(plan, plan.layout.blocks, k_step),
        *core.release(
            "mma.release",
            "the stage is free once it has been multiplied",
            plan.storage.ring(EMPTY),
            before=Var(first),
            closes=True,
        ),
        Advance(id="mma.next", note="next stage", stages=plan.tiling.b_stages),
    )
    return (
        *peers(plan),
        Loop(id="mma.k", note="every stage that is loaded", var=k_step, count=nest.turns, body=body),
        *core.complete(),
    )
