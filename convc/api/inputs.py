"""Arguments of the verbs about builds and the simulator, in the form that the packages behind them take."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from convc.api.arguments import file_or, given_options, whole
from convc.api.options import MachineOptions
from convc.build.folder import Build, load_build
from convc.errors import InputError
from convc.machine import RunOptions
from convc.machine.base.switches import parse_switches
from convc.runtime.layer import to_standard_dtype
from convc.support.arrays import write_npz
from convc.support.files import check_target, to_npy_dtype, write_npy
from convc.support.memory import available_memory


@dataclass(frozen=True, slots=True, kw_only=True)
class InputData:
    """The inputs of a run.

    Attributes:
        arrays: arrays, or the files that hold them, by name or as the only one; of a layer the names are ``x`` and
            ``residual``.
        seed: draw the others at random; None: all must be there.
        save: file to write all inputs to that are used, before they are: ``.npz``, or ``.npy`` for a single one.
    """

    arrays: Any = None
    seed: int | None = None
    save: str | Path | None = None

    def check(self) -> None:
        """Raise `InputError` for a seed that there is not, or where nothing can be written to the file."""
        if self.seed is not None and self.seed < 0:
            raise InputError(f"seed must be at least 0, got {self.seed}")
        if self.save is not None:
            check_target(Path(self.save))

    def keep(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Write the inputs that are used where they are wanted; bfloat16 as float32."""
        if self.save is None:
            return
        target = Path(self.save)
        values = {name: to_npy_dtype(to_standard_dtype(array)) for name, array in arrays.items()}
        if target.suffix != ".npy":
            write_npz(target, values)
        elif len(values) == 1:
            write_npy(target, next(iter(values.values())))
        else:
            raise InputError(f"{len(values)} inputs do not fit into a .npy file", where=str(target), hint="name a .npz")


BuildSource = str | Path | Build
"""A build: its folder, or opened."""


def opened(build: BuildSource) -> Build:
    """An open build; `BuildError` where the folder is damaged, or is no build."""
    file_or(build, (Build,), "build", "a folder, or an open Build")
    return build if isinstance(build, Build) else load_build(build)


def run_options(machine: MachineOptions | None, numerics: str = "float32") -> RunOptions:
    """The simulator's own options; ``numerics`` are those of the verb, where the caller left them open.

    Raises:
        InputError, LaunchError: a switch or a setting that there is not.
    """
    chosen = given_options(machine, MachineOptions, "machine")
    switches = parse_switches(chosen.switches, numerics=chosen.numerics or numerics)
    options = RunOptions(switches=switches)
    if chosen.max_instructions is not None:
        most = whole(chosen.max_instructions, "max_instructions", 1)
        options = dataclasses.replace(options, max_instructions=most)
    available = available_memory()
    return options if available is None else dataclasses.replace(options, memory_bytes=available)
