"""The arguments of a launch, as bytes in parameter space, and the tensor maps among them."""

from __future__ import annotations

import numpy as np

from convc.errors import LaunchError
from convc.ir.launch import LaunchSpec, Part, PointerParam, ScalarParam, StructParam, TensorMapParam
from convc.ir.scalars import scalar_bytes
from convc.machine.memory.global_memory import GlobalMemory
from convc.machine.state.variables import Parameter
from convc.machine.tma.load import TensorLoader, checked
from convc.machine.tma.tensormap_bytes import encode


def parameters_of(
    slots: list[Parameter], launch: LaunchSpec, memory: GlobalMemory
) -> tuple[np.ndarray, dict[int | bytes, tuple[str, TensorLoader]]]:
    """Lay the arguments out in parameter space, and attach a loader to each tensor map."""
    if len(slots) != len(launch.params):
        raise LaunchError(
            f"entry {launch.entry!r} has {len(slots)} parameters ({', '.join(s.name for s in slots)}), "
            f"the launch file gives {len(launch.params)}"
        )
    space = np.zeros(max(1, max((s.offset + s.size for s in slots), default=0)), np.uint8)
    maps: dict[int | bytes, tuple[str, TensorLoader]] = {}
    for slot, param in zip(slots, launch.params, strict=True):
        if not isinstance(param, StructParam):
            _put(space, slot, param, memory, maps)
            continue
        if param.bytes is not None:
            _store(space, slot, np.frombuffer(bytes.fromhex(param.bytes), np.uint8))
        for field in param.fields:
            if field.at + field.size > slot.size:
                raise LaunchError(
                    f"parameter {slot.name!r} has {slot.size} bytes; its field at byte {field.at} takes {field.size}"
                )
            part = Parameter(name=f"{slot.name}+{field.at}", offset=slot.offset + field.at, size=field.size)
            _put(space, part, field.param, memory, maps)
    return space, maps


def _put(
    space: np.ndarray,
    slot: Parameter,
    param: Part,
    memory: GlobalMemory,
    maps: dict[int | bytes, tuple[str, TensorLoader]],
) -> None:
    """Lay one argument out at its place; a tensor map as its 128 bytes, with a loader."""
    match param:
        case TensorMapParam(map=tmap):
            if slot.size != 128:
                raise LaunchError(f"parameter {slot.name!r} has {slot.size} bytes; a tensor map takes 128")
            buffer = memory.by_name[tmap.buffer]
            checked(tmap, buffer.size, f"parameter {slot.name!r}")
            maps[slot.offset] = (tmap.buffer, TensorLoader(tmap, buffer.data))
            _store(space, slot, np.frombuffer(encode(tmap, buffer.base + tmap.offset), np.uint8))
        case PointerParam(buffer=name, offset=offset):
            value = np.array([memory.by_name[name].base + offset], np.uint64)
            _store(space, slot, value.view(np.uint8))
        case ScalarParam(dtype=dtype, value=number):
            _store(space, slot, np.frombuffer(scalar_bytes(dtype, number, f"parameter {slot.name!r}"), np.uint8))


def _store(space: np.ndarray, slot: Parameter, data: np.ndarray) -> None:
    if data.size != slot.size:
        raise LaunchError(f"parameter {slot.name!r} has {slot.size} bytes, the launch file gives {data.size}")
    space[slot.offset : slot.offset + slot.size] = data
