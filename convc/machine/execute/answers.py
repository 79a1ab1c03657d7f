"""Waits for an mbarrier whose answer goes nowhere.

``mbarrier.test_wait`` and ``.try_wait`` may return before the phase is over, and say so in a predicate (PTX manual,
"mbarrier.test_wait, mbarrier.try_wait"). Where nothing depends on that, the wait orders nothing: the machine goes on
at once. Compilers leave such waits where a loop looks ahead once too often.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from convc.machine.state.flow import Flow, FlowFacts, slots_of
from convc.ptx import Instr, Reg

WAITS = ("mbarrier.try_wait", "mbarrier.try_wait.parity", "mbarrier.test_wait", "mbarrier.test_wait.parity")
PURE = ("mov", "selp", "setp", "set", "cvt", "int.", "logic.")
"""Forms, by the beginnings of their names, that do nothing but compute their results."""


def unheard_waits(body: Sequence[Instr], flow: Callable[[], Flow]) -> frozenset[int]:
    """The indices of waits on whose answer no branch, guard or access depends.

    ``flow`` gives that of the body. It is called where the answer of a wait is not the guard of the next instruction.
    """
    waits = [instr for instr in body if instr.form.name in WAITS and not _guards_next(instr, body)]
    if not waits:
        return frozenset()
    known = flow()
    wanted = _wanted(body, known.facts)
    return frozenset(
        wait.index
        for wait in waits
        if not (answer := known.facts[wait.index].writes) & wanted
        or known.live_in(wait.index + 1).isdisjoint(slots_of(answer))
    )


def _guards_next(wait: Instr, body: Sequence[Instr]) -> bool:
    """Whether the instruction behind a wait is guarded by its answer, as that of a loop is."""
    guard = body[wait.index + 1].guard if wait.index + 1 < len(body) else None
    return guard is not None and isinstance(wait.operands[0], Reg) and wait.operands[0].slot == guard.slot


def _wanted(body: Sequence[Instr], facts: Sequence[FlowFacts]) -> int:
    """Registers on which something depends that others see, as the bits of a number."""
    wanted = 0
    pure: list[FlowFacts] = []
    for instr, fact in zip(body, facts, strict=True):
        if instr.form.name.startswith(PURE):
            pure.append(fact)
        else:
            wanted |= fact.reads
    before = -1
    while before != wanted:
        before = wanted
        for fact in pure:
            if fact.writes & wanted:
                wanted |= fact.reads
    return wanted
