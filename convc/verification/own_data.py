r"""Verify a network on data of the user's: its own weights, every convolution by itself, and its outputs.

**Each convolution** is held against the float64 reference on its own input, inside the derived bound, as
`convc.verification.network` does with random weights. Nodes that were fused into it are part of it.

**Each output** is held against what the user expects, or else against onnxruntime's run of the model, or else against
that of `onnx.reference`. One rule decides, and the report says which:

    tolerance       |got - expected| <= atol + rtol |expected| for every element, where the user gave one
    equality        whole numbers and truth values of an output that is not 8 bits wide
    derived bound   the model is one convolution with nothing fused or behind it, and rounding its operands explains
                    the difference (`convc.verification.node`)
    RMS error       else: the root mean square of the difference, relative, within what rounding explains
                    (`convc.verification.network`); more is right where another precision shows that the network
                    amplifies rounding (`convc.verification.amplified`)
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import onnx

from convc.errors import InputError, NodeError
from convc.frontend.onnx_reader import is_convolution
from convc.runtime.network import ort_session
from convc.runtime.network.constants import StartValues
from convc.runtime.network.convolutions import Arrays, Convolutions, ConvRun, Ready
from convc.runtime.network.executor import Graph, Look
from convc.runtime.network.host import HostNodes
from convc.runtime.network.steps import Value, describe_value
from convc.support.arrays import is_array
from convc.support.progress import SILENT, Progress
from convc.verification.amplified import examined
from convc.verification.layer import check_of, layer_report
from convc.verification.node import against_onnxruntime, against_reference
from convc.verification.records import DataReport, ExpectedOutput, LayerReport, Tolerance
from convc.verification.rms_error import Allowed, allowed_of, bounded_outputs, rms_error


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Expectations of a run.

    Attributes:
        outputs: arrays for some outputs, or all.
        oracle: who says so, for the report.
        tolerance: decides about the outputs, in place of the rules of the module's head.
        silent: see `DataReport`.
    """

    outputs: Mapping[str, np.ndarray]
    oracle: str
    tolerance: Tolerance | None = None
    silent: str = ""


def verify_run(
    graph: Graph,
    feeds: Mapping[str, np.ndarray],
    wanted: Wanted,
    convolutions: Convolutions,
    *,
    progress: Progress = SILENT,
    remake: Callable[[Convolutions], Graph] | None = None,
) -> DataReport:
    """Run a network and compare its convolutions with the reference and its outputs with what is expected.

    Args:
        graph: ready to run, with its own weights.
        feeds: an array for each input.
        wanted: of the outputs.
        convolutions: those of the graph.
        remake: makes the graph again, with nothing fused, for other convolutions; it is asked where outputs drifted
            (`convc.verification.amplified`).

    Raises:
        InputError: an output has another shape than what is expected of it.
        ConvcError: see `Graph`.
    """
    nodes = graph.model.graph.node
    reference = HostNodes(graph.model, {}, "reference")
    layers: list[LayerReport] = []
    runs: list[ConvRun] = []

    def watch(name: str, ran: ConvRun) -> None:
        node = ran.node
        given = dict(zip(node.input, ran.arrays, strict=True))
        right = against_reference(ran, lambda: reference.build(node, name).run(given)[0])
        kernel = convolutions.kernels.compiled(ran.conv.problem)
        layers.append(layer_report(ran.conv, kernel, [check_of(ran.run, "network", right)], ran.run.counters))
        runs.append(ran)

    results = graph.run(feeds, watch, progress)
    alone = len(runs) == len(nodes) == 1 and is_convolution(nodes[0])  # and not one inside a loop
    only = dict.fromkeys(nodes[0].output, runs[0]) if alone else {}
    bounded = bounded_outputs(nodes)
    outputs = [
        _judged(
            name,
            value,
            wanted.outputs.get(name),
            wanted.tolerance,
            only.get(name),
            allowed_of(name, layers, bounded),
        )
        for name, value in results.items()
    ]
    report = DataReport(
        source=graph.name,
        layers=tuple(layers),
        kernels=len({layer.kernel for layer in layers}),
        stats=graph.stats,
        outputs=tuple(outputs),
        oracle=wanted.oracle,
        silent=wanted.silent,
    )
    if remake is None:
        return report

    def again(precision: str | None, look: Look) -> DataReport:
        """Run and compare as it is, or at another precision."""
        runner = convolutions
        if precision is not None:
            runner = dataclasses.replace(convolutions, operand=None, precision=precision)
        other = remake(runner)
        other.look = look
        return verify_run(other, feeds, wanted, runner, progress=progress)

    return examined(report, graph, convolutions, again)


