"""Stages that the text knows: where a role always is at the same place of a ring, the place is a number, no register.

`convc.compiler.schedules.program` says how often a loop has its body. Whether a role's place is known follows from
the steps alone, so a copy too few makes a kernel slower, never wrong.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from convc.compiler.tile.program import executions, walk
from convc.compiler.tile.steps.base import Loop, Repeat, Step
from convc.compiler.tile.steps.rings import Advance
from convc.compiler.tile.steps.spelling import stage


def known_stages(steps: tuple[Step, ...]) -> tuple[str, ...]:
    """The states of a role whose stage is the same whenever a place of the text is reached.

    Nothing is where no loop has copies: there the text is shorter with the stage in a register.
    """
    if not any(isinstance(step, Loop) and step.copies > 1 for step in walk(steps)):
        return ()
    states = {step.state: step.stages for step in walk(steps) if isinstance(step, Advance)}
    loops = [step for step in walk(steps) if isinstance(step, Repeat)]
    return tuple(s for s, stages in states.items() if all(_comes_around(loop, s, stages) for loop in loops))


def turns(loop: Loop) -> tuple[range, range]:
    """The numbers of a loop's bodies in the text: the first ones of those that are repeated, and of those behind."""
    if loop.all_written:
        return range(loop.count), range(0)
    return range(loop.copies), range(loop.count - loop.count % loop.copies, loop.count)


def in_stages(text: str, places: Mapping[str, int]) -> str:
    """The text of a step with the number of a stage in place of the register for it, where it is known."""
    for state, place in places.items():
        text = re.sub(rf"{re.escape(stage(state))}\b", str(place), text)
    return text


def moved(steps: tuple[Step, ...], state: str) -> int:
    """Stages that steps move a state on."""
    return sum(times for step, times in executions(steps) if isinstance(step, Advance) and step.state == state)


def _comes_around(loop: Repeat, state: str, stages: int) -> bool:
    """Whether a jump back finds the state at the stage at which the loop began."""
    if isinstance(loop, Loop):
        return loop.all_written or loop.copies * moved(loop.body, state) % stages == 0
    return moved(loop.body, state) % stages == 0
