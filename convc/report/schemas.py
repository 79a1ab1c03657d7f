"""The JSON that commands write and read, as JSON Schemas that are made from the record types.

Every file is one object whose ``format`` names its kind and version, ``convc-check/1``, and whose ``convc`` is the
version of the program that wrote it. The number behind the slash changes where fields go or change their meaning. The
schemas are in ``convc/docs/schemas``; ``convc explain --schema FORMAT`` prints one. JSON has no NaN: it becomes null.

Source: https://json-schema.org/draft/2020-12
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypedDict, cast, get_type_hints

import msgspec

from convc.build.folder import NetworkRecord
from convc.compiler.tuning_file import TuningFile
from convc.ir.launch import LaunchSpec
from convc.ir.planned import Listing, Planned
from convc.ir.problem import ConvProblem
from convc.machine import Counters
from convc.probe.record import Probed
from convc.report.audit import AuditJson
from convc.report.gpu import LaunchedJson
from convc.report.launch import ExecJson
from convc.report.probe import ProbeJson, SettledJson
from convc.report.record import RecordJson
from convc.report.sarif import ErrorJson, FindingJson, GroupJson, VerdictName
from convc.runtime.network.stats import RunStats
from convc.verification.records import LayerReport, NetworkReport, OutputReport, Sampled, VerifyReport
from convc.verification.survey import SurveyReport

DRAFT = "https://json-schema.org/draft/2020-12/schema"


class CheckedKernel(TypedDict):
    """The verdict on one kernel of a build, with the first layer that runs it and all that do."""

    layer: str
    layers: list[str]
    file: str
    verdict: VerdictName
    findings: list[FindingJson]
    groups: list[GroupJson]


class CheckJson(TypedDict):
    """Findings of ``convc check``, kernel by kernel and in all, on random input of a seed."""

    format: Literal["convc-check/1"]
    source: str
    ok: bool
    verdict: VerdictName
    seed: int
    all_switches: bool
    kernels: list[CheckedKernel]
    findings: list[FindingJson]
    groups: list[GroupJson]


class WrittenArray(TypedDict):
    """An array that was written."""

    file: str
    dtype: str
    shape: tuple[int, ...]


class RunJson(TypedDict):
    """A run of a layer by ``convc run``; no output where the simulator found something wrong."""

    format: Literal["convc-run/1"]
    layer: str
    output: WrittenArray | None
    seconds: float
    counters: Counters
    findings: list[FindingJson]
    groups: list[GroupJson]


class NetworkOutput(TypedDict):
    """An output of a network; no file where it was not asked for."""

    name: str
    dtype: str
    shape: list[int]
    file: str | None


class NetworkRunJson(TypedDict):
    """A run of a model by ``convc run``."""

    format: Literal["convc-network-run/2"]
    model: str
    outputs: list[NetworkOutput]
    stats: RunStats


class AssembledJson(TypedDict):
    """Resources of a kernel, as ptxas says."""

    registers: int
    shared_bytes: int
    spill_bytes: int


class KernelJson(TypedDict):
    """A kernel of a build, and how it is launched."""

    file: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    shared_bytes: int
    estimate: Planned | None
    plan: dict[str, Any] | None
    assembled: AssembledJson | None


class InspectJson(TypedDict):
    """A layer, the estimate and the plan of its kernel, and why it has that schedule."""

    format: Literal["convc-inspect/1"]
    layer: str
    fused: tuple[str, ...]
    problem: ConvProblem
    schedule: str
    why: list[str]
    estimate: Planned | None
    plan: dict[str, Any]


class TimedPart(TypedDict):
    """Cycles of a critical path by step and cause."""

    step: str
    waits_for: str
    cycles: float


class TimedStep(TypedDict):
    """Cycles of a critical path in a step, and the share of them by cause."""

    step: str
    cycles: float
    waits_for: dict[str, float]


class LaneLoopJson(TypedDict):
    """A loop over lanes around an instruction that one lane issues: line of the PTX text, cycles of a turn."""

    line: int
    opcode: str
    cycles: int


class AssemblyJson(TypedDict):
    """The outcome of ptxas for a kernel: registers and stack per thread, spills in bytes."""

    instructions: int
    registers: int
    spill_bytes: int
    stack_bytes: int
    lane_loops: list[LaneLoopJson]


class TimedLayer(TypedDict):
    """The time of a kernel on a chip, and its share of the time of all.

    ``use`` has the share of the first wave in which each resource works; ``wave_cycles`` is the length of each round.
    The cycles of ``steps`` and those of ``critical_path`` add up to the length of the first wave.
    """

    layer: str
    schedule: str | None
    cycles: float
    microseconds: float
    share: float
    tflops: float | None
    ctas: int
    ctas_per_sm: int
    waves: int
    wave_cycles: list[float]
    l2_bytes_per_clk: float
    use: dict[str, float]
    steps: list[TimedStep]
    assembly: AssemblyJson | None
    critical_path: list[TimedPart]


class WhatIfTimeJson(TypedDict):
    """The time of a kernel in a setting; ``planned``: the report is about it; ``fastest``: of the layer's schedules."""

    layer: str
    schedule: str | None
    planned: bool
    fastest: bool
    cycles: float
    microseconds: float


