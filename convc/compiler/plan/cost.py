"""The time that a candidate should take: a closed-form model of one launch, in SM clock cycles.

The K loop of a CTA goes at the pace of its slowest supplier: the tensor core with the port through which it reads
shared memory, the port through which TMA fills that, the two threads that issue copies and MMAs, the SM's share of L2
and of memory, or the latency of copies, of which as many are under way as there are stages. Around the loop every CTA
has its set-up, its first copy, its last MMA and its epilogue (`convc.compiler.plan.terms`).

CTAs go over the SMs in rounds, as many on an SM at a time as fit. Those beside each other begin together: they share
the tensor core, the fill port and the way to global memory, and hide each other's waits and instructions. All SMs share
L2 and memory, and those have more of it that read while others do not.

The model is a fast stand-in for the timing engine (`convc.timing`): its rates are the engine's (`convc.ir.arch.Rates`),
and ``convc/docs/timing_measurements.md`` shows how far each term is from what the engine finds. It ranks candidates.
"""

from __future__ import annotations

import math

import msgspec

from convc.compiler.plan import terms
from convc.compiler.plan.constraints import TiledProblem, TileGrid
from convc.compiler.plan.issue_cycles import MASK, MMA, load_issue_cycles, multiply_issue_cycles
from convc.compiler.plan.memory_traffic import launch_bytes, memory_bytes
from convc.compiler.plan.records import Estimate
from convc.compiler.plan.requests import row_cycles
from convc.compiler.plan.residency import beside
from convc.compiler.plan.shares import asked_in_parts, fullest_cpc, in_parts
from convc.compiler.plan.work import ATOM_BYTES, FACTOR_ROW_BYTES, CtaWork
from convc.ir.arch import Rates

IN_STEP = 0.95
"""Part of its time for which an SM may need its share of L2 and not be held up by it (`convc.timing.chip`)."""


ROUNDED = 1 - 1e-9
"""What is left of a bound, so that sums that are rounded in another order cannot be below it."""


