"""Steps of kernels whose operands have scale factors (see `convc.compiler.plan.scale_factors`)."""

from __future__ import annotations

from dataclasses import dataclass

from convc.compiler.tile.steps.base import Multiply, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class CarryFactors(Step):
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

    source: str
    tile: str
    lane: str
    first: str
    rows: int
    words: int
    spacing: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrive(Step):
    """Every thread of the role arrives at the ring's barrier once its stores to tensor memory are complete."""

    ring: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MmaScaled(Multiply):
    """acc (+)= a @ b.T over one stage, every element times the factors of its block.

    Attributes:
        factors_a, factors_b: tiles of tensor memory with the factors.
        spacing_a, spacing_b: columns from a word of four factors to the next.
        each: factors of an instruction.
    """

    factors_a: str
    factors_b: str
    spacing_a: int
    spacing_b: int
    each: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleSums(Step):
    """values = values * multiplier[channel + column], float32.

    Attributes:
        buffer, first: the multipliers start at number `first` of the buffer.
        channel: number of the channel of the first column.
        columns: values per row.
    """

    buffer: str
    first: int
    channel: str
    columns: int
