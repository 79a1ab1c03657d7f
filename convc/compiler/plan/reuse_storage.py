"""Where everything lies in a CTA that shares activations between filter columns.

Activations and filter move at different paces, so each has a ring of its own. Shared memory, from its start: activation
tiles with their halo, filter tiles, barriers, the table of lane masks, the word for the address of tensor memory.
"""

from __future__ import annotations

from convc.compiler.index.geometry import Geometry
from convc.compiler.plan.candidates import atoms_of
from convc.compiler.plan.records import BarrierRing, Storage, Tiling, TmemTile
from convc.compiler.plan.storage import SLOT_BYTES, smem_tile, tmem_columns
from convc.ir.arch import SM_100A, Arch
from convc.ir.problem import ConvProblem
from convc.layout.device_layout import DeviceLayout

TENSOR_TILES = 2
"""Activation tiles in tensor memory: one is filled while the other is multiplied."""
MASK_BYTES = SM_100A.limits.tmem_lanes // 8
"""A mask has a bit for each lane."""


def tile_rows(schedule: str, variant: str, cut: Geometry, halo: int) -> int:
    """Rows of shared memory that a copy with this halo fills."""
    if variant == "windows":
        return cut.tile.lanes
    return cut.tile.lanes + (4 * halo if schedule == "shift" else halo)


def mask_entries(problem: ConvProblem, schedule: str, cut: Geometry) -> int:
    """Entries of the mask table: filter columns, and filter rows behind them, as far as the cut masks any."""
    if schedule == "stationary":
        return 0
    columns = problem.kernel[1] if cut.walk.border == "mask" else 0
    return columns + (problem.kernel[0] if cut.stream.masked else 0)


def reuse_storage(
    layout: DeviceLayout, tiling: Tiling, arch: Arch, schedule: str, variant: str, cut: Geometry
) -> Storage:
    """The layout of one CTA.

    Rings: `full_a`/`free_a` and `full_b`/`free_b` between load and mma; `done` is for the accumulator. Schedule shift
    alone: `order` lets the mma role wait for its own operations, and `held` counts the activation tiles in tensor
    memory, unless these come and go with those in shared memory.
    """
    halo = max(buffer.halo for buffer in cut.walk.buffers)
    a = smem_tile("a", tile_rows(schedule, variant, cut, halo), tiling.row_bytes, tiling.held, 0, cursor="a")
    b = smem_tile("b", tiling.block_n, tiling.row_bytes, tiling.stages, a.end, cursor="b")
    wanted = [
        ("full_a", tiling.held, "load", "mma", "a"),
        ("free_a", tiling.held, "mma", "load", "a"),
        ("full_b", tiling.stages, "load", "mma", "b"),
        ("free_b", tiling.stages, "mma", "load", "b"),
    ]
    columns = tiling.block_m if schedule == "stationary" else tiling.block_n
    tmem = [TmemTile(name="acc", lanes=arch.limits.tmem_lanes, columns=columns, column_offset=0)]
    if schedule == "shift":
        own = apart(tiling, variant)
        turns = min(tiling.held, TENSOR_TILES)
        if own:
            wanted.append(("held", turns, "mma", "mma", "held"))
        if waits(variant, cut):
            wanted.append(("order", 1, "mma", "mma", "order"))
        atoms = atoms_of(layout, tiling, arch.limits.mma_atom_bytes)
        tmem.append(
            TmemTile(
                name="held",
                lanes=arch.limits.tmem_lanes,
                columns=8 * atoms,
                column_offset=columns,
                stages=turns,
                cursor="held" if own else "a",
            )
        )
    wanted.append(("done", 1, "mma", "store", ""))
    rings, offset = [], b.end
    for name, stages, producer, consumer, cursor in wanted:
        rings.append(
            BarrierRing(
                name=name, stages=stages, arrivals=1, producer=producer, consumer=consumer, offset=offset, cursor=cursor
            )
        )
        offset = rings[-1].end
    masks = mask_entries(layout.problem, schedule, cut)
    table = -(-offset // MASK_BYTES) * MASK_BYTES
    slot = table + MASK_BYTES * masks if masks else offset
    return Storage(
        smem=(a, b),
        tmem=tuple(tmem),
        rings=tuple(rings),
        slot_offset=slot,
        smem_bytes=slot + SLOT_BYTES,
        tmem_columns=tmem_columns(tmem[-1].end, arch),
        mask_offset=table if masks else None,
        masks=masks,
    )


def apart(tiling: Tiling, variant: str) -> bool:
    """Whether activation tiles in tensor memory are used longer, or are fewer, than those in shared memory.

    Otherwise who waits for one of those knows that the tile in tensor memory has been multiplied.
    """
    return variant == "windows" or tiling.held > TENSOR_TILES


def waits(variant: str, cut: Geometry) -> bool:
    """Whether the chain of moves has a link that only a commit and a wait put in order."""
    step = max(buffer.step for buffer in cut.walk.buffers)
    return (variant == "ashift" and step > 0) or (variant == "chain" and step > 1)
