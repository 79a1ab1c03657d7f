"""Rules of the hardware that a schedule assumes although the manual does not settle them.

Each is a row of ``convc/docs/fidelity.md``, with its class of evidence; each schedule names those that it needs. A
schedule that needs an *assumed* rule is only chosen where it is clearly faster than one that does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule.

    Attributes:
        text: what a kernel takes for granted.
        evidence: class of docs/fidelity.md.
        note: what stands behind it.
        switch: the simulator's switch that reads it the other way; empty where there is none.
    """

    text: str
    evidence: Literal["recorded", "tested elsewhere", "assumed"]
    note: str
    switch: str = ""

    def __str__(self) -> str:
        switch = f"; switch {self.switch}" if self.switch else ""
        return f"{self.text} [{self.evidence}: {self.note}{switch}]"


ROW_START = Rule(
    text="a matrix descriptor may start at a row that is no multiple of 8",
    evidence="recorded",
    note="on sm_90a, whose descriptors sm_100a keeps",
)
FOUR_PARTITIONS = Rule(
    text="tcgen05.shift moves the rows of all four sub-partitions",
    evidence="assumed",
    note="sources disagree",
    switch="shift_extent",
)
LAST_LANES = Rule(
    text="tcgen05.cp.4x256b to lane 31 writes lanes 31, 63, 95 and 127",
    evidence="assumed",
    note="tested with lane 0",
    switch="refresh_lane",
)
MOVES_AFTER = Rule(
    text=".ashift multiplies first, then lane i takes lane i + 1 within each 32 lanes",
    evidence="tested elsewhere",
    note="NVIDIA CUTLASS on B200",
)
SHIFT_THEN_ZERO = Rule(
    text="tcgen05.mma.ws shifts the columns before it zeroes them",
    evidence="assumed",
    note="NVIDIA CUTLASS computes its masks this way",
    switch="zero_mask",
)

ROWS_BEFORE = Rule(
    text="a copy may start before the first row of the stream, and reads zeros there",
    evidence="recorded",
    note="im2col mode on sm_90a; im2col::w is documented to behave as im2col along N",
)
