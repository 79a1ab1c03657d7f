"""Run a kernel under all checkers and gather what they found."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from convc.artifact import LaunchSpec
from convc.check.races import Races
from convc.check.warps import Warps
from convc.check.writes import Writes
from convc.errors import DeadlockError, MachineFault
from convc.findings import Finding, Verdict
from convc.machine import RunOptions, RunResult, run
from convc.machine.events import Observer

EVENTS = tuple(name for name in vars(Observer) if not name.startswith("_"))


class Several(Observer):
    """Tells everything to several observers."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        for name in EVENTS:
            told = [getattr(o, name) for o in observers if getattr(type(o), name) is not getattr(Observer, name)]
            setattr(self, name, functools.partial(_tell, told))


def _tell(told: Sequence[Callable], *args, **more) -> None:
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
        return max((finding.verdict for finding in self.findings), default=Verdict.clean)


def check_kernel(
    text: str,
    launch: LaunchSpec,
    buffers: Mapping[str, np.ndarray],
    *,
    file: str = "kernel.ptx",
    options: RunOptions | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Checked:
    """Run a kernel with all checkers watching: races, warps, write sets.

    Raises:
        PtxSyntaxError, UnmodelledError, LaunchError: it cannot be run at all.
    """
    checkers = (Races(), Warps(), Writes())
    result, broken = None, []
    try:
        result = run(
            text, launch, buffers, file=file, options=options or RunOptions(), progress=progress,
            observer=Several(checkers),
        )  # fmt: skip
    except (MachineFault, DeadlockError) as fault:
        span = fault.span
        rule = "hang" if isinstance(fault, DeadlockError) else "fault"
        where = f" [{fault.where}]" if fault.where else ""
        broken.append(
            Finding(
                verdict=Verdict.error,
                rule=rule,
                message=fault.message + where,
                file=span.file if span else file,
                line=span.line if span else 0,
            )
        )
    seen = [*broken, *(finding for checker in checkers for finding in checker.found.values())]
    seen += result.findings if result else ()
    return Checked(findings=tuple(sorted(seen, key=lambda f: (-f.verdict, f.line, f.rule))), result=result)
