"""Checks of registers that warps hand over: by whole warpgroups, and no more than there are."""

from __future__ import annotations

from collections.abc import Iterator

from convc.compiler.tile.program import Role, TileProgram, walk
from convc.compiler.tile.steps.base import SetRegisters
from convc.ir.arch import ARCHS

GROUP = 4
"""Warps of a warpgroup."""


def registers(program: TileProgram) -> Iterator[str]:
    """Counts are legal, every warpgroup has one, and all warps together have no more than at the start."""
    own = ARCHS[program.arch].registers
    found = [(role, step) for role in program.all_roles for step in walk(role.steps) if isinstance(step, SetRegisters)]
    if not found:
        return
    if own is None:
        yield f"{found[0][1].id} sets registers, and {program.arch} has the accumulator in tensor memory"
        return
    share = own.share(32 * program.warps)
    counts = [share] * program.warps
    for role, step in found:
        name = f"{step.id} has {step.count} registers a thread"
        if role.elected or role.first_warp % GROUP or (role.last_warp + 1) % GROUP:
            yield f"{step.id} is done by {role.who}: no whole warpgroups"
        if step.count % own.step or not own.least <= step.count <= own.most:
            yield f"{name}: not a multiple of {own.step} from {own.least} to {own.most}"
        if (step.count > share) != step.more:
            yield f"{name}, {'no more' if step.more else 'no fewer'} than the {share} at the start"
        counts[role.first_warp : role.last_warp + 1] = [step.count] * _warps(role)
    if sum(counts) > share * program.warps:
        yield f"the warps take {32 * sum(counts)} registers, and began with {32 * share * program.warps}"


def _warps(role: Role) -> int:
    return role.last_warp - role.first_warp + 1


REGISTER_CHECKS = (registers,)
