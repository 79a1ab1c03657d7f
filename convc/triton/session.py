"""A session: the launches of a Triton program, what was found in them, and how long they take."""

from __future__ import annotations

import time as clock
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from convc import api
from convc.api.options import ChipOptions, MachineOptions
from convc.api.simulating import Simulation
from convc.api.timer import chip_of
from convc.errors import ConvcError, FindingsError
from convc.foreign.signature import entry_of, leaves, parameters
from convc.foreign.source_lines import source_lines, with_source
from convc.ir.dtypes import ARRAY_TYPES
from convc.ir.findings import Finding, Judged, Verdict
from convc.ir.launch import BufferSpec, LaunchSpec, PointerParam, dump_launch
from convc.machine import Counters
from convc.report.launch import finding_lines
from convc.support.files import to_npy_dtype, write_npy
from convc.timing.kernel import KernelTime, time_kernel
from convc.triton.buffers import Buffers

KEPT_BYTES = 1 << 30
"""Contents of buffers that are kept for `time`, in all; launches behind that are timed with zeros."""

SCRATCH = ("scratch", "profile")
"""Buffers of memory that Triton's launcher allocates for a kernel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A kernel as Triton's runtime calls it.

    Attributes:
        name: of the kernel. text: PTX. file: where Triton keeps it.
        signature: Triton's types by name of the argument.
        maps: what the compiler says of each tensor descriptor.
        ctas: of a cluster.
        shared: bytes of shared memory of a CTA.
        scratch: bytes of scratch memory and of the profiler's memory for each CTA.
    """

    name: str
    text: str
    file: str
    signature: Mapping[str, Any]
    maps: Sequence[Mapping[str, Any]]
    ctas: int
    shared: int
    scratch: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class TritonLaunch(Judged):
    """A launch that was made.

    Attributes:
        name: of the kernel. text: PTX. spec: how it was launched.
        findings: worst first, at Triton's source lines.
        counters: what the simulator counted; None where the kernel did not come to an end.
        seconds: wall time of the simulation, checks included.
        contents: of the buffers before the launch; empty where more was kept than `KEPT_BYTES`.
    """

    name: str
    text: str
    spec: LaunchSpec
    findings: tuple[Finding, ...]
    counters: Counters | None
    seconds: float
    contents: Mapping[str, np.ndarray]

    def save(self, folder: str | Path) -> Path:
        """Write kernel.ptx, launch.json and the buffers, which ``convc exec``, ``time`` and ``draw`` take."""
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        (target / "kernel.ptx").write_text(self.text, encoding="utf-8")
        buffers: dict[str, BufferSpec] = {}
        for name, spec in self.spec.buffers.items():
            file = f"{name}.npy"
            if name in self.contents:
                write_npy(target / file, to_npy_dtype(_typed(self.contents[name], spec)))
                spec = BufferSpec(dtype=spec.dtype, shape=spec.shape, file=file)
            buffers[name] = spec
        launch = LaunchSpec(
            entry=self.spec.entry,
            grid=self.spec.grid,
            block=self.spec.block,
            cluster=self.spec.cluster,
            shared_bytes=self.spec.shared_bytes,
            buffers=buffers,
            params=self.spec.params,
        )
        (target / "launch.json").write_bytes(dump_launch(launch))
        return target

    def __repr__(self) -> str:
        grid = "x".join(map(str, self.spec.grid))
        return f"<Launch {self.name}: grid {grid}, {self.verdict.name}, {len(self.findings)} findings>"


