"""Values that flow along the edges of a graph."""

from __future__ import annotations

from typing import Any

import numpy as np

Value = Any
"""An array, a list of arrays (a sequence), or None (an empty optional)."""


def describe_value(value: Value) -> str:
    """``float32 [1, 1000]``; the kind of a value that is no array."""
    return f"{value.dtype.name} {list(value.shape)}" if isinstance(value, np.ndarray) else type(value).__name__
