"""Numbers that are passed by value, as the bytes that a kernel finds in its parameter."""

from __future__ import annotations

import numpy as np

from convc.errors import LaunchError
from convc.ir.dtypes import ARRAY_TYPES


def scalar_bytes(dtype: str, number: float, where: str) -> bytes:
    """Little-endian bytes of a number, rounded to a type of floating point.

    Args:
        dtype: one of `convc.ir.element_types.BUFFER_TYPES`.
        number: an integer type takes only integers in its range.
        where: what an error names, such as ``parameter 'n'``.

    Raises:
        LaunchError: the number does not fit.
    """
    kind = ARRAY_TYPES[dtype]
    try:
        if kind.kind not in "iu":
            return np.array([number]).astype(kind).tobytes()
        if not isinstance(number, int):
            raise OverflowError
        return np.array([number], kind).tobytes()
    except OverflowError:
        raise LaunchError(f"{where}: {number!r} does not fit in {dtype}") from None