class WhatIfSettingJson(TypedDict):
    """A setting of a choice, or low, value or high of a number, and the parameters that it replaces."""

    setting: str
    numbers: dict[str, float]
    times: list[WhatIfTimeJson]


class WhatIfJson(TypedDict):
    """The settings of a name side by side; ``unit`` is null for a choice."""

    name: str
    unit: str | None
    settings: list[WhatIfSettingJson]


class TimeJson(TypedDict):
    """Times of ``convc time``; ``waits_for``: share of all by cause; ``gaps_microseconds``: between graph launches."""

    format: Literal["convc-time/2"]
    source: str
    chip: str
    microseconds: float
    gaps_microseconds: float
    waits_for: dict[str, float]
    layers: list[TimedLayer]
    what_ifs: list[WhatIfJson]


class ExplainedCode(TypedDict):
    """A short name in messages, and what it means."""

    code: str
    kind: Literal["error", "finding", "verdict", "audit", "switch", "rule"]
    name: str
    exit_code: int | None
    explanation: str


class ExplainJson(TypedDict):
    """Explanations of ``convc explain``."""

    format: Literal["convc-explain/2"]
    codes: list[ExplainedCode]


def read_schema(format: str) -> dict[str, Any]:
    """The JSON Schema of a file that is read; KeyError where there is none of that format."""
    return _finished(format, *_parts(READ[format]))


def written_schema(format: str, record: Any) -> dict[str, Any]:
    """The JSON Schema of a report of this type, with what `convc.report.output.json_text` adds."""
    root, others = _parts(record)
    root["properties"]["convc"] = {"type": "string", "description": "version of the program that wrote it"}
    root["required"] = sorted([*root["required"], "convc"])
    return _finished(format, _nullable(root), _nullable(others))


def record_type(name: str, base: type, doc: str, **more: Any) -> type:
    """A type with the fields of a record, all of them required, and with more, or others of the same names."""
    hints = get_type_hints(base, include_extras=True) | more
    return msgspec.defstruct(name, list(hints.items()), namespace={"__doc__": doc})


