"""Reports on probes: what is assumed, and what a GPU said to it."""

from __future__ import annotations

import dataclasses
from typing import Literal, TypedDict

import msgspec
from rich.console import Console
from rich.table import Table

from convc.probe.assumed import AssumedParameter, AssumedRule, AssumedSwitch, Assumptions, ListedProbe
from convc.probe.record import Probed, ProbedDevice
from convc.probe.settled import Outcome, Settled
from convc.report.output import json_text
from convc.support.visible import visible
from convc.timing.parameters import Parameter


class ProbeJson(TypedDict):
    """Assumptions, as ``convc probe`` lists them, and the probes that settle them."""

    format: Literal["convc-probe/1"]
    chip: str
    switches: list[AssumedSwitch]
    rules: list[AssumedRule]
    parameters: list[AssumedParameter]
    probes: list[ListedProbe]


class SettledJson(TypedDict):
    """Outcomes of the answers of a GPU: settings by switch, readings by rule, and parameters of a chip."""

    format: Literal["convc-settled/1"]
    device: ProbedDevice
    date: str
    chip: str
    outcomes: list[Outcome]
    switches: dict[str, str]
    rules: dict[str, str]
    parameters: dict[str, Parameter]
    switch_options: list[str]
    time_options: list[str]


def print_assumptions(console: Console, known: Assumptions) -> None:
    """Print the switches, the rules, the parameters and the probes as tables."""
    switches = _table("switch", "settings", "evidence", "probe")
    for switch in known.switches:
        others = [each for each in switch.settings if each != switch.default]
        switches.add_row(switch.name, ", ".join([switch.default, *others]), switch.evidence, _names(switch.probes))
    rules = _table("rule", "readings", "probe")
    for rule in known.rules:
        rules.add_row(rule.text, ", ".join(rule.settings), rule.probe)
    parameters = _table("parameter", "value", "range", "unit", "evidence", "probe")
    for each in known.parameters:
        span = f"{each.low:g} to {each.high:g}"
        parameters.add_row(each.name, f"{each.value:g}", span, each.unit, each.evidence, _names(each.probes))
    probes = _table("probe", "runs on", "question", "outcomes")
    for probe in known.probes:
        probes.add_row(probe.name, ", ".join(probe.targets), probe.question, probe.outcomes)
    for title, table in (
        ("Switches of the simulator, the default first", switches),
        ("Rules without a switch, the simulator's reading first", rules),
        (f"Parameters of {known.chip} without a measurement", parameters),
        ("Probes", probes),
    ):
        console.print(title, markup=False)
        console.print(table)


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(names) or "none"


def print_settled(console: Console, settled: Settled) -> None:
    """Print the outcome of each probe, and the options that follow."""
    device = settled.device
    console.print(f"{device.name} ({device.arch}, CUDA {device.cuda}), {settled.date}", markup=False, soft_wrap=True)
    for outcome in settled.outcomes:
        said = outcome.answer if outcome.known else f"? {outcome.answer}"
        console.print(visible(f"{outcome.probe}: {said} ({outcome.settles})"), markup=False, soft_wrap=True)
    for heading, options in (
        (
            "for run, check, exec and launch:",
            settled.switch_options or ("no option: the answers equal the simulator's defaults",),
        ),
        (f"for time --chip {settled.chip}:", settled.time_options or ("nothing was measured",)),
    ):
        console.print(heading, markup=False)
        console.print("  " + " ".join(options), markup=False, soft_wrap=True)


def assumptions_json(known: Assumptions) -> bytes:
    """The assumptions as JSON (`ProbeJson`)."""
    return json_text({"format": "convc-probe/1", **dataclasses.asdict(known)})


def settled_json(settled: Settled) -> bytes:
    """The outcomes as JSON (`SettledJson`)."""
    return json_text(
        {
            "format": "convc-settled/1",
            "device": settled.device,
            "date": settled.date,
            "chip": settled.chip,
            "outcomes": settled.outcomes,
            "switches": settled.switches,
            "rules": settled.rules,
            "parameters": settled.parameters,
            "switch_options": settled.switch_options,
            "time_options": settled.time_options,
        }
    )


def probed_json(record: Probed) -> bytes:
    """The answers of a GPU as JSON (`convc.probe.record.Probed`), which `convc probe --apply` reads."""
    return msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n"
