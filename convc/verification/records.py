"""Findings about a result, a layer and a model: one family of records for layers and whole networks.

`convc verify` runs each layer by itself, on integers and on normal data, or the network as a whole, each layer on what
reached it. The answer has the same records: a `Check` for each comparison, a `LayerReport` for each layer with all its
checks, and a `VerifyReport` for the model, which has a `NetworkReport` where the network ran as a whole.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from convc.ir.findings import Finding, Verdict
from convc.ir.network import SkippedNode
from convc.ir.planned import Planned
from convc.ir.problem import ConvProblem
from convc.machine import Counters
from convc.runtime.network.stats import RunStats
from convc.support.counted import counted
from convc.support.files import to_npy_dtype
from convc.support.html import table_html
from convc.verification.compare import Comparison

if TYPE_CHECKING:
    import numpy as np

    from convc.runtime.layer import LayerRun

Mode = Literal["integer", "normal", "network"]
"""What a layer ran on: small integers, normal data, or what reached it in its network."""

Oracle = Literal["reference", "onnxruntime"]
"""Who says what is right: `convc.verification.reference` in float64, or onnxruntime."""

RMS_ERROR = "relative RMS error"
"""The rule that decides about an output as a whole (`convc.verification.outputs`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One run of a kernel, compared with what an oracle says.

    Attributes:
        mode: which data.
        oracle: who says what is right.
        ok: every element is right and the simulator found no error.
        seconds: wall time of the simulator.
        digest: 16 hexadecimal digits of the SHA-256 of the result's bytes; empty where there is no result.
        comparison: the elements; None where the kernel did not come to an end.
        writer: who wrote the first wrong element; None where none is wrong, it was not written or not asked for.
        findings: what the simulator noticed, worst first.
        fault: the simulator's message where the kernel did not come to an end.
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

    @classmethod
    def of(
        cls,
        run: LayerRun,
        mode: Mode,
        comparison: Comparison,
        y: np.ndarray | None = None,
        fault: str = "",
        **more: Any,
    ) -> Check:
        """The check of a run that came to an end: what an oracle says of its elements, and the simulator of the rest.

        ``y`` are the elements that were compared, where they are not all of the result.
        """
        return cls(
            mode=mode,
            ok=comparison.ok and not fault and run.verdict < Verdict.incomplete,
            seconds=run.seconds,
            digest=hashlib.sha256(to_npy_dtype(run.y if y is None else y).data).hexdigest()[:16],
            comparison=comparison,
            findings=run.findings,
            fault=fault,
            **more,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """Share of a launch that was run: ``ctas`` of the ``of`` CTAs that it has. Nothing is known of the others."""

    ctas: int
    of: int

    def __str__(self) -> str:
        return f"{self.ctas} of {self.of} CTAs"


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
        planned: what the planner expects of a launch; None where it was not planned.
        relative_rms_error: in a network, root mean square difference of the result from onnxruntime's run of the whole;
            None where there is none.
        sampled: how many of its CTAs were run; None: all of them.
    """

    name: str
    problem: ConvProblem
    schedule: str
    kernel: str
    counters: Counters | None
    checks: tuple[Check, ...]
    fused: tuple[str, ...] = ()
    planned: Planned | None = None
    relative_rms_error: float | None = None
    sampled: Sampled | None = None

    @property
    def ok(self) -> bool:
        """Every check is good, of those CTAs that were run."""
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

    @property
    def verdict(self) -> str:
        """Whether it is right, and of how many of its CTAs that is known."""
        if not self.ok:
            return "WRONG"
        return "right" if self.sampled is None else f"right in {self.sampled}"

    def __repr__(self) -> str:
        checks = counted(len(self.checks), "check")
        return f"<LayerReport {self.name}: {self.verdict}, {checks}, schedule {self.schedule}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Amplification:
    """The comparison with another precision where outputs deviate though all convolutions are right.

    Attributes:
        precision: what was multiplied.
        other: what was multiplied in the other run.
        finer: whether that one rounds less.
        agrees: all outputs of the other run are as expected.
        measured, other_measured: RMS error of the worst output, in both runs; or how many elements of it are wrong.
        counts: whether these are elements.
        explained: rounding explains all outputs.
        node: the first node, with its operator, behind which the two runs differ by more than rounding explains; empty
            where there is none.
        before, behind: by how much they differ there.
    """

    precision: str
    other: str
    finer: bool
    agrees: bool
    measured: float
    other_measured: float
    counts: bool
    explained: bool
    node: str = ""
    before: float = 0.0
    behind: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """Largest difference of an output: |got - expected| <= atol + rtol * |expected|, as `numpy.allclose` has it."""

    atol: float = 0.0
    rtol: float = 0.0

    def __str__(self) -> str:
        return f"atol {self.atol:g} + rtol {self.rtol:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputReport:
    """One output of a network, and what was expected of it.

    Attributes:
        name, dtype, shape: of the output.
        decided_by: the rule that decided (`convc.verification.outputs`); empty: nothing
            was expected of it.
        count_wrong: elements that the rule does not allow; 1 where the RMS error is too large.
        worst_error: largest |got - expected|.
        limit: what the error or the RMS error was held against: 1 for a share of the derived bound.
        measured: what was compared with that limit.
        first: index of the first wrong element; None where there is none, or where the rule looks at all together.
        got, expected: there.
        count_nan: elements that are NaN in the result and in what is expected alike; they count as right.
        amplified: another precision shows that it is off by rounding, which the network amplifies.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    decided_by: str = ""
    count_wrong: int = 0
    worst_error: float = 0.0
    limit: float = 0.0
    measured: float = 0.0
    first: tuple[int, ...] | None = None
    got: float = 0.0
    expected: float = 0.0
    count_nan: int = 0
    amplified: bool = False

    @property
    def ok(self) -> bool:
        """Nothing is wrong but by rounding, as far as anything was expected."""
        return not self.count_wrong or self.amplified


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkReport:
    """Findings of a run of a whole network, besides those on its layers.

    Attributes:
        stats: what ran where.
        outputs: of the network.
        oracle: who said what is expected of the outputs: a file, onnxruntime with its version, or onnx.reference;
            empty where none did.
        silent: why onnxruntime was not asked, or had no answer; empty where it had, or where a file says it.
        shapes: of the data for inputs whose extents the model leaves open, by name: with these as its shapes it is read
            as it ran.
        replaced: constants that got random values; None where the network ran with its own.
        channels: input channels of all convolutions.
        zero_channels: how many of those are zero everywhere: no wrong weight that reads them would show.
        amplification: of outputs that deviate; None where none does, or there is no other precision.
    """

    stats: RunStats
    outputs: tuple[OutputReport, ...]
    oracle: str
    silent: str = ""
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    replaced: int | None = None
    channels: int = 0
    zero_channels: int = 0
    amplification: Amplification | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    """Findings about a model.

    Attributes:
        source: the model.
        seed: of the data; None where all of it was given.
        layers: one report for each convolution that was run; of a network, in the order in which they ran.
        kernels: distinct kernels among them.
        skipped: nodes that were not compiled.
        network: what the whole network made; None where each layer ran by itself.
    """

    source: str
    seed: int | None
    layers: tuple[LayerReport, ...]
    kernels: int
    skipped: tuple[SkippedNode, ...] = ()
    network: NetworkReport | None = None

    @property
    def departs(self) -> str | None:
        """The first layer that is wrong, or else an output that deviates; None where all is well."""
        outputs = () if self.network is None else self.network.outputs
        return next((part.name for part in (*self.layers, *outputs) if not part.ok), None)

    @property
    def ok(self) -> bool:
        """Every layer and every output is right."""
        return self.departs is None

    @property
    def count_right(self) -> int:
        """Layers that are right."""
        return sum(layer.ok for layer in self.layers)

    @property
    def sampled(self) -> Sampled | None:
        """Share of all launches that was run, where layers were sampled; None: all of them."""
        parts = [layer.sampled for layer in self.layers if layer.sampled is not None]
        return Sampled(ctas=sum(part.ctas for part in parts), of=sum(part.of for part in parts)) if parts else None

    def _repr_html_(self) -> str:
        rows = [(layer.name, layer.problem.describe(), layer.schedule, layer.verdict) for layer in self.layers]
        return table_html(repr(self)[1:-1], ("layer", "convolution", "schedule", "verdict"), rows)

    def __repr__(self) -> str:
        right = f"{self.count_right} of {len(self.layers)} layers right"
        if self.sampled is not None:
            right += f" in a sample of {self.sampled}"
        if self.network is not None:
            compared = [output for output in self.network.outputs if output.decided_by]
            right += f", {sum(output.ok for output in compared)} of {len(compared)} outputs right"
        seed = "" if self.seed is None else f", seed {self.seed}"
        return f"<VerifyReport {self.source}: {right}, {counted(self.kernels, 'kernel')}{seed}>"
