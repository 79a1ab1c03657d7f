"""Dumps of CuTe DSL: ``NAME.sm_100a.ptx`` (``CUTE_DSL_KEEP_PTX=1``), ``cute_dsl_NAME.mlir`` (``CUTE_DSL_KEEP_IR=1``).

The text has the parameters and the threads of a CTA. The representation has the types of the arguments and, where
they are constants, the extents of the grid:

    cuda.kernel @scale(%arg0: !memref_gmem_f32, %arg1: f32)
    cuda.launch_cfg.create<max_attrs = 17 : i32> (blockDim = (...), ..., gridDim = (%c8_i32, %c1_i32, %c1_i32), ...)

Nothing says how much dynamic shared memory a launch asks for.

Source: dumps of nvidia-cutlass-dsl 4.8.
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from convc.errors import LaunchError
from convc.foreign.folders import Argument, Found, arguments_of_text, read_file
from convc.foreign.signature import ENTRY
from convc.foreign.triton_cache import TYPES

GRID = re.compile(r"gridDim = \(([^)]*)\)")
CONSTANT = re.compile(r"(%\w+) = arith\.constant (\d+) : i32")
KERNEL = re.compile(r"cuda\.kernel @([\w$]+)\((.*?)\)\s*attributes", re.DOTALL)
ALIAS = re.compile(r"^(![\w$]+) = (.*)$", re.MULTILINE)
TYPED = re.compile(r"%\w+: ([^,]+)")
ELEMENT = re.compile(r"!cute\.(?:memref|ptr)<(\w+)")
DYNAMIC = re.compile(r"\.extern\s+\.shared")


def kernels_of_dump(folder: Path) -> tuple[Found, ...]:
    """The kernels in a folder of dumps.

    Raises:
        LaunchError: there is no such folder, or no text is in it.
    """
    if not folder.is_dir():
        raise LaunchError("there is no such folder", where=str(folder))
    found: list[Found] = []
    for path in sorted(folder.glob("*.ptx")):
        text = read_file(path)
        source = folder / f"cute_dsl_{path.name.partition('.')[0]}.mlir"
        said = read_file(source) if source.exists() else ""
        for entry in ENTRY.finditer(text):
            arguments = _typed(arguments_of_text(entry[2]), said, entry[1])
            shared = None if DYNAMIC.search(text) else 0
            found.append(Found(name=entry[1], ptx=path, arguments=arguments, shared=shared, grid=_grid(said)))
    if not found:
        raise LaunchError(
            "expected NAME.sm_100a.ptx in the folder, and there is none",
            where=str(folder),
            hint="run the program with CUTE_DSL_KEEP_PTX=1 CUTE_DSL_KEEP_IR=1 CUTE_DSL_DUMP_DIR=DIR",
        )
    return tuple(found)


def _grid(said: str) -> tuple[int, int, int] | None:
    """The grid, where there is one launch and it is of constants."""
    launches = GRID.findall(said)
    if len(launches) != 1:
        return None
    constants = dict(CONSTANT.findall(said))
    extents = [constants.get(each.strip()) for each in launches[0].split(",")]
    if len(extents) != 3 or None in extents:
        return None
    x, y, z = (int(each or 0) for each in extents)
    return x, y, z


def _typed(arguments: tuple[Argument, ...], said: str, name: str) -> tuple[Argument, ...]:
    """Arguments with the types of their elements, where the representation has as many."""
    found = next((each for each in KERNEL.finditer(said) if each[1] == name), None)
    if found is None:
        return arguments
    aliases = dict(ALIAS.findall(said))
    types = [aliases.get(each.strip(), each.strip()) for each in TYPED.findall(found[2])]
    if len(types) != len(arguments):
        return arguments
    out: list[Argument] = []
    for argument, kind in zip(arguments, types, strict=True):
        element = ELEMENT.match(kind)
        known = TYPES.get(element[1], "") if element else argument.dtype
        out.append(dataclasses.replace(argument, dtype=known) if argument.kind != "number" else argument)
    return tuple(out)
