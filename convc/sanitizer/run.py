"""Run a kernel under all checkers and gather what they found.

Waits for an mbarrier on whose answer nothing depends: they order nothing (`convc.machine.execute.decode`).

What was meant to be ordered by one is found as a race; the wait itself is for review, as compilers leave some behind.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from convc.errors import MachineError
from convc.ir.findings import Finding, Judged, Verdict
from convc.ir.launch import LaunchSpec
from convc.machine import RunOptions, RunResult, Switches, run
from convc.machine.base.findings import failure
from convc.machine.launch import placed_in, program_of
from convc.machine.state.grants import GRANTS
from convc.machine.state.observer import Observer
from convc.machine.state.program import Program
from convc.sanitizer.barrier_rules import BarrierRules
from convc.sanitizer.checker import Checker
from convc.sanitizer.cross_cluster import Writes
from convc.sanitizer.levels import levelled
from convc.sanitizer.likeness import Likeness
from convc.sanitizer.racecheck import Races
from convc.sanitizer.registers import UnwrittenRegisters
from convc.sanitizer.warpgroups import WarpgroupRegisters
from convc.sanitizer.warps import Warps

ASKS = "clusterlaunchcontrol.try_cancel"
"""The instruction by which a kernel asks for clusters that have not begun."""

OVERLAPS = "griddepcontrol"
"""The instruction of a kernel that may begin before the one in front of it has ended."""

MOST_KINDS = 16
"""Kinds of clusters that are run again to be watched: kernels whose addresses depend on data have one for each."""

PIECE = 1 << 18
"""Bytes that are compared at a time: what is between stays inside a cache."""

EVENTS = tuple(name for name, value in vars(Observer).items() if callable(value) and not name.startswith("_"))
"""Names of everything that an observer may be told."""


class ObserverList(Observer):
    """Tells everything to several observers."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        for name in EVENTS:
            told = [getattr(o, name) for o in observers if _hears(o, name)]
            setattr(self, name, told[0] if len(told) == 1 else functools.partial(_notify, told))


def _hears(observer: Observer, name: str) -> bool:
    """Whether an observer does anything about an event; several copies are also told of one by one."""
    names = ("copies", "copy") if name == "copies" else (name,)
    return any(getattr(type(observer), each) is not getattr(Observer, each) for each in names)


def _notify(told: Sequence[Callable[..., None]], *args: object, **more: object) -> None:
    for method in told:
        method(*args, **more)


