r"""Nodes behind a convolution that its kernel does as it stores: what is folded into weights, what becomes an epilogue.

From a `Conv` or `ConvTranspose` the pass follows its output for as long as one node alone reads it and it is no output
of the graph:

    BatchNormalization, Mul and Add of a constant per channel   into weights and bias, before any other step
    Relu, LeakyRelu, Clip, Sigmoid, Swish                       a step of the epilogue
    Sigmoid and Mul of the same tensor                          SiLU
    Add (or Sum) of a tensor of the same shape and type         the residual, once
    ReluGrad by a tensor of the same shape and type             a mask, in place of a residual

Weights and bias are scaled in float64 and rounded once, to the operand type and to float32, where that type holds them
as well as it holds those of the model (`convc.frontend.fusion`); elsewhere the weights stay as they are, and
the epilogue multiplies sums by a float32 number per channel. What does not fit any of these ends the chain
and stays a node of its own: fusing never refuses a model.

Two convolutions whose results are added both could take the sum in; the later one does, since the other result is there
by then. A fused convolution stands where the last node stood that it took in, so that what it reads has been computed.

Weights times a scale per output channel, and whether a narrow type holds them.

A normal number is rounded to a share of itself, whatever its scale. Below the smallest normal number of its type a
number loses more, and above the largest all. Let e be by how much the rounding of a weight errs beyond that share, in
the model's scale. With folded weights the sum of a channel errs by up to

    sum of e |x|     and with those of the model, scaled afterwards, by up to     sum of e' |x|

Folding is fine where the first is at most twice the second and, with what float32 sums may err by as
`convc.verification` has it, n u per unit of sum |w x|, that more: for |x| of one size,

    sum of e <= 2 * sum of e' + n u * sum of |w|,     n = 1.25 L + 2,  u = 2^-23,  L products.

Elsewhere weights stay as the model has them, and the epilogue multiplies sums (`ConvProblem.multiplier`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from onnx import GraphProto, NodeProto

from convc.errors import ProblemError
from convc.frontend.constants import Constants
from convc.frontend.expand_gradients import RELU_GRAD
from convc.frontend.fusible_nodes import activation_step, scale_and_shift
from convc.frontend.graph_view import GraphView
from convc.frontend.shapes import UNKNOWN, ValueType
from convc.frontend.tensors import type_name
from convc.ir import dtypes
from convc.ir.epilogue import AddResidual, EpilogueStep, ReluGrad, SiLU
from convc.ir.network import ConvNode, TensorRef
from convc.ir.problem import ConvProblem
from convc.ir.sums import FLOAT32


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
        graph: the graph.
        names: of its nodes, one each.
        convs: convolutions by index of their node.
        types: of the graph's tensors.
        constants: of the graph.
    """
    view = GraphView(graph, names, types, constants)
    fused = [_follow(view, index, convs[index]) for index in sorted(convs, reverse=True)]
    return tuple(sorted(fused, key=lambda each: each.position))


@dataclass(slots=True)
class _Chain:
    """What a convolution has become so far: y = epilogue(conv(x, w) * scale + shift).

    ``given``: w, not yet rounded; ``multiplied``: whether the epilogue does the scale, and not the weights.
    """

    conv: ConvNode
    given: np.ndarray
    scale: np.ndarray
    shift: np.ndarray
    tensor: str
    indices: list[int] = field(default_factory=list)
    epilogue: list[EpilogueStep] = field(default_factory=list)
    residual: TensorRef | None = None
    linear: bool = False
    multiplied: bool = False

    def take(self, node: NodeProto, *indices: int) -> None:
        """Go on behind a node."""
        self.indices += indices
        self.tensor = node.output[0]


def _follow(view: GraphView, index: int, conv: ConvNode) -> Fused:
    if conv.problem.operand_dtype.integer or conv.weight is None:  # its filters are known at the launch only
        return Fused(conv=conv, position=index, taken=())
    channels = conv.problem.out_channels
    bias = np.zeros(channels) if conv.bias is None else conv.bias.astype(np.float64)
    given = view.constants.value(view.nodes[index].input[1])  # conv.weight is rounded already
    assert given is not None, "a convolution without constant weights was read"
    chain = _Chain(
        conv=conv, given=given.astype(np.float64), scale=np.ones(channels), shift=bias, tensor=conv.output.name
    )
    while _step(view, chain):
        pass
    finished = _finished(view, chain)
    if finished is conv:
        return Fused(conv=conv, position=index, taken=())
    view.taken.update(chain.indices)
    return Fused(conv=finished, position=max(chain.indices), taken=tuple(sorted(chain.indices)))


