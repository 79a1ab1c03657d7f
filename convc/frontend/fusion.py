"""Nodes behind a convolution that its kernel does as it stores: what is folded into weights, what becomes an epilogue.

From a `Conv` or `ConvTranspose` the pass follows its output for as long as one node alone reads it and it is no output
of the graph:

    BatchNormalization, Mul and Add of a constant per channel   into weights and bias, before any other step
    Relu, LeakyRelu, Clip, Sigmoid, Swish                       a step of the epilogue
    Sigmoid and Mul of the same tensor                          SiLU
    Add (or Sum) of a tensor of the same shape and type         the residual, once

Weights and bias are scaled in float64 and rounded once, to the operand type and to float32. What does not fit any of
these ends the chain and stays a node of its own: fusing never refuses a model.

Two convolutions whose results are added both could take the sum in; the later one does, since the other result is there
by then. A fused convolution stands where the last node stood that it took in, so that what it reads has been computed.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from onnx import AttributeProto, GraphProto, NodeProto

from convc.errors import ConvcError, ProblemError
from convc.frontend.constants import Constants
from convc.frontend.model_file import ONNX_DOMAINS, subgraphs
from convc.frontend.shapes import UNKNOWN, ValueType
from convc.frontend.tensors import type_name
from convc.ir import dtypes
from convc.ir.epilogue import AddResidual, Clip, EpilogueStep, LeakyRelu, Relu, Sigmoid, SiLU
from convc.ir.network import ConvNode, TensorRef
from convc.ir.problem import ConvProblem

FLOATS = {dtype.storage for dtype in (dtypes.F16, dtypes.BF16, dtypes.F32)}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fused:
    """A convolution with what it took in.

    Attributes:
        conv: the convolution; its output is that of the last node taken in.
        position: index in the graph of that node.
        taken: indices of all nodes taken in.
    """

    conv: ConvNode
    position: int
    taken: tuple[int, ...]


def fuse(
    graph: GraphProto,
    names: list[str],
    convs: Mapping[int, ConvNode],
    types: Mapping[str, ValueType],
    constants: Constants,
) -> tuple[Fused, ...]:
    """Every convolution with the nodes that it can take in, in an order in which they can be run.

    Args:
        names: of the nodes, one each.
        convs: convolutions by index of their node.
        types: of the graph's tensors.
    """
    scene = _Scene(graph, names, types, constants)
    fused = [_follow(scene, index, convs[index]) for index in sorted(convs, reverse=True)]
    return tuple(sorted(fused, key=lambda each: each.position))


class _Scene:
    """The graph, and which of its nodes are still free."""

    def __init__(
        self, graph: GraphProto, names: list[str], types: Mapping[str, ValueType], constants: Constants
    ) -> None:
        self.nodes, self.names, self.types, self.constants = graph.node, names, types, constants
        self.makers = {name: node for node in graph.node for name in node.output if name}
        self.readers: dict[str, list[int]] = defaultdict(list)
        for index, node in enumerate(graph.node):
            for name in _read_by(node):
                self.readers[name].append(index)
        self.kept = {value.name for value in graph.output}
        self.taken: set[int] = set()

    def next_nodes(self, tensor: str) -> list[int]:
        """Nodes that read a tensor, one entry for each time; none where the tensor must stay, or one is taken."""
        readers = self.readers[tensor]
        free = tensor not in self.kept and not self.taken.intersection(readers)
        return readers if free and all(self.nodes[i].domain in ONNX_DOMAINS for i in readers) else []

    def constant(self, name: str) -> np.ndarray | None:
        """A constant in float64, also behind one `Unsqueeze`; None where it is none, or of no floating-point type."""
        node = self.makers.get(name)
        unsqueezed = node is not None and node.op_type == "Unsqueeze" and node.domain in ONNX_DOMAINS
        try:
            array = self.constants.value(node.input[0] if unsqueezed and node.input else name)
            axes = self._axes(node) if unsqueezed else ()
            if array is None or axes is None or array.dtype not in FLOATS:
                return None
            return np.expand_dims(array, axes).astype(np.float64)
        except (ConvcError, ValueError, OverflowError):  # what is wrong with it is for whoever computes the node to say
            return None

    def _axes(self, node: NodeProto) -> tuple[int, ...] | None:
        """Axes of an `Unsqueeze`, from its attribute or (since opset 13) its constant second input."""
        if len(node.input) == 2:
            axes = self.constants.value(node.input[1])
            return None if axes is None or axes.dtype.kind != "i" else tuple(int(axis) for axis in axes.reshape(-1))
        return next((tuple(each.ints) for each in node.attribute if each.name == "axes"), None)


@dataclass(slots=True)
class _Chain:
    """What a convolution has become so far: y = epilogue(conv(x, w) * scale + shift)."""

    conv: ConvNode
    scale: np.ndarray
    shift: np.ndarray
    tensor: str
    indices: list[int] = field(default_factory=list)
    epilogue: list[EpilogueStep] = field(default_factory=list)
    residual: TensorRef | None = None
    linear: bool = False

    def take(self, node: NodeProto, *indices: int) -> None:
        """Go on behind a node."""
        self.indices += indices
        self.tensor = node.output[0]


def _follow(scene: _Scene, index: int, conv: ConvNode) -> Fused:
    """Take in what can be, node by node."""
    if conv.problem.operand_dtype.integer:
        return Fused(conv=conv, position=index, taken=())
    channels = conv.problem.out_channels
    bias = np.zeros(channels) if conv.bias is None else conv.bias.astype(np.float64)
    chain = _Chain(conv=conv, scale=np.ones(channels), shift=bias, tensor=conv.output.name)
    while _step(scene, chain):
        pass
    finished = _finished(scene, index, chain)
    scene.taken.update(chain.indices if finished is not conv else ())
    if finished is conv:
        return Fused(conv=conv, position=index, taken=())
    return Fused(conv=finished, position=max(chain.indices), taken=tuple(sorted(chain.indices)))


def _step(scene: _Scene, chain: _Chain) -> bool:
    """Take in the next node, or the two of SiLU; False where the chain ends."""
    readers = scene.next_nodes(chain.tensor)
    if len(readers) == 2:
        return _silu(scene, chain, readers)
    if len(readers) != 1:
        return False
    node = scene.nodes[readers[0]]
    if not node.output or any(node.output[1:]):
        return False
    linear = None if chain.epilogue else _linear(scene, chain, node)
    if linear is not None:
        scale, shift = linear
        chain.scale, chain.shift, chain.linear = chain.scale * scale, chain.shift * scale + shift, True
        chain.take(node, readers[0])
        return True
    step = _activation(scene, node)
    if step is None:
        other = _added(scene, chain, node)
        if other is None:
            return False
        step, chain.residual = AddResidual(), other
    chain.epilogue.append(step)
    chain.take(node, readers[0])
    return True


def _silu(scene: _Scene, chain: _Chain, readers: list[int]) -> bool:
    """Sigmoid and the Mul of its result with what it read."""
    for first, second in (readers, reversed(readers)):
        sigmoid, product = scene.nodes[first], scene.nodes[second]
        if (sigmoid.op_type, product.op_type) != ("Sigmoid", "Mul") or len(sigmoid.output) != 1:
            continue
        if sorted(product.input) == sorted((chain.tensor, sigmoid.output[0])) and scene.next_nodes(
            sigmoid.output[0]
        ) == [second]:
            chain.epilogue.append(SiLU())
            chain.take(product, first, second)
            return True
    return False


def _linear(scene: _Scene, chain: _Chain, node: NodeProto) -> tuple[np.ndarray, np.ndarray] | None:
    """(scale, shift) per channel of a node that only scales and shifts; None: it does something else."""
    channels = chain.conv.problem.out_channels
    if node.op_type == "BatchNormalization":
        return _normalisation(scene, node, chain.tensor, channels)
    if node.op_type not in ("Mul", "Add") or len(node.input) != 2:
        return None
    (other,) = (name for name in node.input if name != chain.tensor)
    number = _per_channel(scene, other, channels, chain.conv.problem.rank)
    if number is None:
        return None
    return (number, np.zeros(channels)) if node.op_type == "Mul" else (np.ones(channels), number)


def _normalisation(scene: _Scene, node: NodeProto, tensor: str, channels: int) -> tuple[np.ndarray, np.ndarray] | None:
    """BatchNormalization in its inference form: (x - mean) / sqrt(var + epsilon) * scale + B."""
    given = _numbers(node, {"epsilon": 1e-5, "momentum": 0.9, "training_mode": 0, "spatial": 1})
    if given is None or given["training_mode"] != 0 or given["spatial"] != 1 or len(node.input) != 5:
        return None
    if node.input[0] != tensor:
        return None
    arrays = [scene.constant(name) for name in node.input[1:]]
    if any(array is None or array.shape != (channels,) for array in arrays):
        return None
    scale, shift, mean, variance = arrays
    with np.errstate(all="ignore"):
        scale = scale / np.sqrt(variance + given["epsilon"])
        return scale, shift - mean * scale


def _per_channel(scene: _Scene, name: str, channels: int, rank: int) -> np.ndarray | None:
    """A constant that is the same for all pixels of a channel, as (K,); None where it is another tensor."""
    number = scene.constant(name)
    if number is None or number.ndim > rank + 2:
        return None
    shape = (1,) * (rank + 2 - number.ndim) + number.shape
    if shape[1] not in (1, channels) or any(extent != 1 for axis, extent in enumerate(shape) if axis != 1):
        return None
    return np.broadcast_to(number.reshape(-1), (channels,))


def _activation(scene: _Scene, node: NodeProto) -> EpilogueStep | None:
    """The step that a node of one operand is; None: it is none."""
    if node.op_type == "Clip":
        return _clip(scene, node)
    if len(node.input) != 1:
        return None
    match node.op_type:
        case "Relu":
            return Relu()
        case "Sigmoid":
            return Sigmoid()
        case "LeakyRelu":
            given = _numbers(node, {"alpha": 0.01})
            return None if given is None or not np.isfinite(given["alpha"]) else LeakyRelu(given["alpha"])
        case "Swish":
            given = _numbers(node, {"alpha": 1.0})
            return None if given is None or given["alpha"] != 1 else SiLU()
    return None


def _clip(scene: _Scene, node: NodeProto) -> Clip | None:
    """Bounds as attributes (before opset 11) or as constant inputs; float's largest and infinities are no bounds."""
    given = _numbers(node, {"min": -np.inf, "max": np.inf})
    if given is None:
        return None
    bounds = [given["min"], given["max"]]
    for place, name in enumerate(node.input[1:3]):
        if name:
            array = scene.constant(name)
            if array is None or array.size != 1:
                return None
            bounds[place] = float(array.reshape(()))
    if any(np.isnan(bound) for bound in bounds) or bounds[0] == np.inf or bounds[1] == -np.inf:
        return None
    limit = dtypes.F32.max_finite
    low, high = bounds
    return Clip(None if low <= -limit else low, None if high >= limit else high)