class Session:
    """Runs the launches of a program on the simulator.

    Args:
        target: what kernels are compiled for.
        check: let every checker watch.
        raises: raise `FindingsError` behind a launch in which an error was found.
        strict: raise it for what the manual forbids, too.
        machine: how the simulator reads kernels.
    """

    def __init__(
        self, target: str, *, check: bool, raises: bool, strict: bool, machine: MachineOptions | None = None
    ) -> None:
        self.target = target
        self.check = check
        self.raises = raises
        self.strict = strict
        self.machine = machine
        self.launches: list[TritonLaunch] = []
        self._kept = 0

    def run(self, call: Call, grid: tuple[int, int, int], values: Sequence[Any]) -> None:
        """Run a launch, and leave its results in the caller's arrays.

        Args:
            call: the kernel.
            grid: as Triton counts it: clusters along x.
            values: one for each argument of the signature, constants too.

        Raises:
            FindingsError: an error was found.
            InputError, LaunchError, PtxSyntaxError, UnmodelledError: the launch is not one that the simulator runs.
            MachineError: no checker watches, and the kernel fails.
        """
        if 0 in grid:
            return  # Triton launches nothing then
        placed = Buffers(dict(_arrays(call.signature, values)))
        spec, contents = _planned(call, grid, values, placed)
        begun = clock.perf_counter()
        try:
            done = api.simulate(call.text, spec, contents, check=self.check, machine=self.machine)
        except ConvcError as error:
            error.where = error.where or _where(error, call)
            raise
        if done.buffers:
            placed.write_back(dict(done.buffers))
        self._note(call, spec, contents, done, clock.perf_counter() - begun)

    def times(self, options: ChipOptions, first: int = 0) -> tuple[KernelTime, ...]:
        """The time of each launch from a number on, on a chip; those alike are timed once."""
        chip = chip_of(options, self.target)
        timed: dict[tuple[str, bytes], KernelTime] = {}
        out: list[KernelTime] = []
        for launch in self.launches[first:]:
            key = (launch.text, dump_launch(launch.spec))
            if key not in timed:
                timed[key] = time_kernel(
                    launch.text, launch.spec, launch.contents, chip, cold=options.cold, sass=options.sass
                )
            out.append(timed[key])
        return tuple(out)

    def _note(
        self, call: Call, spec: LaunchSpec, contents: dict[str, np.ndarray], done: Simulation, seconds: float
    ) -> None:
        """Record a launch, and raise what is wrong with it."""
        self._kept += sum(array.nbytes for array in contents.values())
        launch = TritonLaunch(
            name=call.name,
            text=call.text,
            spec=spec,
            findings=with_source(done.findings, call.text, call.file),
            counters=done.counters,
            seconds=seconds,
            contents=contents if self._kept <= KEPT_BYTES else {},
        )
        self.launches.append(launch)
        bad = launch.verdict >= (Verdict.rule if self.strict else Verdict.incomplete)
        if self.raises and bad:
            lines = finding_lines(each for each in launch.findings if each.verdict >= Verdict.rule or self.strict)
            count = f"{len(launch.findings)} finding{'s' if len(launch.findings) > 1 else ''}"
            raise FindingsError(
                "\n".join([f"{call.name}: {launch.verdict.name}, {count}", *lines]), findings=launch.findings
            )


def _arrays(signature: Mapping[str, Any], values: Sequence[Any]) -> list[tuple[str, Any]]:
    """Arrays by name of the argument: behind pointers, and the bases of descriptors."""
    out: list[tuple[str, Any]] = []
    for name, kind, value in leaves(tuple(signature.values()), values, tuple(signature)):
        if kind.startswith("*"):
            out.append((name, value))
        elif kind.startswith("tensordesc"):
            out.append((name, value.base))
    return out


def _planned(
    call: Call, grid: tuple[int, int, int], values: Sequence[Any], placed: Buffers
) -> tuple[LaunchSpec, dict[str, np.ndarray]]:
    """How the simulator launches it, and the contents of its buffers."""
    entry = entry_of(call.text, call.name)
    ctas = grid[0] * grid[1] * grid[2] * call.ctas
    buffers = {piece.name: piece.spec for piece in placed.pieces}
    contents = {piece.name: piece.contents() for piece in placed.pieces}
    ends: list[PointerParam | None] = []
    for name, size in zip(SCRATCH, call.scratch, strict=True):
        own = name if name not in buffers else f"{name} of Triton"
        if size:
            buffers[own] = BufferSpec(dtype="u8", shape=(size * ctas,))
        ends.append(PointerParam(buffer=own) if size else None)
    params = parameters(call.text, call.signature, values, call.maps, placed, (ends[0], ends[1]), call.name)
    return (
        LaunchSpec(
            entry=entry.name,
            grid=(grid[0] * call.ctas, grid[1], grid[2]),
            block=entry.threads or (128, 1, 1),
            cluster=(call.ctas, 1, 1),
            shared_bytes=call.shared,
            buffers=buffers,
            params=params,
        ),
        contents,
    )


def _where(error: ConvcError, call: Call) -> str:
    """The line of source at which a kernel failed or is refused."""
    found = source_lines(call.text).at(error.span.line) if error.span is not None else None
    return call.file if found is None else f"{found.file}:{found.line}"


def _typed(contents: np.ndarray, spec: BufferSpec) -> np.ndarray:
    """Bytes as elements of a buffer."""
    return contents.view(ARRAY_TYPES[spec.dtype]).reshape(spec.shape)
