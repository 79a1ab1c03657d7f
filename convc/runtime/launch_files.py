"""The files around a kernel that convc did not write: the arrays that its launch file names.

A buffer's ``file`` must hold exactly its type and shape. Types that ``.npy`` cannot name lie there as
unsigned integers of the same width (bf16 as uint16), and any type may. What a launch ``save``s stays in the
folder of the launch file: a launch file from a stranger may overwrite nothing else.
"""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path

import numpy as np

from convc.errors import LaunchError
from convc.ir.element_types import ELEMENT_TYPES
from convc.ir.launch import BufferSpec, LaunchSpec
from convc.support.files import NpyHeader, check_target, read_npy
from convc.support.memory import require_memory


def read_buffers(launch: LaunchSpec, folder: Path, given: Container[str] = ()) -> dict[str, np.ndarray]:
    """The contents of every buffer that names a file, but for those that are ``given`` another way.

    Raises:
        LimitError: all buffers together do not fit into memory.
        InputError: a file is missing or damaged, or holds another type or shape.
    """
    require_memory(2 * sum(spec.size_bytes for spec in launch.buffers.values()), "the launch's buffers")
    contents: dict[str, np.ndarray] = {}
    for name, spec in launch.buffers.items():
        if spec.file is not None and name not in given:
            contents[name] = _read(name, spec, folder / spec.file)
    return contents


def save_targets(launch: LaunchSpec, folder: Path) -> dict[str, Path]:
    """The file of each buffer with a ``save``.

    Raises:
        LaunchError: that is outside the launch file's folder.
        InputError: no file can be written there.
    """
    targets: dict[str, Path] = {}
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
        shown = folder / target.relative_to(root)
        check_target(shown)
        twice = next((other for other, file in targets.items() if file == shown), None)
        if twice is not None:
            raise LaunchError(f"buffers {twice!r} and {name!r} are saved to one file", where=str(shown))
        targets[name] = shown
    return targets


def buffer_files(launch: LaunchSpec, folder: Path) -> list[Path]:
    """The files that buffers of a launch are read from."""
    return [folder / spec.file for spec in launch.buffers.values() if spec.file is not None]


def _read(name: str, spec: BufferSpec, path: Path) -> np.ndarray:
    """The contents of a buffer, whose file must hold its type and shape."""
    element = ELEMENT_TYPES[spec.dtype]

    def check(header: NpyHeader) -> str | None:
        if header.shape == spec.shape and header.dtype.name in (element.npy, element.raw):
            return None
        return f"buffer {name!r} takes {element.npy} {list(spec.shape)}, the file holds {header}"

    return read_npy(path, check=check)
