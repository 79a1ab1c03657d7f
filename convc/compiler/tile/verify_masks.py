"""Checks of lane masks: what a role reads beside its mask registers is joined to them, and nothing else is."""

from __future__ import annotations

from collections.abc import Iterator

from convc.compiler.tile.program import TileProgram, walk
from convc.compiler.tile.steps.lanes import JoinMask, LoadMask


def joined_masks(program: TileProgram) -> Iterator[str]:
    """Entries that are read to be joined are joined, those of each CTA of a pair."""
    for role in program.roles:
        steps = list(walk(role.steps))
        beside = {step.rank: step.id for step in steps if isinstance(step, LoadMask) and step.beside}
        joined = {step.rank: step.id for step in steps if isinstance(step, JoinMask)}
        for rank in sorted(beside.keys() - joined.keys()):
            yield f"the mask that {beside[rank]} reads is joined to none"
        for rank in sorted(joined.keys() - beside.keys()):
            yield f"{joined[rank]} joins a mask that nothing reads"


MASK_CHECKS = (joined_masks,)
