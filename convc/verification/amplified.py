"""Tell a network that amplifies rounding from one in which something is wrong.

Every convolution was held against its bound, on its own input. Where all are right and an output drifted all the
same, there are two reasons. The network may amplify what operands are rounded by: a logarithm of what nearly cancels, a
quotient by a small number, a choice of the larger of two like numbers. Or a node beside the convolutions is wrong. What
tells them apart is another precision: rounding a thousand times less moves an amplified error a thousand times less,
and no other. So the network is run once more, at a finer precision, or where it was the finest at a coarser one, and
the finer RMS error must be within what its rounding explains, or `SLACK` times what the coarser RMS error lets expect,

    finer <= SLACK * coarser * allowed(finer) / allowed(coarser),

where allowed is that of `convc.verification.network`. The slack is for networks that are not linear.

Where the error grows is known from the tensors of both runs: the first node on the way to that output whose result
differs by more than is allowed.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from onnx import NodeProto

from convc.runtime.network.convolutions import Convolutions
from convc.runtime.network.executor import Graph, Look
from convc.runtime.network.steps import Value
from convc.support.arrays import is_array
from convc.verification.records import Amplification, DataReport, ExpectedOutput, NetworkReport, OutputReport
from convc.verification.rms_error import allowed_rms_error, rms_error, unit_of

SLACK = 16.0
"""Times the RMS error that the other precision lets expect."""

SAMPLE = 4096
"""Most elements of a tensor that are compared to find where the error grows."""

OTHERS = {"tf32": ("tf32x3", "bf16x6"), "bf16x3": ("bf16x6",), "tf32x3": ("tf32",), "bf16x6": ("tf32",)}
"""Precisions of float32 to compare one with, the first first."""

Report = TypeVar("Report", DataReport, NetworkReport)
Again = Callable[[str | None, Look], Report]
"""Runs the network again and compares it: at another precision, or (None) as it was; told of each tensor."""


def examined(report: Report, graph: Graph, convolutions: Convolutions, again: Again[Report]) -> Report:
    """The report, with what another precision says where outputs drifted though all convolutions are right.

    Args:
        report: of the first run.
        graph: that ran.
        convolutions: of that run.
        again: runs it once more.
    """
    bad = [output for output in report.outputs if not output.ok]
    if not bad or not all(layer.ok for layer in report.layers):
        return report
    if not any(layer.problem.out == "f32" for layer in report.layers):  # float16 and bfloat16 are as fine as they are
        return report
    others = OTHERS["tf32"] if convolutions.operand else OTHERS[convolutions.precision]
    finer = others[0] != "tf32"
    first, *more = others
    tensors = _Samples()
    second = again(first, tensors.keep)
    found = _judged(report, second, first, finer=finer)
    if finer and more and not all(output.ok for output in second.outputs):
        second = again(more[0], tensors.keep)
        found = _judged(report, second, more[0], finer=finer)
    again(None, tensors.compare)
    coarser = report if finer else second
    allowed = allowed_rms_error(len(coarser.layers), unit_of(coarser.layers))
    nodes = list(zip(graph.names, graph.model.graph.node, strict=True))
    node, before, behind = tensors.first_above(allowed, [output.name for output in bad], nodes)
    assert found.amplification is not None
    grows = dataclasses.replace(found.amplification, node=node, before=before, behind=behind)
    return dataclasses.replace(found, amplification=grows)


def _judged(report: Report, second: Report, other: str, *, finer: bool) -> Report:
    """The report in the light of a second run."""
    own = allowed_rms_error(len(report.layers), unit_of(report.layers))
    its = allowed_rms_error(len(second.layers), unit_of(second.layers))
    beside = {output.name: output for output in second.outputs}
    right = all(layer.ok for layer in second.layers)
    outputs: list[OutputReport | ExpectedOutput] = []
    for output in report.outputs:
        one = _measured(output)
        two = _measured(beside[output.name])
        coarse, fine = ((one, own), (two, its)) if finer else ((two, its), (one, own))
        least = 0.0 if coarse[0].counts else fine[1]
        seen = coarse[0].value if math.isfinite(coarse[0].value) else 0.0  # NaN and infinities say nothing of a size
        explained = fine[0].value <= max(least, SLACK * seen * fine[1] / coarse[1])
        by_rounding = right and not output.ok and one.may_round and explained
        outputs.append(dataclasses.replace(output, amplified=by_rounding) if by_rounding else output)
    worst = max((output for output in report.outputs if not output.ok), key=lambda output: _measured(output).value)
    first_layer = next(layer for layer in report.layers if layer.problem.out == "f32")
    made = Amplification(
        precision=first_layer.problem.operand,
        other=other,
        finer=finer,
        agrees=right and all(output.ok for output in second.outputs),
        measured=_measured(worst).value,
        other_measured=_measured(beside[worst.name]).value,
        counts=_measured(worst).counts,
        explained=all(output.ok for output in outputs),
    )
    return dataclasses.replace(report, outputs=tuple(outputs), amplification=made)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    """How far an output is off: an RMS error or a count of elements; ``may_round``: no user's tolerance decided."""

    value: float
    counts: bool
    may_round: bool


def _measured(output: OutputReport | ExpectedOutput) -> _Measured:
    """How far an output is off."""
    if isinstance(output, OutputReport):
        return _Measured(value=output.drift or 0.0, counts=False, may_round=True)
    drifted = output.decided_by == "relative RMS error"
    value = output.measured if drifted else float(output.count_wrong)
    return _Measured(value=value, counts=not drifted, may_round=drifted or output.decided_by == "equality")


@dataclass(slots=True)
class _Samples:
    """Elements of every tensor of one run, and how far those of another are from them."""

    kept: dict[str, np.ndarray] = field(default_factory=dict)
    apart: dict[str, float] = field(default_factory=dict)

    def keep(self, name: str, value: Value) -> None:
        """Keep some elements of a tensor."""
        if is_array(value) and value.dtype.kind in "fV":
            self.kept[name] = _some(value)

    def compare(self, name: str, value: Value) -> None:
        """Compare a tensor with the one that was kept."""
        if name in self.kept and is_array(value):
            self.apart[name] = rms_error(_some(value), self.kept[name]) or 0.0

    def first_above(
        self, allowed: float, outputs: Sequence[str], nodes: Sequence[tuple[str, NodeProto]]
    ) -> tuple[str, float, float]:
        """The first node on the way to outputs that differs by more than is allowed, before and behind it."""
        wanted = set(outputs)
        on_the_way: list[tuple[str, NodeProto]] = []
        for name, node in reversed(nodes):
            if wanted.intersection(node.output):
                wanted.update(node.input)
                on_the_way.append((name, node))
        for name, node in reversed(on_the_way):
            behind = max((self.apart.get(made, 0.0) for made in node.output), default=0.0)
            if behind > allowed:
                before = max((self.apart.get(read, 0.0) for read in node.input), default=0.0)
                return f"{name} ({node.op_type})", before, behind
        return "", 0.0, 0.0


def _some(value: np.ndarray) -> np.ndarray:
    """At most `SAMPLE` elements, float64."""
    flat = value.reshape(-1)
    return flat[:: max(1, flat.size // SAMPLE)].astype(np.float64)
