"""The verb `record`: a CUDA host program, run without a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from convc.api.arguments import file_name, wrong_type
from convc.api.inputs import run_options
from convc.api.options import MachineOptions
from convc.errors import InputError
from convc.recorder.program import Recording, record_program
from convc.recorder.session import RecordOptions


def record(
    command: Sequence[str],
    *,
    target: str = "sm_100a",
    sms: int | None = None,
    check: bool = False,
    emit_launch: str | Path | None = None,
    machine: MachineOptions | None = None,
    stdout: TextIO | int | None = None,
) -> Recording:
    """Run a CUDA host program to its end, its kernels on the simulator.

    The program has PTX in it; it is built by nvcc, or loads the driver itself. Its memory, copies, tensor maps and
    launches are those of the simulator; streams are in program order.

    Args:
        command: the program and its arguments.
        target: of the device that the program sees, ``sm_100a`` or ``sm_90a``.
        sms: multiprocessors of that device, for programs that launch as many CTAs; None: 148 or 132.
        check: have every checker watch each launch, as `convc.check` does.
        emit_launch: a folder that gets a folder for each launch, as ``convc exec`` runs it.
        machine: how the simulator reads kernels.
        stdout: where the program's output goes; None: to that of this process.

    Returns:
        Its exit status, and what was found in each launch.

    Raises:
        InputError: there is no such program, or it needs what stands in for nothing here.
        ToolError: there is no C compiler.
        PtxSyntaxError, UnmodelledError: the simulator does not take a kernel of it.

    Example, of a program of one kernel:
        >>> convc.record(["./saxpy"], check=True)  # doctest: +SKIP
        <Recording ./saxpy: exit status 0, 1 launch, clean>
    """
    if isinstance(command, str) or not all(isinstance(word, str) for word in command):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise wrong_type("command", "a list of the program and its arguments", command)
    if not command:
        raise InputError("there is no program to record", hint='convc.record(["./program", "argument"])')
    if sms is not None and not isinstance(sms, int):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise wrong_type("sms", "a number of multiprocessors", sms)
    file_name(emit_launch, "emit_launch")
    folder = None if emit_launch is None else Path(emit_launch)
    if folder is not None:
        _make(folder)
    options = RecordOptions(target=target, sms=sms, check=check, machine=run_options(machine), folder=folder)
    return record_program(command, options, stdout)


def _make(folder: Path) -> None:
    """Make the folder of the launches; one that has something in it is refused."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        full = any(folder.iterdir())
    except OSError as problem:
        raise InputError(f"no folder can be made there: {problem.strerror}", where=str(folder)) from None
    if full:
        raise InputError("the folder of the launches has something in it", where=str(folder), hint="name a new folder")
