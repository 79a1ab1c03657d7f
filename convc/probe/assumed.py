"""All that the simulator and the model of a chip assume, each with the probe that settles it."""

from __future__ import annotations

from dataclasses import dataclass

from convc.machine.base.switches import CHOICES, OPEN, RECORDED, explained
from convc.probe.all import PROBES
from convc.probe.probes import RuleProbe
from convc.timing.parameters import read_chip

UNSURE = ("inferred", "assumed")
"""Classes of parameters that were not measured on the chip itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssumedSwitch:
    """A switch of the simulator.

    Attributes:
        name: as ``--switch`` takes it.
        text: what it is about, with what each setting means.
        settings: all of them. default: the one that is taken.
        evidence: class of docs/fidelity.md; what is recorded was seen on sm_90, and not on sm_100 yet.
        probes: names of those that settle it.
    """

    name: str
    text: str
    settings: tuple[str, ...]
    default: str
    evidence: str
    probes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AssumedRule:
    """A rule of the simulator without a switch, that a probe asks for.

    Attributes:
        text: the rule.
        settings: the readings, the simulator's first.
        probe: name of the probe that settles it.
    """

    text: str
    settings: tuple[str, ...]
    probe: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AssumedParameter:
    """A number of a chip that was not measured there.

    Attributes:
        name: as ``convc time --set`` takes it.
        value, unit: of it. low, high: what the sources leave open.
        evidence: its class. source: how it was concluded.
        probes: names of those that settle it.
    """

    name: str
    value: float
    unit: str
    low: float
    high: float
    evidence: str
    source: str
    probes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedProbe:
    """A probe, as it is listed.

    Attributes:
        name, question: of the probe.
        settles: switches, parameters or a rule. outcomes: the answers that it may give, or the formula.
        targets: GPUs that it runs on.
    """

    name: str
    question: str
    settles: tuple[str, ...]
    outcomes: str
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumptions:
    """All that is assumed.

    Attributes:
        chip: whose parameters are listed.
    """

    chip: str
    switches: tuple[AssumedSwitch, ...]
    rules: tuple[AssumedRule, ...]
    parameters: tuple[AssumedParameter, ...]
    probes: tuple[ListedProbe, ...]


def all_assumptions(chip: str) -> Assumptions:
    """All switches, and the parameters of a chip that were not measured on it; `InputError`: no such chip."""
    texts = explained()
    switches = tuple(
        AssumedSwitch(
            name=name,
            text=texts[name],
            settings=CHOICES[name],
            default=CHOICES[name][0],
            evidence="recorded" if name in RECORDED else "assumed",
            probes=_settling(name),
        )
        for name in OPEN
    )
    parameters = tuple(
        AssumedParameter(
            name=name,
            value=each.value,
            unit=each.unit,
            low=each.range[0],
            high=each.range[1],
            evidence=each.evidence,
            source=each.source,
            probes=_settling(name),
        )
        for name, each in read_chip(chip).parameters.items()
        if each.evidence in UNSURE
    )
    rules = tuple(
        AssumedRule(text=probe.rule, settings=probe.settings, probe=probe.name)
        for probe in PROBES.values()
        if isinstance(probe, RuleProbe) and probe.rule
    )
    listed = tuple(
        ListedProbe(
            name=probe.name,
            question=probe.question,
            settles=probe.settles,
            outcomes=probe.outcomes,
            targets=probe.targets,
        )
        for probe in PROBES.values()
    )
    return Assumptions(chip=chip, switches=switches, rules=rules, parameters=parameters, probes=listed)


def _settling(name: str) -> tuple[str, ...]:
    """Names of the probes that settle a switch or a parameter."""
    return tuple(probe.name for probe in PROBES.values() if name in probe.settles)
