"""A warp goes on, operation by operation, lanes that parted by themselves.

Those that are behind go first, and lanes are one again where they meet. A warp goes on until it has to wait for others,
or to its end, or to a place that is not followed.

The place where two ways of a branch meet again, and all that lies on them.

The place is the immediate postdominator of the branch: the first operation that every way from it to the end passes.
"""

from __future__ import annotations

from dataclasses import dataclass

from convc.auditor.lanes import at as at_lanes
from convc.auditor.lanes import lanes_where
from convc.auditor.program import BRANCH, EXIT, LOST, PLAIN, SWITCH, Operation, Program
from convc.auditor.state import Warp

PARTED = -1
WAITS = -2
"""Instead of the next operation: lanes went elsewhere, or ended; lanes have to wait."""


TURN = 1024
"""Operations that are counted together."""

EFFECT = 8
"""Operations that one with an effect counts as."""


class Walker:
    """Takes one warp through the operations of a program."""

    def __init__(self, warp: Warp, program: Program) -> None:
        self.warp = warp
        self.program = program

    def advance(self) -> bool:
        """Go on as far as possible; whether it went on at all."""
        moved = False
        while self.warp.groups:
            for start in sorted(self.warp.groups):
                if self._go(start):
                    moved = True
                    break
            else:
                break
        return moved

    def _go(self, at: int) -> int:
        """Let the lanes at an operation go on: until they meet others, part, wait or end; returns how far."""
        operations = self.program.operations
        lanes = self.warp.groups.pop(at)
        meets = min((other for other in self.warp.groups if other > at), default=len(operations))
        steps = 0
        while at < meets:
            operation = operations[at]
            if operation.kind == PLAIN and operation.guard < 0 and operation.run is not None:
                operation.run(self.warp, lanes)
                at += 1
            else:
                after = self._step(operation, at, lanes)
                lanes &= self.warp.alive
                if after == WAITS:
                    self.warp.stuck[at] = (self.warp.waiting_for, operation.instr)
                    self.warp.groups[at] = self.warp.groups.get(at, 0) | lanes
                if after < 0 or not lanes:
                    self.warp.cta.cluster.spend(steps % TURN + 1)
                    return steps + (after != WAITS)
                at = after
            steps += 1
            if steps % TURN == 0:
                self.warp.cta.cluster.spend(TURN)
        self.warp.cta.cluster.spend(steps % TURN)
        if at >= len(operations):
            self.warp.exit(lanes)
        else:
            self.warp.groups[at] = self.warp.groups.get(at, 0) | lanes
        return steps

    def _step(self, operation: Operation, at: int, lanes: int) -> int:
        """Perform an operation for the lanes whose guard lets it: where they go on, or `PARTED` or `WAITS`."""
        active = lanes
        if operation.guard >= 0:
            found = lanes_where(self.warp.read(operation.guard), lanes, not operation.negate)
            if found is None:
                return self._unclear(operation, at, lanes)
            active = found
        kind = operation.kind
        if not active:
            waits = operation.together and self._apart(lanes)
            return WAITS if waits else at + 1
        if kind == BRANCH:
            if active == lanes:
                return operation.target
            self._part(operation.target, active, at + 1, lanes & ~active)
            return PARTED
        if kind == EXIT:
            self.warp.exit(active)
        elif kind in (LOST, SWITCH):
            return self._elsewhere(operation, active, lanes)
        elif operation.together and self._apart(lanes):
            return WAITS
        elif operation.run is not None:
            self.warp.cta.cluster.spend(EFFECT)
            if operation.run(self.warp, active):
                return WAITS
        return PARTED if self.warp.lost else at + 1

    def _elsewhere(self, operation: Operation, active: int, lanes: int) -> int:
        """A branch of several ways, or a place behind which nothing is followed."""
        if operation.kind == LOST or operation.choose is None:
            self.warp.lose(operation.instr, f"{operation.instr.form.name} is not followed")
            return PARTED
        number = at_lanes(operation.choose(self.warp), active)
        if active != lanes or number is None or number >= len(operation.ways):
            self.warp.lose(operation.instr, "unknown direction of this branch")
            return PARTED
        return operation.ways[number]

    def _apart(self, lanes: int) -> bool:
        """Whether lanes of the warp are elsewhere, so that what all do together has to wait."""
        if lanes == self.warp.alive or not self.warp.groups:
            return False
        self.warp.waiting_for = "diverged lanes of this warp"
        return True

    def _part(self, target: int, taken: int, behind: int, rest: int) -> None:
        """Lanes go two ways."""
        self.warp.groups[target] = self.warp.groups.get(target, 0) | taken
        self.warp.groups[behind] = self.warp.groups.get(behind, 0) | rest

    def _unclear(self, operation: Operation, at: int, lanes: int) -> int:
        """A guard is not known: where to go on, with what may have been written there not known, or `PARTED`."""
        ledger = self.warp.cta.cluster.ledger
        if operation.kind in (PLAIN, BRANCH):
            if operation.kind == PLAIN:
                for slot in operation.writes:
                    self.warp.write(slot, None, lanes)
                return at + 1
            jump = join_of(self.program, at)
            if jump is None or jump.strict:
                why = f", and {jump.strict} depends on it" if jump else ""
                self.warp.lose(operation.instr, f"the condition of this branch is unknown{why}")
                return PARTED
            for slot in jump.writes:
                self.warp.write(slot, None, lanes)
            if jump.to >= len(self.program.operations) or any(at < other < jump.to for other in self.warp.groups):
                self.warp.lose(operation.instr, "lanes may diverge here and reconverge elsewhere")
                return PARTED
            return jump.to
        if operation.strict or operation.kind in (EXIT, LOST):
            self.warp.lose(operation.instr, f"whether this {operation.instr.form.name} is executed is unknown")
            return PARTED
        if operation.anyway and operation.run is not None:
            operation.run(self.warp, lanes)
            return at + 1
        ledger.unknown(operation.instr, "the guard of this access is unknown")
        for slot in operation.writes:
            self.warp.write(slot, None, lanes)
        return at + 1