def oracle_outputs(model: onnx.ModelProto, folder: Path, feeds: Mapping[str, np.ndarray]) -> Wanted:
    """Run the model by onnxruntime, where it is installed and takes it, or else by `onnx.reference`.

    Returns:
        Outputs by name, who made them, and why that was not onnxruntime.
    """
    version = ort_session.available()
    silent = "onnxruntime is not installed (pip install 'convc[onnxruntime]')"
    if version:
        start = StartValues(model.graph, folder)
        outside = [tensor.name for tensor in model.graph.initializer if tensor.data_location == tensor.EXTERNAL]
        replaced = {name: value for name in outside if is_array(value := start.value(name))}
        answer = ort_session.run_model(model, feeds, replaced, [])
        if not isinstance(answer, str):
            return Wanted(outputs=answer, oracle=f"onnxruntime {version}")
        silent = answer
    graph = Graph(model, folder=folder, convolutions=_OnHost(), refused="host", host="reference")
    found = graph.run(feeds)
    arrays = {name: value for name, value in found.items() if is_array(value)}
    return Wanted(outputs=arrays, oracle="onnx.reference", silent=silent)


class _OnHost(Convolutions):
    """Convolutions that are all left to the host."""

    def prepare(self, node: onnx.NodeProto, name: str, arrays: Arrays) -> Ready:
        raise NodeError("run by the host, whose result is the reference", where=name)


def _judged(
    name: str,
    value: Value,
    expected: np.ndarray | None,
    tolerance: Tolerance | None,
    only: ConvRun | None,
    allowed: Allowed,
) -> ExpectedOutput:
    if not is_array(value):
        return ExpectedOutput(name=name, dtype=describe_value(value), shape=())
    if expected is None or value.dtype.kind in "OUS":
        return ExpectedOutput(name=name, dtype=value.dtype.name, shape=value.shape)
    if expected.shape != value.shape:
        raise InputError(
            f"expected an array of the output's shape {list(value.shape)}, got {list(expected.shape)}",
            where=f"output {name!r}",
        )
    if tolerance is not None:
        return _element_by_element(name, value, expected, tolerance, str(tolerance))
    if value.dtype.kind in "iub" and value.dtype.itemsize > 1:
        return _element_by_element(name, value, expected, Tolerance(), "equality")
    if only is not None and value.dtype.kind not in "iub" and not only.conv.fused:
        bounded = against_onnxruntime(only, expected)
        if bounded is not None:
            return ExpectedOutput(
                name=name,
                dtype=value.dtype.name,
                shape=value.shape,
                decided_by="derived bound",
                count_wrong=bounded.count_wrong,
                worst_error=bounded.worst_error,
                limit=1.0,
                measured=bounded.worst_ratio,
                first=bounded.first,
                got=bounded.got,
                expected=bounded.expected,
                count_nan=bounded.count_nan,
            )
    error = _errors(value, expected)
    far = rms_error(value, expected, allowed.least)
    assert far is not None, "something is expected"
    return ExpectedOutput(
        name=name,
        dtype=value.dtype.name,
        shape=value.shape,
        decided_by="relative RMS error",
        count_wrong=int(not far <= allowed.rms_error),
        worst_error=float(error.max(initial=0.0)),
        limit=allowed.rms_error,
        measured=far,
        count_nan=_both_nan(value, expected),
    )


def _element_by_element(
    name: str, value: np.ndarray, expected: np.ndarray, tolerance: Tolerance, rule: str
) -> ExpectedOutput:
    """The report on an output of which every element is held against a tolerance."""
    error = _errors(value, expected)
    wide = np.abs(expected.astype(np.float64))
    limit = tolerance.atol + tolerance.rtol * np.where(np.isfinite(wide), wide, 0.0)
    wrong = ~(error <= limit)
    count = int(np.count_nonzero(wrong))
    worst = float(error.max(initial=0.0))
    made = partial(ExpectedOutput, name=name, dtype=value.dtype.name, shape=value.shape, decided_by=rule)
    if not value.size:
        return made()
    where = np.unravel_index(int(np.argmax(wrong if count else error - limit)), value.shape)
    return made(
        count_wrong=count,
        worst_error=worst,
        limit=float(limit[where]),
        measured=float(error[where]),
        first=tuple(int(i) for i in where) if count else None,
        got=float(value[where]),
        expected=float(expected[where]),
        count_nan=_both_nan(value, expected),
    )


def _both_nan(value: np.ndarray, expected: np.ndarray) -> int:
    """How many elements are NaN on both sides."""
    return int(np.count_nonzero(np.isnan(value.astype(np.float64)) & np.isnan(expected.astype(np.float64))))


def _errors(value: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """|got - expected| in float64; 0 where both are the same infinity or both NaN, infinite where one is NaN."""
    got = value.astype(np.float64)
    wide = expected.astype(np.float64)
    same = (got == wide) | (np.isnan(got) & np.isnan(wide))
    with np.errstate(invalid="ignore"):
        error = np.abs(got - wide)
    return np.where(same, 0.0, np.where(np.isnan(error), math.inf, error))  # an array also where they are scalars
