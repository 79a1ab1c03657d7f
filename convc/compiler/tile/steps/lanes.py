"""Steps on the lanes of tensor memory: masks, clearing, factors, and activations that move from lane to lane."""

from __future__ import annotations

import msgspec

from convc.compiler.plan.names import Number, SmemName, TmemName
from convc.compiler.plan.storage import MASK_BYTES, MASKS, Storage
from convc.compiler.tile.steps.base import Step
from convc.compiler.tile.steps.spelling import (
    UNIT_BYTES,
    Names,
    RoleContext,
    acc_address,
    braces,
    descriptor,
    mask_registers,
    more_atoms,
    powers_of_two,
    stage,
    stage_address,
    stage_units,
    tensor_address,
)
from convc.ir.arch import SM_100A

MAIN_ROWS = 128
"""Rows of a tile before those of its halo (im2col::w::128)."""
CHUNK = 32
"""Most columns that are cleared at a time."""
GROUP = SM_100A.limits.tmem_part_lanes
"""Rows whose factors share a column of tensor memory."""


class MaskWord(Step, frozen=True, kw_only=True):
    """Every warp w writes word w of an entry of the mask table: bit j says whether `value` is not 0 in its thread j.

    Attributes:
        value: number that each thread has.
        entry: number of the entry; the table starts with entry 0 at `first`.
    """

    value: Number
    entry: Number
    first: int

    def describe(self) -> str:
        return f"mask[{self.first} + {self.entry}] = lanes where {self.value}"

    def spelling(self, context: RoleContext) -> Names:
        return {
            "value": self.value,
            "entry": self.entry,
            "table_offset": _entry(context.storage, self.first),
            "table": _table("%to", context.storage),
        }


class LoadMask(Step, frozen=True, kw_only=True):
    """Read an entry of the mask table into the role's mask registers, or beside them.

    Attributes:
        entry: number of the entry in its part of the table, which starts with entry `first`.
        rank: CTA of a pair whose lanes it is about; 0 where CTAs multiply by themselves.
        beside: whether it is to be joined to what those registers will have (`JoinMask`).
    """

    entry: Number
    first: int
    rank: int = 0
    beside: bool = False

    def describe(self) -> str:
        return f"read mask[{self.first} + {self.entry}]"

    def spelling(self, context: RoleContext) -> Names:
        return {
            "registers": ", ".join(mask_registers(self.rank, "n" if self.beside else "m")),
            "entry": self.entry,
            "table_offset": _entry(context.storage, self.first),
            "table": _table("%from", context.storage),
        }


class JoinMask(Step, frozen=True, kw_only=True):
    """Join the two entries that `LoadMask` has read: what either masks is masked.

    A step of its own, so that the kernel can wait for something else while an entry is on its way.
    """

    rank: int = 0

    def describe(self) -> str:
        return "mask the lanes of either"

    def spelling(self, context: RoleContext) -> Names:
        return {"joins": list(zip(mask_registers(self.rank), mask_registers(self.rank, "n"), strict=True))}


class ClearAcc(Step, frozen=True, kw_only=True):
    """Set an accumulator to zero: four warps, each its own 32 lanes.

    `every`: whether that is done to all stages of it, and not to the current one alone; `columns` are those of one.
    """

    acc: TmemName
    columns: int
    every: bool = False

    def describe(self) -> str:
        return f"set {self.columns} columns of {'every ' if self.every else ''}{self.acc} to zero"

    def spelling(self, context: RoleContext) -> Names:
        acc = context.storage.tmem_tile(self.acc)
        if self.every:  # its stages lie beside each other
            acc = msgspec.structs.replace(acc, columns=acc.stages * acc.columns, stages=1)
        columns = acc.columns if self.every else self.columns
        pieces = [(first, count, braces(["%zero"] * count)) for first, count in powers_of_two(columns, CHUNK)]
        return {"acc_address": acc_address(acc), "pieces": pieces}


class TensorFill(Step, frozen=True, kw_only=True):
    """Copy the 128 rows of the current stage of a tile in shared memory to one in tensor memory, 32 bytes at a time."""

    source: SmemName
    tile: TmemName
    atoms: int

    def describe(self) -> str:
        return f"copy {self.source} to {self.tile} in tensor memory, {self.atoms} times 32 bytes a row"

    def spelling(self, context: RoleContext) -> Names:
        source = context.storage.smem_tile(self.source)
        return {
            "source_address": stage_units(source),
            "group": context.pair,
            **descriptor(source).names("from"),
            "tile_address": tensor_address("%to", context.storage.tmem_tile(self.tile)),
            "more_atoms": more_atoms(self.atoms),
        }


