"""The order that the tensor core keeps among the tcgen05 instructions of one thread.

Some pairs of instructions stay in order without a wait (PTX manual, "tcgen05 pipelined instructions"): shift behind
mma, mma behind shift and cp, cp.4x256b behind shift, and mma behind an mma of the same accumulator and shape. An
instruction also comes after everything that the ones before it come after, so pairs make chains.
"""

from __future__ import annotations

from convc.machine.tensor_core.mma import Accumulator
from convc.sanitizer.clocks import join

Stream = tuple[str, Accumulator | None]
"""Kind of an instruction, and accumulator and shape of an mma (None for others)."""

PAIRS = {("cp", "mma"), ("shift", "mma"), ("mma", "shift")}
"""First and second kind; ``cp`` and ``mma`` stand for all their variants."""


class Pipeline:
    """The order of one thread's tcgen05 instructions: what each stream comes after, as latest times by stream."""

    def __init__(self, ashift_ordered: bool) -> None:
        self.ashift_ordered = ashift_ordered
        self.issued: dict[Stream, dict[Stream, int]] = {}

    def issue(self, stream: Stream, time: int) -> dict[Stream, int]:
        """An instruction is issued; returns which earlier ones it comes after: those up to a time, by stream."""
        after: dict[Stream, int] = {}
        for before, reach in self.issued.items():
            if self._ordered(before, stream):
                join(after, reach)
        own = self.issued.setdefault(stream, {})
        join(own, after)
        own[stream] = time
        return after

    def _ordered(self, first: Stream, second: Stream) -> bool:
        """Whether the tensor core keeps an instruction of the second stream behind one of the first."""
        kinds = first[0].split(".")[0], second[0].split(".")[0]
        if kinds == ("mma", "mma"):
            return first[1] == second[1]
        if second[0] == "cp.4x256b":
            return first[0] == "shift" or (first[0] == "mma.ashift" and self.ashift_ordered)
        return kinds in PAIRS
