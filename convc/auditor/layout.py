"""Addresses of the variables and parameters of a kernel, as numbers that a walk can compute with.

Shared memory of a CTA begins at `SHARED_BASE`; bits 24 and up of a shared address are the CTA's rank in its cluster, as
they are on hardware, so that an address says whose memory it is. A generic address of shared memory has `GENERIC` in
front. Buffers and parameters lie in ranges of their own; addresses of parameters fit into 32 bits, as some compilers
take them.
"""

from __future__ import annotations

from dataclasses import dataclass

from convc.ir.element_types import ELEMENT_TYPES
from convc.ir.launch import LaunchSpec, PointerParam, ScalarParam, StructParam, TensorMapParam
from convc.ir.tensormap import TensorMap
from convc.ptx import Kernel, Module

SHARED_BASE = 1024
RANK_SHIFT = 24
GENERIC = 0x7F << 40
PARAMETERS = 0x8000_0000
BUFFERS = 44
"""Bit from which on an address is the number of a buffer, from 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Addresses of one launch.

    Attributes:
        shared: offset of each shared variable in the memory of a CTA. end: where static and dynamic memory end.
        static: bytes of static variables.
        parameters: address of each parameter. scalars: numbers by address and bytes; None: not known.
        maps: tensor maps by address.
        buffers: names, in the order of their numbers.
    """

    shared: dict[str, int]
    end: int
    static: int
    parameters: dict[str, int]
    scalars: dict[tuple[int, int], int]
    maps: dict[int, TensorMap]
    buffers: tuple[str, ...]


def layout_of(module: Module, kernel: Kernel, launch: LaunchSpec | None) -> Layout:
    """Place everything that a kernel names."""
    shared: dict[str, int] = {}
    end = SHARED_BASE
    for variable in kernel.shared:
        end = -(-end // variable.align) * variable.align
        shared[variable.name] = end
        end += variable.size_bytes
    static = end - SHARED_BASE
    if kernel.extern_shared is not None:
        align = max(16, kernel.extern_shared.align)
        end = -(-end // align) * align
        for variable in module.variables:
            if variable.space == "shared" and variable.linkage == "extern":
                shared[variable.name] = end
        shared[kernel.extern_shared.name] = end
    end += launch.shared_bytes if launch is not None else 0
    buffers = tuple(launch.buffers) if launch is not None else ()
    scalars: dict[tuple[int, int], int] = {}
    maps: dict[int, TensorMap] = {}
    parameters: dict[str, int] = {}
    address = PARAMETERS
    given = launch.params if launch is not None else ()
    for index, variable in enumerate(kernel.params):
        address = -(-address // max(64, variable.align)) * max(64, variable.align)
        parameters[variable.name] = address
        if index < len(given):
            param = given[index]
            parts = (
                [(field.at, field.param) for field in param.fields] if isinstance(param, StructParam) else [(0, param)]
            )
            for at, part in parts:
                _place(part, address + at, buffers, scalars, maps)
        address += max(variable.size_bytes, 1)
    return Layout(
        shared=shared, end=end, static=static, parameters=parameters, scalars=scalars, maps=maps, buffers=buffers
    )


def _place(
    part: TensorMapParam | PointerParam | ScalarParam,
    address: int,
    buffers: tuple[str, ...],
    scalars: dict[tuple[int, int], int],
    maps: dict[int, TensorMap],
) -> None:
    match part:
        case TensorMapParam(map=tmap):
            maps[address] = tmap
        case PointerParam(buffer=name, offset=offset):
            scalars[address, 8] = ((buffers.index(name) + 1) << BUFFERS) + offset
        case ScalarParam(dtype=dtype, value=value):
            size = ELEMENT_TYPES[dtype].bytes
            if isinstance(value, int) and not ELEMENT_TYPES[dtype].floating:
                scalars[address, size] = value & ((1 << 8 * size) - 1)
