"""A launch as a stand-alone program in C++, for those who want to see or change what the launcher does.

It holds the text of the kernel, makes the same calls in the same order, and prints a digest of every buffer. Contents
that were given lie as raw bytes in files beside it, others are drawn from the seed or poison (`convc.gpu.contents`).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from convc._version import __version__
from convc.compiler.emit.render import render_file
from convc.errors import LaunchError
from convc.gpu.contents import buffer_seed, values_of
from convc.gpu.plan import Address, EncodedMap, LaunchPlan
from convc.gpu.tensormaps import LAST_DRIVER_TO_FIX, SMALL_TENSOR_BYTES, Value
from convc.ir.launch import BufferSpec, LaunchSpec

_SAFE = re.compile(r"[A-Za-z0-9_.-]+")
_KERNEL = re.compile(r"[A-Za-z0-9_$%]+")

_ARRAYS = {
    "globalDim": "cuuint64_t",
    "globalStrides": "cuuint64_t",
    "boxDim": "cuuint32_t",
    "elementStrides": "cuuint32_t",
    "pixelBoxLowerCorner": "int",
    "pixelBoxUpperCorner": "int",
}
"""Arguments of the encoders that are arrays, and the type of their elements."""

_ENUMERATIONS = {
    "tensorDataType": "CUtensorMapDataType",
    "interleave": "CUtensorMapInterleave",
    "mode": "CUtensorMapIm2ColWideMode",
    "swizzle": "CUtensorMapSwizzle",
    "l2Promotion": "CUtensorMapL2promotion",
    "oobFill": "CUtensorMapFloatOOBfill",
}


def host_program(
    launch: LaunchSpec, plan: LaunchPlan, text: str, given: Collection[str], seed: int | None, file: str
) -> str:
    """The program.

    Args:
        launch: the launch.
        plan: of the launch.
        text: the kernel.
        given: names of the buffers that are read from files, ``NAME.bin``.
        seed: of all other buffers; None: they are poison.
        file: name of the program, for its first comment.

    Raises:
        LaunchError: the name of a buffer or of the kernel cannot stand in a program.
    """
    for name in launch.buffers:
        _check_name(_SAFE, name, "a buffer")
    _check_name(_KERNEL, plan.entry, "a kernel")
    places = list(launch.buffers)
    patches = [(index, patch) for index, param in enumerate(plan.params) for patch in param.patches]
    return render_file(
        "host.cu.j2",
        {
            "version": __version__,
            "file": file if _SAFE.fullmatch(file) else "host.cu",
            "entry": plan.entry,
            "text": text,
            "delimiter": _delimiter(text),
            "buffers": [_buffer(name, spec, name in given, seed) for name, spec in launch.buffers.items()],
            "params": [", ".join(str(byte) for byte in param.data) for param in plan.params],
            "addresses": [
                {"param": index, "at": patch.at, "buffer": places.index(patch.buffer), "offset": patch.offset}
                for index, patch in patches
                if isinstance(patch, Address)
            ],
            "maps": [_map(index, patch, places) for index, patch in patches if isinstance(patch, EncodedMap)],
            "attributes": _attributes(plan),
            "large_cluster": plan.cluster[0] * plan.cluster[1] * plan.cluster[2] > 8,
            "grid": dict(zip("xyz", plan.grid, strict=True)),
            "block": dict(zip("xyz", plan.block, strict=True)),
            "shared_bytes": plan.shared_bytes,
            "last_driver": LAST_DRIVER_TO_FIX,
            "small_tensor": SMALL_TENSOR_BYTES,
        },
    )


def _check_name(pattern: re.Pattern[str], name: str, what: str) -> None:
    """Raise `LaunchError` for a name with characters that mean something in C++, or in a path."""
    if not pattern.fullmatch(name) or name.startswith("."):
        raise LaunchError(f"{what} with the name {name!r} cannot stand in a host program", hint="rename it")


def _delimiter(text: str) -> str:
    """A word that ends a raw string of C++ nowhere in a text; it has at most 16 characters (C++17, [lex.string])."""
    return next(word for word in (f"ptx{number}" for number in range(1 << 20)) if f"){word}" not in text)


def _buffer(name: str, spec: BufferSpec, is_given: bool, seed: int | None) -> dict[str, str | int]:
    """A row of the table of buffers."""
    values = values_of(spec.dtype)
    width = values.dtype.itemsize
    codes = values.view(f"u{width}").tolist()
    source = "POISON" if seed is None else "DRAWN"
    return {
        "name": name,
        "bytes": spec.size_bytes,
        "source": "FILE_OF_BYTES" if is_given else source,
        "seed": buffer_seed(seed or 0, name),
        "width": width,
        "codes": ", ".join(f"{code}u" for code in codes),
    }


def _map(index: int, patch: EncodedMap, places: list[str]) -> dict[str, Any]:
    """The call that encodes a map, in words of C++."""
    call = patch.call
    arrays = [
        f"{_ARRAYS[name]} {name}[] = {{{', '.join(str(number) for number in value) or '0'}}}"
        for name, value in call.after
        if isinstance(value, tuple)
    ]
    before = [_argument(name, value) for name, value in call.before]
    after = [_argument(name, value) for name, value in call.after]
    return {
        "param": index,
        "at": patch.at,
        "function": call.function,
        "arrays": arrays,
        "arguments": ", ".join([*before, "address", *after]),
        "buffer": places.index(call.buffer),
        "offset": call.offset,
        "tensor_bytes": call.tensor_bytes,
    }


def _argument(name: str, value: Value) -> str:
    """An argument of an encoder: an array by its name, an enumeration by its type."""
    if isinstance(value, tuple):
        return name
    return f"static_cast<{_ENUMERATIONS[name]}>({value})" if name in _ENUMERATIONS else str(value)


def _attributes(plan: LaunchPlan) -> list[dict[str, Any]]:
    """The attributes of the launch: only those that the kernel needs."""
    made: list[dict[str, Any]] = []
    if plan.cluster != (1, 1, 1):
        fields = [f"clusterDim.{axis} = {extent}" for axis, extent in zip("xyz", plan.cluster, strict=True)]
        made.append({"id": "CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION", "fields": fields})
    if plan.cooperative:
        made.append({"id": "CU_LAUNCH_ATTRIBUTE_COOPERATIVE", "fields": ["cooperative = 1"]})
    if plan.dependent:
        kind = "CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION"
        made.append({"id": kind, "fields": ["programmaticStreamSerializationAllowed = 1"]})
    return made
