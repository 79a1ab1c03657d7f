"""Arguments of the verbs about builds and the machine, in the form that the rooms behind them take."""

from __future__ import annotations

from pathlib import Path

from convc.api.options import MachineOptions
from convc.build.folder import Build, load_build
from convc.machine import RunOptions
from convc.machine.base.switches import parse_switches
from convc.support.memory import available_memory

BuildSource = str | Path | Build
"""A build: its folder, or opened."""


def opened(build: BuildSource) -> Build:
    """An open build; `BuildError` where the folder is damaged, or is no build."""
    return build if isinstance(build, Build) else load_build(build)


def run_options(machine: MachineOptions | None) -> RunOptions:
    """The machine's own options; `InputError` and `LaunchError` for switches and settings that there are not."""
    chosen = machine or MachineOptions()
    switches = parse_switches(chosen.switches, numerics=chosen.numerics)
    available = available_memory()
    return RunOptions(switches=switches) if available is None else RunOptions(switches=switches, memory_bytes=available)
