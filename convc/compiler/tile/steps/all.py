"""Every kind of step; the templates in ``templates/steps`` are exactly these.

A class that others derive from is no kind of its own.
"""

from __future__ import annotations

from convc.compiler.tile.steps import (
    base,
    channels,
    copies,
    epilogue,
    lanes,
    mma,
    persistent,
    rings,
    setup,
    split,
    staged,
    stores,
)
from convc.compiler.tile.steps.base import Step

FAMILIES = (base, setup, rings, copies, mma, lanes, epilogue, channels, stores, staged, persistent, split)
"""The files of steps."""


def _leaves() -> tuple[type[Step], ...]:
    found: list[type[Step]] = []
    for module in FAMILIES:
        members: dict[str, object] = vars(module)
        for kind in members.values():
            if isinstance(kind, type) and issubclass(kind, Step) and kind.__module__ == module.__name__:
                found += [] if kind.__subclasses__() else [kind]
    return tuple(found)


STEP_TYPES = _leaves()
"""The classes of steps, in the order of their files."""
