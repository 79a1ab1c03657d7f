"""An observer that keeps what it finds, until the run has ended."""

from __future__ import annotations

from convc.ir.findings import Finding
from convc.machine.state.observer import Observer


class Checker(Observer):
    """Keeps one finding for each key, such as a rule and an instruction: what follows would say the same.

    Attributes:
        found: the findings of the launch by key.
    """

    def __init__(self) -> None:
        self.found: dict[tuple[str | int | bool, ...], Finding] = {}

    def report(self, found: tuple[tuple[str | int | bool, ...], Finding] | None) -> None:
        """Keep a finding by its key, where there is one."""
        if found is not None:
            self.found.setdefault(*found)

    def findings(self) -> list[Finding]:
        """Everything that was found."""
        return list(self.found.values())
