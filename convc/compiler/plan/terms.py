"""The terms of a plan's time: each unit's cycles for one CTA, in closed form.

Every function is one term, in cycles of the SM clock, of one CTA that has an SM for itself; the rates are those of
`convc.ir.arch.Rates`, the issue cycles of the threads those of `convc.compiler.plan.issue_cycles`.
What several CTAs and SMs share is in `convc.compiler.plan.cost`.
"""

from __future__ import annotations

from typing import NamedTuple

from convc.compiler.plan.issue_cycles import (
    BLOCKED,
    CHUNK,
    EXIT,
    FIRST_MMA,
    HELD_COLUMN,
    LINE_COPY,
    LOAD_STAGE_UNROLLED,
    MMA,
    STAGED,
    STAGED_COLUMN,
    STAGED_RESIDUAL,
    STAGED_RESIDUAL_F32,
    STAGED_STORE,
    SUM_READ,
    SUM_WRITTEN,
    ready_cycles,
    start_cycles,
)
from convc.compiler.plan.storage import SUM_BYTES
from convc.compiler.plan.work import ATOM_BYTES, FACTOR_ROW_BYTES, SECTOR_BYTES, TILE_COPY_BYTES, CtaWork
from convc.ir.arch import SM_100A, Rates


class MmaTimes(NamedTuple):
    """Cycles of one MMA of a CTA, whose terms are needed again and again.

    Attributes:
        multiply, port: in which it multiplies, and in which it reads its operands.
        interval: to the next one of a long chain: the slower of both, with a floor.
        latency: from its issue to its barrier: A is read first, then the columns are multiplied.
    """

    multiply: float
    port: float
    interval: float
    latency: float

    @property
    def seen(self) -> float:
        """Cycles from its end on the tensor core to its barrier."""
        return self.latency - self.interval


def mma_times(work: CtaWork, rates: Rates) -> MmaTimes:
    """Count the cycles of one MMA."""
    multiply = multiply_interval(work, rates)
    port = port_interval(work, rates)
    least = 0.0 if work.a_in_tensor or work.ctas > 1 else rates.mma_floor
    read = 0.0 if work.a_in_tensor else work.m * ATOM_BYTES / rates.read_bytes
    depth = rates.pair_depth if work.ctas > 1 else rates.mma_depth
    return MmaTimes(multiply, port, max(multiply, port, least), depth + read + multiply)


def multiply_interval(work: CtaWork, rates: Rates) -> float:
    """Cycles in which the tensor core multiplies for one MMA: its columns, whatever the type."""
    return work.n / rates.mma_columns


def port_bytes(work: CtaWork) -> int:
    """Bytes of shared memory that all MMAs of a CTA read."""
    return work.mmas * mma_bytes(work)


def mma_bytes(work: CtaWork) -> int:
    """Bytes of shared memory that one MMA reads: `ATOM_BYTES` of every row of its operands there."""
    filters = work.n // work.ctas
    return (filters if work.a_in_tensor else work.m + filters) * ATOM_BYTES


def port_interval(work: CtaWork, rates: Rates) -> float:
    """Cycles in which one MMA reads its operands from shared memory."""
    exchange = rates.pair_port if work.ctas > 1 and not work.a_in_tensor else 0.0
    return mma_bytes(work) / rates.read_bytes + exchange


def tensor_cycles(work: CtaWork, mma: MmaTimes, rates: Rates) -> float:
    """Cycles of the tensor core: MMAs, copies to tensor memory and moves of rows, one after the other."""
    moves = work.shifts * rates.shift_cycles + work.moving * rates.ashift_cycles
    copies = work.copies * TILE_COPY_BYTES / rates.tensor_copy_bytes + work.refreshes * rates.refresh_cycles
    return work.mmas * mma.interval + copies + moves


