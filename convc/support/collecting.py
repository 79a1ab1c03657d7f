"""Garbage collection, suspended where many objects are made that stay, and hardly any in circles."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Generator[None]:
    """Suspend garbage collection: to look at all that is there again and again takes a tenth of such work."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


_frozen: list[int] = []
"""How many objects a caller had frozen, when some first were."""


@contextmanager
def staying() -> Generator[None]:
    """`uncollected`, and what was made counts as old. Looking at it takes a twelfth of the layers of ResNet-50.

    Frozen and thawed, objects count as old (``gc.freeze``, Python library reference). Where a caller had objects frozen
    nothing is thawed, as that would thaw them too. Counting them takes milliseconds once there are any: they are
    counted until there are.
    """
    with uncollected():
        yield
        if not _frozen and (count := gc.get_freeze_count()):
            _frozen.append(count)
        if not _frozen:
            gc.freeze()
            gc.unfreeze()
