"""Spelling of the steps that move operand tiles and multiply them (`convc.compiler.tile.steps.operands`)."""

from __future__ import annotations

from convc.compiler.emit.fragments.base import Names, RoleContext, fragment
from convc.compiler.emit.operands import (
    UNIT_BYTES,
    acc_address,
    barriers,
    braces,
    descriptor,
    mask_of,
    more_atoms,
    powers_of_two,
    register_rows,
    stage,
    stage_address,
    stage_units,
    tensor_address,
    warpgroup_descriptor,
)
from convc.compiler.plan.storage import BarrierRing, SmemTile
from convc.compiler.tile.steps.operands import (
    CarryFactors,
    Mma,
    MmaScaled,
    MmaStationary,
    MmaTensor,
    Multiply,
    PrefetchNumbers,
    PrefetchTiles,
    TensorCopy,
    TmaLoad,
    TmaWideLoad,
    WarpgroupMma,
)
from convc.host_layout.block_scaled import FORMATS
from convc.ir import dtypes
from convc.ir.arch import SM_90A, SM_100A
from convc.ptx.descriptors import (
    BlockScaledDescriptor,
    InstructionDescriptor,
    ZeroColumnMask,
    encode_block_scaled,
    encode_instruction,
    encode_zero_mask,
)

GROUP = SM_100A.limits.tmem_part_lanes
"""Rows whose factors share a column of tensor memory."""
WARPGROUP_ROWS = SM_90A.limits.mma_m
ATOM_BYTES = SM_90A.limits.mma_atom_bytes
WORD_BYTES = 4
ID_SHIFT = 30
"""Where an address has the byte of a cell in which its factors start."""
WS_SHIFTS = (0, 8, 16, 32)
"""Column shifts that a descriptor of tcgen05.mma.ws can allow for (PTX manual, instruction descriptor)."""


@fragment.register
def _(step: PrefetchTiles, context: RoleContext) -> Names:
    return {"tiles": [(name, len(at), braces(f"%{number}" for number in at)) for name, at in step.tiles]}


@fragment.register
def _(step: PrefetchNumbers, context: RoleContext) -> Names:
    starts = [WORD_BYTES * row * step.pitch for row in range(step.rows)]
    return {"buffer": step.buffer, "channel": step.channel, "starts": starts, "bytes": WORD_BYTES * step.columns}


@fragment.register
def _(step: TmaLoad, context: RoleContext) -> Names:
    registers = [f"%o{i}" for i in range(len(step.offsets))]
    tile = context.storage.smem_tile(step.tile)
    ring = context.storage.ring(step.ring)
    return {
        "map": step.map,
        "rank": len(step.coords),
        "coords": braces(f"%{name}" for name in step.coords),
        "im2col": bool(step.offsets),
        "offsets": [(register, f"%{name}") for register, name in zip(registers, step.offsets, strict=True)],
        "offset_registers": braces(registers),
        "offset_declaration": ", ".join(registers),
        "stage": stage(ring.state),
        "ring_offset": ring.offset,
        "stage_bytes": tile.stage_bytes,
        "tile_offset": tile.offset,
        "placed": step.at is not None,
        "at": step.at or "",
        **_told(ring),
        **_sent(step),
        **_hint(step),
    }


@fragment.register
def _(step: TmaWideLoad, context: RoleContext) -> Names:
    tile = context.storage.smem_tile(step.tile)
    ring = context.storage.ring(step.ring)
    return {
        "map": step.map,
        "rank": len(step.coords),
        "coords": braces(f"%{name}" for name in step.coords),
        "mode": "im2col::w::128" if step.halo_each_window else "im2col::w",
        "halo": step.halo,
        "offset": step.offset,
        "stage": stage(ring.state),
        "stage_bytes": tile.stage_bytes,
        "tile_offset": tile.offset,
        "ring_offset": ring.offset,
        "placed": step.at is not None,
        "at": step.at or "",
        **_told(ring),
        **_hint(step),
    }


def _sent(step: TmaLoad) -> Names:
    """The CTAs that get a copy, where these are several: their barriers count at the place of this CTA's."""
    if step.ctas is None:
        return {"ctas": "", "mask": ""}
    return {"ctas": step.ctas, "mask": ", %mask", "space": "shared::cluster", "told": ".multicast::cluster"}


def _told(ring: BarrierRing) -> Names:
    """How a copy into the CTA's own memory names the barrier that its bytes count on, of this CTA or of the first."""
    paired = ring.at == "leader"
    return {
        "barriers": barriers(ring),
        "space": "shared::cluster" if paired else "shared::cta",
        "told": ".cta_group::2" if paired else "",
    }


def _hint(step: TensorCopy) -> Names:
    """How a copy names its cache policy, behind all else."""
    if step.policy is None:
        return {"hint": "", "policy": ""}
    return {"hint": ".L2::cache_hint", "policy": f", %{step.policy}"}