def drain_cycles(work: CtaWork, mma: MmaTimes, rates: Rates) -> float:
    """Cycles that the issuing thread waits for its own operations, the MMAs of a filter tile before each wait."""
    if not work.drains:
        return 0.0
    behind = work.mmas / work.rings[-1].steps * (mma.interval + rates.ashift_cycles - MMA)
    return work.drains * (mma.latency + max(0.0, behind))


def fill_cycles(work: CtaWork, rows: tuple[float, float], rates: Rates) -> float:
    """Cycles of the port through which TMA fills shared memory: bytes, or requests where rows take many.

    Args:
        work, rates: of the CTA, and of the target.
        rows: cycles of a row of activations, and of one of the filter (`convc.compiler.plan.requests.row_cycles`).
    """
    factors = max(work.factor_bytes / rates.fill_bytes, work.factor_bytes / FACTOR_ROW_BYTES / rates.fill_rows)
    return operand_fill_cycles(work, rows) + factors


def operand_fill_cycles(work: CtaWork, rows: tuple[float, float]) -> float:
    """Those of `fill_cycles` for operands without scale factors."""
    factors = FACTOR_ROW_BYTES if work.factor_bytes else 0
    activations = work.activation_bytes / (work.row_bytes + factors)
    both = (work.loaded_bytes - work.factor_bytes) / work.row_bytes
    return activations * rows[0] + (both - activations) * rows[1]


def copy_cycles(rates: Rates) -> float:
    """Cycles from issuing an activation copy of no length to the end of the wait for it."""
    return rates.copy_latency + rates.im2col_latency


def first_mma_cycles(work: CtaWork, fill: float, rates: Rates) -> float:
    """Cycles from the entry of a CTA to its first MMA: set-up, the first tile of every ring, its way to tensor memory.

    Args:
        work, rates: of the CTA, and of the target.
        fill: cycles in which TMA fills all tiles.
    """
    first = work.activation_bytes / work.rings[0].steps + work.filter_bytes / work.rings[-1].steps
    meet = rates.cluster_barrier if work.ctas > 1 or work.multicast != (1, 1) else 0.0
    there = start_cycles(work) + copy_cycles(rates) + fill * first / work.loaded_bytes
    moved = work.copies / work.rings[0].steps * TILE_COPY_BYTES / rates.tensor_copy_bytes
    return meet + max(there, ready_cycles(work)) + moved + FIRST_MMA


