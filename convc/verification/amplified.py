"""Tell a network that amplifies rounding from one in which something is wrong.

Every convolution was held against its bound, on its own input. Where all are right and an output deviates all the
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

import numpy as np
from onnx import NodeProto

from convc.runtime.network.convolutions import Convolutions
from convc.runtime.network.executor import Graph, Look
from convc.runtime.network.steps import Value
from convc.support.arrays import is_array
from convc.verification.records import RMS_ERROR, Amplification, OutputReport, VerifyReport
from convc.verification.rms_error import allowed_rms_error, rms_error, unit_of

SLACK = 16.0
"""Times the RMS error that the other precision lets expect."""

SAMPLE = 4096
"""Most elements of a tensor that are compared to find where the error grows."""

OTHERS = {"tf32": ("tf32x3", "bf16x6"), "bf16x3": ("bf16x6",), "tf32x3": ("tf32",), "bf16x6": ("tf32",)}
"""Precisions of float32 to compare one with, the first first."""

Again = Callable[[str | None, Look], VerifyReport]
"""Runs the network again and compares it: at another precision, or (None) as it was; told of each tensor."""


def examined(report: VerifyReport, graph: Graph, convolutions: Convolutions, again: Again) -> VerifyReport:
    """The report, with what another precision says where outputs deviate though all convolutions are right.

    Args:
        report: of the first run.
        graph: that ran.
        convolutions: of that run.
        again: runs it once more.
    """
    assert report.network is not None, "a whole network ran"
    bad = [output for output in report.network.outputs if not output.ok]
    if not bad or not all(layer.ok for layer in report.layers):
        return report
    if not any(layer.problem.out == "f32" for layer in report.layers):  # float16 and bfloat16 are as fine as they are
        return report
    others = OTHERS["tf32"] if convolutions.operand else OTHERS[convolutions.precision]
    finer = others[0] != "tf32"
    tensors = _Samples()
    other, *more = others
    second = again(other, tensors.keep)
    if finer and more and not all(output.ok for output in _outputs(second)):
        (other,) = more
        second = again(other, tensors.keep)
    outputs, amplification = _judged(report, second, other, finer=finer)
    again(None, tensors.compare)
    coarser = report if finer else second
    allowed = allowed_rms_error(len(coarser.layers), unit_of(coarser.layers))
    nodes = list(zip(graph.names, graph.model.graph.node, strict=True))
    node, before, behind = tensors.first_above(allowed, [output.name for output in bad], nodes)
    grows = dataclasses.replace(amplification, node=node, before=before, behind=behind)
    network = dataclasses.replace(report.network, outputs=outputs, amplification=grows)
    return dataclasses.replace(report, network=network)


def _outputs(report: VerifyReport) -> tuple[OutputReport, ...]:
    return () if report.network is None else report.network.outputs


def _judged(
    report: VerifyReport, second: VerifyReport, other: str, *, finer: bool
) -> tuple[tuple[OutputReport, ...], Amplification]:
    """The outputs in the light of a second run, and what that says."""
    own = allowed_rms_error(len(report.layers), unit_of(report.layers))
    its = allowed_rms_error(len(second.layers), unit_of(second.layers))
    beside = {output.name: _error(output) for output in _outputs(second)}
    right = all(layer.ok for layer in second.layers)
    outputs: list[OutputReport] = []
    for output in _outputs(report):
        first = (_error(output), own)
        coarse, fine = (first, (beside[output.name], its)) if finer else ((beside[output.name], its), first)
        least = fine[1] if _by_rms_error(output) else 0.0
        seen = coarse[0] if math.isfinite(coarse[0]) else 0.0  # NaN and infinities say nothing of a size
        explained = fine[0] <= max(least, SLACK * seen * fine[1] / coarse[1])
        may_round = _by_rms_error(output) or output.decided_by == "equality"  # and no tolerance of the user's decided
        amplified = right and not output.ok and may_round and explained
        outputs.append(dataclasses.replace(output, amplified=amplified))
    worst = max((output for output in _outputs(report) if not output.ok), key=_error)
    first_layer = next(layer for layer in report.layers if layer.problem.out == "f32")
    return tuple(outputs), Amplification(
        precision=first_layer.problem.operand,
        other=other,
        finer=finer,
        agrees=right and all(output.ok for output in _outputs(second)),
        measured=_error(worst),
        other_measured=beside[worst.name],
        counts=not _by_rms_error(worst),
        explained=all(output.ok for output in outputs),
    )


def _by_rms_error(output: OutputReport) -> bool:
    return output.decided_by == RMS_ERROR


def _error(output: OutputReport) -> float:
    """How far an output is off: its RMS error, or how many elements are wrong."""
    return output.measured if _by_rms_error(output) else float(output.count_wrong)


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
            behind = max((self.apart.get(output, 0.0) for output in node.output), default=0.0)
            if behind > allowed:
                before = max((self.apart.get(read, 0.0) for read in node.input), default=0.0)
                return f"{name} ({node.op_type})", before, behind
        return "", 0.0, 0.0


def _some(value: np.ndarray) -> np.ndarray:
    """At most `SAMPLE` elements, float64."""
    flat = value.reshape(-1)
    return flat[:: max(1, flat.size // SAMPLE)].astype(np.float64)
