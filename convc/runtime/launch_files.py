"""The files around a kernel that somebody wrote: the arrays that its launch file names.

A buffer's ``file`` must hold exactly its type and shape. Types that ``.npy`` cannot name lie there as
unsigned integers of the same width (bf16 as uint16), and any type may. What a launch ``save``s stays in the
folder of the launch file: a launch file from a stranger may overwrite nothing else.
"""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path

import numpy as np

from convc.errors import LaunchError
from convc.ir.launch import BYTES, BufferSpec, LaunchSpec
from convc.support.files import NpyHeader, check_target, read_npy
from convc.support.memory import require_memory

NAMES = {
    "u8": "uint8", "s8": "int8", "u16": "uint16", "s16": "int16", "u32": "uint32", "s32": "int32",
    "u64": "uint64", "s64": "int64", "f16": "float16", "bf16": "uint16", "tf32": "float32", "f32": "float32",
    "f64": "float64", "e4m3": "uint8", "e5m2": "uint8",
}  # fmt: skip
"""numpy type of each buffer type in a file."""


def read_buffers(launch: LaunchSpec, folder: Path, given: Container[str] = ()) -> dict[str, np.ndarray]:
    """The contents of every buffer that names a file, but for those that are ``given`` another way.

    Raises:
        LimitError: all buffers together do not fit into memory.
        InputError: a file is missing or damaged, or holds another type or shape.
    """
    require_memory(2 * sum(spec.size_bytes for spec in launch.buffers.values()), "the launch's buffers")
    return {
        name: _read(name, spec, folder / spec.file)
        for name, spec in launch.buffers.items()
        if spec.file is not None and name not in given
    }


def save_targets(launch: LaunchSpec, folder: Path) -> dict[str, Path]:
    """Where each buffer with a ``save`` goes.

    Raises:
        LaunchError: that is outside the launch file's folder.
        InputError: no file can be written there.
    """
    targets = {}
    root = folder.resolve()
    for name, spec in launch.buffers.items():
        if spec.save is None:
            continue
        target = (root / spec.save).resolve()
        if not target.is_relative_to(root) or target == root:
            raise LaunchError(
                f"buffer {name!r} must be saved inside the launch file's folder, got {spec.save!r}",
                where=str(folder),
            )
        check_target(target)
        targets[name] = folder / target.relative_to(root)
    return targets


def _read(name: str, spec: BufferSpec, path: Path) -> np.ndarray:
    raw = f"uint{8 * BYTES[spec.dtype]}"

    def check(header: NpyHeader) -> str | None:
        if header.shape == spec.shape and header.dtype.name in (NAMES[spec.dtype], raw):
            return None
        return f"buffer {name!r} takes {NAMES[spec.dtype]} {list(spec.shape)}, the file holds {header}"

    return read_npy(path, check=check)
