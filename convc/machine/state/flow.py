"""Control flow of a kernel: where divergent lanes meet again, and which registers still matter there.

Lanes that part at a branch run one after the other under a mask until the branch's immediate post-dominator (the
first instruction that every path from the branch reaches). While they run, a register that is not read after the
meeting point needs no merging with the values of the waiting lanes, which keeps the registers of an elected thread
as narrow as plain integers.

Everything is computed on basic blocks, once per kernel and only when a branch really diverges.
"""

from __future__ import annotations

import functools
from bisect import bisect_right
from collections.abc import Sequence

import msgspec


class FlowFacts(msgspec.Struct, frozen=True, gc=False):
    """What control flow needs to know of one instruction.

    Attributes:
        target: index of the branch target, or None.
        falls: whether the next instruction may follow.
        reads, writes: register slots, as the bits of a number; ``reads`` has that of the guard too.
        guard: slot of the predicate, and whether it is negated: registers are written where it holds. None: everywhere.
    """

    target: int | None
    falls: bool
    reads: int
    writes: int
    guard: tuple[int, bool] | None = None


def slots_of(bits: int) -> list[int]:
    """The numbers of the bits that are set."""
    return [slot for slot, bit in enumerate(reversed(f"{bits:b}")) if bit == "1"]


class Flow:
    """Basic blocks, post-dominators and liveness of a kernel body."""

    def __init__(self, facts: Sequence[FlowFacts]) -> None:
        self.facts = facts
        count = len(facts)
        leaders = {0}
        jumps = [i for i, fact in enumerate(facts) if fact.target is not None or not fact.falls]
        leaders.update([i + 1 for i in jumps])
        leaders.update([target for i in jumps if (target := facts[i].target) is not None])
        self.starts = sorted(s for s in leaders if s < count)
        self.ends = [*self.starts[1:], count]
        self.exit = len(self.starts)
        self.successors = [self._successors(end - 1, count) for end in self.ends]
        self._live: list[int] | None = None
        self._post: list[int] | None = None

    def block_of(self, index: int) -> int:
        """The block of an instruction."""
        return bisect_right(self.starts, index) - 1

    def _successors(self, last: int, count: int) -> list[int]:
        fact = self.facts[last]
        out: list[int] = []
        if fact.target is not None:
            out.append(self.block_of(fact.target) if fact.target < count else self.exit)
        if fact.falls:
            out.append(self.block_of(last + 1) if last + 1 < count else self.exit)
        return out or [self.exit]

    def join(self, branch: int) -> int | None:
        """First instruction of the immediate post-dominator of a branch; None when paths only meet at the exit."""
        if self._post is None:
            self._post = self._post_dominators()
        block = self.block_of(branch)
        strict = left = self._post[block] & ~(1 << block | 1 << self.exit)
        while left:
            candidate = left.bit_length() - 1
            if strict & ~self._post[candidate] == 0:
                return self.starts[candidate]
            left ^= 1 << candidate
        return None

    def _post_dominators(self) -> list[int]:
        """The blocks that every path from a block goes through, itself included: sets, as the bits of a number."""
        everything = (1 << self.exit + 1) - 1
        post = [everything] * self.exit + [1 << self.exit]
        changed = True
        while changed:
            changed = False
            for block in reversed(range(self.exit)):
                meet = functools.reduce(int.__and__, (post[s] for s in self.successors[block])) | 1 << block
                if meet != post[block]:
                    post[block] = meet
                    changed = True
        return post

    def live_in(self, index: int | None) -> frozenset[int]:
        """Registers whose value at instruction ``index`` may still be read."""
        if index is None or index >= len(self.facts):
            return frozenset()
        if self._live is None:
            self._live = self._liveness()
        block = self.block_of(index)
        read, written = self._summary(index, self.ends[block])
        live = functools.reduce(int.__or__, (self._live[s] for s in self.successors[block]), 0) & ~written | read
        return frozenset(slots_of(live))

    def _summary(self, start: int, end: int) -> tuple[int, int]:
        """Registers that instructions read as they were before them, and those that they write, as bits.

        Who reads under the guard under which a register was written reads what was written, though others keep theirs.
        """
        reads = 0
        writes = 0
        under: dict[tuple[int, bool], int] = {}  # registers written under a guard that still says the same
        for fact in self.facts[start:end]:
            read = fact.reads
            written = fact.writes
            guard = fact.guard
            if guard is None:
                reads |= read & ~writes
                writes |= written
            else:
                before = under.get(guard, 0)
                reads |= read & ~(writes | before)
                under[guard] = before | written
            if under and written:
                under = {guard: slots for guard, slots in under.items() if not written >> guard[0] & 1}
        return reads, writes

    def _liveness(self) -> list[int]:
        """The registers that may still be read where a block begins, as the bits of a number."""
        blocks = [
            (block, *self._summary(start, end), self.successors[block])
            for block, (start, end) in enumerate(zip(self.starts, self.ends, strict=True))
        ]
        blocks.reverse()
        live = [0] * (self.exit + 1)
        changed = True
        while changed:
            changed = False
            for block, read, written, successors in blocks:
                out = 0
                for successor in successors:
                    out |= live[successor]
                new = read | out & ~written
                if new != live[block]:
                    live[block] = new
                    changed = True
        return live
