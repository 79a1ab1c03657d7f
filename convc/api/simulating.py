"""The verb `simulate`: any PTX kernel with a launch file, also of other compilers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
from msgspec.structs import replace

from convc import machine as simulator
from convc.api.arguments import by_name, file_name, file_or, wrong_type
from convc.api.inputs import run_options
from convc.api.kept import check_kept
from convc.api.options import MachineOptions
from convc.errors import LaunchError
from convc.ir.findings import Finding, Judged
from convc.ir.launch import LaunchSpec, load_launch
from convc.machine import Counters, RunResult
from convc.machine.base.findings import failure as failure
from convc.runtime.launch_files import buffer_files, read_buffers, save_targets
from convc.sanitizer.run import check_kernel
from convc.support.counted import counted
from convc.support.files import read_text, to_npy_dtype, write_npy
from convc.support.progress import Progress, Tell


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation(Judged):
    """A launch that came to an end, or that faulted while checkers watched.

    Attributes:
        entry: name of the kernel.
        buffers: every buffer after the launch, with the type and shape of the launch file.
        findings: what the simulator noticed, and the checkers where they watched, worst first.
        counters: what the simulator counted.
        seconds: wall time of the simulation.
        saved: files that were written, by buffer.

    A kernel that faults or hangs while checkers watch has findings alone: no buffers, and None for the rest.
    """

    entry: str
    buffers: Mapping[str, np.ndarray]
    findings: tuple[Finding, ...]
    counters: Counters | None
    seconds: float | None
    saved: Mapping[str, Path]

    def __repr__(self) -> str:
        return f"<Simulation {self.entry}: {self.verdict.name}, {counted(len(self.findings), 'finding')}>"


def simulate(  # noqa: PLR0913 - each is one choice, and most are left out
    kernel: str | Path,
    launch: LaunchSpec | str | Path,
    buffers: Mapping[str, np.ndarray] | None = None,
    *,
    folder: str | Path | None = None,
    check: bool = False,
    dependent: Sequence[str] | None = None,
    all_switches: bool = False,
    machine: MachineOptions | None = None,
    progress: Tell | None = None,
) -> Simulation:
    """Run any PTX kernel on the simulator, which knows nothing of convolutions.

    Args:
        kernel: the text, or its file; a text has more than one line.
        launch: how it is launched, or the launch file that says it (`convc.ir.launch`).
        buffers: contents of buffers by name, in place of what their files hold; any type of the right size.
        folder: where the launch's files are; by default beside the launch file, and without one the current folder.
        check: have every checker watch, as `convc.check` does.
        dependent: where a kernel with ``griddepcontrol`` is checked, buffers that the preceding kernel may still use,
            in place of those that the launch names.
        all_switches: check, and run also under every other setting of every switch.
        machine: how the simulator reads the kernel.
        progress: called with the entry and the share of its CTAs that are done, 0 to 1.

    Returns:
        The buffers as the kernel left them, what was found and what was counted; buffers that the launch saves were
        written.

    Raises:
        InputError, LaunchError: a file is missing, or the launch does not fit the kernel or the buffers.
        PtxSyntaxError, UnmodelledError: the simulator does not take the text.
        MachineFault, DeadlockError: the kernel fails, and no checker watches.

    Example:
        >>> numbers = np.arange(1000, dtype=np.float32)
        >>> done = convc.simulate("saxpy/kernel.ptx", "saxpy/launch.json", {"x": numbers, "y": numbers})
        >>> done
        <Simulation saxpy: clean, 0 findings>
        >>> float(done.buffers["y"][-1])
        3496.5
    """
    file_or(kernel, (), "kernel", "a text of PTX, or the name of its file")
    file_or(launch, (LaunchSpec,), "launch", "the name of a launch file, or a LaunchSpec")
    file_name(folder, "folder")
    by_name(buffers, "buffers", "arrays")
    for name, array in (buffers or {}).items():
        if not isinstance(array, np.ndarray):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise wrong_type(f"buffers[{name!r}]", "an array", array)
    text, file = _text(kernel)
    spec = launch if isinstance(launch, LaunchSpec) else load_launch(Path(launch))
    if dependent is not None:
        spec = replace(spec, dependent=_buffers(dependent))
        spec.check("dependent" if isinstance(launch, LaunchSpec) else str(launch))
    where = _folder(launch, folder)
    targets = save_targets(spec, where)
    for target in targets.values():
        check_kept(target, [*_paths(kernel, launch), *buffer_files(spec, where)])
    given = dict(buffers or {})
    contents = read_buffers(spec, where, given) | given
    options = run_options(machine)
    told = Progress(progress).launch(spec.entry)
    result: RunResult | None
    try:
        if check or all_switches:
            checked = check_kernel(
                text, spec, contents, file=file, options=options, all_switches=all_switches, progress=told
            )
            result = checked.result
            findings = checked.findings
        else:
            result = simulator.run(text, spec, contents, file=file, options=options, progress=told)
            findings = result.findings
    except LaunchError as error:
        error.where = error.where or ("" if isinstance(launch, LaunchSpec) else str(launch))
        raise
    if result is None:
        return Simulation(entry=spec.entry, buffers={}, findings=findings, counters=None, seconds=None, saved={})
    for name, target in targets.items():
        write_npy(target, to_npy_dtype(result.buffers[name]))
    return Simulation(
        entry=spec.entry,
        buffers=result.buffers,
        findings=findings,
        counters=result.counters,
        seconds=result.seconds,
        saved=targets,
    )


def _buffers(names: object) -> tuple[str, ...]:
    """Names of buffers; `InputError` for anything else."""
    if isinstance(names, str | bytes) or not isinstance(names, Iterable):
        raise wrong_type("dependent", "the names of buffers", names)
    named = tuple(cast("Iterable[object]", names))
    if not all(isinstance(name, str) for name in named):
        raise wrong_type("dependent", "the names of buffers", cast("object", names))
    return cast("tuple[str, ...]", named)


def _text(kernel: str | Path) -> tuple[str, str]:
    """The kernel's text, and what it is called in messages."""
    if isinstance(kernel, str) and "\n" in kernel:
        return kernel, "kernel.ptx"
    return read_text(Path(kernel)), str(kernel)


def _paths(kernel: str | Path, launch: LaunchSpec | str | Path) -> list[Path]:
    texts = [] if isinstance(kernel, str) and "\n" in kernel else [Path(kernel)]
    return texts if isinstance(launch, LaunchSpec) else [*texts, Path(launch)]


def _folder(launch: LaunchSpec | str | Path, folder: str | Path | None) -> Path:
    if folder is not None:
        return Path(folder)
    return Path() if isinstance(launch, LaunchSpec) else Path(launch).parent
