"""convc: implicit-GEMM convolutions for NVIDIA Blackwell, compiled to PTX text that is run and checked here.

    import convc
    build = convc.compile("resnet50.onnx", "build", layer="conv1")
    y = convc.run(build, x)
    report = convc.verify("resnet50.onnx", seed=7)

The verbs are the interface for programs; each has a module in `convc.api`, which has their table. Bad input raises a
`ConvcError`. A verb and the packages behind it are imported on first use: ``import convc`` loads nothing, and `run`
works without onnx, islpy and jinja2.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from convc._version import __version__ as __version__

if TYPE_CHECKING:
    from convc.api.auditing import AuditReport, KernelAudit, audit
    from convc.api.bench import TunedLayer, TuneReport
    from convc.api.checking import CheckReport, KernelCheck, check
    from convc.api.compiling import compile
    from convc.api.differentiating import ConvGradients, gradients
    from convc.api.inputs import InputData
    from convc.api.inspecting import Inspection, inspect
    from convc.api.launch_jobs import KernelInputs
    from convc.api.launching import launch, write_host_program
    from convc.api.loading import load
    from convc.api.options import ChipOptions, GpuOptions, MachineOptions, ReadOptions, TuneOptions, WorkOptions
    from convc.api.probing import ProbeRun, assumptions, run_probes, settle_probes
    from convc.api.recording import record
    from convc.api.running import run, run_layer
    from convc.api.running_networks import run_model, run_network
    from convc.api.sanitizing import Sanitized, sanitize
    from convc.api.simulating import Simulation, simulate
    from convc.api.surveying import survey
    from convc.api.timing import LayerTime, TimeReport, time
    from convc.api.tuning import tune, tune_layers
    from convc.api.verifying import Expected, verify
    from convc.build.folder import Build, load_build
    from convc.compiler.options import ScheduleOptions
    from convc.errors import ConvcError
    from convc.gpu.result import Launched
    from convc.ir.launch import LaunchSpec
    from convc.ir.network import Network
    from convc.probe.assumed import Assumptions
    from convc.probe.settled import Settled
    from convc.recorder.program import Recording
    from convc.runtime.layer import LayerRun
    from convc.runtime.network.stats import NetworkRun
    from convc.verification.records import LayerReport, NetworkReport, VerifyReport
    from convc.verification.survey import SurveyReport
    from convc.workers.pool import Pool

__all__ = [
    "Assumptions",
    "AuditReport",
    "Build",
    "CheckReport",
    "ChipOptions",
    "ConvGradients",
    "ConvcError",
    "Expected",
    "GpuOptions",
    "InputData",
    "Inspection",
    "KernelAudit",
    "KernelCheck",
    "KernelInputs",
    "LaunchSpec",
    "Launched",
    "LayerReport",
    "LayerRun",
    "LayerTime",
    "MachineOptions",
    "Network",
    "NetworkReport",
    "NetworkRun",
    "Pool",
    "ProbeRun",
    "ReadOptions",
    "Recording",
    "Sanitized",
    "ScheduleOptions",
    "Settled",
    "Simulation",
    "SurveyReport",
    "TimeReport",
    "TuneOptions",
    "TuneReport",
    "TunedLayer",
    "VerifyReport",
    "WorkOptions",
    "assumptions",
    "audit",
    "check",
    "compile",
    "gradients",
    "inspect",
    "launch",
    "load",
    "load_build",
    "record",
    "run",
    "run_layer",
    "run_model",
    "run_network",
    "run_probes",
    "sanitize",
    "settle_probes",
    "simulate",
    "survey",
    "time",
    "tune",
    "tune_layers",
    "verify",
    "write_host_program",
]

_HOME = {
    "Assumptions": "convc.probe.assumed",
    "AuditReport": "convc.api.auditing",
    "Build": "convc.build.folder",
    "CheckReport": "convc.api.checking",
    "ChipOptions": "convc.api.options",
    "ConvGradients": "convc.api.differentiating",
    "ConvcError": "convc.errors",
    "Expected": "convc.api.verifying",
    "GpuOptions": "convc.api.options",
    "InputData": "convc.api.inputs",
    "Inspection": "convc.api.inspecting",
    "KernelAudit": "convc.api.auditing",
    "KernelCheck": "convc.api.checking",
    "KernelInputs": "convc.api.launch_jobs",
    "LaunchSpec": "convc.ir.launch",
    "Launched": "convc.gpu.result",
    "LayerReport": "convc.verification.records",
    "LayerRun": "convc.runtime.layer",
    "LayerTime": "convc.api.timing",
    "MachineOptions": "convc.api.options",
    "Network": "convc.ir.network",
    "NetworkReport": "convc.verification.records",
    "NetworkRun": "convc.runtime.network.stats",
    "Pool": "convc.workers.pool",
    "ProbeRun": "convc.api.probing",
    "ReadOptions": "convc.api.options",
    "Recording": "convc.recorder.program",
    "Sanitized": "convc.api.sanitizing",
    "ScheduleOptions": "convc.compiler.options",
    "Settled": "convc.probe.settled",
    "Simulation": "convc.api.simulating",
    "SurveyReport": "convc.verification.survey",
    "TimeReport": "convc.api.timing",
    "TuneOptions": "convc.api.options",
    "TuneReport": "convc.api.bench",
    "TunedLayer": "convc.api.bench",
    "VerifyReport": "convc.verification.records",
    "WorkOptions": "convc.api.options",
    "assumptions": "convc.api.probing",
    "audit": "convc.api.auditing",
    "check": "convc.api.checking",
    "compile": "convc.api.compiling",
    "gradients": "convc.api.differentiating",
    "inspect": "convc.api.inspecting",
    "launch": "convc.api.launching",
    "load": "convc.api.loading",
    "load_build": "convc.build.folder",
    "record": "convc.api.recording",
    "run": "convc.api.running",
    "run_layer": "convc.api.running",
    "run_model": "convc.api.running_networks",
    "run_network": "convc.api.running_networks",
    "run_probes": "convc.api.probing",
    "sanitize": "convc.api.sanitizing",
    "settle_probes": "convc.api.probing",
    "simulate": "convc.api.simulating",
    "survey": "convc.api.surveying",
    "time": "convc.api.timing",
    "tune": "convc.api.tuning",
    "tune_layers": "convc.api.tuning",
    "verify": "convc.api.verifying",
    "write_host_program": "convc.api.launching",
}
"""The module of each name in ``__all__``. No module below ``convc`` is called as a verb is: importing it would hide the
verb."""


def __getattr__(name: str) -> Any:
    if name in ("api", "layout"):
        return importlib.import_module(f"convc.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'convc' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "api", "layout"})
