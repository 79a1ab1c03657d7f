"""Versions of Triton that are known here: its interface of drivers changes from release to release."""

from __future__ import annotations

import importlib.metadata
import re

from convc.errors import InputError, ToolError

OLDEST = (3, 5)
"""The first release with Gluon for Blackwell and with tensor descriptors in its launcher's signature."""

NEWEST = (3, 9)
"""The last one whose programs were run here."""

INSTALL = 'pip install "convc[triton]"'
RANGE = f"{OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}"

TARGETS = {"sm_80": 80, "sm_86": 86, "sm_89": 89, "sm_90a": 90, "sm_100a": 100, "sm_103a": 103}
"""Targets by name, and the number that Triton knows them by."""


def check_version(said: str | None = None) -> str:
    """The version of the installed Triton.

    Args:
        said: a version to check in place of the installed one's.

    Raises:
        ToolError: there is no Triton, or one that is too old or too new.
    """
    if said is None:
        try:
            said = importlib.metadata.version("triton")
        except importlib.metadata.PackageNotFoundError:
            raise ToolError("Triton is not installed", hint=INSTALL) from None
    found = re.match(r"(\d+)\.(\d+)", said)
    if found is None or not OLDEST <= (int(found[1]), int(found[2])) <= NEWEST:
        raise ToolError(f"expected Triton {RANGE}, got {said}", hint=INSTALL)
    return said


def number_of(target: str) -> int:
    """The number that Triton knows a target by; `InputError` where the simulator has no such target."""
    if target not in TARGETS:
        raise InputError(f"expected a target among {', '.join(TARGETS)}, got {target!r}")
    return TARGETS[target]


def check_kernel_target(name: str, target: str, text: str) -> None:
    """InputError where a kernel was compiled for another target than the active one."""
    found = re.search(r"^\s*\.target\s+([\w]+)", text, re.MULTILINE)
    if found is not None and found[1] != target:
        raise InputError(
            f"kernel {name!r} was compiled for {found[1]}, and the active target is {target}",
            hint=f"convc.triton.activate(target={found[1]!r}), or compile it when this target is active",
        )
