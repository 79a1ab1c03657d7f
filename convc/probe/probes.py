"""Kinds of probes: one that asks which reading of a rule the hardware has, and one that asks for numbers of a chip.

A probe of a rule knows an answer of each reading before any GPU is asked: the simulator runs its kernel under every
setting of the switch, all others at their defaults, or runs a variant of the kernel that does what another reading
would. A probe of a chip is a kernel that reads the clock, and a formula.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from convc.errors import InputError
from convc.machine import RunOptions, run
from convc.machine.base.switches import CHOICES, DEFAULTS, Switches, parse_switches
from convc.probe.kernel import OUT, ProbeKernel, out_array
from convc.support.guessing import nearest

BOTH = ("sm_90a", "sm_100a")
"""Targets of a question that exists on Hopper too."""

BLACKWELL = ("sm_100a",)
"""Targets of a question about tensor memory and its core."""

SHOTS = 8
"""Launches of a probe whose answer may change from one to the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer of a probe.

    Attributes:
        setting: the reading that the hardware has, of a probe of a rule; "" where it is none that we know of.
        values: the parameters of a chip that it measured.
        low, high: the least and greatest that single readings of them gave.
    """

    setting: str = ""
    values: Mapping[str, float] = field(default_factory=dict[str, float])
    low: Mapping[str, float] = field(default_factory=dict[str, float])
    high: Mapping[str, float] = field(default_factory=dict[str, float])

    def __str__(self) -> str:
        if self.values:
            return ", ".join(f"{name} = {value:.4g}" for name, value in self.values.items())
        return self.setting or "unknown answer: please report the file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A question to the hardware.

    Attributes:
        name: of the probe.
        question: a sentence.
        targets: that its kernels are for.
    """

    name: str
    question: str
    targets: tuple[str, ...]

    @property
    def settles(self) -> tuple[str, ...]:
        """Names of the switch or of the parameters that it settles."""
        raise AssertionError("each kind of probe says this")

    @property
    def outcomes(self) -> str:
        """The answers that it may give."""
        raise AssertionError("each kind of probe says this")

    def kernels(self, target: str) -> tuple[ProbeKernel, ...]:
        """The launches of the probe, in order."""
        raise AssertionError("each kind of probe says this")

    def read(self, target: str, answers: Sequence[bytes]) -> Answer:
        """Understand what the launches left in `OUT`.

        Args:
            target: of the kernels.
            answers: of each launch, of its size.
        """
        raise AssertionError("each kind of probe says this")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleProbe(Probe):
    """A question for the reading of a rule that the hardware has.

    Attributes:
        switch: of the simulator; "" where the simulator has one reading only.
        rule: what is asked, of a rule without a switch.
        kernel: for a target.
        variants: of a rule without a switch: what the kernel that stands for each reading has otherwise, as (piece of
            the text, what replaces it); the first is the simulator's, and has nothing.
        mixed: a reading that is proved where some launches answer so; others need all of them. "": one launch.
        numerics: how the simulator adds to find the answer of each setting of a switch.
    """

    kernel: Callable[[str], ProbeKernel]
    switch: str = ""
    rule: str = ""
    variants: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict[str, tuple[tuple[str, str], ...]])
    mixed: str = ""
    numerics: str = "float32"

    @property
    def settles(self) -> tuple[str, ...]:
        """The switch, or the name of the rule."""
        return (self.switch or self.rule,)

    @property
    def settings(self) -> tuple[str, ...]:
        """All readings, the simulator's own first."""
        return CHOICES[self.switch] if self.switch else tuple(self.variants)

    @property
    def outcomes(self) -> str:
        """The readings."""
        return ", ".join(self.settings)

    def kernels(self, target: str) -> tuple[ProbeKernel, ...]:
        """One launch, or several where the answer may change."""
        return (self.kernel(target),) * (SHOTS if self.mixed else 1)

    def readings(self, target: str) -> dict[str, bytes]:
        """The answer of each reading, found on the simulator."""
        kernel = self.kernel(target)
        if self.switch:
            return {
                setting: _machine(kernel, parse_switches((f"{self.switch}={setting}",), numerics=self.numerics))
                for setting in self.settings
            }
        answers: dict[str, bytes] = {}
        for setting, changes in self.variants.items():
            changed = kernel
            for old, new in changes:
                changed = replace(changed, text=_replaced(changed.text, old, new))
            answers[setting] = _machine(changed, DEFAULTS)
        return answers

    def read(self, target: str, answers: Sequence[bytes]) -> Answer:
        """Find the reading whose answer it is."""
        known = {data: setting for setting, data in self.readings(target).items()}
        found = {known.get(data, "") for data in answers}
        if self.mixed in found and "" not in found:
            return Answer(setting=self.mixed)
        return Answer(setting=found.pop() if len(found) == 1 else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockProbe(Probe):
    """A number of a chip, by the clock of an SM.

    Attributes:
        parameters: of `convc.timing`.
        formula: how they follow from the cycles, for people.
        kernel_list: for a target.
        values: the parameters from the target and the answers, as arrays of the types of their buffers.
    """

    parameters: tuple[str, ...]
    formula: str
    kernel_list: Callable[[str], tuple[ProbeKernel, ...]]
    values: Callable[[str, Sequence[np.ndarray]], Answer]

    @property
    def settles(self) -> tuple[str, ...]:
        """The parameters."""
        return self.parameters

    @property
    def outcomes(self) -> str:
        """The formula."""
        return self.formula

    def kernels(self, target: str) -> tuple[ProbeKernel, ...]:
        """One launch for each number of instructions."""
        return self.kernel_list(target)

    def read(self, target: str, answers: Sequence[bytes]) -> Answer:
        """Apply the formula; what is no number above zero is no answer."""
        pairs = zip(self.kernels(target), answers, strict=True)
        return self.values(target, [out_array(kernel, data) for kernel, data in pairs])


def _machine(kernel: ProbeKernel, switches: Switches) -> bytes:
    """What the simulator leaves in `OUT`."""
    options = RunOptions(switches=switches)
    return run(kernel.text, kernel.launch, kernel.buffers, options=options).buffers[OUT].tobytes()


def _replaced(text: str, old: str, new: str) -> str:
    """A text with one piece replaced, which must be there once."""
    assert text.count(old) == 1, old
    return text.replace(old, new)


def chosen(probes: Mapping[str, Probe], names: Sequence[str], where: str = "") -> tuple[Probe, ...]:
    """The probes of some names, all without any; `InputError` where there is none of a name; ``where``: its file."""
    for name in names:
        if name not in probes:
            near = nearest(name, probes)
            guess = "" if near is None else f"did you mean {near!r}? "
            raise InputError(f"there is no probe {name!r}", where=where, hint=f"{guess}`convc probe` lists them")
    return tuple(probes[name] for name in names or probes)