@fragment.register
def _(step: Mma, context: RoleContext) -> Names:
    a = context.storage.smem_tile(step.a)
    return _multiply(step, context) | {
        "a_address": stage_units(a),
        "mask": mask_of(step, context.program.pair),
        "group": context.program.pair,
        "moved": step.row is not None,
        "row": step.row or "",
        "filters_moved": step.b_row is not None,
        "b_row": step.b_row or "",
        "row_units": a.row_bytes // UNIT_BYTES,
        **descriptor(a).names("a"),
    }


@fragment.register
def _(step: WarpgroupMma, context: RoleContext) -> Names:
    a = context.storage.smem_tile(step.a)
    b = context.storage.smem_tile(step.b)
    return {
        "layout": _operand_layout(b),
        "a_address": stage_units(a),
        "several": step.m > WARPGROUP_ROWS,
        "group_units": WARPGROUP_ROWS * a.row_bytes // UNIT_BYTES,
        "moved": step.row is not None,
        "row": step.row or "",
        "filters_moved": step.b_row is not None,
        "b_row": step.b_row or "",
        "row_units": a.row_bytes // UNIT_BYTES,
        **warpgroup_descriptor(a).names("a"),
        "b_address": stage_units(b),
        **warpgroup_descriptor(b).names("b"),
        "counted": _may_overwrite(step, context),
        "counter": step.counter or "",
        "then_add": _may_overwrite(step, context) and step.atoms > 1,
        "shape": _warpgroup_shape(step),
        "values": register_rows(f"%d{i}" for i in range(step.n // 2)),
        "modifiers": _WARPGROUP_MODIFIERS[dtypes.KINDS[step.operand]],
        "more_atoms": more_atoms(step.atoms),
    }


_WARPGROUP_MODIFIERS = {"f16": ", 1, 1, 0, 0", "tf32": ", 1, 1", "f8f6f4": ", 1, 1", "i8": ""}
"""Behind the scale of d: signs of both operands, and for 16 bits their major-ness (PTX, wgmma.mma_async)."""


def _warpgroup_shape(step: Multiply) -> str:
    """Shape and types of an instruction: K has 32 bytes."""
    operand = dtypes.BY_NAME[step.operand]
    sums = "s32" if operand.integer else "f32"
    k = ATOM_BYTES // operand.bytes
    return f"m{WARPGROUP_ROWS}n{step.n}k{k}.{sums}.{step.operand}.{step.filter_operand or step.operand}"


@fragment.register
def _(step: MmaTensor, context: RoleContext) -> Names:
    return _multiply(step, context) | {
        "a_address": tensor_address("%a", context.storage.tmem_tile(step.a)),
        "mask": mask_of(step, context.program.pair),
        "group": context.program.pair,
        "shift": ".ashift" if step.moves else "",
    }


@fragment.register
def _(step: MmaStationary, context: RoleContext) -> Names:
    a = context.storage.smem_tile(step.a)
    zeroed, used = step.runs or (1, 1)
    runs = f"{zeroed} columns of padding, then {used} pixels, and so on" if step.runs else "none"
    usage = "" if step.collector == "discard" else step.collector
    return _multiply(step, context, weights_first=True, reach=step.reach) | {
        "a_address": stage_units(a),
        **descriptor(a).names("a"),
        "mask_note": f"{runs}; pixels shifted by {step.shift} columns",
        "zeroing": step.runs is not None,
        "entered": step.entered or "",
        "zeroed": zeroed,
        "begins_used": _zero_mask(step, begins_zeroed=False),
        "begins_zeroed": _zero_mask(step, begins_zeroed=True),
        "collector": _collector(usage, 0),
        "more_atoms": [(_collector(usage, i), text) for i, text in enumerate(more_atoms(step.atoms), 1)],
    }


@fragment.register
def _(step: MmaScaled, context: RoleContext) -> Names:
    a = context.storage.smem_tile(step.a)
    b = context.storage.smem_tile(step.b)
    fmt = FORMATS[step.operand]
    more: list[tuple[str, str, str, str]] = []
    for index, text in enumerate(more_atoms(step.atoms), 1):
        word, byte = divmod(index * step.each, WORD_BYTES)
        place_a = f"0x{(byte << ID_SHIFT) + step.spacing_a * word:08x}"
        place_b = f"0x{(byte << ID_SHIFT) + step.spacing_b * word:08x}"
        more.append((text, _scaled_instruction(step, byte), place_a, place_b))
    return {
        "layout": _operand_layout(b),
        "a_address": stage_units(a),
        **descriptor(a).names("a"),
        "b_address": stage_units(b),
        **descriptor(b).names("b"),
        "acc_address": acc_address(context.storage.tmem_tile(step.acc)),
        "factors_a": tensor_address("%first_a", context.storage.tmem_tile(step.factors_a)),
        "factors_b": tensor_address("%first_b", context.storage.tmem_tile(step.factors_b)),
        "counter": step.counter or "",
        "instruction": _scaled_instruction(step, 0),
        "instruction_note": f"{step.m} x {step.n}, {fmt.element} with factors of {fmt.factor} in, f32 out",
        "kind": dtypes.KINDS[step.operand],
        "size": fmt.size,
        "then_add": step.atoms > 1,
        "more_atoms": more,
    }


@fragment.register
def _(step: CarryFactors, context: RoleContext) -> Names:
    source = context.storage.smem_tile(step.source)
    groups = -(-step.rows // GROUP)
    words = step.words
    cells = [[f"%cell{group * words + word}" for word in range(words)] for group in range(groups)]
    vector = f".v{words}" if words > 1 else ""
    loads = [
        (source.offset + GROUP * source.row_bytes * group, vector, braces(row) if words > 1 else row[0])
        for group, row in enumerate(cells)
    ]
    stores = [
        (step.spacing * word + first, count, braces(row[word] for row in cells[first : first + count]))
        for word in range(words)
        for first, count in powers_of_two(groups, groups)
    ]
    return {
        "cells": groups * words,
        "source_address": stage_address("%from", source),
        "lane": step.lane,
        "row_bytes": source.row_bytes,
        "first": step.first,
        "loads": loads,
        "tile_address": tensor_address("%to", context.storage.tmem_tile(step.tile)),
        "stores": stores,
    }


def _may_overwrite(step: Multiply, context: RoleContext) -> bool:
    """Whether the first instruction may find its counter at 0."""
    return step.counter is not None and context.numbers[step.counter].low <= 0


def _multiply(step: Multiply, context: RoleContext, *, weights_first: bool = False, reach: int = 0) -> Names:
    """What the templates of all multiplications take.

    Args:
        weights_first: whether the filter is the instruction's first operand.
        reach: the largest column shift of tcgen05.mma.ws.
    """
    b = context.storage.smem_tile(step.b)
    allowed = next(limit for limit in WS_SHIFTS if limit >= reach)
    kind = dtypes.KINDS[step.operand]
    sums = "s32" if kind == "i8" else "f32"
    first = step.operand
    second = step.filter_operand or step.operand
    if weights_first:
        first, second = second, first
    rows = context.program.pair * step.m
    shape = InstructionDescriptor(
        kind=kind, d_type=sums, a_type=first, b_type=second, m=rows, n=step.n, ws_max_shift=allowed
    )
    operands = first if first == second else f"{first} and {second}"
    moved = f", columns shifted by up to {allowed}" if allowed else ""
    return {
        "layout": _operand_layout(b),
        "b_address": stage_units(b),
        **descriptor(b).names("b"),
        "acc_address": acc_address(context.storage.tmem_tile(step.acc)),
        "counted": _may_overwrite(step, context),
        "counter": step.counter or "",
        "kind": kind,
        "then_add": _may_overwrite(step, context) and step.atoms > 1,
        "more_atoms": more_atoms(step.atoms),
        "instruction": f"0x{encode_instruction(shape):08x}",
        "instruction_note": f"{rows} x {step.n}, {operands} in, {sums} out{moved}",
    }


def _operand_layout(tile: SmemTile) -> str:
    """How the rows of an operand tile lie, in words."""
    return f"K-major, {tile.row_bytes}-byte swizzle, {8 * tile.row_bytes} bytes from 8 rows to the next 8"


def _zero_mask(step: MmaStationary, *, begins_zeroed: bool) -> str:
    """The upper word of a zero-column mask, whose first column is zeroed or used."""
    zeroed, used = step.runs or (1, 1)
    mask = ZeroColumnMask(
        generate=step.runs is not None,
        zeroed=zeroed,
        used=used,
        zero_first=(begins_zeroed, False, False, False),
        shift=step.shift,
    )
    return f"0x{encode_zero_mask(mask) >> 32:08x}"


def _collector(usage: str, buffer: int) -> str:
    """The qualifier that says what happens to the pixels in a collector buffer; each 32 bytes of K have their own."""
    return f".collector::b{buffer}::{usage}" if usage else ""


def _scaled_instruction(step: MmaScaled, byte: int) -> str:
    """The instruction descriptor for factors that start in a byte of their cells."""
    fmt = FORMATS[step.operand]
    fields = BlockScaledDescriptor(
        kind=dtypes.KINDS[step.operand],
        a_type=fmt.element,
        b_type=fmt.element,
        scale_type=fmt.factor,
        m=step.m,
        n=step.n,
        sfa_id=byte,
        sfb_id=byte,
    )
    return f"0x{encode_block_scaled(fields):08x}"