def ring_cycles(steps: int, stages: int, turn: float) -> float:
    """Cycles that a K loop takes at least because a stage is used again only after copy, multiply and give back.

    Args:
        steps, stages: tiles that go through a ring, and its places; without any it never ends.
        turn: cycles from the copy of a tile to the next copy into its place.
    """
    if stages < 1:
        return float("inf")
    return (-(-steps // stages) - 1) * turn


def turn_cycles(steps: int, tile: float, fill: float, seen: float, rates: Rates) -> float:
    """Cycles from the copy of a tile of a ring to the next copy into its place (see `ring_cycles`).

    Args:
        steps: tiles that go through the ring.
        tile: cycles in which all tiles are multiplied, one after the other.
        fill: the same of filling them.
        seen: cycles from the end of an MMA to its barrier.
        rates: of the target.
    """
    return copy_cycles(rates) + (tile + fill) / steps + seen + LOAD_STAGE_UNROLLED


def last_mma_cycles(work: CtaWork, mma: MmaTimes, rates: Rates) -> float:
    """Cycles from the end of the last MMA on the tensor core to the moment at which the epilogue knows of it.

    Those in which CTAs of a cluster meet before one of them leaves are counted here too.
    """
    chain = rates.mma_chain if work.mmas > 1 else 0.0
    meet = rates.cluster_barrier if work.ctas > 1 or work.multicast != (1, 1) else 0.0
    return meet + mma.seen + chain


class StoreTimes(NamedTuple):
    """Cycles of the SM's way to global memory for an epilogue.

    Attributes:
        all: what it stores, the residual that it reads, and the bias. Of results that tensor copies store, those
            of the port through which they are read from shared memory.
        behind: those that no instruction of the epilogue goes beside. Of tensor copies these are the last one, and the
            residual that threads wait for.
        leaving: those of the last tensor copy of results; 0 where threads store them.
    """

    all: float
    behind: float
    leaving: float


def store_times(work: CtaWork, residual: bool, rates: Rates) -> StoreTimes:
    """Count the cycles of the way to global memory."""
    if not work.slabs:
        bias = work.chunks * rates.half_sector_cycles * 16
        stores = work.stores * work.store_cycles * (1 + residual) + bias
        return StoreTimes(stores, stores, 0.0)
    slabs = work.slabs * work.slab_bytes / rates.store_bytes
    reads = residual_reads(work, residual, rates)
    leaving = slabs / work.slabs
    behind = max(0.0, leaving - work.line_copies * LINE_COPY) + reads  # it leaves as its lines are issued
    return StoreTimes(slabs + reads, behind, leaving)


def residual_reads(work: CtaWork, residual: bool, rates: Rates) -> float:
    """Cycles of the SM's way to global memory for a residual that threads read, where results are staged."""
    if work.residual_bytes or not residual:
        return 0.0
    return work.stores * SM_100A.limits.tmem_lanes * rates.sector_cycles


def epilogue_own_cycles(work: CtaWork, residual: bool, rates: Rates) -> float:
    """Cycles of an epilogue besides that: the instructions of its threads, which take a piece after the other."""
    wait = rates.load_latency if residual and not work.residual_bytes else 0.0
    if work.slabs:
        whole = 4 * work.stores == work.n  # 16 bytes are four results, and so is the residual that they are added to
        each = STAGED_RESIDUAL_F32 if whole else STAGED_RESIDUAL
        added = work.stores * each if work.residual_bytes else 0.0
        lines = work.slabs * work.line_copies * LINE_COPY
        column = HELD_COLUMN if work.held else STAGED_COLUMN
        own = work.n * column + work.stores * STAGED_STORE + lines + added
        return STAGED + own + work.chunks * wait
    if work.parts > 1:
        own = work.n // work.parts * STAGED_COLUMN + work.stores * work.store_own + wait
        return STAGED + own + EXIT + exchange_cycles(work, rates)
    return work.chunks * (CHUNK + wait) + work.stores * work.store_own + EXIT


def blocked_cycles(work: CtaWork, mma: MmaTimes, rates: Rates) -> float:
    """Cycles that an epilogue waits for shared memory, were MMAs to run beside all of it: results, and the bias."""
    if not work.slabs:
        return 0.0
    left = 1 - mma.port / mma.interval
    part = max(rates.beside_bytes / rates.read_bytes, left)
    accesses = work.slabs * work.slab_bytes / rates.read_bytes + (0 if work.held else work.n)
    return BLOCKED * accesses * (1 / part - 1)


def exchange_cycles(work: CtaWork, rates: Rates) -> float:
    """Cycles in which split-K CTAs exchange their sums: written, met, read, and met again."""
    own = work.n * (SUM_WRITTEN + SUM_READ)
    met = own + 2 * rates.cluster_barrier + rates.remote_latency + work.sum_bytes / rates.remote_bytes
    return met + kept_cycles(work, rates)


def kept_cycles(work: CtaWork, rates: Rates) -> float:
    """Cycles of the CTA that adds the sums of all clusters: it writes its own, says so, waits, and reads all of them.

    A release waits until what was written has arrived, the atomic and the first sums come from L2 too.
    """
    if work.clusters == 1:
        return 0.0
    sectors = work.m * work.n // work.parts * SUM_BYTES / SECTOR_BYTES
    added = work.clusters * work.n // work.parts * SUM_READ
    return 3 * rates.load_latency + (1 + work.clusters) * sectors * rates.sector_cycles + added
