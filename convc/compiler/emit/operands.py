"""How tiles, rings and instructions are spelled in operands of PTX."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from convc.compiler.tile.steps.base import Multiply, SmemTile, TmemTile
from convc.compiler.tile.steps.sharing import MmaStationary
from convc.ir import dtypes
from convc.ptx.descriptors import InstructionDescriptor, SharedDescriptor, encode_instruction, encode_shared


def braces(registers: Iterable[str]) -> str:
    """A vector operand."""
    return "{" + ", ".join(registers) + "}"


def stage(cursor: str) -> str:
    """The register with the stage of a cursor."""
    return f"%stage_{cursor}" if cursor else "%stage"


def phase(cursor: str) -> str:
    """The register with the phase of a cursor."""
    return f"%phase_{cursor}" if cursor else "%phase"


def stage_address(to: str, tile: SmemTile) -> str:
    """The line that sets a register to the address of a tile's current stage, less the tile's offset."""
    return f"mad.lo.u32 {to}, {stage(tile.cursor)}, {tile.stage_bytes}, %smem;"


def acc_address(acc: TmemTile) -> str:
    """The line that sets ``%acc`` to an accumulator's first column."""
    return f"add.u32 %acc, %tmem, {acc.column_offset};" if acc.column_offset else "mov.b32 %acc, %tmem;"


def tensor_address(to: str, tile: TmemTile) -> list[str]:
    """The lines that set a register to a tile's current stage in tensor memory."""
    lines = [f"mad.lo.u32 {to}, {stage(tile.cursor)}, {tile.columns}, %tmem;"]
    return lines + ([f"add.u32 {to}, {to}, {tile.column_offset};"] if tile.column_offset else [])


def descriptor(tile: SmemTile, row: int = 0) -> str:
    """Descriptor of stage 0 of a tile, from a row on, in a CTA whose shared memory starts at address 0."""
    start = tile.offset + row * tile.row_bytes
    return (
        f"0x{encode_shared(SharedDescriptor(start=start, lbo=16, sbo=8 * tile.row_bytes, swizzle=tile.swizzle)):016x}"
    )


def more_atoms(count: int) -> list[str]:
    """What each instruction behind the first of a step works on."""
    return [f"bytes {32 * i} to {32 * i + 31} of every row" for i in range(1, count)]


def mask_of(step: Multiply) -> str:
    """The mask registers as the operand disable-output-lane; nothing where no lane is masked."""
    return ", {%m0, %m1, %m2, %m3}" if step.masked else ""


def multiply_names(step: Multiply, b: SmemTile, acc: TmemTile, reach: int = 0) -> dict[str, Any]:
    """What the templates of all multiplications take; `reach`: the largest column shift of tcgen05.mma.ws."""
    allowed = next(limit for limit in (0, 8, 16, 32) if limit >= reach)
    m, n, kind = step.m, step.n, dtypes.KINDS[step.operand]
    sums = "s32" if kind == "i8" else "f32"
    first, second = step.operand, step.filter_operand or step.operand
    if isinstance(step, MmaStationary):
        first, second = second, first
    shape = InstructionDescriptor(kind=kind, d_type=sums, a_type=first, b_type=second, m=m, n=n, ws_max_shift=allowed)
    operands = first if first == second else f"{first} and {second}"
    moved = f", columns shifted by up to {allowed}" if allowed else ""
    return {
        "layout": f"K-major, {b.row_bytes}-byte swizzle, {8 * b.row_bytes} bytes from 8 rows to the next 8",
        "b_address": stage_address("%word", b),
        "b_descriptor": descriptor(b),
        "acc_address": acc_address(acc),
        "counted": step.counter is not None,
        "counter": step.counter or "",
        "kind": kind,
        "then_add": step.counter is not None and step.atoms > 1,
        "more_atoms": more_atoms(step.atoms),
        "instruction": f"0x{encode_instruction(shape):08x}",
        "instruction_note": f"{m} x {n}, {operands} in, {sums} out{moved}",
    }


def powers_of_two(count: int, most: int) -> list[tuple[int, int]]:
    """(first, how many) of pieces that together are `count`: powers of two up to `most`, largest first."""
    pieces, first = [], 0
    while first < count:
        pieces.append((first, min(most, 1 << ((count - first).bit_length() - 1))))
        first += pieces[-1][1]
    return pieces


def quads(columns: int, first: int = 0) -> list[tuple[int, list[tuple[str, str]]]]:
    """Values ``%v0..`` with the numbers for them, read four at a time into ``%b0..3``: (byte offset, pairs) each.

    Args:
        first: number of the buffer at which those for the first column start, each of 4 bytes.
    """
    return [(4 * (first + i), [(f"%v{i + j}", f"%b{j}") for j in range(4)]) for i in range(0, columns, 4)]
