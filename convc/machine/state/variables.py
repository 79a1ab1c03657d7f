"""Variables of a module and of one of its kernels: places in their state space, initial bytes (PTX manual, 5.4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from convc.errors import LimitError, UnmodelledError
from convc.machine.base.values import DTYPE, FLOAT, MASK
from convc.machine.memory.global_memory import FUNCTIONS, LOCAL_PARAMETERS, MODULE_FIRST, SHIFT
from convc.ptx import Func, Kernel, Module, Symbol, Variable
from convc.ptx.syntax import TYPE_BITS, Initial

SHARED_BASE = 1024
"""First shared address a kernel may use: the lowest KiB belongs to the system on sm_90 and later."""

FUNCTION_DISTANCE = 16
"""Bytes between the addresses of functions."""

LIMITS = {"const": 64 << 10, "local": 512 << 10, "shared": 227 << 10, "global": 64 << 30}
"""Bytes that the variables of a kernel may take: of a module, a thread, a CTA. Those of .global are a limit of ours."""

NONE: Mapping[str, int] = MappingProxyType({})
"""No variable that a buffer is."""

AddressOf = Callable[[Symbol | Func], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """Place of a kernel parameter in parameter space, in bytes."""

    name: str
    offset: int
    size: int


class Variables:
    """Where everything lies that a kernel can name.

    Attributes:
        parameters: of the kernel, in order.
        shared: address of each shared variable; dynamic shared memory begins at ``shared_end``.
        local: offset of each local variable, and of each ``.param`` variable that holds an operand of a call.
        local_bytes: local memory of one thread. global_bytes: of all .global variables of the module.
        constants: uint8, the contents of constant memory.

    Args:
        placed: the addresses of ``.global`` variables that buffers are.
    """

    def __init__(self, module: Module, kernel: Kernel, placed: Mapping[str, int] = NONE) -> None:
        self._module = module
        self._placed = placed
        self.parameters = _place_parameters(kernel.params)
        self.shared, self.shared_end = _place_shared(kernel)
        self.local_bytes, self.local = _place((*kernel.local, *kernel.call_params))
        self._global = [v for v in module.variables if v.space == "global" and v.size_bytes]
        constants = [v for v in module.variables if v.space == "const" and v.size_bytes]
        const_bytes, self._const = _place(constants)
        self._const_sizes = {variable.name: variable.size_bytes for variable in constants}
        self.global_bytes = sum(variable.size_bytes for variable in self._global)
        _expect_room("const", const_bytes)
        _expect_room("local", self.local_bytes)
        _expect_room("shared", self.shared_end - SHARED_BASE)
        _expect_room("global", self.global_bytes)
        self.constants = np.zeros(const_bytes, np.uint8)
        for variable in constants:
            start = self._const[variable.name]
            self.constants[start : start + variable.size_bytes] = image(variable, self.address)

    def address(self, symbol: Symbol | Func) -> int:
        """Address of a function, or of a declared variable in its own space (`convc.machine.memory.global_memory`)."""
        if isinstance(symbol, Func):
            return function_address(self._module, symbol.name)
        start = self._start(symbol.name, symbol.space)
        if start is None:
            raise UnmodelledError(
                f"the simulator has no address for {symbol.space} variable {symbol.name!r}",
                hint="a variable of another module (.extern without a size) has no contents here",
            )
        return start + symbol.offset

    def _start(self, name: str, space: str) -> int | None:
        match space:
            case "param":
                for parameter in self.parameters:
                    if parameter.name == name:
                        return parameter.offset
                return LOCAL_PARAMETERS + self.local[name] if name in self.local else None
            case "shared":
                return self.shared.get(name)
            case "local":
                return self.local.get(name)
            case "const":
                return self._const.get(name)
            case "global":
                if name in self._placed:
                    return self._placed[name]
                for number, variable in enumerate(self._global):
                    if variable.name == name:
                        return (MODULE_FIRST + number + 1) << SHIFT
                return None
            case _:
                return None

    def constant_parts(self) -> dict[str, slice]:
        """Give the bytes of constant memory that each ``.const`` variable has."""
        return {name: slice(at, at + self._const_sizes[name]) for name, at in self._const.items()}

    def global_images(self) -> list[tuple[str, np.ndarray]]:
        """The .global variables of the module with their initial bytes, in the order of their addresses."""
        return [(v.name, image(v, self.address)) for v in self._global]


def _expect_room(space: str, size: int) -> None:
    """Refuse variables that no GPU has room for, before anything is made for them."""
    if size > LIMITS[space]:
        raise LimitError(f"the .{space} variables need {size} bytes, and there are at most {LIMITS[space]}")


def function_address(module: Module, name: str) -> int:
    """Address of a function of the module: a number that says which one it is. There is no memory at it."""
    return FUNCTIONS + FUNCTION_DISTANCE * [function.name for function in module.functions].index(name)


def align_up(value: int, alignment: int) -> int:
    """The next multiple of ``alignment``."""
    return -(-value // alignment) * alignment


def _place(variables: Iterable[Variable]) -> tuple[int, dict[str, int]]:
    """Offsets of variables one behind the other: (bytes in all, offset by name)."""
    end = 0
    offsets: dict[str, int] = {}
    for variable in variables:
        offsets[variable.name] = align_up(end, variable.align)
        end = offsets[variable.name] + variable.size_bytes
    return end, offsets


def _place_parameters(params: tuple[Variable, ...]) -> list[Parameter]:
    offset = 0
    placed: list[Parameter] = []
    for variable in params:
        offset = align_up(offset, variable.align)
        placed.append(Parameter(name=variable.name, offset=offset, size=variable.size_bytes))
        offset += variable.size_bytes
    return placed


def _place_shared(kernel: Kernel) -> tuple[dict[str, int], int]:
    """Addresses of the static shared variables from `SHARED_BASE` up; the end is where dynamic shared memory starts."""
    offset = SHARED_BASE
    addresses: dict[str, int] = {}
    for variable in kernel.shared:
        offset = align_up(offset, variable.align)
        addresses[variable.name] = offset
        offset += variable.size_bytes
    if kernel.extern_shared is not None:
        offset = align_up(offset, max(16, kernel.extern_shared.align))
        addresses[kernel.extern_shared.name] = offset
    return addresses, offset


def image(variable: Variable, address_of: AddressOf) -> np.ndarray:
    """Initial bytes (uint8) of a .global or .const variable: its initial values, zero elsewhere."""
    bits = TYPE_BITS[variable.type]
    data = np.zeros(variable.count * variable.vector, DTYPE[bits])
    if variable.init is not None:
        shape = (*variable.shape, variable.vector) if variable.vector > 1 else variable.shape
        _fill(data, 0, shape, variable.init, lambda value: _bits(variable, bits, value, address_of))
    return data.view(np.uint8)


def _fill(data: np.ndarray, at: int, shape: tuple[int, ...], value: Initial, bits_of: Callable[[Initial], int]) -> None:
    """Put an initial value, of an array of ``shape`` or of one element, from element ``at`` on."""
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


def _bits(variable: Variable, bits: int, value: Initial, address_of: AddressOf) -> int:
    match value:
        case Symbol(name=name, space=space) if space != "global":
            raise UnmodelledError(
                f"the initial value of {variable.name!r} is the address of {name!r}",
                hint="the simulator knows addresses of functions and .global variables only here",
            )
        case Symbol() | Func():
            return address_of(value) & MASK[bits]
        case float():
            return int(np.asarray(value, FLOAT[bits]).view(DTYPE[bits]))
        case int():
            return value & MASK[bits]
        case tuple():
            raise UnmodelledError(f"{value} is no initial value of {variable.name!r}")
