"""The memory of a CTA counted, without laying it out: the planner asks of many tilings, and takes one.

Every function that adds something to a `Storage` has one beside it that adds as much to a `Room`. A test holds both
together over all schedules and forms.
"""

from __future__ import annotations

import msgspec

from convc.compiler.plan.residency import MemoryNeed, bytes_for_columns
from convc.compiler.plan.storage import (
    ANSWER_BYTES,
    BARRIER_BYTES,
    NUMBERS_ALIGN,
    SLOT_BYTES,
    allocated_columns,
    table_and_slot,
)
from convc.ir.arch import Arch


class Room(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The sizes of what a CTA has in its memory, in bytes where nothing else is said; 0: it has none.

    Attributes:
        operands: first byte of shared memory past the operand tiles.
        barriers: the stages of all rings.
        columns: first column of tensor memory past the tiles in it.
        accumulator: columns of one accumulator.
        masks: entries of the table of lane masks.
        results: the tile of results, or the sums of a CTA that shares its tile.
        apart: whether these have a place of their own, behind the operand tiles instead of over them.
        residual: the tile of the residual.
        numbers: what the epilogue adds to each channel, and what it multiplies it with.
        answers: places of answers to requests for tiles.
        least: shared memory that the CTA takes even if it needs less, besides what its columns want.
    """

    operands: int
    barriers: int
    columns: int
    accumulator: int
    masks: int = 0
    results: int = 0
    apart: bool = False
    residual: int = 0
    numbers: int = 0
    answers: int = 0
    least: int = 0

    @property
    def used(self) -> int:
        """Bytes of shared memory that it takes, whatever columns it has."""
        tiles = self.operands + self.results if self.apart else max(self.operands, self.results)
        _, slot = table_and_slot(tiles + self.residual + BARRIER_BYTES * self.barriers, self.masks)
        end = slot + SLOT_BYTES
        if self.numbers:
            end = -(-end // NUMBERS_ALIGN) * NUMBERS_ALIGN + self.numbers
        if self.answers:
            end = -(-end // ANSWER_BYTES) * ANSWER_BYTES + self.answers
        return max(end, self.least)

    def need(self, arch: Arch) -> MemoryNeed:
        """Count what `convc.compiler.plan.storage.lay_out` needs for all this."""
        columns = allocated_columns(self.columns, arch)
        return MemoryNeed(smem_bytes=max(self.used, bytes_for_columns(columns, arch)), tmem_columns=columns)
