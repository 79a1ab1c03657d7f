"""Texts and launches that were recorded beside what a GPU made of them, in one compressed file."""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping
from pathlib import Path

import msgspec

from convc.ir.launch import KernelArtifact, LaunchSpec


def read_kernels(path: Path) -> dict[str, KernelArtifact]:
    """The kernels of a file, by the names of the rows that were recorded."""
    stored = json.loads(lzma.decompress(path.read_bytes()))
    return {
        name: KernelArtifact(ptx=text, launch=msgspec.convert(launch, LaunchSpec))
        for name, (text, launch) in stored.items()
    }


def write_kernels(path: Path, kernels: Mapping[str, KernelArtifact]) -> None:
    """Write such a file."""
    plain = {name: (kernel.ptx, msgspec.to_builtins(kernel.launch)) for name, kernel in kernels.items()}
    path.write_bytes(lzma.compress(json.dumps(plain).encode(), preset=9))