@dataclass(frozen=True, slots=True)
class Join:
    """The way from a branch to where its ways meet.

    Attributes:
        to: the operation there. writes: registers that are written on the way.
        strict: an instruction on the way that others rely on, or that is not followed; empty without one.
    """

    to: int
    writes: tuple[int, ...]
    strict: str


_KNOWN: dict[int, tuple[Program, dict[int, Join | None], list[int]]] = {}


def join_of(program: Program, at: int) -> Join | None:
    """The place where the ways of a branch meet; None where they do not before the end."""
    kept = _KNOWN.get(id(program))
    if kept is None or kept[0] is not program:
        _KNOWN.clear()
        kept = _KNOWN[id(program)] = (program, {}, _postdominators(program))
    _, joins, after = kept
    if at not in joins:
        joins[at] = _join(program, at, after)
    return joins[at]


def _next(program: Program, at: int) -> tuple[int, ...]:
    operation = program.operations[at]
    if operation.kind == BRANCH:
        return (operation.target,) if operation.guard < 0 else (operation.target, at + 1)
    if operation.kind == SWITCH:
        return operation.ways if operation.guard < 0 else (*operation.ways, at + 1)
    if operation.kind in (EXIT, LOST):
        end = len(program.operations)
        return (end,) if operation.guard < 0 else (end, at + 1)
    return (at + 1,)


def _postdominators(program: Program) -> list[int]:
    """Every operation that all ways from one pass, as a number with a bit for each."""
    count = len(program.operations)
    whole = (1 << count + 1) - 1
    after = [whole] * count + [1 << count]
    changed = True
    while changed:
        changed = False
        for at in reversed(range(count)):
            both = whole
            for one in _next(program, at):
                both &= after[one]
            both |= 1 << at
            if both != after[at]:
                after[at] = both
                changed = True
    return after


def _join(program: Program, at: int, after: list[int]) -> Join | None:
    strictly = after[at] & ~(1 << at)
    end = len(program.operations)
    # The nearest of them is the one that all others come behind: it has the most behind it.
    candidates = [number for number in range(end) if strictly >> number & 1]
    if not candidates:
        return None
    to = max(candidates, key=lambda number: after[number].bit_count())
    seen: set[int] = set()
    waiting = list(_next(program, at))
    while waiting:
        one = waiting.pop()
        if one == to or one in seen or one >= end:
            continue
        seen.add(one)
        waiting += _next(program, one)
    operations = [program.operations[one] for one in sorted(seen)]
    strict = next((each.instr.form.name for each in operations if each.strict or each.kind in (EXIT, LOST)), "")
    writes = tuple(dict.fromkeys(slot for each in operations for slot in each.writes))
    return Join(to, writes, strict)