class Pace(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The part of an estimate that does not depend on the number of stages.

    Attributes:
        rates: of the target.
        ctas: of the launch.
        asked_bytes: what a CTA asks L2 for, those bytes that the next one wants as well.
        shared_bytes: those bytes: SMs of a GPC ask for them together, some of the time.
        memory_bytes: what the whole launch moves from and to memory.
        least: cycles that L2, the way to it and memory need for the bytes of the whole launch.
        tensor, fill: cycles of the tensor core and of the fill port for a CTA.
        residual_fill: cycles of that port for its residual, which comes behind the operands.
        suppliers: cycles of the K loop if only this limited it, by what it is, but for what other SMs and stages limit.
        loop: cycles of the loop, from the first MMA to the end of the last one, where these do not limit it.
        stage: cycles in which the last stage is multiplied once it is there.
        busy: cycles in which all are, one after the other.
        seen: cycles from the end of an MMA on the tensor core to its barrier.
        around: cycles of a CTA outside its K loop, its epilogue left out.
        own, stores: cycles of its epilogue: instructions of its threads, and the way to global memory.
        pieces: in how many pieces the epilogue does both in turn.
        persistent_ctas: persistent CTAs, of which there are `ctas`; None: each tile has its own.
        one_by_one: whether those multiply no tile before the one before has been stored by the epilogue.
        blocked: cycles of it that shared memory lets it wait where MMAs run beside all of it (`terms.blocked_cycles`).
        leaving: cycles of the last copy of results, behind which the next tile's epilogue may begin.
        behind: cycles of the way to global memory that no instruction goes beside (`terms.StoreTimes`).
    """

    rates: Rates
    ctas: int
    asked_bytes: float
    shared_bytes: float
    memory_bytes: int
    least: float
    tensor: float
    fill: float
    residual_fill: float
    suppliers: dict[str, float]
    loop: float
    stage: float
    busy: float
    seen: float
    around: float
    own: float
    stores: float
    pieces: int
    behind: float
    blocked: float = 0.0
    leaving: float = 0.0
    persistent_ctas: int | None = None
    one_by_one: bool = False

    @property
    def most_beside(self) -> int:
        """CTAs of an SM, were all to run at once."""
        if self.persistent_ctas is not None:
            return 1
        return -(-self.ctas // self.rates.sms)

    @property
    def hidden(self) -> float:
        """The latency of copies, as `cycles` takes it, that the K loop hides whatever else limits it."""
        return self.loop - self.stage

    def cycles(self, latency: float, beside: int) -> float:
        """Cycles of the launch.

        Args:
            latency: what the K loop takes at least because copies take their time.
            beside: CTAs that an SM holds.
        """
        rates = self.rates
        slots = self.persistent_ctas or rates.sms * beside
        before = -(-self.ctas // slots) - 1 if self.persistent_ctas is None else 0  # rounds before the last
        rest = self.ctas - before * slots
        last = self.persistent_cycles(slots, latency) if self.persistent_ctas else self.round_cycles(rest, latency)[0]
        total = last + (before * self.round_cycles(slots, latency)[0] if before else 0.0)
        gaps = before * rates.cta_start
        spread = min(1.0, (self.persistent_ctas or self.ctas) / rates.sms) * (
            rates.launch_spread + rates.launch_slowest * last
        )
        return max(total, self.least - gaps) + gaps + spread

    @property
    def floor(self) -> float:
        """Cycles that `cycles` is not below, however long copies take and however many CTAs an SM holds.

        The CTAs of an SM multiply, and fill, one after the other: of those beside each other and of rounds alike.
        """
        on_each = -(-self.ctas // self.rates.sms)
        if self.persistent_ctas is not None:
            return ROUNDED * self.persistent_cycles(self.persistent_ctas, self.hidden)
        loop = max(self.loop, on_each * self.tensor, on_each * (self.fill + self.residual_fill))
        return ROUNDED * max(self.around + loop + self.epilogue_cycles(1), self.least)

    def persistent_cycles(self, persistent_ctas: int, latency: float) -> float:
        """Cycles of persistent CTAs: the epilogue of each but the last runs behind the next K loop.

        Where the accumulator lies in registers only copies do.
        Tiles follow each other without a gap, so that what limits each but the first is its slowest supplier, or the
        epilogue of the one before.
        """
        epilogue = self.epilogue_cycles(1)
        shared = self.shared_cycles(persistent_ctas, self.rates.together)
        first = max(self.loop, latency + self.stage, shared)
        again = max(epilogue - self.leaving, self.stores)  # MMAs block it: t = again + blocked * tensor / t
        beside = min((again + math.sqrt(again**2 + 4 * self.blocked * self.tensor)) / 2, again + self.blocked)
        tile = max(*self.suppliers.values(), latency, shared, epilogue, beside)
        if self.one_by_one:
            tile = max(tile, self.loop + epilogue)
        return self.around + first + (-(-self.ctas // persistent_ctas) - 1) * tile + epilogue

    def round_cycles(self, ctas: int, latency: float) -> tuple[float, float]:
        """Cycles of one round of that many CTAs, and of those the ones in which all of them would read at once.

        Where the loop waits for L2 or memory, an SM has more of it while others do not read: with the part r of the
        round in which all would have to, r = reads / round and round = around + r * reads. CTAs that begin together
        ask for the same together, as long as L2 delays none of them.
        """
        rates = self.rates
        on_each = -(-ctas // rates.sms)
        loop = max(self.loop, latency + self.stage, on_each * self.tensor, on_each * (self.fill + self.residual_fill))
        around = self.around + self.epilogue_cycles(on_each)
        cycles = reads = 0.0
        for alike in (rates.together_in_step, rates.together) if ctas == self.ctas else (rates.together,):
            reads = self.shared_cycles(ctas, alike)
            crowded = min((around + math.sqrt(around * around + 4 * reads * reads)) / 2, around + reads)
            cycles = max(around + loop, crowded)
            if reads < IN_STEP * cycles:
                break
        return cycles, reads

    def epilogue_cycles(self, on_each: int) -> float:
        """Cycles of the epilogues of CTAs on one SM: while one computes, others store."""
        return max(self.own + self.behind, self.own / self.pieces + on_each * self.stores)

    def shared_cycles(self, ctas: int, alike: float) -> float:
        """Cycles in which an SM gets the operands of its CTAs from L2 and memory, while all of a round ask.

        `alike`: equal requests of the SMs of a GPC that are served as one.
        """
        rates = self.rates
        on_each = -(-ctas // rates.sms)
        asking = ctas / on_each
        together = max(1.0, asking / rates.gpcs)
        asked = on_each * (self.asked_bytes + self.shared_bytes / min(alike, together))
        rate = min(
            rates.l2_rate / rates.clock_mhz / asking,
            rates.gpc_bytes / together,
            rates.cpc_bytes / fullest_cpc(asking, rates),
        )
        traffic = on_each * self.memory_bytes / self.ctas
        return max(asked / rate, traffic * asking / (rates.memory_rate / rates.clock_mhz))


def pace_of(tiles: TileGrid, work: CtaWork, rows: tuple[float, float]) -> Pace:
    """Find what tiles take whatever their stages, and so whatever memory.

    Args:
        tiles: how the problem is cut.
        work: of a CTA with any number of stages.
        rows: cycles of a row of activations, and of one of the filter (`convc.compiler.plan.requests.row_cycles`).
    """
    rates = tiles.arch.rates
    size = tiles.size or launch_bytes(tiles.layout, rates)
    residual = size.residual > 0
    mma = terms.mma_times(work, rates)
    tensor = terms.tensor_cycles(work, mma, rates)
    fill = terms.fill_cycles(work, rows, rates)
    residual_fill = work.residual_bytes / rates.fill_bytes
    load = load_issue_cycles(work)
    multiply = multiply_issue_cycles(work) + terms.drain_cycles(work, mma, rates)
    steps = work.rings[-1].steps
    stage = max(tensor, work.mmas * MMA) / steps
    stores = terms.store_times(work, residual, rates)
    inside = mma.port > mma.multiply
    activations, filters = work.asked_bytes
    common = filters if tiles.grid[0] > 1 else activations  # grid.x is what counts first
    asked = float(activations + filters - common)
    if in_parts(work, rows, rates):
        asked = asked_in_parts(tiles, work, rows)
        common = 0
    masks = 0 if tiles.ctas is None else MASK * work.masks  # of the next tile
    traffic = tiles.traffic
    if traffic is None:
        free = work.multicast == (1, 1)  # the rasterization order is chosen later, but with multicast
        traffic = memory_bytes(size, tiles.grid, free=free)
    ctas = tiles.grid[0] * tiles.grid[1] * tiles.parts
    asked += work.residual_bytes
    together = max(1.0, min(ctas, rates.sms) / rates.gpcs)
    read = ctas * (asked + common / min(rates.together, together))
    least = max(read / rates.l2_rate, size.output / rates.store_rate, traffic / rates.memory_rate)
    return Pace(
        rates=rates,
        ctas=ctas,
        asked_bytes=asked,
        shared_bytes=common,
        memory_bytes=traffic,
        least=least * rates.clock_mhz,
        tensor=tensor,
        fill=fill,
        residual_fill=residual_fill,
        suppliers={
            "shared memory" if inside else "tensor core": tensor,
            "TMA fill": fill + residual_fill,
            "issue of copies": load,
            "issue of MMAs": multiply,
        },
        loop=max(tensor, max(multiply, load, fill) * (steps - 1) / steps + stage),
        stage=stage,
        busy=max(tensor, multiply),
        seen=mma.seen,
        around=terms.first_mma_cycles(work, fill, rates) + terms.last_mma_cycles(work, mma, rates),
        own=terms.epilogue_own_cycles(work, residual, rates) + masks,
        stores=stores.all,
        pieces=max(1, work.slabs or work.chunks),
        behind=stores.behind,
        leaving=stores.leaving,
        blocked=terms.blocked_cycles(work, mma, rates) if tiles.arch.limits.tmem_columns else 0.0,
        persistent_ctas=tiles.ctas,
        one_by_one=tiles.ctas is not None and not tiles.arch.limits.tmem_columns,
    )


def turn_of(steps: int, pace: Pace) -> float:
    """Cycles from the copy of a tile of a ring, through which `steps` go, to the next copy into its place."""
    return terms.turn_cycles(steps, pace.busy, pace.fill, pace.seen, pace.rates)


def latency_of(steps: int, stages: int, turn: float, pace: Pace) -> float:
    """The least that the K loop takes because a stage is used again only after copy, multiply and give back.

    Args:
        steps, stages: tiles that go through a ring, and its places; without any it never ends.
        turn: see `turn_of`.
        pace: of the launch.
    """
    if pace.one_by_one:  # tiles follow each other through the ring, which may have more stages than one has steps
        return turn * steps / max(1, stages)
    return terms.ring_cycles(steps, stages, turn)


def estimate(
    tiled: TiledProblem, work: CtaWork, pace: Pace | None = None, rows: tuple[float, float] | None = None
) -> Estimate:
    """Cycles of the launch and what they come from.

    Args:
        tiled: a tiling of a problem on a target.
        work: of a CTA.
        pace: that of the tiling's width, where it is known.
        rows: of a row of activations, and of one of the filter, where they are known.
    """
    rates = tiled.arch.rates
    rows = rows or row_cycles(tiled.layout, work.row_bytes, rates)
    pace = pace or pace_of(tiled, work, rows)
    latency, on_each = _held_up(tiled, work, pace)
    slots = rates.sms * on_each if tiled.ctas is None else tiled.ctas
    waves = -(-pace.ctas // slots)
    first = min(pace.ctas, slots)
    shared = pace.shared_cycles(first, rates.together) if pace.persistent_ctas else pace.round_cycles(first, latency)[1]
    suppliers = {**pace.suppliers, "copy latency": latency + pace.stage}
    suppliers["memory" if pace.memory_bytes and shared > _l2_alone(pace, first) else "L2"] = shared / on_each
    products = pace.ctas * work.m * work.n * work.mmas * (ATOM_BYTES // tiled.layout.problem.operand_dtype.bytes)
    cycles = pace.cycles(latency, on_each)
    return Estimate(
        ctas=tiled.ctas or pace.ctas,
        busy_sms=busy_sms(tiled, pace),
        beside=on_each,
        waves=waves,
        last_wave_fill=(pace.ctas - (waves - 1) * slots) / slots,
        useful=tiled.layout.problem.macs / products,
        model_share=_model_share(tiled, products),
        traffic_bytes=asked_of_l2(work, pace),
        memory_bytes=pace.memory_bytes,
        fill_rate=(work.loaded_bytes - work.factor_bytes) / terms.operand_fill_cycles(work, rows),
        factor_rate=rates.fill_rows * FACTOR_ROW_BYTES,
        l2_rate=sum(work.asked_bytes) * on_each / shared,
        mma_cycles=pace.tensor,
        read_cycles=work.mmas * terms.port_interval(work, rates),
        fill_cycles=pace.fill,
        l2_cycles=shared / on_each,
        latency_cycles=latency,
        load_cycles=load_issue_cycles(work),
        multiply_cycles=pace.suppliers["issue of MMAs"],
        around_cycles=pace.around,
        epilogue_cycles=pace.epilogue_cycles(1),
        cycles=cycles,
        microseconds=cycles / rates.clock_mhz,
        peak_share=_peak_share(tiled, work, cycles),
        bottleneck=max(suppliers, key=suppliers.__getitem__),
    )


def launch_cycles(tiled: TiledProblem, work: CtaWork, pace: Pace) -> float:
    """Cycles of the launch alone (`Estimate.cycles`)."""
    return pace.cycles(*_held_up(tiled, work, pace))


def busy_sms(tiled: TiledProblem, pace: Pace) -> int:
    """SMs that have a CTA (`Estimate.busy_sms`)."""
    return min(tiled.ctas or pace.ctas, pace.rates.sms)


def asked_of_l2(work: CtaWork, pace: Pace) -> int:
    """Bytes that all CTAs ask L2 for (`Estimate.traffic_bytes`)."""
    return pace.ctas * sum(work.asked_bytes)


def _held_up(tiled: TiledProblem, work: CtaWork, pace: Pace) -> tuple[float, int]:
    """What depends on the stages: the latency of copies, and the CTAs that an SM holds."""
    latency = max(latency_of(ring.steps, ring.stages, turn_of(ring.steps, pace), pace) for ring in work.rings)
    return latency, min(pace.most_beside, beside(tiled.need, tiled.arch))


def _l2_alone(pace: Pace, ctas: int) -> float:
    """What `Pace.shared_cycles` were if nothing came from memory."""
    return msgspec.structs.replace(pace, memory_bytes=0).shared_cycles(ctas, pace.rates.together)


def _peak_share(tiled: TiledProblem, work: CtaWork, cycles: float) -> float:
    """The model's own multiplications, of those that all tensor cores do in so many cycles."""
    layout = tiled.layout
    rates = tiled.arch.rates
    packed = 1 if layout.blocks is None else layout.blocks.packed  # fp4: two elements a byte
    elements = packed * ATOM_BYTES // layout.problem.operand_dtype.bytes
    peak = tiled.arch.limits.mma_m * rates.mma_columns * elements
    return layout.ordinary.macs / (cycles * rates.sms * peak)


def _model_share(tiled: TiledProblem, products: int) -> float | None:
    """The part of the multiplications that is the model's own, where groups are joined or the pixels of rows that
    overlap are filled up; None where neither.
    """
    layout = tiled.layout
    if layout.packing is None and layout.overlap is None:
        return None
    elements = 1 if layout.blocks is None else layout.blocks.packed
    return layout.ordinary.macs / (products * elements)
