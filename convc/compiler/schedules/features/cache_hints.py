"""From a kernel whose copies leave L2 alone to one whose copies say what stays there.

A role makes each policy that its copies name once, before its loops.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec.structs import replace

from convc.compiler.options import AUTO, ESTIMATE
from convc.compiler.plan.cache_hints import CacheHints, Readers, choose_hints
from convc.compiler.plan.names import EVICT_FIRST, EVICT_LAST, MapName, Number, Priority
from convc.compiler.plan.offer import Candidate
from convc.compiler.plan.records import Plan
from convc.compiler.plan.tile_order import TileOrder
from convc.compiler.schedules.features.tile_order import bytes_of
from convc.compiler.schedules.skeleton import MAP_A, MAP_B, MAP_RESIDUAL, MAP_SCALES_A, MAP_SCALES_B, number
from convc.compiler.tile.program import Role, walk
from convc.compiler.tile.steps.base import Repeat, Step
from convc.compiler.tile.steps.copies import MakePolicy, TensorCopy


def hints_for(best: Candidate, order: TileOrder, asked: str) -> CacheHints:
    """Choose the hints of a candidate's copies.

    Left open, they are there where an H200 was faster with them; none was measured on a B200.
    """
    if asked == AUTO:
        asked = "off" if best.tiled.arch.tensor_core == "tcgen05" else ESTIMATE
    layout = best.tiled.layout
    tiling = best.tiled.tiling
    rows, columns = best.tiled.grid
    pixels, channels = tiling.multicast
    readers = Readers(
        # A tile of channels has those of one group.
        activations=-(-columns // (channels * layout.problem.groups)),
        filters=-(-rows // (tiling.ctas * pixels)),
        taps=math.prod(layout.problem.kernel) > 1 or layout.overlap is not None,
        residual=best.storage.residual is not None,
        order=order.name,
        size=bytes_of(best),
    )
    return choose_hints(asked, readers)


def hinted(plan: Plan, act: tuple[Role, ...]) -> tuple[Role, ...]:
    """The roles of an act, with the plan's hints on their copies."""
    hints = plan.launch.hints
    priorities: dict[MapName, Priority | None] = {
        MAP_A: hints.activations,
        MAP_SCALES_A: hints.activations,
        MAP_B: hints.filters,
        MAP_SCALES_B: hints.filters,
        MAP_RESIDUAL: hints.residual,
    }
    said: dict[MapName, Priority] = {name: priority for name, priority in priorities.items() if priority is not None}
    return tuple(_hinted_role(role, said) for role in act) if said else act


def _hinted_role(role: Role, said: Mapping[MapName, Priority]) -> Role:
    """A role that makes the policies of its copies first."""
    copied = (step.map for step in walk(role.steps) if isinstance(step, TensorCopy))
    needed: list[Priority] = sorted({said[name] for name in copied if name in said})
    if not needed:
        return role
    made = (
        MakePolicy(
            id=f"{role.name}.{priority}",
            note=_NOTES[priority],
            dst=number(priority),
            priority=priority,
        )
        for priority in needed
    )
    return replace(role, steps=(*made, *(_hinted_step(step, said) for step in role.steps)))


_NOTES: dict[Priority, str] = {
    EVICT_LAST: "L2 keeps what is read again",
    EVICT_FIRST: "L2 may lose what is read once",
}


def _hinted_step(step: Step, said: Mapping[MapName, Priority]) -> Step:
    """A step whose copies, or itself, name the policy of what they bring."""
    if isinstance(step, Repeat):
        return replace(step, body=tuple(_hinted_step(one, said) for one in step.body))
    if isinstance(step, TensorCopy) and step.map in said:
        return replace(step, policy=Number(said[step.map]))
    return step
