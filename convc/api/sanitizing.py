"""The verb `sanitize`: what NVIDIA's compute-sanitizer says of a launch on a GPU, beside what convc's checkers say."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from convc.api.inputs import BuildSource, run_options
from convc.api.launch_jobs import KernelInputs, LaunchJob, launch_job
from convc.api.options import MachineOptions
from convc.errors import InputError
from convc.gpu.compute_sanitizer import TOOLS, ToolRun, require_compute_sanitizer, run_tool
from convc.gpu.cuda import require_bindings
from convc.ir.findings import Finding, Verdict, worst
from convc.ir.launch import LaunchSpec, dump_launch
from convc.sanitizer.run import check_kernel
from convc.support.files import to_npy_dtype, write_bytes, write_npy
from convc.support.progress import Progress, Tell

PATIENCE = 20
"""Times as long as a launch may take, and takes under a tool."""

LAUNCHING = (sys.executable, "-m", "convc", "launch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sanitized:
    """A launch under compute-sanitizer, and under convc's checkers.

    Attributes:
        entry: name of the kernel.
        tools: what each tool of compute-sanitizer said.
        findings: of convc's checkers; None where they cannot read the kernel, since it is machine code.
    """

    entry: str
    tools: tuple[ToolRun, ...]
    findings: tuple[Finding, ...] | None

    @property
    def verdict(self) -> Verdict:
        """The verdict of convc's checkers."""
        return worst(self.findings or ())

    @property
    def ok(self) -> bool:
        """Neither found anything wrong."""
        return all(tool.ok for tool in self.tools) and self.verdict < Verdict.incomplete

    def __repr__(self) -> str:
        wrong = [tool.tool for tool in self.tools if not tool.ok]
        return f"<Sanitized {self.entry}: {', '.join(wrong) or 'nothing'} found, convc: {self.verdict.name}>"


def sanitize(
    kernel: BuildSource,
    launch: LaunchSpec | str | Path | None = None,
    inputs: KernelInputs | None = None,
    *,
    tools: Sequence[str] = TOOLS,
    timeout: float = 60.0,
    machine: MachineOptions | None = None,
    progress: Tell | None = None,
) -> Sanitized:
    """Launch a kernel under NVIDIA's compute-sanitizer, and check it on the simulator.

    Args:
        kernel, launch, inputs: as of `launch`.
        tools: of compute-sanitizer, each of which launches the kernel once.
        timeout: seconds to wait for a launch; under a tool it may take `PATIENCE` times as long.
        machine: how the simulator reads the kernel.
        progress: called with what is being done and the share of it that is done, 0 to 1.

    Returns:
        What each tool said, and what convc's checkers found.

    Raises:
        ToolError: compute-sanitizer is not installed, or does not end in time.
        GpuError: `cuda-bindings` are not installed.
        InputError, LaunchError, BuildError, PtxSyntaxError, UnmodelledError: as of `launch`.

    Example, which needs a GPU and compute-sanitizer:
        >>> done = convc.sanitize("build", inputs=convc.KernelInputs(seed=1))  # doctest: +SKIP
    """
    for tool in tools:
        if tool not in TOOLS:
            raise InputError(f"a tool is one of {', '.join(TOOLS)}, got {tool!r}")
    program = require_compute_sanitizer()
    require_bindings()
    job = launch_job(kernel, launch, inputs or KernelInputs())
    told = Progress(progress)
    with tempfile.TemporaryDirectory(prefix="convc-sanitize-") as folder:
        command = [*LAUNCHING, *_written(job, Path(folder)), "--timeout", f"{PATIENCE * timeout:g}"]
        ran: list[ToolRun] = []
        for index, tool in enumerate(tools):
            told(tool, index / (len(tools) + 1))
            ran.append(run_tool(program, tool, command, PATIENCE * timeout))
    findings = None
    if job.text:
        told("check", len(tools) / (len(tools) + 1))
        checked = check_kernel(job.text, job.launch, job.contents, file=job.file, options=run_options(machine))
        findings = checked.findings
    return Sanitized(entry=job.launch.entry, tools=tuple(ran), findings=findings)


def _written(job: LaunchJob, folder: Path) -> list[str]:
    """Write a kernel, its launch file and the contents of its buffers; the words that launch them."""
    kernel = folder / ("kernel.ptx" if job.text else "kernel.cubin")
    write_bytes(kernel, job.image)
    buffers = {name: msgspec.structs.replace(spec, file=None, save=None) for name, spec in job.launch.buffers.items()}
    write_bytes(folder / "launch.json", dump_launch(msgspec.structs.replace(job.launch, buffers=buffers)))
    words = [str(kernel), str(folder / "launch.json")]
    contents: Mapping[str, np.ndarray] = job.contents
    for number, (name, array) in enumerate(contents.items()):
        file = folder / f"{number}.npy"
        write_npy(file, to_npy_dtype(array))
        words += ["--input", f"{name}={file}"]
    return words
