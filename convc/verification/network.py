r"""Verify a whole network: every convolution by itself, on the input that reached it, and the outputs.

**Layer by layer**, so that a layer's verdict does not depend on what earlier layers did: against the float64 reference,
and of a network with random weights against onnxruntime too, where it is installed, within derived bounds
(`convc.verification.node`). Nodes that were fused into a convolution are part of it. The first layer that fails departs
first.

**End to end** there is no useful derived bound: worst cases multiply from layer to layer. The outputs are held against
what the user expects, or else against onnxruntime's run of the model, or with the model's own weights against that of
`onnx.reference` (`convc.verification.outputs`), mostly by the *relative RMS error*, the root mean square of the
difference as a share of the root mean square of what is expected. Rounding of operands makes independent errors of
about u at each of the d convolutions on the way, so sqrt(d) u is to be expected, and an RMS error above 8 sqrt(d) u +
8 d 2^-24 is wrong, unless another precision shows that rounding alone is amplified (`convc.verification.amplified`). It
is a criterion, not a proof; a kernel that is wrong shows in its layer first.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from convc.errors import ModelError, NodeError
from convc.frontend.inline import inlined
from convc.frontend.input_shapes import Shapes, every_shape, open_inputs
from convc.frontend.model_file import opset_of
from convc.frontend.onnx_reader import is_convolution
from convc.ir.problem import shape_text
from convc.runtime.network import ort_session
from convc.runtime.network.constants import StartValues
from convc.runtime.network.convolutions import Arrays, Convolutions, ConvRun, Ready
from convc.runtime.network.executor import Graph, Look, with_integers
from convc.runtime.network.host import HostNodes
from convc.runtime.network.node_info import element_dtype
from convc.support.arrays import is_array
from convc.support.memory import require_memory
from convc.support.progress import SILENT, Progress
from convc.verification.amplified import examined
from convc.verification.layer import layer_report
from convc.verification.node import against_onnxruntime, against_reference
from convc.verification.outputs import Expected, judge_output
from convc.verification.random_weights import random_weights
from convc.verification.records import Check, LayerReport, NetworkReport, VerifyReport
from convc.verification.rms_error import allowed_of, bounded_outputs, rms_error


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkCase:
    """A network with its data, and what is right of it.

    Attributes:
        graph: ready to run.
        convolutions: those of the graph.
        feeds: an array for each input.
        expected: of the outputs.
        remake: makes the graph again, with nothing fused, for other convolutions; it is asked where outputs deviate
            (`convc.verification.amplified`).
        seed: of what was drawn; None where nothing was.
        replaced: constants that have random values; None where all have their own.
    """

    graph: Graph
    convolutions: Convolutions
    feeds: Mapping[str, np.ndarray]
    expected: Expected
    remake: Callable[[Convolutions], Graph]
    seed: int | None = None
    replaced: int | None = None


def verify_network(case: NetworkCase, progress: Progress = SILENT) -> VerifyReport:
    """Run a network and compare its convolutions with the reference and its outputs with what is expected.

    Raises:
        InputError: an output has another shape than what is expected of it.
        ConvcError: see `Graph`.
    """
    report = _run_once(case, progress)

    def again(precision: str | None, look: Look) -> VerifyReport:
        """Run and compare as it is, or at another precision."""
        runner = case.convolutions
        if precision is not None:
            runner = dataclasses.replace(runner, operand=None, precision=precision)
        graph = case.remake(runner)
        graph.look = look
        return _run_once(dataclasses.replace(case, graph=graph, convolutions=runner), progress)

    return examined(report, case.graph, case.convolutions, again)


def _run_once(case: NetworkCase, progress: Progress) -> VerifyReport:
    graph = case.graph
    nodes = graph.model.graph.node
    reference = HostNodes(graph.model, {}, "reference")
    both_oracles = case.replaced is not None and ort_session.available() is not None
    layers: list[LayerReport] = []
    alive: list[np.ndarray] = []
    alone: dict[str, ConvRun] = {}

    def watch(name: str, ran: ConvRun) -> None:
        node = ran.node
        x = ran.arrays[0]
        if x is not None:
            alive.append(channels_alive(x))
        inputs = dict(zip(node.input, ran.arrays, strict=True))
        right = against_reference(ran, lambda: reference.build(node, name).run(inputs)[0])
        checks = [Check.of(ran.run, "network", right)]
        answer = ort_session.run_node(node, opset_of(graph.model) or 0, ran.arrays) if both_oracles else ""
        agrees = None if isinstance(answer, str) else against_onnxruntime(ran, answer)
        if agrees is not None:
            checks.append(Check.of(ran.run, "network", agrees, oracle="onnxruntime"))
        kernel = case.convolutions.kernels.compiled(ran.conv.problem)
        error = rms_error(ran.run.y, case.expected.tensors.get(node.output[0]))
        layers.append(layer_report(ran.conv, kernel, checks, ran.run.counters, error))
        if len(nodes) == 1 and is_convolution(nodes[0]):  # and not one inside a loop
            alone.update(dict.fromkeys(node.output, ran))

    results = graph.run(case.feeds, watch, progress)
    bounded = bounded_outputs(nodes)
    open_names = open_inputs((*graph.inputs, *graph.optional))
    network = NetworkReport(
        stats=graph.stats,
        outputs=tuple(
            judge_output(name, value, case.expected, alone.get(name), allowed_of(name, layers, bounded))
            for name, value in results.items()
        ),
        oracle=case.expected.oracle,
        silent=case.expected.silent,
        shapes={name: case.feeds[name].shape for name in open_names if name in case.feeds},
        replaced=case.replaced,
        channels=sum(each.size for each in alive),
        zero_channels=sum(int((~each).sum()) for each in alive),
    )
    return VerifyReport(
        source=graph.name,
        seed=case.seed,
        layers=tuple(layers),
        kernels=len({layer.kernel for layer in layers}),
        network=network,
    )


def random_case(
    model: onnx.ModelProto,
    *,
    seed: int,
    folder: Path = Path(),
    batch: int | Shapes | None = None,
    say: Callable[[str], None] | None = None,
    convolutions: Convolutions | None = None,
    host: str = "auto",
) -> NetworkCase:
    """Give a model random weights and inputs. Quantised convolutions are integer ones and keep their weights.

    Args:
        model: with a checked header.
        seed: of weights and inputs.
        folder: of the model, for external data.
        batch: the first extent of inputs that leave it open; or shapes of inputs. What is still open is 1.
        say: told what was taken to be 1.
        convolutions: how to run the convolutions; their kernels are kept there.
        host: who runs the other nodes, one of `convc.runtime.network.host.HOSTS`.

    Raises:
        ModelError: an input is not a tensor of numbers with known rank.
        ConvcError: see `Graph`.
    """
    model = inlined(model)
    weights = random_weights(model.graph, StartValues(model.graph, folder), seed)
    source = with_integers(model, folder, weights)
    runner = convolutions or Convolutions()

    def make(runner: Convolutions) -> Graph:
        return Graph(source, folder=folder, convolutions=runner, refused="host", host=host, replaced=weights)

    graph = make(runner)
    feeds = random_inputs(graph.inputs, seed, batch, say)
    nodes = dict(zip(graph.names, graph.model.graph.node, strict=True))
    outputs = {output for node in model.graph.node for output in node.output}
    shown = [nodes[name].output[0] for name in graph.convolutions if nodes[name].output[0] in outputs]
    version = ort_session.available()
    answer: dict[str, np.ndarray] | str = _NOT_INSTALLED
    if version:
        answer = ort_session.run_model(model, feeds, weights, shown)
    silent = answer if isinstance(answer, str) else ""
    tensors = {} if isinstance(answer, str) else answer
    floats = {name: array for name, array in tensors.items() if array.dtype.kind in "fV"}
    oracle = f"onnxruntime {version}" if version else ""
    expected = Expected(outputs=floats, oracle=oracle, silent=silent, tensors=tensors)
    return NetworkCase(
        graph=graph,
        convolutions=runner,
        feeds=feeds,
        expected=expected,
        remake=make,
        seed=seed,
        replaced=len(weights),
    )


_NOT_INSTALLED = "onnxruntime is not installed (pip install 'convc[onnxruntime]')"


def expected_by_oracle(model: onnx.ModelProto, folder: Path, feeds: Mapping[str, np.ndarray]) -> Expected:
    """Run the model by onnxruntime, where it is installed and takes it, or else by `onnx.reference`."""
    version = ort_session.available()
    silent = _NOT_INSTALLED
    if version:
        start = StartValues(model.graph, folder)
        outside = [tensor.name for tensor in model.graph.initializer if tensor.data_location == tensor.EXTERNAL]
        replaced = {name: value for name in outside if is_array(value := start.value(name))}
        answer = ort_session.run_model(model, feeds, replaced, [])
        if not isinstance(answer, str):
            return Expected(outputs=answer, oracle=f"onnxruntime {version}")
        silent = answer
    graph = Graph(model, folder=folder, convolutions=_OnHost(), refused="host", host="reference")
    arrays = {name: value for name, value in graph.run(feeds).items() if is_array(value)}
    return Expected(outputs=arrays, oracle="onnx.reference", silent=silent)


class _OnHost(Convolutions):
    """Convolutions that are all left to the host."""

    def prepare(self, node: onnx.NodeProto, name: str, arrays: Arrays) -> Ready:
        raise NodeError("run by the host, whose result is the reference", where=name)


def random_inputs(
    inputs: tuple[onnx.ValueInfoProto, ...],
    seed: int,
    batch: int | Shapes | None = None,
    say: Callable[[str], None] | None = None,
) -> dict[str, np.ndarray]:
    """Draw standard normal numbers (integers: 0 and 1) for each input; see `random_case` for extents that are open."""
    shapes, said = every_shape(inputs, batch)
    if say is not None:
        for sentence in said:
            say(sentence)
    feeds: dict[str, np.ndarray] = {}
    for index, value in enumerate(inputs):
        tensor = value.type.tensor_type
        if not value.type.HasField("tensor_type") or not tensor.HasField("shape"):
            raise ModelError(f"the input {value.name!r} is not a tensor of known rank, so no data can be made for it")
        shape = shapes[value.name]
        rng = np.random.default_rng([seed, index])
        dtype = element_dtype(tensor.elem_type)
        if dtype is None or dtype.kind in "OUS":
            raise ModelError(f"the input {value.name!r} is not a tensor of numbers, so no data can be made for it")
        size = math.prod(shape) * max(4, dtype.itemsize)
        require_memory(size, f"the input {value.name!r} of shape {shape_text(shape)}")
        if dtype.kind in "iub":
            feeds[value.name] = rng.integers(0, 2, shape).astype(dtype)
        else:
            feeds[value.name] = rng.standard_normal(shape, dtype=np.float32).astype(dtype)
    return feeds


def channels_alive(x: np.ndarray) -> np.ndarray:
    """bool (channels,): which channels of activations (batch, channels, ...) are not zero everywhere."""
    return (x != 0).any(axis=(0, *range(2, x.ndim)))
