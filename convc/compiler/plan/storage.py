"""Where operand tiles, barriers and the accumulator lie.

Shared memory of a CTA, from its start: the stages of tile A, the stages of tile B, the barriers, and the word that
receives the address of the tensor-memory allocation. Every stage starts at a multiple of 1024 bytes, the period of the
widest swizzle pattern, so that descriptors need no base offset (PTX, shared-memory descriptor).
"""

from __future__ import annotations

from convc.compiler.plan.records import BarrierRing, SmemTile, Storage, Tiling, TmemTile
from convc.ir.arch import Arch

STAGE_ALIGN = 1024
SLOT_BYTES = 4


def smem_tile(
    name: str, rows: int, row_bytes: int, stages: int, offset: int, *, cursor: str = "", swizzle: str | None = None
) -> SmemTile:
    """A ring of operand tiles that start at `offset`; their swizzle spans a row where it is not said."""
    stage_bytes = -(-rows * row_bytes // STAGE_ALIGN) * STAGE_ALIGN
    return SmemTile(
        name=name,
        rows=rows,
        row_bytes=row_bytes,
        swizzle=swizzle or f"{row_bytes}B",
        stages=stages,
        stage_bytes=stage_bytes,
        offset=offset,
        cursor=cursor,
    )


def tmem_columns(end: int, arch: Arch) -> int:
    """Columns to allocate so that `end` of them can be used: a power of two (PTX manual, tcgen05.alloc)."""
    return max(arch.limits.tmem_columns_min, 1 << (end - 1).bit_length())


def storage_of(tiling: Tiling, arch: Arch) -> Storage:
    """The layout of one CTA.

    Three rings: `full` (copies have landed: load signals, mma waits), `free` (the stage has been multiplied: mma
    signals, load waits) and `done` (the accumulator is complete: mma signals, store waits).
    """
    a = smem_tile("a", tiling.block_m, tiling.row_bytes, tiling.stages, 0)
    b = smem_tile("b", tiling.block_n, tiling.row_bytes, tiling.stages, a.end)
    full = BarrierRing(
        name="full",
        stages=tiling.stages,
        arrivals=1,
        producer="load",
        consumer="mma",
        offset=b.end,
    )
    free = BarrierRing(name="free", stages=tiling.stages, arrivals=1, producer="mma", consumer="load", offset=full.end)
    done = BarrierRing(name="done", stages=1, arrivals=1, producer="mma", consumer="store", offset=free.end)
    return Storage(
        smem=(a, b),
        tmem=(TmemTile(name="acc", lanes=tiling.block_m, columns=tiling.block_n, column_offset=0),),
        rings=(full, free, done),
        slot_offset=done.end,
        smem_bytes=done.end + SLOT_BYTES,
        tmem_columns=tmem_columns(tiling.block_n, arch),
    )
