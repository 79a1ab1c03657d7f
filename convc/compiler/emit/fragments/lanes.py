"""Spelling of the steps on lanes of tensor memory (`convc.compiler.tile.steps.lanes`)."""

from __future__ import annotations

import msgspec

from convc.compiler.emit.fragments.base import Names, RoleContext, fragment
from convc.compiler.emit.operands import (
    UNIT_BYTES,
    acc_address,
    braces,
    descriptor,
    mask_registers,
    more_atoms,
    powers_of_two,
    stage,
    stage_units,
    tensor_address,
)
from convc.compiler.plan.storage import MASK_BYTES, MASKS, Storage
from convc.compiler.tile.steps.lanes import ClearAcc, JoinMask, LoadMask, MaskWord, MoveRows, Refresh, TensorFill

MAIN_ROWS = 128
"""Rows of a tile before those of its halo (im2col::w::128)."""
CHUNK = 32
"""Most columns that are cleared at a time."""


@fragment.register
def _(step: MaskWord, context: RoleContext) -> Names:
    return {
        "value": step.value,
        "entry": step.entry,
        "table_offset": _entry(context.storage, step.first),
        "table": _table("%to", context.storage),
    }


@fragment.register
def _(step: LoadMask, context: RoleContext) -> Names:
    return {
        "registers": ", ".join(mask_registers(step.rank, "n" if step.beside else "m")),
        "entry": step.entry,
        "table_offset": _entry(context.storage, step.first),
        "table": _table("%from", context.storage),
    }


@fragment.register
def _(step: JoinMask, context: RoleContext) -> Names:
    return {"joins": list(zip(mask_registers(step.rank), mask_registers(step.rank, "n"), strict=True))}


@fragment.register
def _(step: ClearAcc, context: RoleContext) -> Names:
    acc = context.storage.tmem_tile(step.acc)
    if step.every:  # its stages lie beside each other
        acc = msgspec.structs.replace(acc, columns=acc.stages * acc.columns, stages=1)
    columns = acc.columns if step.every else step.columns
    pieces = [(first, count, braces(["%zero"] * count)) for first, count in powers_of_two(columns, CHUNK)]
    return {"acc_address": acc_address(acc), "pieces": pieces}


@fragment.register
def _(step: TensorFill, context: RoleContext) -> Names:
    source = context.storage.smem_tile(step.source)
    return {
        "source_address": stage_units(source),
        "group": context.program.pair,
        **descriptor(source).names("from"),
        "tile_address": tensor_address("%to", context.storage.tmem_tile(step.tile)),
        "more_atoms": more_atoms(step.atoms),
    }


@fragment.register
def _(step: MoveRows, context: RoleContext) -> Names:
    tile = context.storage.tmem_tile(step.tile)
    return {
        "group": context.program.pair,
        "tile_address": tensor_address("%to", tile),
        "more_atoms": more_atoms(step.atoms),
    }


@fragment.register
def _(step: Refresh, context: RoleContext) -> Names:
    source = context.storage.smem_tile(step.source)
    return {
        "source_address": stage_units(source),
        "group": context.program.pair,
        "halo": step.halo,
        "halo_units": 4 * source.row_bytes // UNIT_BYTES,
        **descriptor(source, MAIN_ROWS + 4 * step.extra).names("from"),
        "tile_address": tensor_address("%to", context.storage.tmem_tile(step.tile)),
        "more_atoms": more_atoms(step.atoms),
    }


def _table(to: str, storage: Storage) -> str:
    """The line that goes on to the current one of several mask tables; nothing where there is one."""
    if storage.mask_tables == 1:
        return ""
    return f"mad.lo.u32 {to}, {stage(MASKS)}, {MASK_BYTES * storage.masks}, {to};"


def _entry(storage: Storage, first: int) -> int:
    """Offset in shared memory of an entry of the first mask table."""
    return (storage.mask_offset or 0) + MASK_BYTES * first
