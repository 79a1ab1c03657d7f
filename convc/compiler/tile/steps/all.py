"""Every kind of step; the fragments in ``templates/steps`` are exactly these.

A class that others derive from is no kind of its own.
"""

from __future__ import annotations

from convc.compiler.tile.steps import base as steps
from convc.compiler.tile.steps import epilogue as epilogue_steps
from convc.compiler.tile.steps import quantise as quantise_steps
from convc.compiler.tile.steps import scaled as scaled_steps
from convc.compiler.tile.steps import sharing as reuse_steps
from convc.compiler.tile.steps.base import Step

STEP_TYPES: tuple[type[Step], ...] = tuple(
    kind
    for module in (steps, reuse_steps, scaled_steps, epilogue_steps, quantise_steps)
    for kind in vars(module).values()
    if isinstance(kind, type)
    and issubclass(kind, Step)
    and kind.__module__ == module.__name__
    and not kind.__subclasses__()
)
