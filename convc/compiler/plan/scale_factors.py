"""The way of scale factors of blocks of channels to the tensor core.

The factors of a pixel lie behind its channels, so that a second im2col map, with the same walk, brings them: a row of
16 bytes for every row of the activation tile. The tensor core wants them elsewhere: those of row r in lane r % 32 of
all four sub-partitions of tensor memory, column r / 32. No copy turns rows into columns like that, and so the four
warps that wait for the accumulator carry them there: every thread reads the rows whose factors belong into its lane,
and stores them side by side. The filter's go the same way.

A step of the K loop uses some of the 16 bytes of a row: fewer TMA does not bring, and it starts at multiples of them
(recorded: ``tests/recordings``).

Source of the layout: `convc.machine.tensor_core.scale_factors`. Two more rings: ``landed`` (factors are in shared
memory: load signals, the epilogue waits), ``ready`` (they are in tensor memory: every thread of the epilogue signals,
mma waits). The ring ``empty`` gives back all tiles of a stage, since an MMA that has completed has read its factors.
"""

from __future__ import annotations

import itertools

import msgspec

from convc.compiler.index.maps import Counterexample, Outcome, Proof
from convc.compiler.index.shares import share
from convc.compiler.plan.coordinates import FactorCoordinates, coordinate
from convc.compiler.plan.names import ACC, A, B, RingName, SmemName, TmemName
from convc.compiler.plan.records import Pipeline, Tiling
from convc.compiler.plan.storage import BarrierRing, SmemTile, Storage, TmemTile, lay_out, tile_ring
from convc.compiler.plan.work import FACTOR_ROW_BYTES as ROW_BYTES
from convc.host_layout.block_scaled import BlockFormat
from convc.host_layout.device_layout import DeviceLayout
from convc.ir.arch import SM_100A, Arch
from convc.ir.expr import evaluate
from convc.ir.tensormap import TensorMap

GROUP = SM_100A.limits.tmem_part_lanes
"""Rows whose factors share a column of tensor memory."""
WORD_BYTES = 4
"""Bytes of a cell of tensor memory."""
STORE_THREADS = SM_100A.limits.tmem_lanes

SCALES_A = SmemName("scales_a")
SCALES_B = SmemName("scales_b")
FACTORS_A = TmemName("factors_a")
FACTORS_B = TmemName("factors_b")

THEOREM = "the factors of a step are those of its channels, and lie in one copy"
"""As `convc.derive.shares` gives it."""
LANDED = RingName("landed")
READY = RingName("ready")