class MoveRows(Step, frozen=True, kw_only=True):
    """Every lane of a tile in tensor memory takes what the next one has; the last of 32 keeps what it has."""

    tile: TmemName
    atoms: int

    def describe(self) -> str:
        return f"move the rows of {self.tile} by one lane"

    def spelling(self, context: RoleContext) -> Names:
        tile = context.storage.tmem_tile(self.tile)
        return {
            "group": context.pair,
            "tile_address": tensor_address("%to", tile),
            "more_atoms": more_atoms(self.atoms),
        }


class Refresh(Step, frozen=True, kw_only=True):
    """Give the last lane of each sub-partition its row of the halo.

    Attributes:
        source, tile: tiles in shared and in tensor memory.
        halo: number of the halo row; `extra` is added to it.
    """

    source: SmemName
    tile: TmemName
    atoms: int
    halo: Number
    extra: int

    def describe(self) -> str:
        row = f"halo {self.halo}{f' + {self.extra}' if self.extra else ''}"
        return f"lanes 31, 63, 95, 127 of {self.tile} = {row} of {self.source}"

    def spelling(self, context: RoleContext) -> Names:
        source = context.storage.smem_tile(self.source)
        return {
            "source_address": stage_units(source),
            "group": context.pair,
            "halo": self.halo,
            "halo_units": 4 * source.row_bytes // UNIT_BYTES,
            **descriptor(source, MAIN_ROWS + 4 * self.extra).names("from"),
            "tile_address": tensor_address("%to", context.storage.tmem_tile(self.tile)),
            "more_atoms": more_atoms(self.atoms),
        }


class CarryFactors(Step, frozen=True, kw_only=True):
    """Bring the factors of a stage from rows of shared memory into lanes of tensor memory.

    Cell (lane, column j) of each word gets 4 bytes of row 32 * j + lane % 32 of `source`, from the byte `first` on for
    the first word. All four warps do it, each for its own sub-partition.

    Attributes:
        source, tile: tiles in shared and in tensor memory.
        lane: number of the thread's lane in its warp.
        first: number of the byte where the factors of the step start.
        rows: rows of the operand, a multiple of 16; the last group reads to its 32nd row.
        words: words of four factors.
        spacing: columns from a word to the next.
    """

    source: SmemName
    tile: TmemName
    lane: Number
    first: Number
    rows: int
    words: int
    spacing: int

    def describe(self) -> str:
        rows = f"rows 0..{self.rows - 1} of {self.source}"
        return f"{rows}, {self.words} words from byte {self.first} on, to lanes and columns of {self.tile}"

    def spelling(self, context: RoleContext) -> Names:
        source = context.storage.smem_tile(self.source)
        groups = -(-self.rows // GROUP)
        words = self.words
        cells = [[f"%cell{group * words + word}" for word in range(words)] for group in range(groups)]
        vector = f".v{words}" if words > 1 else ""
        loads = [
            (source.offset + GROUP * source.row_bytes * group, vector, braces(row) if words > 1 else row[0])
            for group, row in enumerate(cells)
        ]
        stores = [
            (self.spacing * word + first, count, braces(row[word] for row in cells[first : first + count]))
            for word in range(words)
            for first, count in powers_of_two(groups, groups)
        ]
        return {
            "cells": groups * words,
            "source_address": stage_address("%from", source),
            "lane": self.lane,
            "row_bytes": source.row_bytes,
            "first": self.first,
            "loads": loads,
            "tile_address": tensor_address("%to", context.storage.tmem_tile(self.tile)),
            "stores": stores,
        }


def _table(to: str, storage: Storage) -> str:
    """The line that goes on to the current one of several mask tables; nothing where there is one."""
    if storage.mask_tables == 1:
        return ""
    return f"mad.lo.u32 {to}, {stage(MASKS)}, {MASK_BYTES * storage.masks}, {to};"


def _entry(storage: Storage, first: int) -> int:
    """Offset in shared memory of an entry of the first mask table."""
    return (storage.mask_offset or 0) + MASK_BYTES * first
