"""Loops that ptxas unrolls: innermost, with few turns whose number the text says; tile loops of persistent CTAs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from convc.ptx import Imm, Instr, Label, Reg, Special

MOST_TURNS = 4
"""Turns of a loop that is unrolled."""


@dataclass(frozen=True, slots=True)
class Unrolled:
    """The loops of a text that are unrolled.

    Attributes:
        counters: positions in the body of what sets, steps and tests their counters.
        bodies: positions of all that is in them.
    """

    counters: frozenset[int] = frozenset()
    bodies: frozenset[int] = frozenset()


def unrolled_loops(body: Sequence[Instr]) -> Unrolled:
    """The loops of a kernel's body that ptxas unrolls."""
    loops = [(target, at) for at, instr in enumerate(body) if (target := _target(instr)) is not None and target <= at]
    loops = [(first, last) for first, last in loops if not _is_retry(body[first:last])]
    counters: set[int] = set()
    bodies: set[int] = set()
    for first, last in loops:
        if any(first <= other_first and other_last < last for other_first, other_last in loops):
            continue
        counter = _counter(body, first, last)
        counters |= counter
        if counter:
            bodies.update(range(first, last + 1))
    return Unrolled(frozenset(counters), frozenset(bodies))


def _target(instr: Instr) -> int | None:
    """Where a branch goes to."""
    if instr.form.name != "bra":
        return None
    labels = [operand for operand in instr.operands if isinstance(operand, Label)]
    return labels[0].target if labels else None


def _is_retry(loop: Sequence[Instr]) -> bool:
    """Whether a loop tries a wait again and again."""
    return len(loop) <= 2 and any("try_wait" in instr.form.name for instr in loop)


def _counter(body: Sequence[Instr], first: int, last: int) -> set[int]:
    """Positions of a loop's counter, where it ends as ``add i, i, 1; setp.lt p, i, N; bra`` and has few turns."""
    if last - first < 2 or body[last - 1].form.name != "setp" or body[last - 2].form.name != "int.add":
        return set()
    step = body[last - 2]
    test = body[last - 1]
    counter = step.operands[0]
    turns = test.operands[2] if len(test.operands) > 2 else None
    if not isinstance(counter, Reg) or not isinstance(turns, Imm) or step.operands[1] != counter:
        return set()
    if not isinstance(turns.value, int) or turns.value > MOST_TURNS:
        return set()
    start = next((at for at in range(first - 1, -1, -1) if body[at].operands[:1] == (counter,)), None)
    if start is None or body[start].form.name != "mov" or not isinstance(body[start].operands[1], Imm):
        return set()
    return {start, last - 2, last - 1}


def walker(body: Sequence[Instr], ctas: int) -> int | None:
    """A CTA that takes the most turns of a loop over tiles, of those that do the one in the middle.

    Such a loop begins with the CTA's own number and goes on by as many as there are CTAs, up to a limit: where that is
    no multiple, the first CTAs have a tile more.

    Args:
        body: of the kernel.
        ctas: of the grid.

    Returns:
        Its number, 0 where the text does not say the limit; None where there is no such loop.
    """
    own: set[Reg] = set()
    for instr in body:
        if instr.form.name == "mov" and (instr.operands[1] == Special("ctaid.x") or instr.operands[1] in own):
            own.update(operand for operand in instr.operands[:1] if isinstance(operand, Reg))
    steps = {instr.operands[0] for instr in body if _goes_on(instr, ctas) and instr.operands[0] in own}
    if not steps:
        return None
    limits = [
        instr.operands[2].value
        for instr in body
        if instr.form.name == "setp" and instr.operands[1] in steps and isinstance(instr.operands[2], Imm)
    ]
    if not limits:
        return 0
    more = int(max(limits)) % ctas or ctas
    return (more - 1) // 2


def _goes_on(instr: Instr, ctas: int) -> bool:
    """Whether an instruction adds the number of CTAs to a register."""
    if instr.form.name != "int.add" or instr.operands[0] != instr.operands[1]:
        return False
    step = instr.operands[2]
    return not isinstance(step, Imm) or step.value == ctas
