"""The place where two ways of a branch meet again, and all that lies on them.

The place is the immediate postdominator of the branch: the first operation that every way from it to the end passes.
"""

from __future__ import annotations

from dataclasses import dataclass

from convc.auditor.program import BRANCH, EXIT, LOST, SWITCH, Program


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
