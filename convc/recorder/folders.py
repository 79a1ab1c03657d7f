"""A folder for a recorded launch, as ``convc exec`` runs it: the text, the launch file, the buffers before it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from convc.ir.launch import LaunchSpec, dump_launch
from convc.support.files import write_bytes, write_npy

LONGEST = 40
"""Characters of a kernel's name that its folder has."""


def write_launch(folder: Path, number: int, text: str, spec: LaunchSpec, contents: Mapping[str, np.ndarray]) -> None:
    """Write launch ``number`` into a folder of its own inside of ``folder``."""
    where = folder / f"{number:03}-{re.sub(r'[^A-Za-z0-9_]', '_', spec.entry)[:LONGEST]}"
    where.mkdir(parents=True, exist_ok=True)
    buffers = {}
    for count, (name, buffer) in enumerate(spec.buffers.items()):
        file = f"{count:03}.npy"
        write_npy(where / file, contents[name])
        buffers[name] = replace(buffer, file=file)
    write_bytes(where / "kernel.ptx", text.encode())
    write_bytes(where / "launch.json", dump_launch(replace(spec, buffers=buffers)))
