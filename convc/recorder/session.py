"""One recorded program's side of convc: every call that it makes is answered here, and its launches run here."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from convc.errors import ConvcError, InputError, LaunchError, LimitError, MachineError, UnmodelledError
from convc.ir.findings import Finding, Judged
from convc.ir.launch import BufferSpec, LaunchSpec, StructParam, dump_launch
from convc.machine import Counters, RunOptions, RunResult, run
from convc.machine.base.findings import failure
from convc.recorder import device
from convc.recorder.encoders import encoded
from convc.recorder.memory import HOST_NUMBERS, DeviceMemory
from convc.recorder.modules import Function, Module, function_of
from convc.recorder.units import module_text
from convc.recorder.wire import Answer, Question, What
from convc.sanitizer.run import check_kernel
from convc.support.files import write_bytes, write_npy

CLUSTER = 4
OVERLAPS = 6
"""Attributes of a launch (``CUlaunchAttributeID``): extents of a cluster, programmatic stream serialization."""

KNOWN_ATTRIBUTES = frozenset(range(17))
"""Those that are taken, most of which change nothing here: policies, priorities, domains."""

PORTABLE_CLUSTER = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordOptions:
    """Options of a recording.

    Attributes:
        target: of the device that the program sees, ``sm_100a`` or ``sm_90a``.
        sms: of that device; None: as many as a B200 or an H100 has.
        check: have every checker watch each launch.
        machine: how the simulator reads kernels.
        folder: where a folder for each launch goes, or None.
    """

    target: str = "sm_100a"
    sms: int | None = None
    check: bool = False
    machine: RunOptions = RunOptions()  # noqa: RUF009 - frozen record
    folder: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedLaunch(Judged):
    """A launch that the program made.

    Attributes:
        counters, seconds: of its simulation; None where it did not come to an end.
        findings: what was noticed, worst first.
    """

    entry: str
    file: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    shared_bytes: int
    counters: Counters | None
    seconds: float | None
    findings: tuple[Finding, ...]


@dataclass(eq=False)
class Session:
    """One program, as far as it is known.

    Attributes:
        launches: in the order of the program.
        notes: calls that were answered with an error of the driver, and why.
        refused: why the program was ended, or None.
    """

    program: str
    options: RecordOptions
    memory: DeviceMemory = field(default_factory=DeviceMemory)
    launches: list[RecordedLaunch] = field(default_factory=list[RecordedLaunch])
    notes: list[str] = field(default_factory=list[str])
    refused: ConvcError | None = None

    def __post_init__(self) -> None:
        self._arch = device.arch_of(self.options.target)
        self._sms = device.sms_of(self._arch, self.options.sms)
        self._attributes = device.attributes(self._arch, self._sms)
        self._modules: list[Module] = []
        self._functions: list[Function] = []
        self._changed: tuple[str, ...] = ()
        self._failed = 0
        self._answers: dict[What, Callable[[Question], Answer]] = {
            What.HELLO: lambda _: Answer(data=self.memory.path.encode()),
            What.DEVICE: lambda question: Answer(numbers=(self._attributes.get(question.numbers[0], 0),)),
            What.ALLOC: self._allocate,
            What.FREE: lambda question: Answer(0 if self.memory.give_back(question.numbers[0]) else 1),
            What.LOAD: self._load,
            What.KERNEL: self._kernel,
            What.GLOBAL: self._variable,
            What.NAMES: self._names,
            What.GET: self._get,
            What.SET: self._set,
            What.LAUNCH: self._launch,
            What.OCCUPANCY: self._occupancy,
            What.ENCODE: self._encode,
            What.ERROR: _error,
            What.MISSING: self._missing,
        }

    def answer(self, question: Question) -> Answer | None:
        """The answer to a question; None where the program is to be ended, and `refused` says why."""
        try:
            return self._answers[question.what](question)
        except ConvcError as problem:
            self.refused = problem
        except (IndexError, ValueError):
            self.refused = InputError(f"the program's stand-in sent an unknown form of {question.what.name}")
        return None

    def _note(self, message: str) -> None:
        if message not in self.notes:
            self.notes.append(message)

    def _allocate(self, question: Question) -> Answer:
        size, kind = question.numbers
        if not size:
            return Answer(device.INVALID_VALUE)
        try:
            taken = self.memory.take(size, host=kind > 0)
        except LimitError as problem:
            self._note(problem.message)
            return Answer(device.OUT_OF_MEMORY)
        return Answer(numbers=(taken.number, taken.place))

    def _load(self, question: Question) -> Answer:
        number = len(self._modules) + 1
        text = module_text(question.data, self.options.target, self.program)
        file = f"{Path(self.program).name}.{number}.ptx"
        self._modules.append(Module(number=number, text=text, file=file))
        return Answer(numbers=(number,))

    def _module(self, number: int) -> Module:
        return self._modules[number - 1]

    def _kernel(self, question: Question) -> Answer:
        module = self._module(question.numbers[0])
        known = (each for each in self._functions if each.module is module and each.entry == question.text)
        function = next(known, None) or function_of(module, question.text, self.memory)
        if function is None:
            return Answer(device.NOT_FOUND)
        if function not in self._functions:
            self._functions.append(function)
        places = [number for slot in function.parameters for number in (slot.offset, slot.size)]
        return Answer(numbers=(self._functions.index(function) + 1, len(function.parameters), *places))

    def _function(self, number: int) -> Function:
        return self._functions[number - 1]

    def _variable(self, question: Question) -> Answer:
        held = self._module(question.numbers[0]).variable(question.text, self.memory)
        if held is None:
            return Answer(device.NOT_FOUND)
        return Answer(numbers=(held.number, held.place, held.bytes.size, int(held.number in HOST_NUMBERS)))

    def _names(self, question: Question) -> Answer:
        names = self._module(question.numbers[0]).entries
        return Answer(numbers=(len(names),), data=b"".join(name.encode() + b"\0" for name in names))

    def _get(self, question: Question) -> Answer:
        number, which = question.numbers
        capability = self._attributes[75] * 10 + self._attributes[76]
        value = self._function(number).attribute(which, capability, self._arch.limits.shared_bytes)
        return Answer(numbers=(value,))

    def _set(self, question: Question) -> Answer:
        number, which, value = question.numbers
        function = self._function(number)
        room = self._arch.limits.shared_bytes - function.shared
        if which == 8 and value > room:
            self._note(f"{function.entry}: {value} bytes of dynamic shared memory were asked for, and {room} are left")
            return Answer(device.INVALID_VALUE)
        function.attributes[which] = value
        return Answer()

    def _occupancy(self, question: Question) -> Answer:
        number, threads, dynamic, ctas = question.numbers
        each = device.resident(threads, self._function(number).shared + dynamic)
        return Answer(numbers=(each, each * self._sms // max(1, ctas)))

    def _encode(self, question: Question) -> Answer:
        try:
            return Answer(data=encoded(question.numbers, self.memory))
        except LaunchError as problem:
            self._note(problem.message)
            return Answer(device.INVALID_VALUE)

    def _missing(self, question: Question) -> Answer:
        raise missing(question.text, self.program)

    def _launch(self, question: Question) -> Answer:
        if self._failed:
            return Answer(self._failed)
        number, *extents = question.numbers[:8]
        function = self._function(number)
        rest = question.numbers[8:]
        given = {rest[at]: rest[at + 1 : at + 4] for at in range(0, len(rest), 4)}
        try:
            spec = self._spec(function, tuple(extents), given, question.data)
        except LaunchError as problem:
            self._note(f"launch {len(self.launches) + 1}, {function.entry}: {problem.message}")
            return Answer(device.INVALID_VALUE)
        contents = {held.name: held.bytes for held in self.memory.alive.values()}
        if self.options.folder is not None:
            write_launch(self.options.folder, len(self.launches) + 1, function.module.text, spec, contents)
        result, findings = self._run(function.module, spec, contents)
        self.launches.append(
            RecordedLaunch(
                entry=spec.entry,
                file=function.module.file,
                grid=spec.grid,
                block=spec.block,
                cluster=spec.cluster,
                shared_bytes=spec.shared_bytes,
                counters=None if result is None else result.counters,
                seconds=None if result is None else result.seconds,
                findings=findings,
            )
        )
        if result is None:
            self._failed = device.LAUNCH_FAILED
            return Answer(self._failed)
        self._changed = tuple(self._give_back(contents, result))
        return Answer()

    def _run(
        self, module: Module, spec: LaunchSpec, contents: dict[str, np.ndarray]
    ) -> tuple[RunResult | None, tuple[Finding, ...]]:
        """Execute a launch; None where it fails, and a finding that says how."""
        if self.options.check:
            checked = check_kernel(module.text, spec, contents, file=module.file, options=self.options.machine)
            return checked.result, checked.findings
        try:
            result = run(module.text, spec, contents, file=module.file, options=self.options.machine)
        except MachineError as problem:
            return None, (failure(problem, module.file),)
        return result, result.findings

    def _give_back(self, contents: dict[str, np.ndarray], result: RunResult) -> list[str]:
        """Put what a launch left into the program's memory; the buffers that it changed."""
        changed: list[str] = []
        for name, bytes in contents.items():
            if not np.array_equal(bytes, result.buffers[name]):
                bytes[:] = result.buffers[name]
                changed.append(name)
        return changed

    def _spec(
        self, function: Function, extents: tuple[int, ...], given: dict[int, tuple[int, ...]], params: bytes
    ) -> LaunchSpec:
        """A launch of the program as a launch file has it; `LaunchError` where the driver would refuse it."""
        if unknown := set(given) - KNOWN_ATTRIBUTES:
            raise UnmodelledError(
                f"the launch of {function.entry} has attribute {min(unknown)}, which is not known here"
            )
        cluster = given.get(CLUSTER, function.cluster or (1, 1, 1))
        if np.prod(cluster) > PORTABLE_CLUSTER and not function.attributes.get(14):
            raise LaunchError(
                f"a cluster of {np.prod(cluster)} CTAs needs the function's attribute NON_PORTABLE_CLUSTER_SIZE_ALLOWED"
            )
        if extents[6] > function.dynamic_limit:
            raise LaunchError(
                f"{extents[6]} bytes of dynamic shared memory are more than the {function.dynamic_limit} that the "
                "function's attribute MAX_DYNAMIC_SHARED_SIZE_BYTES allows"
            )
        spec = LaunchSpec(
            entry=function.entry,
            grid=(extents[0], extents[1], extents[2]),
            block=(extents[3], extents[4], extents[5]),
            cluster=(cluster[0], cluster[1], cluster[2]),
            shared_bytes=extents[6],
            buffers={
                held.name: BufferSpec(
                    dtype="u8",
                    shape=(held.bytes.size,),
                    address=held.address,
                    variable=held.variable if function.module.variables.get(held.variable or "") is held else None,
                )
                for held in self.memory.alive.values()
            },
            params=tuple(
                StructParam(bytes=params[slot.offset : slot.offset + slot.size].hex()) for slot in function.parameters
            ),
            dependent=self._in_front() if given.get(OVERLAPS, (0,))[0] else (),
        )
        spec.check("launch")
        return spec

    def _in_front(self) -> tuple[str, ...]:
        """The buffers that the launch in front has changed, as far as they are still there."""
        alive = {held.name for held in self.memory.alive.values()}
        return tuple(name for name in self._changed if name in alive)