def _step(view: GraphView, chain: _Chain) -> bool:
    """Take in the next node, or the two of SiLU; False where the chain ends."""
    readers = view.next_nodes(chain.tensor)
    if len(readers) == 2:
        return _silu(view, chain, readers)
    if len(readers) != 1:
        return False
    node = view.nodes[readers[0]]
    if not node.output or any(node.output[1:]):
        return False
    linear = None if chain.epilogue else scale_and_shift(view, node, chain.tensor, chain.conv.problem)
    if linear is not None:
        scale, shift = linear
        with np.errstate(all="ignore"):
            scale = chain.scale * scale
            shift = chain.shift * linear[0] + shift
        folded = may_scale(chain.conv.problem, chain.given, scale, shift)
        if not folded and not may_multiply(chain.conv.problem, scale, shift):
            return False
        chain.multiplied = not folded
        chain.scale = scale
        chain.shift = shift
        chain.linear = True
        chain.take(node, readers[0])
        return True
    step = activation_step(view, node)
    if step is None:
        chain.residual, step = _joined(view, chain, node)
        if step is None:
            return False
    chain.epilogue.append(step)
    chain.take(node, readers[0])
    return True


def _silu(view: GraphView, chain: _Chain, readers: list[int]) -> bool:
    """Sigmoid and the Mul of its result with what it read."""
    for first, second in (readers, reversed(readers)):
        sigmoid = view.nodes[first]
        product = view.nodes[second]
        if (sigmoid.op_type, product.op_type) != ("Sigmoid", "Mul") or len(sigmoid.output) != 1:
            continue
        factors = sorted((chain.tensor, sigmoid.output[0]))
        if sorted(product.input) == factors and view.next_nodes(sigmoid.output[0]) == [second]:
            chain.epilogue.append(SiLU())
            chain.take(product, first, second)
            return True
    return False


def _joined(view: GraphView, chain: _Chain, node: NodeProto) -> tuple[TensorRef | None, AddResidual | ReluGrad | None]:
    """The residual and the step of an Add (or a Sum of two), or a ReluGrad, of equal shapes and types.

    The step is None, and the residual as it was, where the node is something else.
    """
    nothing = chain.residual, None
    step = None
    if node.op_type in ("Add", "Sum"):
        step = AddResidual()
    elif (node.op_type, node.domain) == RELU_GRAD and node.input[0] == chain.tensor:
        step = ReluGrad()
    if step is None or len(node.input) != 2 or chain.residual is not None:
        return nothing
    others = [name for name in node.input if name != chain.tensor]
    if len(others) != 1 or view.constant(others[0]) is not None:
        return nothing
    known = view.types.get(others[0], UNKNOWN)
    problem = chain.conv.problem
    if known.shape != problem.y_shape or type_name(known.element_type) != problem.out:
        return nothing
    return TensorRef(name=others[0], dtype=problem.out, shape=problem.y_shape), step


def _finished(view: GraphView, chain: _Chain) -> ConvNode:
    """The convolution as it is now; the given one where nothing was taken in, or there is no such problem."""
    conv = chain.conv
    if not chain.indices:
        return conv
    weight = conv.weight
    bias = conv.bias
    multiplier = dtypes.quantise(dtypes.F32, chain.scale) if chain.multiplied else None
    if chain.linear:
        with np.errstate(all="ignore"):
            bias = dtypes.quantise(dtypes.F32, chain.shift)
            if multiplier is None:
                scaled = scaled_weights(conv.problem, chain.given, chain.scale)
                weight = dtypes.quantise(conv.problem.operand_dtype, scaled)
    changes = {"bias": bias is not None, "multiplier": chain.multiplied, "epilogue": tuple(chain.epilogue)}
    try:
        problem = dataclasses.replace(conv.problem, **changes)
    except ProblemError:
        return conv
    output = TensorRef(name=chain.tensor, dtype=problem.out, shape=problem.y_shape)
    return dataclasses.replace(
        conv,
        problem=problem,
        weight=weight,
        bias=bias,
        multiplier=multiplier,
        output=output,
        residual=chain.residual,
        fused=tuple(view.names[i] for i in chain.indices),
    )


MORE = 2.0
"""Times what the model's own weights lose below the normal numbers of their type that scaled ones may lose."""


