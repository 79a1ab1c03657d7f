"""Small PTX kernels for tests: a body between a fixed head and tail, run on the simulator."""

from __future__ import annotations

import numpy as np

from convc.ir.launch import BufferSpec, LaunchSpec, PointerParam, TensorMapParam
from convc.ir.tensormap import TensorMap
from convc.machine import RunResult, run

NAMES = {
    "uint32": "u32",
    "int32": "s32",
    "float32": "f32",
    "uint64": "u64",
    "float16": "f16",
    "uint16": "u16",
    "uint8": "u8",
    "float64": "f64",
}


def module(body: str, *, pointers: tuple[str, ...] = ("out",), maps: tuple[str, ...] = (), shared: str = "") -> str:
    """A module with one entry ``k``; ``%p_<name>`` holds each pointer and ``%m_<name>`` each tensor map's address."""
    params = [f".param .align 64 .b8 {m}[128]" for m in maps] + [f".param .u64 {p}" for p in pointers]
    loads = [f"mov.b64 %m_{m}, {m}; cvta.param.u64 %m_{m}, %m_{m};" for m in maps]
    loads += [f"ld.param.u64 %p_{p}, [{p}];" for p in pointers]
    declared = ", ".join([f"%m_{m}" for m in maps] + [f"%p_{p}" for p in pointers])
    return (
        ".version 8.7\n.target sm_100a\n.address_size 64\n"
        + shared
        + f".visible .entry k({', '.join(params)})\n{{\n.reg .b64 {declared or '%unused'};\n"
        + "\n".join(loads)
        + "\n"
        + body
        + "\nret;\n}\n"
    )


def execute(
    text: str,
    buffers: dict[str, np.ndarray],
    *,
    grid: tuple[int, int, int] = (1, 1, 1),
    block: tuple[int, int, int] = (32, 1, 1),
    shared_bytes: int = 0,
    maps: tuple[TensorMap, ...] = (),
    pointers: tuple[str, ...] = ("out",),
    cluster: tuple[int, int, int] = (1, 1, 1),
    **options,
) -> RunResult:
    """Run a module from `module` on numpy arrays."""
    specs = {name: BufferSpec(dtype=NAMES[str(a.dtype)], shape=a.shape) for name, a in buffers.items()}
    params = tuple(TensorMapParam(map=m) for m in maps) + tuple(PointerParam(buffer=p) for p in pointers)
    launch = LaunchSpec(
        entry="k", grid=grid, block=block, cluster=cluster, shared_bytes=shared_bytes, buffers=specs, params=params
    )
    return run(text, launch, buffers, **options)
