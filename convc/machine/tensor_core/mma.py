"""One issued tcgen05.mma: what the issuing thread's registers said."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from convc.machine.tensor_core.fetch import A_COLUMNS
from convc.machine.tensor_core.shapes import MmaShape
from convc.ptx import Instr

Accumulator = tuple[int, str, int, int, bool, bool]
"""Address of an accumulator, and what else decides how it is used: kind, M, N, pair, weight-stationary."""


@dataclass(frozen=True, slots=True, eq=False)
class LaneMask:
    """disable-output-lane: bool (1 or CTAs of the instruction, 128), True where a lane of D is written."""

    enabled: np.ndarray

    def disabled(self, lanes: np.ndarray, ctas: int) -> int:
        """How many of ``lanes`` are not written, summed over the ``ctas`` CTAs of the instruction."""
        written = int(np.count_nonzero(self.enabled[:, lanes]))  # numpy 2.3 answers with a numpy integer
        return len(lanes) * ctas - written * (ctas // len(self.enabled))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LaneMask) and np.array_equal(self.enabled, other.enabled)

    def __hash__(self) -> int:
        return hash(self.enabled.tobytes())


@dataclass(slots=True, unsafe_hash=True)
class Mma:
    """One issued instruction, operands already read from registers; never changed (a frozen record is slow to make).

    Attributes:
        shape: of its instruction descriptor.
        d: tensor-memory address of the accumulator.
        a, b: shared-memory descriptors; ``a`` is a tensor-memory address where ``a_in_tensor``.
        accumulate: enable-input-d. scale: D is multiplied by 2^-scale before adding.
        rows: all CTAs that take part (None = every one of the cohort); pairs lie side by side, even CTA first.
        ashift: the rows of A in tensor memory move by one lane afterwards.
        zero: zero-column mask descriptor, or None. sfa, sfb: addresses of the scale factors.
    """

    shape: MmaShape
    d: int
    a: int
    b: int
    accumulate: bool
    rows: tuple[int, ...] | None
    instr: Instr
    a_in_tensor: bool = False
    mask: LaneMask | None = None
    scale: int = 0
    ashift: bool = False
    zero: int | None = None
    sfa: int = 0
    sfb: int = 0

    @property
    def target(self) -> tuple[object, ...]:
        """What two instructions must share to continue one accumulation."""
        return self.d, self.shape, self.rows, self.a_in_tensor, self.zero, self.mask

    @property
    def accumulator(self) -> Accumulator:
        """Accumulator and shape: two MMAs of one thread that share them are ordered (PTX manual, "Pipelined")."""
        shape = self.shape
        return self.d, shape.kind, shape.m, shape.n, shape.pair, shape.ws

    def overlaps(self) -> bool:
        """Whether D covers columns that hold A."""
        first = self.d & 0xFFFF
        a = self.a & 0xFFFF
        return self.a_in_tensor and first < a + A_COLUMNS and a < first + self.shape.columns
