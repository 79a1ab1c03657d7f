"""How tiles, rings and instructions are spelled in operands of PTX."""

from __future__ import annotations

from collections.abc import Iterable

from convc.ptx.descriptors import InstructionDescriptor, SharedDescriptor, encode_instruction, encode_shared
from convc.tile.steps import SmemTile

MASK = ", {%m0, %m1, %m2, %m3}"
"""The mask registers as the operand disable-output-lane."""


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


def acc_address(column: int) -> str:
    """The line that sets ``%acc`` to an accumulator's first column."""
    return f"add.u32 %acc, %tmem, {column};" if column else "mov.b32 %acc, %tmem;"


def descriptor(tile: SmemTile, row: int = 0) -> str:
    """Descriptor of stage 0 of a tile, from a row on, in a CTA whose shared memory starts at address 0."""
    start = tile.offset + row * tile.row_bytes
    return (
        f"0x{encode_shared(SharedDescriptor(start=start, lbo=16, sbo=8 * tile.row_bytes, swizzle=tile.swizzle)):016x}"
    )


def mma_kind(operand: str) -> str:
    """The ``.kind`` of an operand type."""
    return "tf32" if operand == "tf32" else "f16"


def more_atoms(count: int) -> list[str]:
    """What each instruction behind the first of a step works on."""
    return [f"bytes {32 * i} to {32 * i + 31} of every row" for i in range(1, count)]


def instruction_of(operand: str, m: int, n: int, reach: int = 0) -> dict[str, str]:
    """Instruction descriptor and a note on it; `reach`: the largest column shift of tcgen05.mma.ws."""
    allowed = next(limit for limit in (0, 8, 16, 32) if limit >= reach)
    shape = InstructionDescriptor(
        kind=mma_kind(operand), d_type="f32", a_type=operand, b_type=operand, m=m, n=n, ws_max_shift=allowed
    )
    moved = f", columns shifted by up to {allowed}" if allowed else ""
    return {
        "instruction": f"0x{encode_instruction(shape):08x}",
        "instruction_note": f"{m} x {n}, {operand} in, f32 out{moved}",
    }
