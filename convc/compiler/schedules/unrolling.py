"""Loops whose text names the stages of a ring one by one, where the tensor core would wait for instructions.

The place in a ring costs a dozen instructions a stage: two addresses of barriers, one or two of operands, a step, and a
test for the end of the ring. A stage of four MMAs hides them. One of a single MMA, as of a depthwise filter or of few
input channels, does not: there the text has the body of the loop as often as it takes to come around the ring, and
every stage is a constant in its copy.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Mapping

from msgspec.structs import replace

from convc.compiler.schedules.base import Roles
from convc.compiler.tile.program import executions, walk
from convc.compiler.tile.steps.base import Advance, Loop, Repeat, Step
from convc.compiler.tile.steps.operands import Multiply

HIDDEN_BY = 4
"""Tensor instructions a stage that keep the tensor core busy while the next stage is found (N = 64)."""

MOST_COPIES = 16
"""Copies of what is innermost in a role: text that has to be read, and to fit in the instruction cache."""


def around_rings(roles: Roles) -> Roles:
    """The roles, of which the one that multiplies goes around its rings in the text where stages hold few MMAs.

    The one that loads has to set up each copy anyhow, which takes longer than to find the stage.
    """
    multiplied = sum(step.atoms * times for step, times in executions(roles.multiply) if isinstance(step, Multiply))
    moves = Counter[str]()
    for step, times in executions(roles.multiply):
        if isinstance(step, Advance):
            moves[step.state] += times
    if multiplied >= HIDDEN_BY * max(moves.values(), default=0):
        return roles
    return dataclasses.replace(roles, multiply=_around(roles.multiply))


def _around(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """A role whose stages are known wherever it is; as it was where that takes too much text, or is not so."""
    loops = (step for step in walk(steps) if isinstance(step, Loop))
    stages = {step.state: step.stages for loop in loops for step in walk(loop.body) if isinstance(step, Advance)}
    written = tuple(_copied(step, stages) for step in steps)
    fits = max((_copies(step) for step in written), default=1) <= MOST_COPIES
    return written if fits and all(_comes_back(step, stages) for step in written) else steps


def _copied(step: Step, stages: Mapping[str, int]) -> Step:
    """A loop with as many copies of its body as bring all rings back to where they were, or with all of its turns."""
    if not isinstance(step, Repeat):
        return step
    body = tuple(_copied(one, stages) for one in step.body)
    if not isinstance(step, Loop) or step.written_out:
        return replace(step, body=body)
    turns = math.lcm(*(count // math.gcd(count, _moved(body, state)) for state, count in stages.items()))
    return replace(step, body=body, copies=min(turns, step.count))


def _copies(step: Step) -> int:
    """How often the text has the innermost steps of a loop, those behind the last whole turn included."""
    if not isinstance(step, Repeat):
        return 1
    inside = max(map(_copies, step.body), default=1)
    return inside * (step.copies + step.count % step.copies) if isinstance(step, Loop) else inside


def _comes_back(step: Step, stages: Mapping[str, int]) -> bool:
    """Whether a walk over tiles begins each at the same stage."""
    if not isinstance(step, Repeat) or isinstance(step, Loop):
        return True
    return all(_moved(step.body, state) % count == 0 for state, count in stages.items())


def _moved(steps: tuple[Step, ...], state: str) -> int:
    """Stages that steps move a state on."""
    return sum(times for step, times in executions(steps) if isinstance(step, Advance) and step.state == state)