def _error(question: Question) -> Answer:
    """The name of an error, or what it means."""
    number, described = question.numbers
    return Answer(data=device.ERRORS.get(number, ("unknown error",) * 2)[described].encode())


def missing(name: str, program: str = "") -> ConvcError:
    """A function that the stand-in lacks, as an error that says what to do; ``program``: the one that calls it."""
    if name.startswith("cuGetExportTable"):
        return _own_runtime(name.partition(" ")[2], program)
    hint = "skip the call when the program is recorded, or run single kernels with convc exec"
    if "Graph" in name or "captured" in name or "Capture" in name:
        hint = "launch the work on a stream instead of a graph"
    elif re.search("Tex|Surf|Array|ChannelDesc", name):
        hint = "the simulator has no texture unit: read the tensor through a pointer (ld.global), or by a tensor map"
    return InputError(f"the program calls {name}, which convc record does not implement", hint=hint)


def _own_runtime(file: str, program: str) -> InputError:
    """NVIDIA's runtime, linked into a file of the program in a form that is not redirected."""
    if os.path.realpath(file) == os.path.realpath(program):
        return InputError(
            "NVIDIA's runtime is linked into the program, whose functions have no symbols: they cannot be redirected",
            where=file,
            hint="keep the symbols (no strip, no -s), or link the runtime as a library: nvcc -cudart shared",
        )
    return InputError(
        "NVIDIA's runtime is linked into a library of the program; it is redirected in the program alone",
        where=file,
        hint="build this library with nvcc -cudart shared",
    )


LONGEST = 40
"""Characters of a kernel's name that its folder has."""


def write_launch(folder: Path, number: int, text: str, spec: LaunchSpec, contents: Mapping[str, np.ndarray]) -> None:
    """Write launch ``number`` into a folder of its own inside of ``folder``."""
    where = folder / f"{number:03}-{re.sub(r'[^A-Za-z0-9_]', '_', spec.entry)[:LONGEST]}"
    where.mkdir(parents=True, exist_ok=True)
    buffers = {}
    for count, (name, buffer) in enumerate(spec.buffers.items()):
        file = f"{count:03}.npy"
        write_npy(where / file, contents[name])
        buffers[name] = replace(buffer, file=file)
    write_bytes(where / "kernel.ptx", text.encode())
    write_bytes(where / "launch.json", dump_launch(replace(spec, buffers=buffers)))
