"""Arguments of the verbs about builds and the machine, in the form that the rooms behind them take."""

from __future__ import annotations

from pathlib import Path

from convc.api.arguments import file_or, given_options
from convc.api.options import MachineOptions
from convc.build.folder import Build, load_build
from convc.machine import RunOptions
from convc.machine.base.switches import parse_switches

BuildSource = str | Path | Build
"""A build: its folder, or opened."""


def opened(build: BuildSource) -> Build:
    """An open build; `BuildError` where the folder is damaged, or is no build."""
    file_or(build, (Build,), "build", "a folder, or an open Build")
    return build if isinstance(build, Build) else load_build(build)


def run_options(machine: MachineOptions | None) -> RunOptions:
    """The machine's own options; `InputError` and `LaunchError` for switches and settings that there are not."""
    chosen = given_options(machine, MachineOptions, "machine")
    return RunOptions(switches=parse_switches(chosen.switches, numerics=chosen.numerics))
