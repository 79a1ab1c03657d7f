"""Where operand tiles, barriers and the accumulator lie.

Shared memory of a CTA, from its start: the stages of tile A, the stages of tile B, the barriers, and the word that
receives the address of the tensor-memory allocation. Every stage starts at a multiple of 1024 bytes, the period of the
widest swizzle pattern, so that descriptors need no base offset (PTX, shared-memory descriptor).
"""

from __future__ import annotations

from convc.arch import Arch
from convc.plan.records import BarrierRing, SmemTile, Storage, Tiling, TmemTile

STAGE_ALIGN = 1024
SLOT_BYTES = 4


def _tile(name: str, rows: int, tiling: Tiling, offset: int) -> SmemTile:
    stage_bytes = -(-rows * tiling.row_bytes // STAGE_ALIGN) * STAGE_ALIGN
    return SmemTile(
        name=name,
        rows=rows,
        row_bytes=tiling.row_bytes,
        swizzle=f"{tiling.row_bytes}B",
        stages=tiling.stages,
        stage_bytes=stage_bytes,
        offset=offset,
    )


def storage_of(tiling: Tiling, arch: Arch) -> Storage:
    """The layout of one CTA.

    Three rings: `full` (copies have landed: load signals, mma waits), `free` (the stage has been multiplied: mma
    signals, load waits) and `done` (the accumulator is complete: mma signals, store waits).
    """
    a = _tile("a", tiling.block_m, tiling, 0)
    b = _tile("b", tiling.block_n, tiling, a.end)
    full = BarrierRing(
        name="full", stages=tiling.stages, arrivals=1, producer="load", consumer="mma",
        offset=b.end,
    )  # fmt: skip
    free = BarrierRing(name="free", stages=tiling.stages, arrivals=1, producer="mma", consumer="load", offset=full.end)
    done = BarrierRing(name="done", stages=1, arrivals=1, producer="mma", consumer="store", offset=free.end)
    columns = max(arch.limits.tmem_columns_min, 1 << (tiling.block_n - 1).bit_length())
    return Storage(
        smem=(a, b),
        tmem=(TmemTile(name="acc", lanes=tiling.block_m, columns=tiling.block_n, column_offset=0),),
        rings=(full, free, done),
        slot_offset=done.end,
        smem_bytes=done.end + SLOT_BYTES,
        tmem_columns=columns,
    )
