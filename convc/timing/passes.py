"""A tcgen05.mma opened up: the steps of the tensor core, cycle by cycle.

The picture, of which everything else follows:

- The shared-memory port reads A first, 128 bytes a cycle: 32 cycles for 128 rows, 16 for 64, none where A lies in
  tensor memory. Then it reads B, eight of its rows (columns of D) at a time, by rising n.
- Eight columns of D are a *strip*. The four sub-cores, 32 lanes of tensor memory each, multiply a strip in four cycles:
  in a cycle each takes 8 x 8 x 32 bytes, which is 8 x 8 x 16 of f16. A strip's accumulators, 4 bytes each, are read and
  written while it is multiplied: 1,024 bytes a cycle each way for 128 lanes.
- Port and array work on different instructions at the same time. The interval of a long chain is what is slower.

Where an M of 64 leaves half of the lanes free a strip takes as long, with four lanes a cycle in each sub-core; a pair's
64 rows an SM take two strips at once, one in each half of the lanes (layout B).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from convc.errors import InputError
from convc.timing.parameters import Chip
from convc.timing.tensor_core import SLICE_BYTES, MmaShape, least_interval, read_a_cycles, read_b_cycles

SUB_CORES = 4
LANES = 32
"""Lanes of tensor memory that belong to a sub-core."""

ACCUMULATOR_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitStep:
    """The work of one unit in some cycles.

    Attributes:
        mma: number of the instruction in its chain.
        unit: ``read A``, ``read B`` or ``multiply``.
        cycle, cycles: when it begins, counted from the first read of the chain, and how long it takes.
        sub_core: 0..3 of a multiplication; None for the port.
        lanes: first and last lane of tensor memory; of a read of A, first and last row.
        columns: first and last column of D.
        port_bytes: read through the port of shared memory.
        accumulator_bytes: read from tensor memory, and as many written.
    """

    mma: int
    unit: str
    cycle: float
    cycles: float
    sub_core: int | None = None
    lanes: tuple[int, int] | None = None
    columns: tuple[int, int] | None = None
    port_bytes: int = 0
    accumulator_bytes: int = 0

    @property
    def k_bytes(self) -> tuple[int, int]:
        """First and last byte of K: every step takes the whole slice."""
        return 0, SLICE_BYTES - 1


def steps(shape: MmaShape, chip: Chip, count: int = 1) -> Iterator[UnitStep]:
    """The steps of a chain of equal MMAs, those of each instruction together.

    Args:
        shape: of each; what one SM of a pair does is shown.
        chip: whose rates count.
        count: how many MMAs follow each other.

    Raises:
        InputError: it is a tcgen05.mma.ws, of which no measurement says how it works inside.
    """
    if shape.ws:
        raise InputError("tcgen05.mma.ws has no step-by-step model: it was never measured")
    width = int(chip["tensor_core.strip_columns"])
    strips = shape.n // width // shape.side_by_side
    read_a = read_a_cycles(shape, chip)
    read_strip = read_b_cycles(shape, chip) / strips
    exchange = _exchange(shape, chip)
    least = least_interval(shape, chip)
    port = 0.0  # when the port is free
    array = 0.0  # when the array is free
    for mma in range(count):
        first = array
        if read_a:
            bytes_a = shape.rows * SLICE_BYTES
            rows = (0, shape.rows - 1)
            yield UnitStep(mma=mma, unit="read A", cycle=port, cycles=read_a, lanes=rows, port_bytes=bytes_a)
        port += read_a
        for strip in range(strips):
            columns = (strip * width, strip * width + width - 1)
            bytes_b = shape.b_rows * SLICE_BYTES // strips
            yield UnitStep(mma=mma, unit="read B", cycle=port, cycles=read_strip, columns=columns, port_bytes=bytes_b)
            port += read_strip
            array = max(array, port)
            first = array if strip == 0 else first
            yield from _strip(shape, chip, mma, strip, array)
            array += chip["tensor_core.strip_cycles"]
        port += exchange
        array = max(array, first + least)


def _exchange(shape: MmaShape, chip: Chip) -> float:
    """Cycles that the port of an SM of a pair waits for the other's half of B."""
    if not shape.pair or shape.a_in_tensor:
        return 0.0
    return chip["tensor_core.pair_port" if shape.m == 256 else "tensor_core.pair_half_port"]


def _strip(shape: MmaShape, chip: Chip, mma: int, strip: int, start: float) -> Iterator[UnitStep]:
    """What the four sub-cores do with a strip, a cycle at a time."""
    width = int(chip["tensor_core.strip_columns"])
    cycles = int(chip["tensor_core.strip_cycles"])
    rows = shape.rows * shape.side_by_side
    each = rows // SUB_CORES // cycles
    for cycle in range(cycles):
        for core in range(SUB_CORES):
            lane = core * LANES + cycle * each
            bank = core // 2 if shape.side_by_side == 2 else 0
            column = bank * shape.n // 2 + strip * width
            yield UnitStep(
                mma=mma,
                unit="multiply",
                cycle=start + cycle,
                cycles=1,
                sub_core=core,
                lanes=(lane, lane + each - 1),
                columns=(column, column + width - 1),
                accumulator_bytes=each * width * ACCUMULATOR_BYTES,
            )
