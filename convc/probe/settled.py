"""Answers of a GPU as settings of the simulator's switches, and as a file of a chip's parameters."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from convc.machine.base.switches import DEFAULTS
from convc.probe.all import PROBES
from convc.probe.probes import Answer, ClockProbe, RuleProbe
from convc.probe.record import Probed, ProbedDevice, answer_bytes
from convc.timing.parameters import Parameter, chip_for, read_chip


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of a probe.

    Attributes:
        probe: its name. settles: what it is about.
        answer: the setting or the numbers, in words; of one that failed what went wrong.
        known: whether it settles anything.
    """

    probe: str
    settles: str
    answer: str
    known: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """All that a file of answers settles.

    Attributes:
        device: the GPU. date: of the answers.
        chip: whose parameters the numbers belong to.
        outcomes: of each probe, in the order of the file.
        switches: settings by name, of those whose probes agree.
        rules: readings by rule, of rules without a switch.
        parameters: measured ones by name.
    """

    device: ProbedDevice
    date: str
    chip: str
    outcomes: tuple[Outcome, ...]
    switches: Mapping[str, str]
    rules: Mapping[str, str]
    parameters: Mapping[str, Parameter]

    @property
    def switch_options(self) -> tuple[str, ...]:
        """The options of a command line that set the simulator so, without those that are its defaults."""
        changed = {name: setting for name, setting in self.switches.items() if getattr(DEFAULTS, name) != setting}
        return tuple(f"--switch {name}={setting}" for name, setting in changed.items())

    @property
    def time_options(self) -> tuple[str, ...]:
        """The options of ``convc time`` that set the parameters."""
        return tuple(f"--set {name}={each.value:g}" for name, each in self.parameters.items())


def settle(record: Probed) -> Settled:
    """Understand the answers of a GPU; `InputError` where an answer has another size than its probe's."""
    outcomes: list[Outcome] = []
    readings: dict[str, set[str]] = {}
    rules: dict[str, str] = {}
    parameters: dict[str, Parameter] = {}
    chip = chip_for(record.device.arch)
    for given in record.probes:
        probe = PROBES[given.probe]
        settles = ", ".join(probe.settles)
        if given.error:
            outcomes.append(Outcome(probe=probe.name, settles=settles, answer=given.error, known=False))
            continue
        answer = probe.read(given.target, answer_bytes(probe, given))
        known = bool(answer.setting or answer.values)
        outcomes.append(Outcome(probe=probe.name, settles=settles, answer=str(answer), known=known))
        if isinstance(probe, RuleProbe) and probe.switch:
            readings.setdefault(probe.switch, set()).add(answer.setting)
        elif isinstance(probe, RuleProbe) and known:
            rules[probe.rule] = answer.setting
        elif isinstance(probe, ClockProbe):
            parameters |= _measured(probe, answer, chip, record)
    switches = {name: next(iter(found)) for name, found in readings.items() if len(found) == 1 and "" not in found}
    return Settled(
        device=record.device,
        date=record.date,
        chip=chip,
        outcomes=tuple(outcomes),
        switches=switches,
        rules=rules,
        parameters=parameters,
    )


def _measured(probe: ClockProbe, answer: Answer, chip: str, record: Probed) -> dict[str, Parameter]:
    base = read_chip(chip).parameters
    source = f"`convc probe {probe.name}` on {record.device.name}, {record.date}"
    return {
        name: Parameter(
            value=value,
            unit=base[name].unit,
            evidence="measured",
            source=source,
            range=(answer.low[name], answer.high[name]),
        )
        for name, value in answer.values.items()
    }


def parameters_toml(settled: Settled) -> str:
    """The parameters as a file that ``convc time --chip`` takes: a chip to begin with, and those that differ."""
    lines = [f"# Measured on {settled.device.name} on {settled.date}.", f"base = {json.dumps(settled.chip)}"]
    tables: dict[str, list[str]] = {}
    for name, each in settled.parameters.items():
        table, _, key = name.partition(".")
        low, high = each.range
        unit = json.dumps(each.unit)
        source = json.dumps(each.source)
        tables.setdefault(table, []).append(
            f'{key} = {{ value = {each.value:.6g}, unit = {unit}, class = "{each.evidence}", source = {source}, '
            f"range = [{low:.6g}, {high:.6g}] }}"
        )
    for table, entries in tables.items():
        lines += ["", f"[{table}]", *entries]
    return "\n".join(lines) + "\n"