def _added(scene: _Scene, chain: _Chain, node: NodeProto) -> TensorRef | None:
    """The other tensor of an Add (or a Sum of two) of equal shapes and types; None where that is something else."""
    if node.op_type not in ("Add", "Sum") or len(node.input) != 2 or chain.residual is not None:
        return None
    others = [name for name in node.input if name != chain.tensor]
    if len(others) != 1 or scene.constant(others[0]) is not None:
        return None
    known, problem = scene.types.get(others[0], UNKNOWN), chain.conv.problem
    if known.shape != problem.y_shape or type_name(known.element_type) != problem.out:
        return None
    return TensorRef(name=others[0], dtype=problem.out, shape=problem.y_shape)


def _finished(scene: _Scene, index: int, chain: _Chain) -> ConvNode:
    """The convolution as it is now; the given one where nothing was taken in, or scaled weights leave their type."""
    conv = chain.conv
    if not chain.indices:
        return conv
    weight, bias = conv.weight, conv.bias
    if chain.linear:
        given = scene.constants.value(scene.nodes[index].input[1])
        assert given is not None, "a convolution without constant weights was read"
        given = given.astype(np.float64)
        with np.errstate(all="ignore"):
            scaled = _scaled(given, chain.scale, conv.problem)
            weight, bias = dtypes.quantise(conv.problem.operand_dtype, scaled), dtypes.quantise(dtypes.F32, chain.shift)
        if not (np.isfinite(weight) | ~np.isfinite(given)).all() or not np.isfinite(bias).all():
            return conv
    try:
        problem = dataclasses.replace(conv.problem, bias=bias is not None, epilogue=tuple(chain.epilogue))
    except ProblemError:
        return conv
    output = TensorRef(name=chain.tensor, dtype=problem.out, shape=problem.y_shape)
    return dataclasses.replace(
        conv,
        problem=problem,
        weight=weight,
        bias=bias,
        output=output,
        residual=chain.residual,
        fused=tuple(scene.names[i] for i in chain.indices),
    )


