r"""Verify a whole network: run it with weights that mean something, and hold each convolution against two oracles.

**Layer by layer, on the input that reached the layer**, so that a layer's verdict does not depend on what earlier
layers did: against the float64 reference, and against onnxruntime where it is installed, within derived bounds
(`convc.verification.node`). The first layer that fails departs first.

**End to end** there is no useful derived bound: worst cases multiply from layer to layer. What is given is the
*relative RMS error*, the root mean square of the difference from onnxruntime's run of the whole network as a share of
the root mean square of its result, for each convolution and each output. Rounding of operands makes independent
errors of about u at each of the d convolutions on the way, so sqrt(d) u is to be expected, and an RMS error above 8
sqrt(d) u + 8 d 2^-24 is reported as departed, unless another precision shows that rounding alone is amplified
(`convc.verification.amplified`). It is a criterion, not a proof; a kernel that is wrong shows in its layer first.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from convc.errors import ModelError
from convc.frontend.inline import inlined
from convc.frontend.input_shapes import Shapes, every_shape
from convc.frontend.model_file import opset_of
from convc.ir.problem import shape_text
from convc.runtime.network import ort_session
from convc.runtime.network.constants import StartValues
from convc.runtime.network.convolutions import Convolutions, ConvRun
from convc.runtime.network.executor import Graph, Look, with_integers
from convc.runtime.network.host import HostNodes
from convc.runtime.network.node_info import element_dtype
from convc.support.arrays import is_array
from convc.support.memory import require_memory
from convc.support.progress import SILENT, Progress
from convc.verification.amplified import examined
from convc.verification.layer import check_of, layer_report
from convc.verification.node import against_onnxruntime, against_reference
from convc.verification.random_weights import random_weights
from convc.verification.records import LayerReport, NetworkReport, OutputReport
from convc.verification.rms_error import Allowed, allowed_of, bounded_outputs, rms_error


def verify_graph(
    model: onnx.ModelProto,
    *,
    seed: int,
    folder: Path = Path(),
    batch: int | Shapes | None = None,
    say: Callable[[str], None] | None = None,
    convolutions: Convolutions | None = None,
    host: str = "auto",
    progress: Progress = SILENT,
) -> NetworkReport:
    """Give a model random weights, run it, and compare. Quantised convolutions are integer ones and keep their weights.

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
    convolutions = convolutions or Convolutions()
    drawn = _Drawn(model=inlined(model), seed=seed, folder=folder, batch=batch, host=host, progress=progress)
    report, graph = _run_once(drawn, convolutions, None, say)

    def again(precision: str | None, look: Look) -> NetworkReport:
        """Run and compare as it is, or at another precision."""
        runner = convolutions
        if precision is not None:
            runner = dataclasses.replace(convolutions, operand=None, precision=precision)
        return _run_once(drawn, runner, look)[0]

    return examined(report, graph, convolutions, again)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Drawn:
    """What is run: arguments of `verify_graph`, with functions of the model in the place of their calls."""

    model: onnx.ModelProto
    seed: int
    folder: Path
    batch: int | Shapes | None
    host: str
    progress: Progress


def _run_once(
    drawn: _Drawn, convolutions: Convolutions, look: Look | None, say: Callable[[str], None] | None = None
) -> tuple[NetworkReport, Graph]:
    """Run a network with random weights and compare; ``look`` is told of every tensor."""
    model = drawn.model
    seed = drawn.seed
    folder = drawn.folder
    weights = random_weights(model.graph, StartValues(model.graph, folder), seed)
    source = with_integers(model, folder, weights)
    graph = Graph(source, folder=folder, convolutions=convolutions, refused="host", host=drawn.host, replaced=weights)
    graph.look = look
    feeds = random_inputs(graph.inputs, seed, drawn.batch, say)
    nodes = dict(zip(graph.names, graph.model.graph.node, strict=True))
    version = ort_session.available() or ""
    opset = opset_of(model) or 0
    made = {output for node in model.graph.node for output in node.output}
    shown = [nodes[name].output[0] for name in graph.convolutions if nodes[name].output[0] in made]
    whole, silent = _whole(model, feeds, weights, shown, version)
    layers: list[LayerReport] = []
    alive: list[np.ndarray] = []
    reference = HostNodes(model, {}, "reference")

    def watch(name: str, ran: ConvRun) -> None:
        node = ran.node
        x = ran.arrays[0]
        if x is not None:
            alive.append(channels_alive(x))
        given = dict(zip(node.input, ran.arrays, strict=True))
        right = against_reference(ran, lambda: reference.build(node, name).run(given)[0])
        checks = [check_of(ran.run, "network", right)]
        answer = ort_session.run_node(node, opset, ran.arrays) if version else ""
        agrees = None if isinstance(answer, str) else against_onnxruntime(ran, answer)
        if agrees is not None:
            checks.append(check_of(ran.run, "network", agrees, "onnxruntime"))
        kernel = convolutions.kernels.compiled(ran.conv.problem)
        departed = rms_error(ran.run.y, whole.get(node.output[0]))
        layers.append(layer_report(ran.conv, kernel, checks, ran.run.counters, departed))

    results = graph.run(feeds, watch, drawn.progress)
    bounded = bounded_outputs(graph.model.graph.node)
    report = NetworkReport(
        source=graph.name,
        seed=seed,
        layers=tuple(layers),
        kernels=len(convolutions.kernels),
        stats=graph.stats,
        replaced=len(weights),
        outputs=tuple(
            _output(name, value, whole.get(name), allowed_of(name, layers, bounded)) for name, value in results.items()
        ),
        onnxruntime=version,
        silent=silent,
        channels=sum(each.size for each in alive),
        zero_channels=sum(int((~each).sum()) for each in alive),
    )
    return report, graph


def random_inputs(
    inputs: tuple[onnx.ValueInfoProto, ...],
    seed: int,
    batch: int | Shapes | None = None,
    say: Callable[[str], None] | None = None,
) -> dict[str, np.ndarray]:
    """Draw standard normal numbers (integers: 0 and 1) for each input; see `verify_graph` for extents that are open."""
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


def _whole(
    model: onnx.ModelProto,
    feeds: Mapping[str, np.ndarray],
    weights: Mapping[str, np.ndarray],
    extra: list[str],
    version: str,
) -> tuple[dict[str, np.ndarray], str]:
    """onnxruntime's run of the network, or why there is none."""
    if not version:
        return {}, "onnxruntime is not installed (pip install convc[onnxruntime])"
    answer = ort_session.run_model(model, feeds, weights, extra)
    return ({}, answer) if isinstance(answer, str) else (answer, "")


def _output(name: str, value: object, expected: np.ndarray | None, allowed: Allowed) -> OutputReport:
    if not is_array(value):
        return OutputReport(name=name, dtype=type(value).__name__, shape=(), drift=None, allowed=allowed.rms_error)
    numeric = value.dtype.kind in "fV"
    return OutputReport(
        name=name,
        dtype=value.dtype.name,
        shape=value.shape,
        drift=rms_error(value, expected, allowed.least) if numeric else None,
        allowed=allowed.rms_error,
    )
