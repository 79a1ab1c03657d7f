"""Runs the recorded programs (tests/recordings) on the simulator."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from recordings.program_text import contents

from convc.ir.launch import BufferSpec, LaunchSpec, PointerParam, ScalarParam, TensorMapParam
from convc.ir.tensormap import TensorMap
from convc.machine import RunResult, run

FOLDER = Path(__file__).resolve().parents[2] / "recordings"
COMPLETED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A program and what the GPU made of it: status (1, or minus the CUDA error), buffers after it."""

    program: dict
    status: int
    after: dict[str, np.ndarray]

    @property
    def name(self) -> str:
        """What the program is about."""
        return self.program["name"]


@lru_cache(maxsize=2)
def recordings(file: str = "copies_h200.npz") -> tuple[Recording, ...]:
    """All recorded programs of a file."""
    with np.load(FOLDER / file) as stored:
        data = {key: stored[key] for key in stored.files}
    found, start = [], 0
    for program, status, end in zip(
        json.loads(data["programs"].tobytes()), data["status"].tolist(), data["ends"].tolist(), strict=True
    ):
        after = {}
        for name, before in initial(program).items() if status == COMPLETED else ():
            after[name] = before ^ data["changed"][start : start + before.size]
            start += before.size
        assert start == end
        found.append(Recording(program=program, status=status, after=after))
    return tuple(found)


def matrix_programs() -> list[dict]:
    """The recorded programs about wmma."""
    with np.load(FOLDER / "matrices_h100.npz") as stored:
        return json.loads(stored["programs"].tobytes())


def initial(program: dict) -> dict[str, np.ndarray]:
    """The buffers before the launch, uint8 each."""
    return {name: contents(kind, seed, size) for name, (kind, seed, size) in program["buffers"].items()}


def execute_program(program: dict, buffers: dict[str, np.ndarray] | None = None, **options) -> RunResult:
    """One launch of a program, on its own buffers or on those given (uint8)."""
    buffers = initial(program) if buffers is None else buffers
    return run(program["text"], launch_of(program, buffers), buffers, **options)


def launch_of(program: dict, buffers: dict[str, np.ndarray]) -> LaunchSpec:
    """How a program is launched on buffers."""
    maps = [TensorMap(**{k: tuple(v) if isinstance(v, list) else v for k, v in m.items()}) for m in program["maps"]]
    params = (
        *(TensorMapParam(map=m) for m in maps),
        *(PointerParam(buffer=name) for name in buffers),
        *(ScalarParam(dtype="u32", value=number & 0xFFFFFFFF) for number in program["numbers"]),
    )
    return LaunchSpec(
        entry="k",
        grid=tuple(program["grid"]),
        block=tuple(program["block"]),
        cluster=tuple(program["cluster"]),
        shared_bytes=program["shared"],
        params=params,
        buffers={name: BufferSpec(dtype="u8", shape=(data.size,)) for name, data in buffers.items()},
    )
