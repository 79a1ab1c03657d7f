"""Variables of a module: places in their state space, and initial bytes (PTX manual, 5.4 "Variables")."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from convc.errors import UnmodelledError
from convc.machine.base.values import DTYPE, FLOAT, MASK
from convc.ptx import Func, Symbol, Variable
from convc.ptx.syntax import TYPE_BITS


def align_up(value: int, alignment: int) -> int:
    """The next multiple of ``alignment``."""
    return -(-value // alignment) * alignment


def layout(variables: Iterable[Variable]) -> tuple[int, dict[str, int]]:
    """Offsets of variables one behind the other; (bytes in all, offset by name)."""
    end, places = 0, {}
    for variable in variables:
        places[variable.name] = align_up(end, variable.align)
        end = places[variable.name] + variable.size_bytes
    return end, places


def image(variable: Variable, address_of: Callable[[Symbol | Func], int]) -> np.ndarray:
    """Initial bytes of a .global or .const variable: its initial values, zero elsewhere."""
    bits = TYPE_BITS[variable.type]
    data = np.zeros(variable.count * variable.vector, DTYPE[bits])
    if variable.init is not None:
        shape = (*variable.shape, variable.vector) if variable.vector > 1 else variable.shape
        _fill(data, 0, shape, variable.init, lambda value: _bits(variable, bits, value, address_of))
    return data.view(np.uint8)


def _fill(data: np.ndarray, at: int, shape: tuple[int, ...], value, bits_of: Callable) -> None:
    if not isinstance(value, tuple):
        data[at] = bits_of(value)
        return
    nested = any(isinstance(item, tuple) for item in value)
    step = int(np.prod(shape[1:], dtype=np.int64)) if nested and shape else 1
    for number, item in enumerate(value):
        place = at + number * step
        if place >= data.size:
            raise UnmodelledError("a variable has more initial values than elements")
        _fill(data, place, shape[1:], item, bits_of)


def _bits(variable: Variable, bits: int, value, address_of: Callable[[Symbol | Func], int]) -> int:
    if isinstance(value, Symbol) and value.space != "global":
        raise UnmodelledError(
            f"the initial value of {variable.name!r} is the address of {value.name!r}",
            hint="the machine knows addresses of functions and .global variables only here",
        )
    if isinstance(value, Symbol | Func):
        return address_of(value) & MASK[bits]
    if isinstance(value, float):
        return int(np.asarray(value, FLOAT[bits]).view(DTYPE[bits]))
    return int(value) & MASK[bits]
