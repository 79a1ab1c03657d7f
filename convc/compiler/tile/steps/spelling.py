"""The spelling of steps: what is around a step in its role, and tiles, rings and numbers as operands of PTX.

Each kind of step has a template of its name in ``templates/steps``, and a method (`spelling` of
`convc.compiler.tile.steps.base.Step`) that gives it its flat dictionary of texts, numbers, booleans and lists. All
arithmetic on offsets and all choices of spelling happen there, so that templates only read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from convc.compiler.plan.storage import BarrierRing, SmemTile, Storage, TmemTile
from convc.compiler.tile.exprs import Number
from convc.ir import dtypes
from convc.ir.arch import SM_100A
from convc.ir.dtypes import DType
from convc.ptx.descriptors import SharedDescriptor, encode_shared, encode_warpgroup

Names = dict[str, Any]
"""What a template is filled in with: texts, numbers, booleans, and lists of these."""

MASK_WORDS = 4
"""Registers that hold a mask of 128 lanes."""


class RoleContext(msgspec.Struct, frozen=True, kw_only=True):
    """The surroundings of a step in its role, and numbers: those in registers, and of loops written out.

    Attributes:
        role: its name.
        storage: the places of tiles and barriers.
        pair, dependent: of the program (`convc.compiler.tile.program.TileProgram`).
        states: the rings that the role goes around: for each of these it has a stage and a phase.
        uses_tensor_memory: whether the role uses tensor memory, so that its waits need the tensor-memory fence.
        places: the stage at this point of the text, by state, where it is always the same; moves on as the text is
            written.
    """

    role: str
    storage: Storage
    pair: int
    dependent: bool
    states: tuple[str, ...]
    uses_tensor_memory: bool
    numbers: Mapping[str, Number]
    unrolled: Mapping[str, int] = msgspec.field(default_factory=dict[str, int])
    places: dict[str, int] = msgspec.field(default_factory=dict[str, int])

    def orders_tensor_memory(self, ring: BarrierRing) -> bool:
        """Whether something in tensor memory may depend on a ring; others are about shared memory alone."""
        apart = (self.storage.residual, self.storage.answers)
        return all(tile is None or ring.state != tile.state for tile in apart)


def braces(registers: Iterable[str]) -> str:
    """A vector operand."""
    return "{" + ", ".join(registers) + "}"


def register_rows(registers: Iterable[str]) -> list[str]:
    """The lines of a long vector operand: eight registers each."""
    named = list(registers)
    rows = [", ".join(named[i : i + 8]) for i in range(0, len(named), 8)]
    return [row + "," for row in rows[:-1]] + rows[-1:]


def stage(state: str) -> str:
    """The register with the stage of a state."""
    return f"%stage_{state}" if state else "%stage"


def phase(state: str) -> str:
    """The register with the phase of a state."""
    return f"%phase_{state}" if state else "%phase"


def stage_address(to: str, tile: SmemTile) -> str:
    """The line that sets a register to the address of a tile's current stage, less the tile's offset."""
    return f"mad.lo.u32 {to}, {stage(tile.state)}, {tile.stage_bytes}, %smem;"


def barriers(ring: BarrierRing) -> str:
    """The register with the start of the shared memory whose barriers of a ring are signalled."""
    return "%lead" if ring.at == "leader" else "%smem"


def acc_address(acc: TmemTile) -> str:
    """The line that sets ``%acc`` to an accumulator's first column; one of several stages begins at column 0."""
    if acc.stages > 1:
        return f"mad.lo.u32 %acc, {stage(acc.state)}, {acc.columns}, %tmem;"
    return f"add.u32 %acc, %tmem, {acc.column_offset};" if acc.column_offset else "mov.b32 %acc, %tmem;"


def tensor_address(to: str, tile: TmemTile) -> list[str]:
    """The lines that set a register to a tile's current stage in tensor memory."""
    lines = [f"mad.lo.u32 {to}, {stage(tile.state)}, {tile.columns}, %tmem;"]
    return lines + ([f"add.u32 {to}, {to}, {tile.column_offset};"] if tile.column_offset else [])


ATOM_BYTES = SM_100A.limits.mma_atom_bytes
"""Bytes of K that an instruction takes of each row and column of a product."""
UNIT_BYTES = 16
"""A matrix descriptor counts addresses in units of so many bytes."""


class Halves(NamedTuple):
    """A 64-bit number as two of 32 bits, as text."""

    low: str
    high: str

    def names(self, operand: str) -> dict[str, str]:
        """The halves as names of a template."""
        return {f"{operand}_low": self.low, f"{operand}_high": self.high}