class StepFactors(msgspec.Struct, frozen=True, kw_only=True):
    """Factors of one row in one step of the K loop.

    Attributes:
        each: factors of an MMA.
        bytes: factors of a step, a byte each.
    """

    each: int
    bytes: int

    @property
    def words(self) -> int:
        """32-bit cells of a row."""
        return -(-self.bytes // WORD_BYTES)


def step_factors(blocks: BlockFormat, tiling: Tiling, arch: Arch) -> StepFactors:
    """Count the factors of a step."""
    size = blocks.factor_bytes
    return StepFactors(each=arch.limits.mma_atom_bytes // size, bytes=tiling.row_bytes // size)


def filter_rows(tiling: Tiling) -> int:
    """Rows of filter factors that a copy brings: whole groups, of which the last may be those of another tile."""
    return -(-tiling.block_n // GROUP) * GROUP


def columns_of(rows: int) -> int:
    """Columns of tensor memory from a word of factors of some rows to the next."""
    return -(-rows // STORE_THREADS) * STORE_THREADS // GROUP


def scaled_storage(
    blocks: BlockFormat, tiling: Tiling, arch: Arch, results: SmemTile | None = None, numbers: SmemTile | None = None
) -> Storage:
    """Lay out one CTA of the schedule reload whose operands have scale factors."""
    words = step_factors(blocks, tiling, arch).words
    stages = tiling.b_stages
    a = tile_ring(A, tiling.block_m, tiling.row_bytes, stages, 0)
    b = tile_ring(B, tiling.block_n, tiling.row_bytes, stages, a.end)
    scales_a = tile_ring(SCALES_A, tiling.block_m, ROW_BYTES, stages, b.end, swizzle="none")
    scales_b = tile_ring(SCALES_B, filter_rows(tiling), ROW_BYTES, stages, scales_a.end, swizzle="none")
    tmem = [TmemTile(name=ACC, lanes=tiling.block_m, columns=tiling.block_n, column_offset=0)]
    for name, rows in ((FACTORS_A, tiling.block_m), (FACTORS_B, tiling.block_n)):
        tmem.append(
            TmemTile(
                name=name,
                lanes=arch.limits.tmem_lanes,
                columns=words * columns_of(rows),
                column_offset=-(-tmem[-1].end // WORD_BYTES) * WORD_BYTES,
                stages=stages,
            )
        )
    rings = (
        BarrierRing(name=RingName("full"), stages=stages, producer="load", consumer="mma"),
        BarrierRing(name=RingName("empty"), stages=stages, producer="mma", consumer="load"),
        BarrierRing(name=LANDED, stages=stages, producer="load", consumer="epilogue"),
        BarrierRing(name=READY, stages=stages, producer="epilogue", consumer="mma", arrivals=STORE_THREADS),
        BarrierRing(name=RingName("done"), stages=1, producer="mma", consumer="epilogue", state="done"),
    )
    return lay_out((a, b, scales_a, scales_b), tuple(tmem), rings, arch, results=results, numbers=numbers)


def factor_maps(layout: DeviceLayout, tiling: Tiling, a: TensorMap, b: TensorMap) -> tuple[TensorMap, TensorMap]:
    """The maps over the factors behind what the maps `a` and `b` are over, with the same walk and the same taps."""
    behind_pixels = layout.activation.shape[-1] - layout.pixel_pitch
    behind_taps = layout.filter.shape[-1] - layout.c_pitch
    return (
        msgspec.structs.replace(_behind(a, behind_pixels, layout.pixel_pitch), channels=ROW_BYTES),
        msgspec.structs.replace(_behind(b, behind_taps, layout.c_pitch), box=(ROW_BYTES, 1, filter_rows(tiling))),
    )


def factor_coordinates(
    blocks: BlockFormat, layout: DeviceLayout, tiling: Tiling, pipeline: Pipeline
) -> FactorCoordinates:
    """Find where the factors of a step start, from the channels with which it starts."""
    size = blocks.factor_bytes
    factors = tiling.row_bytes // size
    each = f"a factor for {size} bytes of channels, {ROW_BYTES} a copy"
    sizes = {
        "FACTORS": factors,
        "COPIES": ROW_BYTES // factors,
        "PER": size,
        "BLOCKS": pipeline.blocks,
        "C_PITCH": layout.c_pitch,
        "FACTOR_PITCH": layout.factor_pitch,
    }
    ranges = {"c": (0, layout.c_pitch - 1), "pack_c": (0, layout.problem.groups * layout.c_pitch - 1)}
    in_group, start, within = (share("scale factors", name, ranges, **sizes) for name in ("a", "b", "byte"))
    return FactorCoordinates(
        factor_a=coordinate("factor_a", in_group, f"first factor of the activations' block: {each}", THEOREM),
        factor_b=coordinate("factor_b", start, f"first factor of the filter's block: {each}", THEOREM),
        factor_byte=coordinate("factor_byte", within, "the block's factors in the 16 bytes of a copy", THEOREM),
    )


def prove_factors(
    found: FactorCoordinates, blocks: BlockFormat, layout: DeviceLayout, tiling: Tiling, pipeline: Pipeline
) -> Outcome:
    """Prove that every step finds, where it looks, the factors of the channels that it multiplies, by trying all."""
    claim = THEOREM
    size = blocks.factor_bytes
    groups = layout.problem.groups
    for group, block in itertools.product(range(groups), range(pipeline.blocks)):
        c = block * pipeline.channels
        numbers = {"c": c, "pack_c": group * layout.c_pitch + c, "k_step": pipeline.blocks + block}
        within = evaluate(found.factor_byte.value, numbers)
        fits = within + tiling.row_bytes // size <= ROW_BYTES
        for factor, first in ((found.factor_a, group * layout.factor_pitch), (found.factor_b, 0)):
            start = evaluate(factor.value, numbers)
            if start % ROW_BYTES or start + within != first + c // size or not fits:
                where = (("group", group), ("block", block))
                return Counterexample(claim, where, f"{factor.name} = {start}, byte {within}", THEOREM)
    return Proof(claim, f"tried on all {pipeline.blocks} channel blocks of {groups} group(s)", THEOREM)


def _behind(source: TensorMap, count: int, offset: int) -> TensorMap:
    """A map like another one over the bytes behind its elements."""
    return msgspec.structs.replace(source, dims=(count, *source.dims[1:]), offset=offset, swizzle="none")
