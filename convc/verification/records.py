"""Findings about a result, a layer and a model: one family of records for layers and whole networks.

`convc verify` runs each layer on data of its own, on integers and on normal data. With random weights a network is run
as a whole, and each layer on what reached it. The question is the same, whether every element is what somebody else
computed, and so is the answer: a `Check` for each comparison, a `LayerReport` for each layer with all its checks, and a
`VerifyReport` or a `NetworkReport` for the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from convc.ir.findings import Finding
from convc.ir.network import SkippedNode
from convc.ir.planned import Planned
from convc.ir.problem import ConvProblem
from convc.machine import Counters
from convc.runtime.network.stats import RunStats
from convc.verification.compare import Comparison

Mode = Literal["integer", "normal", "network"]
"""What a layer ran on: small integers, normal data, or what reached it in its network."""

Oracle = Literal["reference", "onnxruntime"]
"""Who says what is right: `convc.verification.reference` in float64, or onnxruntime."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One run of a kernel, compared with what an oracle says.

    Attributes:
        mode: which data.
        oracle: who says what is right.
        ok: every element is right and the machine found no error.
        seconds: wall time of the machine.
        digest: 16 hexadecimal digits of the SHA-256 of the result's bytes; empty where there is no result.
        comparison: the elements; None where the kernel did not come to an end.
        writer: who wrote the first wrong element; None where none is wrong, or where nobody wrote it or was asked.
        findings: what the machine noticed, worst first.
        fault: the machine's message where the kernel did not come to an end.
    """

    mode: Mode
    oracle: Oracle = "reference"
    ok: bool
    seconds: float
    digest: str = ""
    comparison: Comparison | None = None
    writer: Finding | None = None
    findings: tuple[Finding, ...] = ()
    fault: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerReport:
    """Everything that was learnt about one layer.

    Attributes:
        name: as in the model.
        problem: what ran; in a network, three tf32 products have three times the channels of the node.
        schedule: how its kernel walks the convolution.
        kernel: name of the kernel's file in messages.
        counters: what one launch did; None where no launch came to an end.
        checks: of a layer by itself one for each mode, in a network one for each oracle that has an answer.
        fused: names of the nodes of the model that the kernel does as well.
        planned: what the planner expects of a launch; None where nobody planned it.
        drift: in a network, relative root mean square difference of the result from onnxruntime's run of the whole;
            None where there is none.
    """

    name: str
    problem: ConvProblem
    schedule: str
    kernel: str
    counters: Counters | None
    checks: tuple[Check, ...]
    fused: tuple[str, ...] = ()
    planned: Planned | None = None
    drift: float | None = None

    @property
    def ok(self) -> bool:
        """Every check is good."""
        return all(check.ok for check in self.checks)

    @property
    def seconds(self) -> float | None:
        """Wall time of the fastest launch that came to an end."""
        return min((check.seconds for check in self.checks if check.comparison is not None), default=None)

    def compared(self, mode: Mode, oracle: Oracle = "reference") -> Comparison | None:
        """A comparison; None where it was not asked for, the oracle has no answer, or the kernel came to no end."""
        for check in self.checks:
            if (check.mode, check.oracle) == (mode, oracle):
                return check.comparison
        return None

    def __repr__(self) -> str:
        verdict = "right" if self.ok else "WRONG"
        return f"<LayerReport {self.name}: {verdict}, {len(self.checks)} checks, schedule {self.schedule}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReport:
    """Findings about a model.

    Attributes:
        source: the model.
        seed: of the data.
        layers: one report for each convolution that was run.
        kernels: distinct kernels among them.
    """

    source: str
    seed: int
    layers: tuple[LayerReport, ...]
    kernels: int

    @property
    def ok(self) -> bool:
        """Every layer is right."""
        return all(layer.ok for layer in self.layers)

    @property
    def count_right(self) -> int:
        """Layers that are right."""
        return sum(layer.ok for layer in self.layers)

    def __repr__(self) -> str:
        right = f"{self.count_right} of {len(self.layers)} layers right"
        return f"<{type(self).__name__} {self.source}: {right}, {self.kernels} kernels, seed {self.seed}>"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class VerifyReport(ModelReport):
    """Findings about the layers of a model, each on data of its own.

    Attributes:
        skipped: nodes that were not compiled.
    """

    skipped: tuple[SkippedNode, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputReport:
    """One output of a network.

    Attributes:
        name, dtype, shape: of the output; where it is no array, ``dtype`` says what it is.
        drift: its relative root mean square difference from onnxruntime's; None where there is no answer.
        allowed: the drift that rounding explains.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    drift: float | None
    allowed: float

    @property
    def ok(self) -> bool:
        """Not departed, as far as is known."""
        return self.drift is None or self.drift <= self.allowed


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class NetworkReport(ModelReport):
    """Findings of a run of a whole network with random weights; ``layers`` are in the order in which they ran.

    Attributes:
        stats: what ran where.
        replaced: constants that got random values.
        outputs: of the network.
        onnxruntime: its version; empty where it was not there.
        silent: why onnxruntime gave no answer for the whole network; empty where it did.
        channels: input channels of all convolutions.
        zero_channels: how many of those are zero everywhere: no wrong weight that reads them would show.
    """

    stats: RunStats
    replaced: int
    outputs: tuple[OutputReport, ...]
    onnxruntime: str
    silent: str
    channels: int = 0
    zero_channels: int = 0

    @property
    def departs(self) -> str | None:
        """The first layer that is wrong, or else an output that departed; None where all is well."""
        parts = (*self.layers, *self.outputs)
        return next((part.name for part in parts if not part.ok), None)

    @property
    def ok(self) -> bool:
        """No layer and no output departs."""
        return self.departs is None
