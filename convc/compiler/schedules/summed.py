"""Schedule ``reload`` where pixels are summed: the gradient of weights, with MN-major operands.

A stage has the same pixels of x and of dy, a row each: of x as many spans of channels as a tile has rows, each by an
im2col copy at the offset of its filter column, of dy as many as it has columns. The tensor core reads both across, as
neither has its pixels side by side (`convc.host_layout.summed`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from convc.compiler.index.changes import Fact
from convc.compiler.index.conditions import met
from convc.compiler.index.formulas import further
from convc.compiler.index.kernel_nest import KernelNest
from convc.compiler.index.maps import Outcome
from convc.compiler.index.shares import share
from convc.compiler.plan.candidate import ScheduleCandidates
from convc.compiler.plan.candidates import depths, widths
from convc.compiler.plan.constraints import TILING_RULES
from convc.compiler.plan.coordinates import Coordinate, SummedCoordinates, coordinate
from convc.compiler.plan.issue_cycles import ROW_STORE
from convc.compiler.plan.names import ACC, A, B, Number, SmemName
from convc.compiler.plan.offer import Candidate, Offer
from convc.compiler.plan.records import Indexing, Pipeline, Plan, Tiling
from convc.compiler.plan.residual_tile import copied, residual_map, with_residual
from convc.compiler.plan.result_tile import (
    number_tile,
    result_map,
    result_rows,
    result_tile,
    staged,
)
from convc.compiler.plan.results import demand_proof, met_conditions, result_of
from convc.compiler.plan.storage import BarrierRing, Storage, TmemTile, lay_out, tile_ring
from convc.compiler.plan.summed import FORM, spans, summed_loads, summed_maps, summed_sizes
from convc.compiler.plan.tiling import Depths
from convc.compiler.plan.validation import check_sizes
from convc.compiler.plan.work import (
    STORE_BYTES,
    UNROLLED_TURNS,
    CtaWork,
    RingUse,
    row_chunk,
    row_store_cycles,
    stored_columns,
)
from convc.compiler.schedules.base import TMA, Method, Request, Roles, Ways
from convc.compiler.schedules.cores.all import core_of
from convc.compiler.schedules.epilogue import row_epilogue
from convc.compiler.schedules.nesting import nest_of
from convc.compiler.schedules.reload import EMPTY, FULL, in_each_way
from convc.compiler.schedules.residual import load_residual
from convc.compiler.schedules.skeleton import MAP_A, MAP_B, TURN, compute, number, shares_blocks
from convc.compiler.tile.steps.base import Compute, Loop, Step
from convc.compiler.tile.steps.copies import TmaLoad
from convc.compiler.tile.steps.rings import Advance, ExpectBytes, RingWait
from convc.host_layout.device_layout import DeviceLayout
from convc.host_layout.summed import SPAN_BYTES, span_of
from convc.ir.arch import Arch
from convc.ir.expr import Const, Var


@dataclass(frozen=True, slots=True, kw_only=True)
class Summed(Method):
    """Tiles of x and of dy for every block of pixels."""

    def candidates(self, layout: DeviceLayout, arch: Arch, request: Request) -> ScheduleCandidates:
        """Look at every tiling."""
        return in_each_way(self.schedule, layout, arch, request, self._offer)

    def _offer(self, layout: DeviceLayout, arch: Arch, request: Request, rows: int, ways: Ways) -> Offer:
        """The tilings of so many rows whose results leave in one way."""

        def work(tiling: Tiling, pipeline: Pipeline) -> CtaWork:
            done = _work(layout, tiling, pipeline, arch)
            if ways.store == TMA:
                done = staged(done, result_tile(layout, tiling))
            return copied(done, layout, tiling) if ways.residual_load == TMA else done

        return Offer(
            layout=layout,
            arch=arch,
            depths=tuple(_tilings(layout, rows, request, stored_columns(layout, arch))),
            rows=-(-layout.problem.gemm_m // rows),
            storage=lambda tiling: _storage(layout, tiling, arch, ways),
            work=work,
            rules=(*TILING_RULES, result_rows) if ways.store == TMA else TILING_RULES,
        )

    def indexing(self, candidate: Candidate) -> Indexing:
        """Derive the maps of a tiling; limits of the hardware are left to prove."""
        tiled = candidate.tiled
        layout = tiled.layout
        tiling = tiled.tiling
        pipeline = candidate.pipeline
        derived = summed_maps(layout, tiling, pipeline, tiled.grid)
        check_sizes(layout.problem, derived.sizes, summed_sizes(layout, tiling, pipeline, tiled.grid))
        loads = summed_loads(layout, tiling, pipeline)
        results = candidate.storage.results
        residual = candidate.storage.residual
        warp_rows = tiled.arch.limits.warp_rows
        rows = {"BM": tiling.block_m, "WARP": warp_rows, "WARPS": tiling.block_m // warp_rows}
        fact = Fact("rows of a warp", rows)
        whole = Fact("rows of a tile", {})
        proofs: list[Outcome] = [*met_conditions(self.schedule.name, layout.problem, derived)]
        proofs += [] if results is None else [met(fact)]
        proofs += [] if residual is None else [met(whole)]
        demand_proof(layout.problem, proofs)
        row, column, store = map(derived.map, ("row", "column", "store"))
        start = derived.map("start")
        span = derived.map("span")
        first = further(derived, rows, warp=rows["WARPS"])
        byte = share("place of an element", "byte", ELEMENT=layout.problem.out_dtype.bytes, offset=store["offset"])
        return Indexing(
            coordinates=SummedCoordinates(
                start_w=result_of(start, "w", "start_w"),
                start_h=result_of(start, "h", "start_h"),
                start_n=result_of(start, "n", "start_n"),
                pixel=result_of(derived.map("pixel"), "pixel", "pixel"),
                off_w=result_of(span, "off_w", "off_w"),
                off_h=result_of(span, "off_h", "off_h"),
                c=result_of(span, "c", "c"),
                first_k=result_of(derived.map("first_k"), "k", "first_k"),
                first_m=None
                if results is None
                else result_of(first.map("first_row"), "m", "first_m", fact.record.theorem),
                m=result_of(row, "m", "m"),
                k=result_of(column, "k", "k"),
                out_byte=coordinate("out_byte", byte, f"store.offset in bytes of {layout.problem.out}"),
            ),
            loads=replace(
                loads,
                out=None if results is None else result_map(layout, results, warp_rows),
                residual=None if residual is None else residual_map(layout, tiling),
            ),
            derivation=tuple(map(str, proofs)),
            form=FORM,
            row_limit=layout.problem.gemm_m if row.guard else None,
            channel_limit=layout.k_pitch if column.guard else None,
        )

    def roles(self, plan: Plan) -> Roles:
        """Spans of x and of dy for every block of pixels, and their product."""
        nest = nest_of(plan)
        return Roles(load=_load(plan, nest), multiply=_multiply(plan, nest), epilogue=row_epilogue(plan))


def _tilings(layout: DeviceLayout, rows: int, request: Request, least: int) -> Iterator[Depths]:
    """Candidates of so many rows: widths of whole spans, or that of all output channels."""
    deep = tuple((0, depth) for depth in depths(layout, SPAN_BYTES, request.stages))
    found = widths(layout, request.block_n, least)
    for width in found:
        if width == found[-1] or width % span_of(layout.problem) == 0:
            first = Tiling(block_m=rows, block_n=width, row_bytes=SPAN_BYTES, b_stages=deep[0][1])
            yield Depths(first=first, stages=deep)


def _tile_rows(layout: DeviceLayout, extent: int) -> int:
    """Rows of an operand tile: the pixels of a step, as many as a span has channels, in each of its spans."""
    return span_of(layout.problem) * spans(layout, extent)


def _storage(layout: DeviceLayout, tiling: Tiling, arch: Arch, ways: Ways) -> Storage:
    """Lay out one CTA; rings as of `Reload`."""
    if ways.residual_load == TMA:
        return with_residual(_storage(layout, tiling, arch, Ways(store=ways.store)), layout, tiling, arch)
    results = result_tile(layout, tiling) if ways.store == TMA else None
    numbers = number_tile(layout, tiling) if ways.store == TMA else None
    a = tile_ring(A, _tile_rows(layout, tiling.block_m), tiling.row_bytes, tiling.b_stages, 0)
    b = tile_ring(B, _tile_rows(layout, tiling.block_n), tiling.row_bytes, tiling.b_stages, a.end)
    acc = TmemTile(name=ACC, lanes=tiling.block_m, columns=tiling.block_n, column_offset=0)
    core = core_of(arch)
    given = core.releases(tiling.block_m)
    rings = (
        BarrierRing(name=FULL, stages=tiling.b_stages, producer="load", consumer="mma"),
        BarrierRing(name=EMPTY, stages=tiling.b_stages, producer="mma", consumer="load", arrivals=given),
        *core.done(),
    )
    return lay_out((a, b), (acc,), rings, arch, results=results, numbers=numbers)


def _work(layout: DeviceLayout, tiling: Tiling, pipeline: Pipeline, arch: Arch) -> CtaWork:
    """Count the K loop: a copy a span."""
    steps = pipeline.blocks
    rows = arch.limits.mma_m
    copies = (spans(layout, tiling.block_m), spans(layout, tiling.block_n))
    brought = pipeline.channels * tiling.row_bytes
    return CtaWork(
        mmas=steps * pipeline.atoms * (tiling.block_m // rows),
        m=rows,
        n=tiling.block_n,
        activation_bytes=steps * copies[0] * brought,
        filter_bytes=steps * copies[1] * brought,
        row_bytes=tiling.row_bytes,
        chunks=tiling.block_n // row_chunk(tiling.block_n),
        stores=tiling.block_n * layout.problem.out_dtype.bytes // STORE_BYTES,
        store_own=ROW_STORE,
        store_cycles=row_store_cycles(layout, arch.rates),
        loads=steps * sum(copies),
        rings=(
            RingUse(
                steps=steps,
                stages=tiling.b_stages,
                load_unrolled=steps if steps <= UNROLLED_TURNS else 0,
                multiply_unrolled=steps if steps <= UNROLLED_TURNS else 0,
            ),
        ),
    )


def summed_coordinates(plan: Plan) -> SummedCoordinates:
    """The coordinates of a plan whose pixels are summed."""
    coordinates = plan.indexing.coordinates
    if not isinstance(coordinates, SummedCoordinates):
        raise TypeError(f"schedule {plan.schedule.title} does not sum over pixels here")
    return coordinates


def _named(each: Coordinate, span: int) -> Number:
    """The number of a span."""
    return Number(f"{each.name}_{span}")


def _of_span(each: Coordinate, span: int) -> Compute:
    """A coordinate of one of the spans of a tile."""
    made = compute(each, "load", dst=_named(each, span), window=Const(span))
    return replace(made, note=f"{made.note}, span {span}")


def _places(nest: KernelNest, tile: SmemName, count: int) -> tuple[Compute, ...]:
    """Where the spans of a tile begin, if there are several."""
    note = f"where a span of tile {tile} begins"
    at = [(number(f"at_{tile}_{span}"), nest.value("span_at", "byte", window=span)) for span in range(count)]
    return tuple(Compute(id=f"load.{name}", note=note, dst=name, expr=byte) for name, byte in at if count > 1)


def _load(plan: Plan, nest: KernelNest) -> tuple[Step, ...]:
    """Copy the spans of both tiles in every iteration of the mainloop."""
    at = summed_coordinates(plan)
    rows = spans(plan.layout, plan.tiling.block_m)
    columns = spans(plan.layout, plan.tiling.block_n)
    start = (at.start_w, at.start_h, at.start_n)
    before = (
        *(_of_span(each, span) for span in range(rows) for each in (at.c, at.off_w, at.off_h)),
        *(_of_span(at.first_k, span) for span in range(columns)),
        *_places(nest, A, rows),
        *_places(nest, B, columns),
    )
    a = TmaLoad(
        id="load.a",
        note="this block's pixels, channels at a filter column",
        map=MAP_A,
        tile=A,
        ring=FULL,
        coords=(at.c.name, *(each.name for each in start)),
        offsets=(at.off_w.name, at.off_h.name),
    )
    b = TmaLoad(
        id="load.b",
        note="the same pixels, output channels",
        map=MAP_B,
        tile=B,
        ring=FULL,
        coords=(at.first_k.name, at.pixel.name),
    )
    stage = (
        *(compute(each, "load") for each in (*start, at.pixel)),
        RingWait(id="load.wait", note="until the stage is free", ring=EMPTY, starts_open=True),
        ExpectBytes(
            id="load.expect",
            note="both tiles of the stage",
            ring=FULL,
            bytes=nest.number("bytes", "a") + nest.number("bytes", "b"),
        ),
        *_copies(a, (at.c, at.off_w, at.off_h), rows),
        *_copies(b, (at.first_k,), columns),
        Advance(id="load.next", note="next stage", stages=plan.tiling.b_stages),
    )
    (loop,) = nest.mainloop
    blocks = Loop(id="load.blocks", note="blocks of pixels", var=number(loop.axis), count=loop.count, body=stage)
    return (*before, blocks, *load_residual(plan))


def _copies(copy: TmaLoad, own: tuple[Coordinate, ...], count: int) -> Iterator[TmaLoad]:
    """A copy for each span of a tile; own: the coordinates of which each has its own."""
    for span in range(count):
        named = {each.name: _named(each, span) for each in own}
        yield replace(
            copy,
            id=f"{copy.id}_{span}",
            coords=tuple(named.get(each, each) for each in copy.coords),
            offsets=tuple(named[each] for each in copy.offsets),
            at=Number(f"at_{copy.tile}_{span}") if count > 1 else None,
        )


def _multiply(plan: Plan, nest: KernelNest) -> tuple[Step, ...]:
    """Multiply stage after stage until the accumulator is complete."""
    k_step = number("k_step")
    first = k_step if plan.launch.parts == 1 or shares_blocks(plan) else TURN
    core = core_of(plan.arch)
    mma = core.product(
        id="mma.multiply",
        note="accumulate activations x gradients over pixels",
        acc=ACC,
        a=A,
        b=B,
        operand=plan.problem.operand,
        m=plan.tiling.block_m,
        n=plan.tiling.block_n,
        atoms=plan.pipeline.atoms,
        counter=first,
        span_rows=plan.pipeline.channels,
    )
    body = (
        RingWait(id="mma.wait", note="until both tiles have landed", ring=FULL, starts_open=False),
        mma,
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
        Loop(id="mma.k", note="every stage that is loaded", var=k_step, count=nest.turns, body=body),
        *core.complete(),
    )