def _scaled(weight: np.ndarray, scale: np.ndarray, problem: ConvProblem) -> np.ndarray:
    """Weights (K, C/G, R, S), or (C, K/G, R, S) of a transposed convolution, times a number per output channel."""
    taps = (1,) * problem.rank
    if not problem.transposed:
        return weight * scale.reshape(-1, 1, *taps)
    parts = weight.reshape(problem.groups, -1, *weight.shape[1:])
    return (parts * scale.reshape(problem.groups, 1, -1, *taps)).reshape(weight.shape)


def _numbers(node: NodeProto, defaults: Mapping[str, float]) -> dict[str, float] | None:
    """The attributes of a node, all of them numbers of known names; None where there is another."""
    found = dict(defaults)
    for attribute in node.attribute:
        if attribute.name not in found or attribute.type not in (AttributeProto.FLOAT, AttributeProto.INT):
            return None
        found[attribute.name] = attribute.f if attribute.type == AttributeProto.FLOAT else attribute.i
    return found


def _read_by(node: NodeProto) -> Iterator[str]:
    """Tensors that a node reads, those of its subgraphs included (once for each time)."""
    yield from filter(None, node.input)
    for graph in subgraphs(node):
        for inner in graph.node:
            yield from _read_by(inner)
        yield from (value.name for value in graph.output)