Change = tuple[str, int, int]
"""A buffer that two runs leave with other contents: its name, how many bytes differ, and the first of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked(Judged):
    """The verdict on one launch.

    Attributes:
        findings: of the simulator and of all checkers, worst first.
        result: what the launch left behind; None where the kernel did not come to an end.
    """

    findings: tuple[Finding, ...]
    result: RunResult | None


def check_kernel(
    text: str,
    launch: LaunchSpec,
    buffers: Mapping[str, np.ndarray],
    *,
    file: str = "kernel.ptx",
    options: RunOptions | None = None,
    all_switches: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Checked:
    """Run a kernel with all checkers watching, then again with asynchronous work performed late and at random.

    In one of these runs another one wins of the threads that store to one place at once: checkers are told of the lanes
    of the first cluster alone.

    A kernel that asks for clusters which have not begun runs under every policy of who is granted which.

    With ``all_switches``, run it also under every other setting of every switch (see `convc.machine.base.switches`):
    where its result changes, it depends on an open question.

    Raises:
        PtxSyntaxError, UnmodelledError, LaunchError: it cannot be run at all.
    """
    options = dataclasses.replace(options or RunOptions(), policy="eager")
    kernel = _Kernel(text=text, launch=launch, buffers=buffers, file=file, progress=progress, options=options)
    between = Writes()
    checkers: list[Checker] = [*kernel.of_one_cluster(), between]
    program = program_of(text, file, launch.entry, placed_in(launch))
    if UnwrittenRegisters.needed(program):
        checkers.append(UnwrittenRegisters())
    found: list[Finding] = []
    likeness = Likeness()
    result = kernel.attempt(options, ObserverList([*checkers, likeness]))
    watched = [finding for checker in checkers for finding in checker.findings()]
    if not isinstance(result, Finding):
        watched += _of_others(kernel, likeness.unwatched(between.inside), watched, result.counters.instructions)
    found += watched
    if isinstance(result, Finding):
        found.append(result)
    else:
        others = dict(options.switches.others())
        (collided,) = (name for name in others if name.startswith("colliding_stores="))
        late = _completed(kernel, result, dataclasses.replace(options, switches=others[collided]), "late")
        if late:  # which of the two it is, one at a time
            late = _completed(kernel, result, options, "late")
            if not all_switches and not any(finding.rule.startswith("race-") for finding in watched):
                late += _open_questions(kernel, result, options, {collided: others[collided]})
        found += late
        found += _completed(kernel, result, options, "seeded")
        if ASKS in text:
            found += _grants(kernel, result, options)
        if all_switches:
            found += _open_questions(kernel, result, options, others)
        found += result.findings
    found += _unnamed(text, launch, file)
    found += unheard(program, file)
    found = levelled(found)
    return Checked(
        findings=tuple(sorted(found, key=lambda f: (-f.verdict, f.line, f.rule))),
        result=None if isinstance(result, Finding) else result,
    )


def _of_others(kernel: _Kernel, others: Sequence[int], known: Sequence[Finding], executed: int) -> list[Finding]:
    """What is found in clusters that do otherwise than those that were watched, and that is not known yet.

    Each of them runs alone, no longer than all have together, ``executed`` instructions; where one waits for others,
    all clusters run one after the other and are watched. Those that ask for tiles do otherwise because they are given
    more or fewer.
    """
    if ASKS in kernel.text:
        return []
    seen = {(finding.rule, finding.line) for finding in known}
    fresh: dict[tuple[str, int, int], Finding] = {}
    for first in others[:MOST_KINDS]:
        checkers = kernel.of_one_cluster()
        options = dataclasses.replace(
            kernel.options, only=(first,), max_instructions=min(kernel.options.max_instructions, executed)
        )
        waits = isinstance(kernel.attempt(options, ObserverList(checkers)), Finding)
        if waits:
            checkers = kernel.of_one_cluster()
            one = math.prod(kernel.launch.cluster)
            kernel.attempt(dataclasses.replace(kernel.options, cohort=one), ObserverList(checkers))
        for finding in (finding for checker in checkers for finding in checker.findings()):
            if (finding.rule, finding.line) not in seen:
                fresh.setdefault((finding.rule, finding.line, finding.other.line if finding.other else 0), finding)
        if waits:
            return list(fresh.values())
    return [*fresh.values(), *_missed(len(others) - MOST_KINDS, kernel.file)]


def _missed(count: int, file: str) -> Iterator[Finding]:
    """A note where too many clusters do otherwise than those that were watched."""
    if count > 0:
        message = (
            f"{count} more kinds of clusters behave differently from those that were checked: races inside of "
            "them, and rules of one warp, were not checked"
        )
        yield Finding(verdict=Verdict.clean, rule="clusters-unwatched", message=message, file=file)


def _unnamed(text: str, launch: LaunchSpec, file: str) -> list[Finding]:
    """A note where a kernel may overlap the one in front of it, and it is not known what that one uses."""
    if OVERLAPS not in text or launch.in_front is not None:
        return []
    message = (
        "the kernel may start before the preceding one has ended, and the launch file does not say which buffers "
        'that one may still use ("dependent"): these accesses were not checked'
    )
    return [Finding(verdict=Verdict.clean, rule="dependent-unnamed", message=message, file=file)]


@dataclass(frozen=True, kw_only=True)
class _Kernel:
    """A launch that can be run under several options; ``options`` are those that others are compared with."""

    text: str
    launch: LaunchSpec
    buffers: Mapping[str, np.ndarray]
    file: str
    progress: Callable[[int, int], None] | None
    options: RunOptions

    def attempt(self, options: RunOptions, observer: Observer | None = None) -> RunResult | Finding:
        """Run; a fault, a hang, or no end within the limit becomes a finding."""
        try:
            return run(
                self.text,
                self.launch,
                self.buffers,
                file=self.file,
                options=options,
                observer=observer,
                progress=self.progress,
            )
        except MachineError as fault:
            when = "" if options.policy == "eager" else f" (completion policy {options.policy})"
            return failure(fault, self.file, when)

    def of_one_cluster(self) -> list[Checker]:
        """Checkers that are told of the lanes of the first cluster of each cohort."""
        found: list[Checker] = [Races(self.launch.in_front or ()), Warps(), WarpgroupRegisters()]
        return [*found, BarrierRules()] if "mbarrier.init" in self.text else found

    @functools.cached_property
    def at_once(self) -> RunResult | Finding:
        """The kernel with its options, every sum made when it is issued."""
        return self.attempt(dataclasses.replace(self.options, evaluation="eager"))

    def compare(self, result: RunResult, options: RunOptions) -> tuple[RunResult | Finding, list[Change]]:
        """Run under other options; how the buffers differ from those of ``result``, a run with the kernel's own.

        Sums that wait are made of as much as waits together, and rounded in an order that depends on what does. So
        where anything differs, both are run again with sums that do not wait, and what still differs counts.
        """
        other = self.attempt(options)
        changes = [] if isinstance(other, Finding) else list(_changed(result, other))
        if not changes or options.evaluation == "eager":
            return other, changes
        other = self.attempt(dataclasses.replace(options, evaluation="eager"))
        if isinstance(other, Finding) or isinstance(self.at_once, Finding):
            return other, []
        return other, list(_changed(self.at_once, other))


def _completed(kernel: _Kernel, result: RunResult, options: RunOptions, policy: str) -> list[Finding]:
    """A finding where the kernel fails with asynchronous work at that time, or for the first buffer that differs."""
    late, changes = kernel.compare(result, dataclasses.replace(options, policy=policy))
    if isinstance(late, Finding):
        return [late]
    for name, count, first in changes:
        message = (
            f"buffer {name!r} depends on when asynchronous operations complete: {count} bytes differ under "
            f"completion policy {policy}, first at byte {first}"
        )
        return [Finding(verdict=Verdict.error, rule="completion-order", message=message, file=kernel.file)]
    return []


def _grants(kernel: _Kernel, result: RunResult, options: RunOptions) -> list[Finding]:
    """A finding for each other policy of grants under which the kernel fails, or does something else."""
    found: list[Finding] = []
    for grants in (policy for policy in GRANTS if policy != options.grants):
        other, changed = kernel.compare(result, dataclasses.replace(options, grants=grants))
        if isinstance(other, Finding):
            changes = [other.message]
        else:
            changes = [f"{count} bytes of buffer {buffer!r} change" for buffer, count, _ in changed]
            done = other.counters.multiply_adds
            if done != result.counters.multiply_adds:
                changes.append(f"{done} multiply-adds are done instead of {result.counters.multiply_adds}")
        if changes:
            message = (
                f"the work depends on which CTAs clusterlaunchcontrol grants: with grants {grants}, "
                f"{', '.join(changes)}"
            )
            found.append(Finding(verdict=Verdict.error, rule="grant-order", message=message, file=kernel.file))
    return found


def _open_questions(
    kernel: _Kernel, result: RunResult, options: RunOptions, others: Mapping[str, Switches]
) -> list[Finding]:
    """A finding for each other setting of a switch that changes the result, or lets the kernel fail."""
    found: list[Finding] = []
    for name, switches in others.items():
        other, changed = kernel.compare(result, dataclasses.replace(options, switches=switches))
        if isinstance(other, Finding):
            changes = [other.message]
        else:
            changes = [f"{count} bytes of buffer {buffer!r} change" for buffer, count, _ in changed]
        if changes:
            message = f"the result depends on an open question: with switch {name}, {', '.join(changes)}"
            found.append(Finding(verdict=Verdict.review, rule="open-question", message=message, file=kernel.file))
    return found


def _changed(result: RunResult, other: RunResult) -> Iterator[Change]:
    for name, array in result.buffers.items():
        one, two = (buffer.reshape(-1).view(np.uint8) for buffer in (array, other.buffers[name]))
        starts = range(0, one.size, PIECE)
        differ = [low + np.flatnonzero(one[low : low + PIECE] != two[low : low + PIECE]) for low in starts]
        if count := sum(map(len, differ)):
            yield name, count, int(next(places[0] for places in differ if len(places)))


MESSAGE = (
    "the predicate of this wait is unused: it may return before the phase is complete, and orders nothing; repeat "
    "it until the predicate is true"
)


def unheard(program: Program, file: str) -> Iterator[Finding]:
    """A finding for each such wait."""
    for index in sorted(program.unheard):
        instr = program.kernel.body[index]
        yield Finding(
            verdict=Verdict.review,
            rule="wait-answer-unread",
            message=MESSAGE,
            file=file,
            line=instr.span.line,
            step=instr.step,
        )
