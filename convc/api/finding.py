"""The kernels in a folder of another compiler, and launch files for them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from convc.errors import LaunchError
from convc.foreign.cute_dump import kernels_of_dump
from convc.foreign.folders import Found
from convc.foreign.launch_maker import launch_of
from convc.foreign.triton_cache import kernels_of_cache
from convc.ir.element_types import BUFFER_TYPES, ELEMENT_TYPES
from convc.ir.launch import BufferSpec, dump_launch
from convc.support.files import read_npy_header, write_bytes

Tool = Literal["triton", "cute"]
"""The compiler that left a folder."""


def find_kernels(folder: str | Path, tool: Tool) -> tuple[Found, ...]:
    """The kernels in a folder.

    Args:
        folder: Triton's cache, or a folder of CuTe DSL's dumps.
        tool: which of the two.

    Raises:
        LaunchError: there is no such folder, or no kernel in it.
    """
    return kernels_of_cache(Path(folder)) if tool == "triton" else kernels_of_dump(Path(folder))


def write_launch(
    folder: str | Path,
    tool: Tool,
    target: str | Path,
    arguments: Mapping[str, str],
    *,
    kernel: str | None = None,
    grid: tuple[int, int, int] | None = None,
    shared: int | None = None,
) -> Found:
    """Write the launch file of a kernel in a folder.

    Args:
        folder, tool: as of `find_kernels`.
        target: the file to write.
        arguments: what each argument is: a file ``x.npy``, ``f16[64,64]``, or a number.
        kernel: the name of one, where the folder has several.
        grid: as the program has it; None where the folder says it.
        shared: bytes of dynamic shared memory; None where the folder says it.

    Returns:
        The kernel.

    Raises:
        LaunchError: there is no such kernel, or something is missing, which is listed.
        InputError: a file is missing or damaged.
    """
    match = _chosen(find_kernels(folder, tool), kernel, str(folder))
    beside = Path(target).parent
    files: dict[str, BufferSpec] = {}
    for argument in match.needed:
        said = arguments.get(argument.name, "")
        if said.endswith(".npy"):
            files[argument.name] = _of_file(argument.name, argument.dtype, Path(said), beside)
    launch = launch_of(match, arguments, files, grid, shared)
    write_bytes(Path(target), dump_launch(launch))
    return match


def _chosen(kernels: tuple[Found, ...], name: str | None, folder: str) -> Found:
    """The only kernel, or the one of that name; the last of those that a cache has of one name."""
    named = [each for each in kernels if name in (None, each.name)]
    if len({each.name for each in named}) == 1:
        return max(named, key=lambda each: each.ptx.stat().st_mtime)
    names = ", ".join(sorted({each.name for each in kernels}))
    message = f"there is no kernel {name!r}" if name is not None else "there are several kernels"
    raise LaunchError(message, where=folder, hint=f"say --kernel with one of: {names}")


def _of_file(name: str, dtype: str, path: Path, beside: Path) -> BufferSpec:
    """A buffer that is a file; bits of elements that .npy cannot name are of the argument's type."""
    header = read_npy_header(path)
    fits = dtype and ELEMENT_TYPES[dtype].npy == header.dtype.name
    word = (
        dtype if fits else next((each for each in BUFFER_TYPES if ELEMENT_TYPES[each].array == header.dtype.name), "")
    )
    if not word or (dtype and ELEMENT_TYPES[word].bytes != ELEMENT_TYPES[dtype].bytes):
        raise LaunchError(
            f"argument {name!r}: expected elements of {dtype or 'a known type'}, got {header}", where=str(path)
        )
    return BufferSpec(dtype=word, shape=header.shape, file=os.path.relpath(path, beside))