def may_scale(problem: ConvProblem, weight: np.ndarray, scale: np.ndarray, shift: np.ndarray) -> bool:
    """Whether weights and bias may be scaled before they are rounded.

    Args:
        weight: of the model, float64, as `ConvProblem.w_shape` has them.
        scale, shift: float64 (K,), of the sums.
    """
    with np.errstate(all="ignore"):
        folded = scaled_weights(problem, weight, scale)
        finite = np.isfinite(weight)
        if not np.isfinite(dtypes.quantise(dtypes.F32, shift)).all() or not (np.isfinite(folded) | ~finite).all():
            return False
        if problem.operand in dtypes.SCALED_OPERANDS:  # a block has a factor of its own
            return True
        strange = finite & _beyond_normal(problem, folded)
        if not strange.any():
            return True
        if not np.isfinite(_multiplied(problem, folded[strange])).all():
            return False
        lost = _by_channel(problem, _lost(problem, folded, strange))
        own = np.abs(scale) * _by_channel(problem, _lost(problem, weight, finite & _beyond_normal(problem, weight)))
        size = _by_channel(problem, np.where(finite, np.abs(folded), 0.0))
    n = problem.gemm_k * 2.0 ** (FLOAT32.bits - FLOAT32.fraction) + problem.gemm_k + 2
    return bool((lost <= MORE * own + n * 2.0**-FLOAT32.bits * size).all())


def may_multiply(problem: ConvProblem, scale: np.ndarray, shift: np.ndarray) -> bool:
    """Whether the epilogue may scale sums instead: float32 holds scale and shift (float64, (K,)), to full precision."""
    if problem.operand in dtypes.SCALED_OPERANDS:
        return False
    size = np.abs(scale)
    held = (size == 0) | ((size >= dtypes.F32.min_normal) & (size <= dtypes.F32.max_finite))
    return bool(held.all() and np.isfinite(dtypes.quantise(dtypes.F32, shift)).all())


def scaled_weights(problem: ConvProblem, weight: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Weights (K, C/G, R, S), or (C, K/G, R, S) of a transposed convolution, times a number per output channel."""
    taps = (1,) * problem.rank
    if not problem.transposed:
        return weight * scale.reshape(-1, 1, *taps)
    parts = weight.reshape(problem.groups, -1, *weight.shape[1:])
    return (parts * scale.reshape(problem.groups, 1, -1, *taps)).reshape(weight.shape)


def _multiplied(problem: ConvProblem, weight: np.ndarray) -> np.ndarray:
    """The numbers that the tensor core multiplies in place of weights.

    The parts of float32 have all bits of it, down to the smallest number of their type.
    """
    rounded = dtypes.quantise(problem.operand_dtype, weight).astype(np.float64)
    if problem.operand not in dtypes.SPLIT_OPERANDS:
        return rounded
    least = _least_part(problem)
    return np.rint(rounded / least) * least


def _least_part(problem: ConvProblem) -> float:
    """The smallest number of the type that parts of float32 have."""
    return (dtypes.TF32 if problem.operand.startswith(dtypes.TF32.name) else dtypes.BF16).min_subnormal


def _beyond_normal(problem: ConvProblem, weight: np.ndarray) -> np.ndarray:
    """bool, as weights lie: which numbers may round by more than a unit roundoff.

    All others are normal numbers of the type; the last part of split float32 rounds those by far less than that.
    """
    dtype = problem.operand_dtype
    least = dtype.min_normal
    if problem.operand in dtypes.SPLIT_OPERANDS:
        least = max(least, _least_part(problem) / dtype.unit_roundoff**2)
    size = np.abs(weight)
    return (size != 0) & ~((least <= size) & (size <= dtype.max_finite))


def _lost(problem: ConvProblem, weight: np.ndarray, where: np.ndarray) -> np.ndarray:
    """The error of rounding beyond a unit roundoff of each number; 0 but for those in ``where``."""
    lost = np.zeros(weight.shape)
    given = weight[where]
    unit = problem.operand_dtype.unit_roundoff
    lost[where] = np.maximum(0.0, np.abs(_multiplied(problem, given) - given) - unit * np.abs(given))
    return lost


def _by_channel(problem: ConvProblem, array: np.ndarray) -> np.ndarray:
    """Sums (K,) of numbers that lie as weights do."""
    if not problem.transposed:
        return array.reshape(len(array), -1).sum(axis=1)
    parts = array.reshape(problem.groups, -1, *array.shape[1:])
    return parts.sum(axis=(1, *range(3, parts.ndim))).reshape(-1)
