"""The times of a tcgen05.mma: the interval between two of them, and from issue to an mbarrier that sees it done.

Every MMA is a whole number of slices of 32 bytes of K a row, which all kinds take the same time for. The published
rows that set the numbers are those of kind::f16; the other kinds, 120 rows, are predicted by them.
"""

from __future__ import annotations

from dataclasses import dataclass

from convc.errors import InputError
from convc.timing.parameters import Chip
from convc.timing.spread import later, sooner

SLICE_BYTES = 32
"""Bytes of K, a row, that one tcgen05.mma multiplies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MmaShape:
    """One tcgen05.mma as the tensor core sees it.

    Attributes:
        m, n: rows and columns of D, of the pair where ``pair``.
        pair: cta_group::2, on two SMs.
        a_in_tensor: A comes from tensor memory.
        ws: tcgen05.mma.ws, which is taken to need as long as the ordinary form of its N: nobody has published more than
            that 32 of them, of 64 x 128, take 1,925 cycles.
    """

    m: int
    n: int
    pair: bool = False
    a_in_tensor: bool = False
    ws: bool = False

    def __post_init__(self) -> None:
        rows = (128, 256) if self.pair else (64, 128)
        if self.ws:
            rows = (32, 64, 128)
        if self.m not in rows:
            form = "tcgen05.mma.ws" if self.ws else f"cta_group::{1 + self.pair}"
            raise InputError(f"M must be one of {', '.join(map(str, rows))} for {form}, got {self.m}")
        if not 8 <= self.n <= 256 or self.n % 8:
            raise InputError(f"N must be a multiple of 8 in 8..256, got {self.n}")

    @property
    def rows(self) -> int:
        """Rows of D that one SM computes."""
        return self.m // 2 if self.pair else self.m

    @property
    def side_by_side(self) -> int:
        """Strips computed at the same time: two where a pair's 64 rows an SM leave half of the lanes free."""
        return 2 if self.pair and self.m == 128 else 1

    @property
    def b_rows(self) -> int:
        """Rows of B that one SM reads: each SM of a pair reads half and shows it to the other."""
        return self.n // 2 if self.pair else self.n


def multiply_cycles(shape: MmaShape, chip: Chip) -> float:
    """Cycles in which the array multiplies: its strips, one after the other."""
    strips = shape.n / chip["tensor_core.strip_columns"] / shape.side_by_side
    return strips * chip["tensor_core.strip_cycles"] * later(1.0, shape.rows / chip["tensor_core.rows"])


def read_a_cycles(shape: MmaShape, chip: Chip) -> float:
    """Cycles of the shared-memory port for A; none where it lies in tensor memory."""
    return 0.0 if shape.a_in_tensor else shape.rows * SLICE_BYTES / chip["shared_memory.read_port"]


def read_b_cycles(shape: MmaShape, chip: Chip) -> float:
    """Cycles of the shared-memory port for B."""
    return shape.b_rows * SLICE_BYTES / chip["shared_memory.read_port"]


def interval(shape: MmaShape, chip: Chip) -> float:
    """Cycles from one MMA of a long chain to the next: what is slower, the array or the port."""
    port = read_a_cycles(shape, chip) + read_b_cycles(shape, chip)
    if shape.pair and not shape.a_in_tensor:
        port += chip["tensor_core.pair_port" if shape.m == 256 else "tensor_core.pair_half_port"]
    return later(later(multiply_cycles(shape, chip), port), least_interval(shape, chip))


def least_interval(shape: MmaShape, chip: Chip) -> float:
    """Cycles from one MMA to the next that remain where there is little to multiply and to read."""
    if shape.side_by_side == 2:
        return chip["tensor_core.pair_half_floor"]
    if shape.pair or shape.a_in_tensor:
        return 0.0
    return chip["tensor_core.half_floor" if shape.m <= 64 else "tensor_core.floor"]


def latency(shape: MmaShape, chip: Chip) -> float:
    """Cycles from the issue of one MMA to the moment at which a thread sees its mbarrier completed."""
    if not shape.pair:
        depth = chip["tensor_core.depth"]
    elif shape.m == 256:
        depth = chip["tensor_core.pair_depth"]
    else:
        depth = chip["tensor_core.pair_half_depth"]
        if not shape.a_in_tensor:
            rows = sooner(shape.n, chip["tensor_core.pair_exchange_rows"])
            depth += rows / chip["tensor_core.strip_columns"] - chip["tensor_core.pair_exchange"]
    return depth + read_a_cycles(shape, chip) + multiply_cycles(shape, chip)
