"""What a witness found: small records with a verdict.

A verdict is one of four words, from best to worst: ``clean`` (checked, nothing found), ``review`` (a person should
look), ``incomplete`` (not everything was checked; never success) and ``error`` (proved wrong, with a witness).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Verdict(IntEnum):
    """How bad it is; comparable, worst is greatest."""

    clean = 0
    review = 1
    incomplete = 2
    error = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that a witness saw.

    Attributes:
        verdict: how bad it is.
        rule: short stable name, e.g. ``shared-memory-unwritten``.
        message: one sentence with the values involved.
        file, line: the PTX line that did it (line 0 when there is none).
        step: id of the tile step the instruction belongs to, or None.
        cta, warp, lane: who did it, where known.
        place: in a convolution kernel, which outputs that CTA makes.
    """

    verdict: Verdict
    rule: str
    message: str
    file: str = ""
    line: int = 0
    step: str | None = None
    cta: int | None = None
    warp: int | None = None
    lane: int | None = None
    place: str | None = None

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}: " if self.line else ""
        who = ", ".join(
            f"{k} {v}" for k, v in (("CTA", self.cta), ("warp", self.warp), ("lane", self.lane)) if v is not None
        )
        step = f" in step {self.step}" if self.step else ""
        step += f"; {self.place}" if self.place else ""
        return f"{place}{self.verdict.name}[{self.rule}]: {self.message}{f' ({who})' if who else ''}{step}"
