"""A launch file for a kernel that was found in a folder, with the arguments that the caller gives.

x=x.npy               a buffer with the contents of a file
x=f16[196,256]        a buffer of that type and shape, without contents
n=1000                a number
arg0.8=64             a number of 4 bytes behind a pointer, in an argument of several bytes
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from convc.errors import LaunchError
from convc.foreign.folders import Argument, Found, read_file
from convc.foreign.signature import entry_of, tensor_map
from convc.ir.element_types import BUFFER_TYPES, ELEMENT_TYPES
from convc.ir.launch import (
    BufferSpec,
    LaunchSpec,
    Param,
    PointerParam,
    ScalarParam,
    StructField,
    StructParam,
    TensorMapParam,
)

SHAPED = re.compile(r"(\w+)\[([\d,\s]+)\]")
MOST_SHARED = 232448
"""Dynamic shared memory where nothing says how much: as much as a CTA can have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """A tensor that is all of a buffer, as `convc.foreign.signature.Descriptor` has it."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    base: None = None
    padding: str = "zero"


def launch_of(
    found: Found,
    given: Mapping[str, str],
    files: Mapping[str, BufferSpec],
    grid: tuple[int, int, int] | None,
    shared: int | None = None,
) -> LaunchSpec:
    """The launch of a kernel.

    Args:
        found: the kernel.
        given: what was said of the arguments, by name.
        files: buffers that are files, by argument: their types and shapes.
        grid: in CTAs of x, y, z, as the program has it: clusters where it counts these. None for the folder's.
        shared: bytes of dynamic shared memory, in place of the folder's.

    Raises:
        LaunchError: something is missing, which is listed, or is not what the argument can be.
    """
    _check_named(found, given)
    extents = grid or found.grid
    missing = [str(each) for each in found.needed if each.name not in given]
    if extents is None:
        missing.append("the grid, as --grid 8,1,1")
    if missing or extents is None:
        raise LaunchError(
            "\n  ".join([f"kernel {found.name!r} needs", *missing]),
            where=str(found.ptx),
            hint="say each with --arg NAME=VALUE",
        )
    entry = entry_of(read_file(found.ptx), found.name)
    buffers: dict[str, BufferSpec] = {}
    params: list[Param] = []
    for argument in found.arguments:
        params += _params(argument, given, files, buffers)
    size = found.scratch * math.prod(extents) * found.ctas
    if size:
        buffers["scratch"] = BufferSpec(dtype="u8", shape=(size,))
        params[-2] = PointerParam(buffer="scratch")
    bytes_shared = shared if shared is not None else found.shared
    launch = LaunchSpec(
        entry=found.name,
        grid=(extents[0] * found.ctas, extents[1], extents[2]),
        block=entry.threads or (128, 1, 1),
        cluster=(found.ctas, 1, 1),
        shared_bytes=MOST_SHARED if bytes_shared is None else bytes_shared,
        buffers=buffers,
        params=tuple(params),
    )
    launch.check(str(found.ptx))
    return launch


def _check_named(found: Found, given: Mapping[str, str]) -> None:
    """LaunchError where something is said of an argument that there is not."""
    known = [each.name for each in found.needed]
    for name in given:
        if name not in known and name.rpartition(".")[0] not in known:
            raise LaunchError(
                f"kernel {found.name!r} has no argument {name!r}", hint=f"arguments are: {', '.join(known) or 'none'}"
            )


def _params(
    argument: Argument, given: Mapping[str, str], files: Mapping[str, BufferSpec], buffers: dict[str, BufferSpec]
) -> list[Param]:
    """The parameters that an argument becomes; its buffer is added to ``buffers``."""
    if argument.kind == "null":
        return [ScalarParam(dtype="u64", value=0)]
    said = given[argument.name]
    if argument.kind == "number":
        return [ScalarParam(dtype=argument.dtype, value=_number(argument, said))]
    if argument.kind == "map":
        raise LaunchError(
            f"argument {argument.name!r} is a tensor map, which the folder does not describe",
            hint="write it into a launch file by hand: own_kernels.md",
        )
    spec = files.get(argument.name) or _shaped(argument, said)
    buffers[argument.name] = spec
    pointer = PointerParam(buffer=argument.name)
    if argument.kind == "pointer":
        return [pointer]
    if argument.kind == "bytes":
        fields = [StructField(at=0, param=pointer)]
        for name, value in given.items():
            base, _, at = name.rpartition(".")
            if base == argument.name and at.isdecimal():
                fields.append(StructField(at=int(at), param=ScalarParam(dtype="s32", value=_number(argument, value))))
        return [StructParam(fields=tuple(fields), bytes="00" * argument.size)]
    return _descriptor(argument, spec, pointer)


def _descriptor(argument: Argument, spec: BufferSpec, pointer: PointerParam) -> list[Param]:
    """A tensor map of the whole of a buffer, and its shape and strides behind it."""
    if argument.map.get("is_im2col") or not argument.map:
        what = "of im2col, whose corners" if argument.map else "without a tensor map, whose fields"
        raise LaunchError(
            f"argument {argument.name!r} is a descriptor {what} the folder does not have",
            hint="let convc.triton run the program: your_kernels.md",
        )
    if len(spec.shape) != argument.rank:
        raise LaunchError(f"argument {argument.name!r}: expected {argument.rank} extents, got {list(spec.shape)}")
    strides = tuple(math.prod(spec.shape[axis + 1 :]) for axis in range(len(spec.shape)))
    given = Whole(shape=spec.shape, strides=strides)
    try:
        made = tensor_map(given, argument.map, pointer)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise LaunchError(f"argument {argument.name!r}: the metadata of its descriptor is damaged: {error!r}") from None
    return [
        TensorMapParam(map=made),
        *(ScalarParam(dtype="s32", value=extent) for extent in spec.shape),
        *(ScalarParam(dtype="s64", value=step) for step in strides),
    ]


def _number(argument: Argument, said: str) -> int | float:
    try:
        return float(said) if argument.dtype.startswith(("f", "bf")) else int(said, 0)
    except ValueError:
        raise LaunchError(f"argument {argument.name!r}: expected a number, got {said!r}") from None


def _shaped(argument: Argument, said: str) -> BufferSpec:
    """A buffer from its type and shape."""
    found = SHAPED.fullmatch(said)
    if found is None or found[1] not in BUFFER_TYPES:
        raise LaunchError(
            f"argument {argument.name!r}: expected NAME.npy, or a type and a shape as f16[64,64], got {said!r}",
            hint=f"types are {', '.join(BUFFER_TYPES)}",
        )
    size = ELEMENT_TYPES[argument.dtype].bytes if argument.dtype else 0
    if size and ELEMENT_TYPES[found[1]].bytes != size:
        raise LaunchError(f"argument {argument.name!r}: expected elements of {argument.dtype}, got {found[1]}")
    shape = tuple(int(each) for each in found[2].split(",") if each.strip())
    return BufferSpec(dtype=found[1], shape=shape)
