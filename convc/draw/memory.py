"""The memory of one CTA to scale: shared memory with the stages of its operand tiles, tensor memory lane by column."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from convc.compiler.plan.records import Plan
from convc.compiler.plan.storage import BARRIER_BYTES, MASK_BYTES, SLOT_BYTES, Storage
from convc.draw.notation import LANE as TENSOR_STEP
from convc.draw.notation import SWIZZLES, stages_notation, tensor_notation
from convc.draw.svg import MARGIN, TINTS, TITLE, Picture, group, rect, text, titled, width_of
from convc.machine.base.swizzle import pitch
from convc.report.format import convolution, human_bytes

WIDTH = 1024
"""Pixels of all shared memory that a CTA can have, and of all columns of tensor memory."""

BAR = 44
"""Height of shared memory."""

LANE = 2
"""Pixels of a lane of tensor memory."""

Item = tuple[str, int, int]
"""Name, offset and bytes."""


def memory_picture(plan: Plan) -> Picture:
    """Draw the places that a plan gives to operand tiles, barriers, masks and accumulators."""
    storage = plan.storage
    limits = plan.arch.limits
    parts = [*_shared(storage, limits.shared_bytes, MARGIN, TITLE + 22)]
    top = TITLE + BAR + 70
    small = _small(storage)
    parts.append(
        text(MARGIN, top - 8, "behind the tiles, not to scale: barriers, masks, the address of tensor memory, the bias")
    )
    each = max(width_of(name.partition(" ")[0]) for name, _, _ in small) + 8
    names = list(dict.fromkeys(name.partition(" ")[0] for name, _, _ in small))
    for number, item in enumerate(small):
        tint = TINTS[names.index(item[0].partition(" ")[0]) % len(TINTS)]
        parts.append(_named_box(item, MARGIN + number * each, top, each, tint))
    below = top + 34 + 70
    parts += _tensor(storage, limits.tmem_lanes, limits.tmem_columns, MARGIN + 40, below)
    width = max(WIDTH + 40, len(small) * each) + 2 * MARGIN
    title = f"memory of a CTA: {plan.schedule.title}, {plan.tiling}; {convolution(plan.problem)}"
    height = below + limits.tmem_lanes * LANE + 24 + MARGIN
    return titled(title, width, height, parts, notes=list(_notes(storage)))


def _notes(storage: Storage) -> Iterator[str]:
    """The layouts of swizzled tiles, and of those in tensor memory."""
    for tile in storage.smem:
        if tile.swizzle in SWIZZLES and tile.row_bytes == pitch(tile.swizzle):
            stages = (tile.stages, tile.stage_bytes)
            found = stages_notation(tile.rows, tile.row_bytes, stages, tile.swizzle, tile.offset)
            yield f"{tile.name}: row, byte{', stage' if tile.stages > 1 else ''} -> byte of shared memory: {found}"
    for tile in storage.tmem:
        lanes, columns = np.indices((tile.lanes, tile.columns * tile.stages))
        found = tensor_notation(lanes, tile.column_offset + columns)
        yield f"{tile.name}: lane, column -> {TENSOR_STEP} * lane + column of tensor memory: {found}"


def _shared(storage: Storage, limit: int, x: float, y: float) -> Iterator[str]:
    """Shared memory: a box for each stage of each tile, the rest of what a CTA may have behind them."""
    used = f"{human_bytes(storage.smem_bytes)} of {human_bytes(limit)}"
    yield text(x, y - 8, f"shared memory, {used}", "strong", smem_bytes=storage.smem_bytes)
    yield rect(x, y, WIDTH, BAR, "idle box", f"{used} are used")
    scale = WIDTH / limit
    for number, tile in enumerate(storage.smem):
        for stage in range(tile.stages):
            offset = tile.offset + stage * tile.stage_bytes
            width = tile.bytes * scale
            tip = (
                f"{tile.name}, stage {stage}: {tile.rows} rows of {tile.row_bytes} bytes, swizzle {tile.swizzle}, "
                f"at {offset:#x}, {tile.bytes} bytes"
            )
            parts = [rect(x + offset * scale, y, width, BAR, f"{TINTS[number % 8]} box", tip)]
            label = f"{tile.name}{stage}"
            if width_of(label) < width:
                parts.append(text(x + offset * scale + width / 2, y + BAR / 2 + 4, label, "mid"))
            yield group(parts, smem=tile.name, stage=stage, offset=offset, bytes=tile.bytes)
    end = max(tile.end for tile in storage.smem)
    yield text(x + end * scale + 4, y + BAR + 12, f"{end:#x}", "soft")


def _small(storage: Storage) -> list[Item]:
    """Everything behind the operand tiles, by its offset."""
    items = [
        (f"{ring.name} {stage}", ring.offset + stage * BARRIER_BYTES, BARRIER_BYTES)
        for ring in storage.rings
        for stage in range(ring.stages)
    ]
    if storage.mask_offset is not None:
        items.append(("masks", storage.mask_offset, storage.masks * storage.mask_tables * MASK_BYTES))
    items.append(("tmem", storage.slot_offset, SLOT_BYTES))
    if storage.numbers is not None:
        items.append(("bias", storage.numbers.offset, storage.numbers.bytes))
    return sorted(items, key=lambda item: item[1])


def _named_box(item: Item, x: float, y: float, width: float, tint: str) -> str:
    """A box with a name, its first word above the others, and its offset."""
    name, offset, size = item
    first, _, rest = name.partition(" ")
    tip = f"{name}: {size} bytes at {offset:#x}"
    parts = (
        rect(x, y, width, 34, f"{tint} box", tip),
        text(x + width / 2, y + 14, first, "mid"),
        text(x + width / 2, y + 28, rest, "mid"),
        text(x + width / 2, y + 46, f"{offset:x}", "mid soft"),
    )
    return group(parts, smem=name, offset=offset, bytes=size)


def _tensor(storage: Storage, lanes: int, columns: int, x: float, y: float) -> Iterator[str]:
    """Tensor memory: lanes down, columns across, the part that is allocated, and the tiles in it; none on Hopper."""
    if not columns:
        yield text(x, y - 22, "no tensor memory", "strong")
        return
    scale = WIDTH / columns
    height = lanes * LANE
    yield text(
        x,
        y - 22,
        f"tensor memory, {storage.tmem_columns} of {columns} columns are allocated",
        "strong",
        tmem_columns=storage.tmem_columns,
    )
    yield rect(x, y, WIDTH, height, "idle box")
    yield rect(x, y, storage.tmem_columns * scale, height, "paper box", f"{storage.tmem_columns} columns")
    for column in range(0, columns + 1, 64):
        yield text(x + column * scale, y - 6, str(column), "soft mid")
    for lane in range(0, lanes, 32):
        yield text(x - 4, y + lane * LANE + 10, str(lane), "soft end")
    for number, tile in enumerate(storage.tmem):
        for stage in range(tile.stages):
            column = tile.column_offset + stage * tile.columns
            width = tile.columns * scale
            tip = f"{tile.name}, stage {stage}: {tile.lanes} lanes, columns {column} to {column + tile.columns - 1}"
            parts = [rect(x + column * scale, y, width, tile.lanes * LANE, f"{TINTS[(4 + number) % 8]} box", tip)]
            label = f"{tile.name}{stage}" if tile.stages > 1 else tile.name
            if width_of(label) < width:
                parts.append(text(x + (column + tile.columns / 2) * scale, y + tile.lanes * LANE / 2, label, "mid"))
            yield group(parts, tmem=tile.name, stage=stage, column=column, columns=tile.columns, lanes=tile.lanes)
