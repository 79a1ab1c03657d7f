"""How scale factors of blocks of channels come to the tensor core.

The factors of a pixel lie behind its channels, so that a second im2col map, with the same walk, brings them: a row of
16 bytes for every row of the activation tile. The tensor core wants them elsewhere: those of row r in lane r % 32 of
all four sub-partitions of tensor memory, column r / 32. No copy turns rows into columns like that, and so the four
warps that wait for the accumulator carry them there: every thread reads the rows whose factors belong into its lane,
and stores them side by side. The filter's go the same way.

A step of the K loop uses some of the 16 bytes of a row: fewer TMA does not bring, and it starts at multiples of them
(recorded: ``tests/recordings``).

Source of the layout: `convc.machine.tensor_core.scale_factors`. Two more rings: ``landed`` (factors are in shared
memory: load signals, store waits), ``ready`` (they are in tensor memory: every thread of store signals, mma waits). The
ring ``free`` gives back all tiles of a stage, since an MMA that has completed has read its factors.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import msgspec

from convc.compiler.index.maps import Counterexample, Outcome, Proof
from convc.compiler.plan.records import SLAB, BarrierRing, Coordinate, Pipeline, Storage, Tiling, TmemTile
from convc.compiler.plan.storage import SLOT_BYTES, smem_tile, tmem_columns
from convc.compiler.plan.work import FACTOR_ROW_BYTES as ROW_BYTES
from convc.ir.arch import SM_100A, Arch
from convc.ir.expr import Const, Var, evaluate
from convc.ir.tensormap import TensorMap
from convc.layout.device_layout import DeviceLayout

GROUP = SM_100A.limits.tmem_part_lanes
"""Rows whose factors share a column of tensor memory."""
WORD_BYTES = 4
"""Bytes of a cell of tensor memory."""
STORE_THREADS = SM_100A.limits.tmem_lanes
FACTOR_A, FACTOR_B = "factor_a", "factor_b"
"""First factor that the copies of a step bring, of a pixel and of a tap."""
FACTOR_BYTE = "factor_byte"
"""Where in a row of shared memory the factors of a step start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFactors:
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


