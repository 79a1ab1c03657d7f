"""A kernel of a probe: a frame, a PTX file of this package, with a few instructions of the probe in its middle."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from convc.ir.dtypes import ARRAY_TYPES
from convc.ir.launch import BufferSpec, LaunchSpec, Param, PointerParam

FRAMES = Path(__file__).with_name("frames")
"""The folder of the frames; a line ``// BODY`` or ``// EVERY`` is where a probe's own instructions go."""

VERSIONS = {"sm_90a": "8.0", "sm_100a": "8.7"}
"""The PTX version of each target's text: the first that has what the probes use."""

OUT = "out"
"""The buffer that a probe's kernel leaves its answer in."""

_TYPES = {"uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64"}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProbeKernel:
    """A kernel, its launch, and what its buffers hold before; those without contents are not read."""

    text: str
    launch: LaunchSpec
    buffers: Mapping[str, np.ndarray]

    @property
    def out_bytes(self) -> int:
        """Bytes of its answer."""
        return self.launch.buffers[OUT].size_bytes


def probe_text(frame: str, target: str, body: str, every: str = "") -> str:
    """The text of a frame for a target, with the instructions of one thread (or warp), and of all threads."""
    lines: list[str] = []
    for line in _frame(frame).splitlines():
        if line.startswith(".version"):
            line = f".version {VERSIONS[target]}"
        elif line.startswith(".target"):
            line = f".target {target}"
        elif line in ("// BODY", "// EVERY"):
            line = (body if line == "// BODY" else every).strip("\n")
        lines.append(line)
    return "\n".join(lines) + "\n"


@functools.cache
def _frame(name: str) -> str:
    return (FRAMES / f"{name}.ptx").read_text(encoding="utf-8")


def probe_kernel(
    text: str,
    buffers: Mapping[str, np.ndarray],
    *,
    threads: int,
    ctas: int = 1,
    shared_bytes: int = 0,
    params: tuple[Param, ...] = (),
    unread: Mapping[str, int] | None = None,
) -> ProbeKernel:
    """A kernel with its launch.

    Args:
        text: PTX with the entry ``probe``.
        buffers: contents before the launch, `OUT` among them.
        threads: of a CTA. ctas: of the grid.
        shared_bytes: dynamic shared memory of a CTA.
        params: by default a pointer to each buffer, in their order.
        unread: bytes of more buffers, whose contents do not matter.
    """
    specs = {name: BufferSpec(dtype=_TYPES[array.dtype.name], shape=array.shape) for name, array in buffers.items()}
    specs |= {name: BufferSpec(dtype="u8", shape=(size,)) for name, size in (unread or {}).items()}
    launch = LaunchSpec(
        entry="probe",
        grid=(ctas, 1, 1),
        block=(threads, 1, 1),
        shared_bytes=shared_bytes,
        buffers=specs,
        params=params or tuple(PointerParam(buffer=name) for name in buffers),
    )
    return ProbeKernel(text=text, launch=launch, buffers=buffers)


def out_array(kernel: ProbeKernel, data: bytes) -> np.ndarray:
    """The answer in the type and shape of its buffer."""
    spec = kernel.launch.buffers[OUT]
    return np.frombuffer(data, ARRAY_TYPES[spec.dtype]).reshape(spec.shape)