def stage_units(tile: SmemTile) -> str:
    """The line that sets ``%word`` to where a tile's current stage begins, in units, less the tile's offset."""
    return f"mad.lo.u32 %word, {stage(tile.state)}, {tile.stage_bytes // UNIT_BYTES}, %units;"


def warpgroup_descriptor(tile: SmemTile, span_rows: int | None = None) -> Halves:
    """Halves of a tile's descriptor for wgmma, low first: of stage 0, where shared memory starts at address 0.

    span_rows: as of `SharedMma`.
    """
    fields = SharedDescriptor(
        start=tile.offset, lbo=_leading(tile, span_rows), sbo=8 * tile.row_bytes, swizzle=tile.swizzle
    )
    return _halves(encode_warpgroup(fields))


def descriptor(tile: SmemTile, row: int = 0, span_rows: int | None = None) -> Halves:
    """Halves of a tile's descriptor from a row on, low first: of stage 0, where shared memory starts at address 0.

    span_rows: as of `SharedMma`.
    """
    start = tile.offset + row * tile.row_bytes
    fields = SharedDescriptor(start=start, lbo=_leading(tile, span_rows), sbo=8 * tile.row_bytes, swizzle=tile.swizzle)
    return _halves(encode_shared(fields))


def _leading(tile: SmemTile, span_rows: int | None) -> int:
    """The leading dimension's byte offset: from span to span where operands are MN-major, elsewhere not asked for."""
    return UNIT_BYTES if span_rows is None else span_rows * tile.row_bytes


def _halves(encoded: int) -> Halves:
    """Low and high 32 bits. The address is in the low ones, and no sum with it leaves its field."""
    return Halves(f"0x{encoded & 0xFFFFFFFF:08x}", f"0x{encoded >> 32:08x}")


def atom_rows(operand: DType, span_rows: int | None) -> int | None:
    """Rows of a tile that an instruction takes where they are terms of the sum (`SharedMma.span_rows`)."""
    return None if span_rows is None else ATOM_BYTES // operand.bytes


def atom_units(tile: SmemTile, rows: int | None) -> int:
    """Units from what one instruction of a step reads to what the next one does."""
    return (ATOM_BYTES if rows is None else rows * tile.row_bytes) // UNIT_BYTES


def more_atoms(count: int, rows: int | None = None) -> list[str]:
    """Say what each instruction behind the first of a step works on; rows: that each takes of a tile, else bytes."""
    if rows is not None:
        return [f"rows {rows * i} to {rows * (i + 1) - 1} of every span" for i in range(1, count)]
    return [f"bytes {32 * i} to {32 * i + 31} of every row" for i in range(1, count)]


def mask_registers(rank: int, letter: str = "m") -> list[str]:
    """The mask registers of a CTA of a pair, by its rank: a bit for each lane of its tensor memory.

    `letter`: m, or n for those of an entry that is to be joined to them.
    """
    return [f"%{letter}{MASK_WORDS * rank + word}" for word in range(MASK_WORDS)]


def powers_of_two(count: int, most: int) -> list[tuple[int, int]]:
    """(first, how many) of pieces that together are `count`: powers of two up to `most`, largest first."""
    pieces: list[tuple[int, int]] = []
    first = 0
    while first < count:
        pieces.append((first, min(most, 1 << ((count - first).bit_length() - 1))))
        first += pieces[-1][1]
    return pieces


Loads = list[tuple[int, str]]
"""(byte offset, registers) of reads of four numbers each."""


def quads(columns: int, first: int = 0, at_once: int = 4) -> list[tuple[Loads, list[tuple[str, str]]]]:
    """Reads of the numbers for values ``%v0..``, each group with its pairs of values and numbers.

    Args:
        first: number of the buffer at which those for the first column start, each of 4 bytes.
        at_once: numbers that are read before the first is used, into as many registers ``%b0..``.
    """
    groups: list[tuple[Loads, list[tuple[str, str]]]] = []
    for group in range(0, columns, at_once):
        fours = range(0, min(at_once, columns - group), 4)
        loads = [(4 * (first + group + i), f"{{ %b{i}, %b{i + 1}, %b{i + 2}, %b{i + 3} }}") for i in fours]
        groups.append((loads, [(f"%v{group + i + j}", f"%b{i + j}") for i in fours for j in range(4)]))
    return groups


def values_per_word(out: str) -> int:
    """Values of an output type in 32 bits."""
    return 32 // dtypes.BY_NAME[out].bits