def step_factors(layout: DeviceLayout, tiling: Tiling, arch: Arch) -> StepFactors:
    """Of a problem with block-scaled operands."""
    assert layout.blocks is not None
    size = layout.blocks.factor_bytes
    return StepFactors(each=arch.limits.mma_atom_bytes // size, bytes=tiling.row_bytes // size)


def filter_rows(tiling: Tiling) -> int:
    """Rows of filter factors that a copy brings: whole groups, of which the last may be those of another tile."""
    return -(-tiling.block_n // GROUP) * GROUP


def columns_of(rows: int) -> int:
    """Columns of tensor memory from a word of factors of some rows to the next."""
    return -(-rows // STORE_THREADS) * STORE_THREADS // GROUP


def scaled_storage(layout: DeviceLayout, tiling: Tiling, arch: Arch) -> Storage:
    """The layout of one CTA of the schedule reload."""
    words, stages = step_factors(layout, tiling, arch).words, tiling.stages
    a = smem_tile("a", tiling.block_m, tiling.row_bytes, stages, 0)
    b = smem_tile("b", tiling.block_n, tiling.row_bytes, stages, a.end)
    scales_a = smem_tile("scales_a", tiling.block_m, ROW_BYTES, stages, b.end, swizzle="none")
    scales_b = smem_tile("scales_b", filter_rows(tiling), ROW_BYTES, stages, scales_a.end, swizzle="none")
    rings, offset = [], scales_b.end
    for name, count, arrivals, producer, consumer, cursor in (
        ("full", stages, 1, "load", "mma", ""),
        ("free", stages, 1, "mma", "load", ""),
        ("landed", stages, 1, "load", "store", ""),
        ("ready", stages, STORE_THREADS, "store", "mma", ""),
        ("done", 1, 1, "mma", "store", "done"),
    ):
        rings.append(
            BarrierRing(
                name=name,
                stages=count,
                arrivals=arrivals,
                producer=producer,
                consumer=consumer,
                offset=offset,
                cursor=cursor,
            )
        )
        offset = rings[-1].end
    acc = TmemTile(name="acc", lanes=tiling.block_m, columns=tiling.block_n, column_offset=0)
    tmem = [acc]
    for name, rows in (("factors_a", tiling.block_m), ("factors_b", tiling.block_n)):
        tmem.append(
            TmemTile(
                name=name,
                lanes=arch.limits.tmem_lanes,
                columns=words * columns_of(rows),
                column_offset=-(-tmem[-1].end // WORD_BYTES) * WORD_BYTES,
                stages=stages,
            )
        )
    return Storage(
        smem=(a, b, scales_a, scales_b),
        tmem=tuple(tmem),
        rings=tuple(rings),
        slot_offset=offset,
        smem_bytes=offset + SLOT_BYTES,
        tmem_columns=tmem_columns(tmem[-1].end, arch),
    )


def factor_maps(layout: DeviceLayout, tiling: Tiling, a: TensorMap, b: TensorMap) -> tuple[TensorMap, TensorMap]:
    """The maps over the factors behind what the maps `a` and `b` are over, with the same walk and the same taps."""
    return (
        _behind(a, layout.activation.shape[-1] - layout.pixel_pitch, layout.pixel_pitch, channels=ROW_BYTES),
        _behind(b, layout.filter.shape[-1] - layout.c_pitch, layout.c_pitch, box=(ROW_BYTES, 1, filter_rows(tiling))),
    )


def factor_coordinates(layout: DeviceLayout, tiling: Tiling, pipeline: Pipeline) -> tuple[Coordinate, ...]:
    """Where the factors of a step start, from the channels with which it starts."""
    assert layout.blocks is not None
    size = layout.blocks.factor_bytes
    factors, copy = tiling.row_bytes // size, ROW_BYTES * size
    start = Var("c") // copy * ROW_BYTES if layout.c_pitch > copy else Const(0)
    each = f"a factor for {size} bytes of channels, {ROW_BYTES} a copy"
    slab = Var(SLAB) // layout.c_pitch * layout.factor_pitch + start if layout.problem.groups > 1 else start
    block = Var("k_step") % pipeline.blocks
    within = block % (ROW_BYTES // factors) if pipeline.blocks * factors > ROW_BYTES else block
    return (
        Coordinate(name=FACTOR_A, value=slab, meaning=f"first factor of the activations' block: {each}"),
        Coordinate(name=FACTOR_B, value=start, meaning=f"first factor of the filter's block: {each}"),
        Coordinate(name=FACTOR_BYTE, value=within * factors, meaning="the block's factors in the 16 bytes of a copy"),
    )


def prove_factors(layout: DeviceLayout, tiling: Tiling, pipeline: Pipeline) -> Outcome:
    """Whether every step finds, where it looks, the factors of the channels that it multiplies; tried on all steps."""
    assert layout.blocks is not None
    claim = "the factors of a step are those of its channels, and lie in one copy"
    size, groups = layout.blocks.factor_bytes, layout.problem.groups
    values = {entry.name: entry.value for entry in factor_coordinates(layout, tiling, pipeline)}
    for group, block in itertools.product(range(groups), range(pipeline.blocks)):
        c = block * pipeline.channels
        numbers = {"c": c, SLAB: group * layout.c_pitch + c, "k_step": pipeline.blocks + block}
        within = evaluate(values[FACTOR_BYTE], numbers)
        fits = within + tiling.row_bytes // size <= ROW_BYTES
        for name, first in ((FACTOR_A, group * layout.factor_pitch), (FACTOR_B, 0)):
            start = evaluate(values[name], numbers)
            if start % ROW_BYTES or start + within != first + c // size or not fits:
                return Counterexample(claim, (("group", group), ("block", block)), f"{name} = {start}, byte {within}")
    return Proof(claim, f"tried on all {pipeline.blocks} channel blocks of {groups} group(s)")


def _behind(source: TensorMap, count: int, offset: int, **shape: int | tuple[int, ...]) -> TensorMap:
    """A map like another one over the bytes behind its elements."""
    return msgspec.structs.replace(source, dims=(count, *source.dims[1:]), offset=offset, swizzle="none", **shape)
