"""The work of one CTA of a plan, in numbers that the simulator can count.

The estimate (`convc.compiler.plan.cost`) is made from these, and `convc verify` prints what the simulator counted for
the same kernel: the two must agree.
"""

from __future__ import annotations

import math

import msgspec
from msgspec.structs import replace

from convc.host_layout.device_layout import DeviceLayout
from convc.ir.arch import SM_100A, Arch, Rates

ATOM_BYTES = SM_100A.limits.mma_atom_bytes
"""Bytes of K that an MMA, and a copy to tensor memory, take from every operand row."""
TILE_COPY_BYTES = SM_100A.limits.tmem_lanes * ATOM_BYTES
"""Bytes that ``tcgen05.cp.128x256b`` reads."""
REFRESH_BYTES = 4 * ATOM_BYTES
"""Bytes that ``tcgen05.cp.4x256b`` reads."""

FACTOR_ROW_BYTES = SM_100A.limits.tma_unit_bytes
"""Bytes that a copy of scale factors brings for each row: the least that it can."""

SECTOR_BYTES = 32
"""Bytes of global memory that are read and written together."""

STORE_BYTES = 16
"""Bytes that a thread of the epilogue stores at once, where a lane holds an output pixel."""

ROW_CHUNKS = (32, 16)
"""Columns that the epilogue reads at a time where a lane holds an output pixel: the first that divides the tile
(``tcgen05.ld`` takes powers of two)."""

UNROLLED_TURNS = 4
"""Turns of an innermost loop that ptxas unrolls, so that its stage and its counter are no longer computed."""


def row_chunk(columns: int) -> int:
    """Columns that the epilogue reads at a time; a width that none divides is priced before it is turned down."""
    return next((chunk for chunk in ROW_CHUNKS if columns % chunk == 0), ROW_CHUNKS[-1])


def row_store_cycles(layout: DeviceLayout, rates: Rates) -> float:
    """Cycles of the SM's way to global memory for one store of all threads: each fills half a sector of its own row.

    An output of fewer pixels than a tile has rows leaves the others idle.
    """
    rows = min(SM_100A.limits.tmem_lanes, math.prod(layout.output.shape[:-1]))
    return rows * rates.half_sector_cycles


class RingUse(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A ring of stages: `steps` tiles go through `stages` places.

    Attributes:
        steps, stages: tiles, and places.
        load_unrolled, multiply_unrolled: tiles that are loaded, and that are multiplied, in a loop that ptxas unrolls:
            an innermost one of at most `UNROLLED_TURNS`.
    """

    steps: int
    stages: int
    load_unrolled: int = 0
    multiply_unrolled: int = 0


class CtaWork(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The work of one CTA: its K loop, and its epilogue.

    Attributes:
        mmas: ``tcgen05.mma`` instructions.
        m, n: their rows and columns in this CTA.
        ctas: CTAs that each of them is done by, and that have a part of the filter's rows each.
        multicast: tiles of pixels and of channels of a cluster: as many CTAs have the same filters, and activations, of
            which each asks L2 for its part.
        a_in_tensor: whether their first operand lies in tensor memory.
        activation_bytes, filter_bytes: what TMA brings, zero-filled bytes included.
        factor_bytes: how many of these are scale factors, in rows of `FACTOR_ROW_BYTES`.
        row_bytes: bytes of an operand row in shared memory.
        loads: TMA copies.
        rings: through which stages those tiles go; the last one is that of the filter, or of both.
        copies, refreshes: ``tcgen05.cp`` of whole tiles (128x256b), and of halo rows (4x256b).
        shifts: ``tcgen05.shift`` instructions.
        moving: MMAs that move the rows themselves (``.ashift``).
        drains: times that the issuing thread waits until its tensor operations are done.
        own_waits: times that it waits for room in tensor memory.
        masks: entries of the table of lane masks, which is made before anything is multiplied.
        masked: masks that are read in front of multiplications.
        chunks: pieces in which each thread of the epilogue reads the accumulator.
        stores: store instructions of each thread of the epilogue.
        store_own: issue cycles of a thread for each of them.
        store_cycles: cycles of the SM's way to global memory for one of all threads.
        residual_bytes: what tensor copies bring of a residual; 0: threads read it, if there is one.
        parts: CTAs of a cluster that share the K loop of the tile, and exchange sums (`convc.compiler.plan.split`).
        clusters: how many such clusters there are, which keep what they have added in global memory.
        sum_bytes: what each of them reads of the sums of the others.
        slabs, slab_bytes: tensor copies that carry the results away, and the bytes of each; no copies: threads store
            to global memory.
        held: whether threads of the epilogue have what they add to each channel in registers.
        line_copies: into how many copies, of four lines each, a warp divides its part of a slab; 0: it is one box.
    """

    mmas: int
    m: int
    n: int
    a_in_tensor: bool = False
    activation_bytes: int
    filter_bytes: int
    row_bytes: int
    loads: int
    rings: tuple[RingUse, ...]
    copies: int = 0
    refreshes: int = 0
    shifts: int = 0
    moving: int = 0
    drains: int = 0
    own_waits: int = 0
    masks: int = 0
    masked: int = 0
    chunks: int = 0
    stores: int
    store_own: float
    store_cycles: float
    slabs: int = 0
    slab_bytes: int = 0
    line_copies: int = 0
    held: bool = False
    factor_bytes: int = 0
    ctas: int = 1
    residual_bytes: int = 0
    parts: int = 1
    clusters: int = 1
    sum_bytes: int = 0
    multicast: tuple[int, int] = (1, 1)

    @property
    def loaded_bytes(self) -> int:
        """Bytes of operands through TMA."""
        return self.activation_bytes + self.filter_bytes

    @property
    def asked_bytes(self) -> tuple[int, int]:
        """Bytes of activations and of filters that the CTA asks L2 for; others bring it the rest."""
        pixels, channels = self.multicast
        return self.activation_bytes // channels, self.filter_bytes // pixels

    @property
    def read_bytes(self) -> int:
        """Bytes of shared memory that MMAs and copies to tensor memory read."""
        filters = self.n // self.ctas
        rows = filters if self.a_in_tensor else self.m + filters
        return self.mmas * rows * ATOM_BYTES + self.copies * TILE_COPY_BYTES + self.refreshes * REFRESH_BYTES


def with_stages(work: CtaWork, stages: tuple[int, ...]) -> CtaWork:
    """Give rings other stages, in the order of `CtaWork.rings`; the work stays as it is otherwise."""
    if all(ring.stages == deep for ring, deep in zip(work.rings, stages, strict=True)):
        return work
    rings = (replace(ring, stages=deep) for ring, deep in zip(work.rings, stages, strict=True))
    return replace(work, rings=tuple(rings))


def stored_columns(layout: DeviceLayout, arch: Arch) -> int:
    """Columns that the threads of a row store at once, 16 bytes each: a tile has a multiple of them."""
    return STORE_BYTES // layout.problem.out_dtype.bytes * arch.limits.row_lanes
