"""The switch: from `activate` on, Triton's runtime launches on the simulator, which is noted in a session."""

from __future__ import annotations

from convc.api.options import ChipOptions, MachineOptions
from convc.errors import InputError
from convc.ir.findings import Finding
from convc.report.launch import finding_lines
from convc.timing.kernel import KernelTime
from convc.triton.session import Session, TritonLaunch
from convc.triton.versions import check_version, number_of

_sessions: list[Session] = []
"""The active session, where there is one."""


def activate(
    target: str = "sm_100a",
    *,
    check: bool = True,
    raises: bool = True,
    strict: bool = False,
    machine: MachineOptions | None = None,
) -> Session:
    """Let Triton's runtime compile for a target and launch on the simulator.

    Args:
        target: ``sm_80``, ``sm_86``, ``sm_89``, ``sm_90a``, ``sm_100a`` or ``sm_103a``.
        check: let every checker watch; a launch takes some four times as long.
        raises: raise `FindingsError` behind a launch in which an error was found; else see `findings`.
        strict: raise it for what the manual forbids, too.
        machine: how the simulator reads kernels.

    Raises:
        ToolError: there is no Triton, one that is too old or too new, or its ptxas is missing.
        InputError: there is no such target.
    """
    number = number_of(target)
    check_version()
    # Imported here: it imports Triton.
    from convc.triton.driver import install

    deactivate()
    session = Session(target, check=check, raises=raises, strict=strict, machine=machine)
    install(session, number)
    _sessions.append(session)
    return session


def deactivate() -> None:
    """Give Triton's runtime the driver back that it had."""
    if _sessions:
        from convc.triton.driver import remove

        remove()
        _sessions.clear()


def active() -> Session:
    """The active session; `InputError` where there is none."""
    if not _sessions:
        raise InputError("convc.triton is not active", hint="call convc.triton.activate() first")
    return _sessions[-1]


def launches() -> tuple[TritonLaunch, ...]:
    """All launches since `activate`, in their order."""
    return tuple(active().launches)


def findings() -> tuple[Finding, ...]:
    """All findings in launches since `activate`, at Triton's source lines."""
    return tuple(finding for launch in active().launches for finding in launch.findings)


def report() -> str:
    """Findings since `activate` as text: a line for each launch and for each cause in it."""
    lines: list[str] = []
    for launch in active().launches:
        lines += [repr(launch)[1:-1], *(f"  {line}" for line in finding_lines(launch.findings))]
    return "\n".join(lines)


def time(chip: ChipOptions | None = None) -> tuple[KernelTime, ...]:
    """The time of each launch since `activate` on a chip, as the timing engine has it; alike launches are timed once.

    Args:
        chip: whose parameters are used, and how they are changed; by default that of the target.

    Raises:
        UnmodelledError: the control flow of a kernel depends on time.
        InputError: there is no such chip or parameter.
    """
    return active().times(chip or ChipOptions())