def _parts(record: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The schema of a type, and those of the types that it refers to."""
    schema = msgspec.json.schema(record)
    others = schema["$defs"]
    if "ScheduleOptions" in others:
        _describe(others["ScheduleOptions"]["properties"])
    return others.pop(schema["$ref"].rpartition("/")[2]), others


def _describe(properties: dict[str, dict[str, Any]]) -> None:
    """Say of each option of a schedule what its row says (`convc.compiler.options`)."""
    rows = get_type_hints(get_type_hints(NetworkRecord)["schedule"], include_extras=True)
    for name, hint in rows.items():
        option = hint.__metadata__[0]
        properties[name]["description"] = option.help
        if option.values and option.most is None:
            properties[name]["enum"] = [*option.values]


def _finished(format: str, root: dict[str, Any], others: dict[str, Any]) -> dict[str, Any]:
    """A schema that stands alone."""
    return {"$schema": DRAFT, **root, "title": format, "$defs": others}


def _nullable(schema: Any) -> Any:
    """A schema whose numbers may be null: infinite and NaN."""
    if isinstance(schema, list):
        return [_nullable(each) for each in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    loose: dict[str, Any] = {key: _nullable(value) for key, value in cast("dict[str, Any]", schema).items()}
    return loose | {"type": ["number", "null"]} if loose.get("type") == "number" else loose


def _layer() -> type:
    """A layer that was verified, with its verdict."""
    return record_type("Layer", LayerReport, f"{LayerReport.__doc__}", ok=bool)


def _verify() -> type:
    """One model, layer by layer, or as a network too."""
    output = record_type("Output", OutputReport, f"{OutputReport.__doc__}", ok=bool)
    network = record_type("Network", NetworkReport, f"{NetworkReport.__doc__}", outputs=tuple[output, ...])
    more = {"ok": bool, "departs": str | None, "sampled": Sampled | None, "layers": tuple[_layer(), ...]}
    return record_type(
        "Verify",
        VerifyReport,
        f"{VerifyReport.__doc__}",
        format=Literal["convc-verify/3"],
        network=network | None,
        **more,
    )


def _models() -> type:
    """Several models; in place of a report may stand the ``error`` that says why there is none."""
    hints = {**get_type_hints(VerifyReport), "format": str, "error": str, "layers": tuple[_layer(), ...]}
    optional = [(name, hint | msgspec.UnsetType, msgspec.UNSET) for name, hint in hints.items()]
    one = msgspec.defstruct("Model", [("model", str), ("ok", bool), *optional])
    fields: list[tuple[str, Any]] = [("format", Literal["convc-verify-models/2"]), ("ok", bool), ("models", list[one])]
    return msgspec.defstruct("VerifyModels", fields, namespace={"__doc__": _models.__doc__})


def _layers() -> type:
    """The layers of a model or a build, each with what its plan expects."""
    return record_type("Layers", Listing, f"{Listing.__doc__}", format=Literal["convc-layers/1"])


def _compile() -> type:
    """A build folder that was written: what its network.json says, and its kernels."""
    more = {"format": Literal["convc-compile/1"], "folder": str, "kernels": dict[str, KernelJson]}
    return record_type("Compile", NetworkRecord, f"{_compile.__doc__}", **more)


def _survey() -> type:
    """Every model of a folder, a line each."""
    return record_type("Survey", SurveyReport, f"{SurveyReport.__doc__}", format=Literal["convc-survey/1"], ok=bool)


WRITTEN: dict[str, Callable[[], Any]] = {
    "convc-audit/1": lambda: AuditJson,
    "convc-check/1": lambda: CheckJson,
    "convc-compile/1": _compile,
    "convc-error/1": lambda: ErrorJson,
    "convc-exec/1": lambda: ExecJson,
    "convc-explain/2": lambda: ExplainJson,
    "convc-inspect/1": lambda: InspectJson,
    "convc-launched/1": lambda: LaunchedJson,
    "convc-layers/1": _layers,
    "convc-network-run/2": lambda: NetworkRunJson,
    "convc-probe/1": lambda: ProbeJson,
    "convc-record/1": lambda: RecordJson,
    "convc-run/1": lambda: RunJson,
    "convc-settled/1": lambda: SettledJson,
    "convc-survey/1": _survey,
    "convc-time/2": lambda: TimeJson,
    "convc-verify/3": _verify,
    "convc-verify-models/2": _models,
}
"""The reports of commands, and what makes the type of each."""

READ: dict[str, Any] = {
    "convc-launch/1": LaunchSpec,
    "convc-build/4": NetworkRecord,
    "convc-probed/1": Probed,
    "convc-tuning/1": TuningFile,
}
"""Files that are read: the launch file of a kernel, network.json of a build folder, the answers of a GPU, and what was
measured of candidates."""
