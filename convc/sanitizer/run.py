"""Run a kernel under all checkers and gather what they found."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from convc.errors import DeadlockError, MachineFault
from convc.ir.findings import Finding, Verdict, worst
from convc.ir.launch import LaunchSpec
from convc.machine import RunOptions, RunResult, run
from convc.machine.state.observer import Observer
from convc.sanitizer.cross_cluster import Writes
from convc.sanitizer.racecheck import Races
from convc.sanitizer.warps import Warps

EVENTS = tuple(name for name in vars(Observer) if not name.startswith("_"))


class ObserverList(Observer):
    """Tells everything to several observers."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        for name in EVENTS:
            told = [getattr(o, name) for o in observers if getattr(type(o), name) is not getattr(Observer, name)]
            setattr(self, name, functools.partial(_notify, told))


def _notify(told: Sequence[Callable], *args, **more) -> None:
    for method in told:
        method(*args, **more)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The verdict on one launch.

    Attributes:
        findings: of the machine and of all checkers, worst first.
        result: what the launch left behind; None where the kernel did not come to an end.
    """

    findings: tuple[Finding, ...]
    result: RunResult | None

    @property
    def verdict(self) -> Verdict:
        """The worst finding's verdict."""
        return worst(self.findings)


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

    With ``all_switches``, run it also under every other setting of every switch (see `convc.machine.base.switches`):
    where its result changes, it depends on an open question.

    Raises:
        PtxSyntaxError, UnmodelledError, LaunchError: it cannot be run at all.
    """
    options = dataclasses.replace(options or RunOptions(), policy="eager")
    checkers = (Races(), Warps(), Writes())
    broken: list[Finding] = []
    more = {"file": file, "progress": progress}
    result = _attempt(broken, text, launch, buffers, options=options, observer=ObserverList(checkers), **more)
    if result is not None:
        for policy in ("late", "seeded"):
            other = dataclasses.replace(options, policy=policy)
            late = _attempt(broken, text, launch, buffers, options=other, **more)
            if late is not None:
                broken += _differences(result, late, policy, file)
        if all_switches:
            broken += _open_questions(result, text, launch, buffers, options=options, **more)
    seen = [*broken, *(finding for checker in checkers for finding in checker.findings())]
    seen += result.findings if result else ()
    return Checked(findings=tuple(sorted(seen, key=lambda f: (-f.verdict, f.line, f.rule))), result=result)


def _attempt(
    broken: list[Finding], text, launch, buffers, *, file: str, options: RunOptions, **more
) -> RunResult | None:
    """Run; a fault or a hang becomes a finding."""
    try:
        return run(text, launch, buffers, file=file, options=options, **more)
    except (MachineFault, DeadlockError) as fault:
        span = fault.span
        when = "" if options.policy == "eager" else f" (completion policy {options.policy})"
        where = f" [{fault.where}]" if fault.where and fault.warp is None else ""
        broken.append(
            Finding(
                verdict=Verdict.error,
                rule="hang" if isinstance(fault, DeadlockError) else "fault",
                message=fault.message + where + when,
                file=span.file if span else file,
                line=span.line if span else 0,
                step=fault.step,
                cta=fault.cta,
                warp=fault.warp,
                lanes=fault.lanes,
            )
        )
        return None


def _differences(result: RunResult, late: RunResult, policy: str, file: str) -> list[Finding]:
    """A finding for the first buffer that depends on when asynchronous work is performed."""
    for name, count, first in _changed(result, late):
        message = (
            f"buffer {name!r} depends on when asynchronous work is performed: {count} bytes differ under "
            f"completion policy {policy}, first at byte {first}"
        )
        return [Finding(verdict=Verdict.error, rule="completion-order", message=message, file=file)]
    return []


def _open_questions(result: RunResult, text, launch, buffers, *, options: RunOptions, **more) -> list[Finding]:
    """A finding for each other setting of a switch that changes the result, or lets the kernel fail."""
    found = []
    for name, switches in options.switches.others():
        failed: list[Finding] = []
        other = _attempt(failed, text, launch, buffers, options=dataclasses.replace(options, switches=switches), **more)
        changes = [fault.message for fault in failed]
        if other is not None:
            changes = [f"{count} bytes of buffer {buffer!r} change" for buffer, count, _ in _changed(result, other)]
        if changes:
            message = f"the result depends on an open question: with switch {name}, {', '.join(changes)}"
            found.append(Finding(verdict=Verdict.review, rule="open-question", message=message, file=more["file"]))
    return found


def _changed(result: RunResult, other: RunResult) -> Iterator[tuple[str, int, int]]:
    """Buffers that two runs leave with other contents: name, how many bytes differ, the first of them."""
    for name, array in result.buffers.items():
        differ = np.flatnonzero(array.reshape(-1).view(np.uint8) != other.buffers[name].reshape(-1).view(np.uint8))
        if differ.size:
            yield name, differ.size, int(differ[0])
