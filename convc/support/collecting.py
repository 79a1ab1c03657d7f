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
