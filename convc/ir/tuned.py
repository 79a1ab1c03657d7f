"""The measured choice among a kernel's candidates: the part of a tuning record that a plan has.

A record may come from a stranger's file. So a choice is no kernel and no plan: it is a few options of the
schedule and a width, of which the planner makes a kernel as of any others, or refuses them.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

MOST_NAME = 200
"""Characters of a name."""

Name = Annotated[
    str, msgspec.Meta(min_length=1, max_length=MOST_NAME, pattern=r"^[^\x00-\x1f\x7f-\x9f\u2028-\u202e]*$")
]
Microseconds = Annotated[float, msgspec.Meta(gt=0, le=1e9)]


class Tuned(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The candidate of a problem that was fastest where it was measured.

    Attributes:
        device: the GPU by its driver's name; where the timing engine timed, the chip that it models.
        by: who timed: a GPU, or the engine.
        choice: options that were left open, and what they are to be; none: what the estimates take.
        block_n: output channels of a tile; None: as estimates choose.
        kernel: 16 hexadecimal digits of the SHA-256 of the text that was timed.
        title: that kernel for people: its schedule and tiles.
        microseconds: median of a launch among many in a row.
        spread: half of the range between the quartiles of these, in microseconds.
        estimated: median of what the estimates take; None where that was lost.
        candidates: how many were timed. lost: of these, kernels that did not come to an end.
    """

    device: Name
    by: Literal["gpu", "engine"]
    choice: Annotated[dict[Name, Name], msgspec.Meta(max_length=32)] = {}
    block_n: Annotated[int, msgspec.Meta(ge=1, le=1024)] | None = None
    kernel: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{16}$")]
    title: Name
    microseconds: Microseconds
    spread: Annotated[float, msgspec.Meta(ge=0, le=1e9)] = 0.0
    estimated: Microseconds | None = None
    candidates: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 1
    lost: Annotated[int, msgspec.Meta(ge=0, le=10_000)] = 0

    @property
    def gain(self) -> float | None:
        """Times as fast as what the estimates take; None where that is not known."""
        return None if self.estimated is None else self.estimated / self.microseconds

    @property
    def where(self) -> str:
        """The place where it was timed, for people."""
        return self.device if self.by == "gpu" else f"the timing engine's {self.device}"

    def __str__(self) -> str:
        gain = "" if self.gain is None else f", {self.gain:.2f}x of the estimate's choice"
        return f"tuned on {self.where}, {self.microseconds:.1f} us{gain}"


class Tuning(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tuning record in the plan that was made by it.

    Attributes:
        record: what was measured.
        refused: why its choice could not be taken; empty where it was.
        changed: the kernel has another text than the one that was timed.
    """

    record: Tuned
    refused: str = ""
    changed: bool = False

    def __str__(self) -> str:
        if self.refused:
            return f"the choice {self.record} could not be taken: {self.refused}"
        return f"{self.record}{' (its text has changed since)' if self.changed else ''}"
