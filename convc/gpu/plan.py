"""A launch as data: what is allocated, which bytes each parameter has, and where addresses and maps go into them.

A plan needs no GPU. Addresses are known when buffers are allocated, so a parameter is bytes with patches: places that
are filled with the address of a buffer, or with a tensor map that the driver encodes.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from convc.errors import LaunchError
from convc.gpu.contents import listed
from convc.gpu.tensormaps import MAP_BYTES, EncodeCall, encode_call
from convc.ir.launch import AddressOf, LaunchSpec, Param, Part, PointerParam, ScalarParam, StructParam, TensorMapParam
from convc.ir.scalars import scalar_bytes
from convc.ir.sums import target_of
from convc.ir.tensormap import check as check_tensor_map

POINTER_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Eight bytes of a parameter that become the address of a buffer plus an offset."""

    at: int
    buffer: str
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedMap:
    """128 bytes of a parameter that become a tensor map."""

    at: int
    call: EncodeCall


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedParam:
    """A parameter of a kernel.

    Attributes:
        data: its bytes, zero where patches go.
        patches: what is filled in before the launch.
        grows: the kernel may declare more bytes, which are zero (a structure without all of its bytes).
    """

    data: bytes
    patches: tuple[Address | EncodedMap, ...] = ()
    grows: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchPlan:
    """A launch, as the driver is asked for it.

    Attributes:
        entry: name of the kernel.
        grid, block, cluster: extents (x, y, z).
        shared_bytes: dynamic shared memory of a CTA.
        cooperative: all CTAs are there at once, so that they can meet (the text reads ``%envreg``).
        dependent: the kernel may begin before the one in front of it has ended (the text has ``griddepcontrol``).
        target: as the text says, such as ``sm_100a``; "" for machine code.
        buffers: bytes of each buffer, by name, in the order of the launch file.
        params: in the order of the kernel.
        declared: how many parameters the kernel declares by its text; None for machine code.
        listed: contents of buffers that stand in the launch file; a caller may give others.
    """

    entry: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    shared_bytes: int
    cooperative: bool
    dependent: bool
    target: str
    buffers: dict[str, int]
    params: tuple[PlannedParam, ...]
    declared: int | None = None
    listed: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict[str, np.ndarray])

    @property
    def bytes(self) -> int:
        """Bytes of all buffers."""
        return sum(self.buffers.values())


def plan_launch(launch: LaunchSpec, text: str = "") -> LaunchPlan:
    """Plan a launch.

    Args:
        launch: how the kernel is launched.
        text: the PTX of the kernel, "" for machine code. It is not parsed, as a GPU runs more than convc reads.

    Raises:
        LaunchError: the launch file is wrong, a number does not fit into its type, an offset lies outside of its
            buffer, or the driver would refuse a tensor map.
    """
    launch.check()
    for name, spec in launch.buffers.items():
        if spec.address is not None or spec.variable is not None:
            raise LaunchError(
                f"buffer {name!r} has an address or is a module variable, which only the simulator supports",
                hint="convc exec runs it on the simulator",
            )
        if any(isinstance(value, AddressOf) for value in spec.values or ()):
            raise LaunchError(
                f"buffer {name!r} has addresses in the launch file, which a GPU launch does not support",
                hint="run it on the simulator with convc exec, or give numbers in a file",
            )
    return LaunchPlan(
        entry=launch.entry,
        grid=launch.grid,
        block=launch.block,
        cluster=launch.cluster,
        shared_bytes=launch.shared_bytes,
        cooperative="%envreg" in text,
        dependent="griddepcontrol" in text,
        target=target_of(text),
        buffers={name: spec.size_bytes for name, spec in launch.buffers.items()},
        params=tuple(_planned(launch, index, param) for index, param in enumerate(launch.params)),
        declared=declared_parameters(text, launch.entry),
        listed=listed(launch),
    )


def declared_parameters(text: str, entry: str) -> int | None:
    """Count the parameters that a kernel declares by a text, which is not parsed; None where it has no such kernel."""
    code = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
    found = re.search(rf"\.entry\s+{re.escape(entry)}(?![\w$])\s*(\([^)]*\))?", code)
    return None if found is None else len(re.findall(r"\.param\b", found[1] or ""))


def _planned(launch: LaunchSpec, index: int, param: Param) -> PlannedParam:
    where = f"parameter {index}"
    if not isinstance(param, StructParam):
        data, patches = _part(launch, where, 0, param)
        return PlannedParam(data=data, patches=patches)
    image = bytearray.fromhex(param.bytes or "")
    patches = ()
    for field in param.fields:
        if param.bytes is not None and field.at + field.size > len(image):
            raise LaunchError(f"{where} has {len(image)} bytes; its field at byte {field.at} takes {field.size}")
        data, more = _part(launch, f"{where}, byte {field.at}", field.at, field.param)
        image.extend(bytes(max(0, field.at + field.size - len(image))))
        image[field.at : field.at + field.size] = data
        patches += more
    return PlannedParam(data=bytes(image), patches=patches, grows=param.bytes is None)


def _part(
    launch: LaunchSpec, where: str, at: int, part: Part
) -> tuple[bytes, tuple[Address, ...] | tuple[EncodedMap, ...]]:
    """The bytes of one thing, and what is filled in at that place."""
    match part:
        case ScalarParam(dtype=dtype, value=number):
            return scalar_bytes(dtype, number, where), ()
        case PointerParam(buffer=name, offset=offset):
            size = launch.buffers[name].size_bytes
            if not 0 <= offset <= size:
                raise LaunchError(f"{where}: the offset into buffer {name!r} must be in 0..{size}, got {offset}")
            return bytes(POINTER_BYTES), (Address(at=at, buffer=name, offset=offset),)
        case TensorMapParam(map=tmap):
            check_tensor_map(tmap, launch.buffers[tmap.buffer].size_bytes, where)
            return bytes(MAP_BYTES), (EncodedMap(at=at, call=encode_call(tmap)),)
