"""From convolution problems to kernels, one per distinct problem.

What a kernel computes does not depend on the layer's name, so layers that differ in nothing else share one.
The shared kernel is compiled under a name made of its numbers. What is kept of it is what its folder in a build holds
(`Kernel`): enough to run it, to check it and to write it, and small enough for the compile cache
(`convc.support.cache`).
"""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from convc.compiler.compile import Compiled, compile_problem, compile_timed, compile_tuned
from convc.compiler.fingerprint import compiler_digest
from convc.compiler.options import ScheduleOptions
from convc.compiler.tunings import Tunings
from convc.errors import LaunchError, PlanError
from convc.ir.columns import Columns
from convc.ir.launch import KernelArtifact
from convc.ir.planned import Planned, read_planned
from convc.ir.problem import ConvProblem
from convc.ir.tile_order import OrderTraffic
from convc.ir.tuned import Tuned
from convc.support.cache import KernelCache


class Kernel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A compiled kernel as it is kept.

    Attributes:
        schedule: the schedule and its variant, for people.
        columns: how its filter columns are laid out.
        artifact: the text and its launch.
        plan, program, debug_info: the contents of plan.json, tile.json and debug_info.json (see `convc.build.folder`).
    """

    schedule: str
    columns: Columns
    artifact: KernelArtifact
    plan: bytes
    program: bytes
    debug_info: bytes


class KernelTimer(Protocol):
    """The one who decides where candidates are timed (`ScheduleOptions.timed`); it is sent to workers.

    Attributes:
        key: all that its answers depend on besides the kernel and convc itself; part of a kernel's name in the cache.
    """

    @property
    def key(self) -> str:
        """Everything that the answers depend on, as a text."""
        ...

    def __call__(self, artifact: KernelArtifact, order: OrderTraffic | None, /) -> float:
        """Cycles of a kernel that makes its tiles in an order of which this is known."""
        ...


@dataclass(slots=True)
class Kernels:
    """Compiles problems, each distinct one once.

    Attributes:
        options: with which schedules: all of them by default.
        cache: where kernels are kept from one process to the next; None: nowhere.
        timer: decides among candidates where ``options.timed`` asks for it.
        tunings: what was measured of problems; None: nothing.
    """

    options: ScheduleOptions = ScheduleOptions()  # noqa: RUF009 - frozen record
    cache: KernelCache | None = None
    timer: KernelTimer | None = None
    tunings: Tunings | None = None
    _made: dict[ConvProblem, Kernel] = field(default_factory=dict)

    def __len__(self) -> int:
        """Distinct kernels so far."""
        return len(self._made)

    def compiled(self, problem: ConvProblem) -> Kernel:
        """The kernel for a problem of any name; `PlanError` where there is none."""
        shared = shared_problem(problem)
        kernel = self.known(shared)
        if kernel is None:
            kernel = kernel_of(compile_shared(problem, self.options, self.timer, self.tuned(shared)))
            self.add(shared, kernel)
        return kernel

    def known(self, problem: ConvProblem) -> Kernel | None:
        """The kernel for a problem of any name where it need not be compiled; None where it must."""
        shared = shared_problem(problem)
        if shared not in self._made and self.cache is not None:
            kept = self.cache.get(cache_key(shared, self.options, self.timer, self.tuned(shared)))
            kernel = None if kept is None else _decoded(kept)
            if kernel is not None:
                self._made[shared] = kernel
        return self._made.get(shared)

    def add(self, problem: ConvProblem, kernel: Kernel) -> None:
        """Take in a kernel that was compiled, here or elsewhere, with the same options."""
        shared = shared_problem(problem)
        self._made[shared] = kernel
        if self.cache is not None:
            key = cache_key(shared, self.options, self.timer, self.tuned(shared))
            self.cache.put(key, msgspec.msgpack.encode(kernel))

    def tuned(self, problem: ConvProblem) -> Tuned | None:
        """The tuning record that the kernel for a problem of any name is made by; None where estimates choose."""
        return None if self.tunings is None else self.tunings.find(shared_problem(problem), self.options)


def shared_problem(problem: ConvProblem) -> ConvProblem:
    """The problem under the name of its kernel: problems that share a kernel become equal."""
    name = kernel_name(problem)
    return problem if problem.name == name else dataclasses.replace(problem, name=name)


def compile_shared(
    problem: ConvProblem,
    options: ScheduleOptions | None = None,
    timer: KernelTimer | None = None,
    tuned: Tuned | None = None,
) -> Compiled:
    """Compile a problem under the name of its kernel, as a tuning record says where there is one.

    ``timer`` decides where ``options.timed`` asks for it.

    Raises:
        PlanError: there is no kernel; ``where`` begins with the problem's own name.
    """
    shared = shared_problem(problem)
    try:
        if options is not None and options.timed:
            assert timer is not None, "who asks for timed kernels gives the timer"
            return compile_timed(shared, options, timer)
        if tuned is not None:
            return compile_tuned(shared, options or ScheduleOptions(), tuned)
        return compile_problem(shared, options=options)
    except PlanError as error:
        if problem.name != shared.name:
            error.where = ", ".join(filter(None, (f"layer {problem.name!r}", error.where)))
        raise


def kernel_of(compiled: Compiled) -> Kernel:
    """Keep of a compilation what runs and what explains it."""
    # Imported here because who finds a kernel in the cache needs neither plans nor steps.
    from convc.compiler.plan.records import to_json
    from convc.compiler.schedules.features.debug_info import debug_info_of
    from convc.compiler.tile.program import program_json
    from convc.ir.debug_info import dump_debug_info

    return Kernel(
        schedule=compiled.schedule,
        columns=compiled.layout.columns,
        artifact=compiled.artifact,
        plan=to_json(compiled.plan),
        program=program_json(compiled.program),
        debug_info=dump_debug_info(debug_info_of(compiled.plan, compiled.program)),
    )


def planned_of(kernel: Kernel) -> Planned:
    """The expectations of a kernel's plan for its launch: the few numbers that reports print."""
    planned = read_planned(kernel.plan)
    assert planned is not None, "who compiled the kernel wrote its plan"
    return planned


def cache_key(
    problem: ConvProblem, options: ScheduleOptions, timer: KernelTimer | None = None, tuned: Tuned | None = None
) -> str:
    """Name of a kernel in the compile cache: SHA-256 of all that it depends on.

    That is the problem, the options, the timer where it has a say, the tuning record, and the compiler itself.
    """
    deciding = timer.key if timer is not None and options.timed else ""
    asked = msgspec.json.encode((problem, options, deciding, tuned))
    return hashlib.sha256(asked + b"\0" + compiler_digest().encode()).hexdigest()


def _decoded(data: bytes) -> Kernel | None:
    """A kernel from the compile cache; None where the entry is damaged."""
    try:
        kernel = msgspec.msgpack.decode(data, type=Kernel)
        kernel.artifact.launch.check()
    except (msgspec.MsgspecError, LaunchError):
        return None
    return kernel


def kernel_name(problem: ConvProblem) -> str:
    """A name that says what the kernel computes, such as ``conv3x3_c64_k64``."""
    taps = "x".join(map(str, problem.kernel))
    groups = f"_g{problem.groups}" if problem.groups > 1 else ""
    kind = "transposed" if problem.transposed else "conv"
    return f"{kind}{taps}_c{problem.in_channels}_k{problem.out_channels}{groups}"
