"""The front door: an ONNX file to a `Network` of convolutions.

Every convolution of the main graph becomes a `ConvNode`, with its numbers, its weights and its bias; every other
node is listed as skipped. Weights and bias must be constants. The file is not trusted: whatever its bytes are, the
answer is a network or a `ConvcError`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx

from convc.errors import ConvcError, InputError, ModelError, NodeError
from convc.frontend.constants import Constants
from convc.frontend.conv_node import Refuse, conv_attributes, conv_problem
from convc.frontend.expand_causal import written_out
from convc.frontend.fusion import Fused
from convc.frontend.fusion import fuse as fuse_nodes
from convc.frontend.model_file import ONNX_DOMAINS, check_header, load_model
from convc.frontend.quantised_nodes import QUANTISED, quantised_conv
from convc.frontend.shapes import UNKNOWN, ValueType, infer_types
from convc.frontend.tensors import type_name
from convc.frontend.transpose_node import transpose_problem
from convc.ir import dtypes
from convc.ir.network import ConvNode, Network, SkippedNode, TensorRef
from convc.support.memory import require_memory

_OPERAND_OF = {"f16": "f16", "bf16": "bf16", "f32": "tf32"}
"""Operand type by the model's type: tensor cores have no float32, tf32 is the nearest."""

PRECISIONS = ("tf32", *dtypes.SPLIT_OPERANDS)
"""How float32 can be multiplied."""

NOT_A_CONVOLUTION = "not a convolution"
NO_GEMM = {
    "DeformConv": "where it reads depends on its data: no implicit GEMM; a network runs it on the host",
    "CausalConvWithState": "onnx cannot write it out as a Conv here: a network runs it on the host",
}
"""Why operators that are called convolutions are not compiled."""

CONVOLUTIONS = ("Conv", "ConvTranspose", "ConvInteger", "QLinearConv")
"""ONNX's operators that are convolutions and nothing else."""


Source = str | Path | onnx.ModelProto
"""A model: its file, or as onnx has loaded it."""


def read_model(
    source: Source,
    *,
    batch: int | None = None,
    operand: str | None = None,
    precision: str | None = None,
    constants: Mapping[str, np.ndarray] | None = None,
    skip_refused: bool = False,
    fuse: bool = False,
) -> Network:
    """Read a model.

    Args:
        source: the .onnx file, external data may lie in the same folder or below it; or a model that was loaded.
        batch: batch size; replaces the first extent of the 4-D graph inputs.
        operand: one of `convc.ir.dtypes.FLOAT_OPERANDS` instead of the model's own type; weights are rounded to it (or
            split or quantised when they are packed), the output keeps its type. Whole numbers keep theirs.
        precision: how float32 is multiplied where no `operand` is given: tf32, or in parts for more accuracy (bf16x3,
            bf16x6 or tf32x3, see `convc.layout.split_precision`).
        constants: values for graph inputs, by name, which then count as constants.
        skip_refused: list convolutions that cannot be compiled as skipped, with the reason, instead of
            raising; there must be one that can.
        fuse: let convolutions take in the nodes behind them that a kernel does as it stores (`convc.frontend.fusion`).

    Raises:
        ModelError: not a model that can be read, or one without convolutions.
        NodeError, ProblemError: a convolution that cannot be compiled; the first one is named.
        InputError: a wrong argument.
        LimitError: a tensor larger than memory.
    """
    if batch is not None and batch < 1:
        raise InputError(f"batch must be at least 1, got {batch}")
    if operand is not None and operand not in dtypes.FLOAT_OPERANDS:
        raise InputError(f"operand must be one of {', '.join(dtypes.FLOAT_OPERANDS)}, got {operand!r}")
    if precision is not None and precision not in PRECISIONS:
        raise InputError(f"precision must be one of {', '.join(PRECISIONS)}, got {precision!r}")
    if precision is not None and operand is not None:
        raise InputError("an operand type in place of the model's leaves no float32 whose precision could be chosen")
    loaded = source if isinstance(source, onnx.ModelProto) else None
    path = Path() if isinstance(source, onnx.ModelProto) else Path(source)
    file = str(path) if loaded is None else ""
    try:
        if loaded is not None:
            check_header(loaded)
        model = loaded or load_model(path)
        return _read(model, path, batch, _operands(operand, precision), constants or {}, skip_refused, fuse)
    except ConvcError as error:
        inside = error.where if error.where != file else ""
        error.where = ": ".join(filter(None, (file, inside)))
        raise
    except UnicodeDecodeError:  # some protobuf versions raise it where others hand out bytes
        raise ModelError("a name in the model is not valid UTF-8", where=file) from None


def _read(
    model: onnx.ModelProto,
    path: Path,
    batch: int | None,
    operands: Mapping[str, str],
    bound: Mapping[str, np.ndarray],
    skip_refused: bool,
    fuse: bool,
) -> Network:
    model = written_out(model)
    constants = Constants(model.graph, path.parent, bound)
    names = node_names(model.graph.node)
    if not any(map(is_convolution, model.graph.node)):
        others = Counter(node.op_type for node in model.graph.node).most_common(5)
        listed = ", ".join(f"{count} {op_type}" for op_type, count in others)
        raise ModelError("the model has no convolution in its main graph", hint=f"it has {listed}")
    types = infer_types(model, constants, batch)
    convs: dict[int, ConvNode] = {}
    skipped: dict[int, SkippedNode] = {}
    refused = []
    for index, (node, name) in enumerate(zip(model.graph.node, names, strict=True)):
        if not is_convolution(node):
            reason = NO_GEMM.get(node.op_type, NOT_A_CONVOLUTION)
            skipped[index] = SkippedNode(name=name, op_type=node.op_type, reason=reason)
            continue
        try:
            convs[index] = _conv(node, name, types, constants, operands)
        except ConvcError as error:
            refused.append(error)
            skipped[index] = SkippedNode(name=name, op_type=node.op_type, reason=error.message)
    if refused and not (skip_refused and convs):
        error = refused[0]
        if len(refused) > 1:
            more = f"{len(refused)} of the model's {len(refused) + len(convs)} convolutions are refused"
            error.hint = f"{error.hint}; {more}" if error.hint else more
        raise error
    ordered = tuple(convs.values())
    if fuse:
        fused = fuse_nodes(model.graph, names, convs, types, constants)
        ordered = tuple(each.conv for each in fused)
        for index in (index for each in fused for index in each.taken):
            del skipped[index]
    inputs = [v.name for v in model.graph.input if v.name not in constants.initializers | constants.bound]
    return Network(
        name=model.graph.name or path.stem or "model",
        convs=ordered,
        skipped=tuple(skipped.values()),
        inputs=tuple(_reference(name, types.get(name, UNKNOWN)) for name in inputs),
        outputs=tuple(_reference(v.name, types.get(v.name, UNKNOWN)) for v in model.graph.output),
    )


def _conv(
    node: onnx.NodeProto, name: str, types: Mapping[str, ValueType], constants: Constants, operands: Mapping[str, str]
) -> ConvNode:
    def refuse(message: str, hint: str = "") -> NodeError:
        return NodeError(message, where=f"node {name!r} ({node.op_type})", hint=hint)

    if node.op_type in QUANTISED:

        def constant(tensor: str, what: str) -> np.ndarray:
            return _constant_input(constants, tensor, what, refuse)

        x = types.get(node.input[0], UNKNOWN) if node.input else UNKNOWN
        return quantised_conv(
            node,
            name,
            _reference(node.input[0] if node.input else "", x),
            constant,
            refuse,
            lambda: _known_shape(node.input[0], x, refuse),
        )
    if not 2 <= len(node.input) <= 3 or len(node.output) != 1:
        raise refuse(f"a {node.op_type} has 2 or 3 inputs and 1 output, got {len(node.input)} and {len(node.output)}")
    attributes = conv_attributes(node, refuse)
    x = types.get(node.input[0], UNKNOWN)
    weight = _constant_input(constants, node.input[1], "weights", refuse)
    bias = None
    if len(node.input) == 3 and node.input[2]:
        bias = _constant_input(constants, node.input[2], "bias", refuse)
    x_shape = _known_shape(node.input[0], x, refuse)
    model_type = type_name(x.element_type)
    if model_type not in _OPERAND_OF:
        raise refuse(f"convolutions of {model_type} are not compiled; f16, bf16 and f32 are")
    for what, array in (("weights", weight), ("bias", bias)):
        if array is not None and array.dtype != dtypes.BY_NAME[model_type].storage:
            raise refuse(f"the input is {model_type}, the {what} {array.dtype}: they must be the same")
    numbers = transpose_problem if node.op_type == "ConvTranspose" else conv_problem
    problem = numbers(
        attributes,
        name=name,
        x_shape=x_shape,
        w_shape=weight.shape,
        operand=operands[model_type],
        out=model_type,
        bias=bias is not None,
        refuse=refuse,
    )
    if bias is not None and bias.shape != (problem.out_channels,):
        raise refuse(f"the bias must have one number per output channel, ({problem.out_channels},), got {bias.shape}")
    return ConvNode(
        name=name,
        problem=problem,
        input=_reference(node.input[0], x),
        weight=_rounded(weight, problem.operand_dtype, refuse),
        bias=None if bias is None else dtypes.quantise(dtypes.F32, bias),
        output=TensorRef(name=node.output[0], dtype=problem.out, shape=problem.y_shape),
    )


def _operands(operand: str | None, precision: str | None) -> Mapping[str, str]:
    """Operand type by the model's type."""
    if operand is not None:
        return dict.fromkeys(_OPERAND_OF, operand)
    return _OPERAND_OF if precision is None else _OPERAND_OF | {"f32": precision}


def _constant_input(constants: Constants, name: str, what: str, refuse: Refuse) -> np.ndarray:
    array = constants.value(name)
    if array is None:
        raise refuse(
            f"the {what} must be constant, and {name!r} is not",
            hint="store it as an initializer or a Constant node; other constant expressions must be folded first",
        )
    return array


def _known_shape(name: str, value: ValueType, refuse: Refuse) -> tuple[int, ...]:
    if value.shape is None:
        hint = "give the graph inputs a shape"
        raise refuse(f"the shape of the input {name!r} cannot be inferred", hint=hint)
    if None in value.shape:
        shown = ", ".join("?" if extent is None else str(extent) for extent in value.shape)
        only_batch = value.shape[0] is None and None not in value.shape[1:]
        hint = "give the batch size (--batch)" if only_batch else "give the graph inputs fixed extents"
        raise refuse(f"the shape of the input {name!r} is not fixed: ({shown})", hint=hint)
    return value.shape


def _rounded(weight: np.ndarray, dtype: dtypes.DType, refuse: Refuse) -> np.ndarray:
    """Weights as float32 with values of the operand type."""
    require_memory(16 * math.prod(weight.shape), f"rounding weights of shape {weight.shape}")
    with np.errstate(invalid="ignore"):  # a signalling NaN
        rounded = dtypes.quantise(dtype, weight)
        lost = ~np.isfinite(rounded) & np.isfinite(weight)
    if lost.any():
        raise refuse(
            f"{np.count_nonzero(lost)} weights are too large for {dtype.name}, "
            f"for example {float(weight[lost][0]):g}; its largest number is {dtype.max_finite:g}",
            hint="choose another operand type",
        )
    return rounded


def node_names(nodes: Sequence[onnx.NodeProto]) -> list[str]:
    """The names of nodes in a `Network`: its own, its first output's, or kind and index; repeated ones get a number."""
    names: dict[str, None] = {}  # ordered
    copies: Counter[str] = Counter()
    for index, node in enumerate(nodes):
        name = base = node.name or next(filter(None, node.output), "") or f"{node.op_type}_{index}"
        while name in names:
            copies[base] += 1
            name = f"{base}_{copies[base] + 1}"
        names[name] = None
    return list(names)


def _reference(name: str, value: ValueType) -> TensorRef:
    return TensorRef(name=name, dtype=type_name(value.element_type), shape=value.shape)


def is_convolution(node: onnx.NodeProto) -> bool:
    """Whether a node is one of ONNX's `CONVOLUTIONS`; `read_node` may still refuse it."""
    return node.op_type in CONVOLUTIONS and node.domain in ONNX_DOMAINS


def read_node(
    node: onnx.NodeProto,
    name: str,
    arrays: Sequence[np.ndarray | None],
    operand: str | None = None,
    precision: str | None = None,
) -> ConvNode:
    """One convolution whose inputs are at hand, constant in the model or not.

    Args:
        node: for which `is_convolution` holds.
        name: for messages; the problem gets it too.
        arrays: one for each input of the node, None for one that is left out. Of the first, the activations, only
            shape and type are used.
        operand, precision: as for `read_model`.

    Raises:
        NodeError, ProblemError, InputError: it cannot be compiled.
    """
    if not node.input or arrays[0] is None:
        raise NodeError("a convolution needs activations", where=f"node {name!r} ({node.op_type})")
    bound = {given: array for given, array in zip(node.input[1:], arrays[1:], strict=True) if array is not None}
    graph = onnx.GraphProto(input=[onnx.ValueInfoProto(name=given) for given in bound])
    try:
        element_type = onnx.helper.np_dtype_to_tensor_dtype(arrays[0].dtype)
    except ValueError:
        element_type = onnx.TensorProto.UNDEFINED
    types = {node.input[0]: ValueType(element_type=element_type, shape=arrays[0].shape)}
    return _conv(node, name, types, Constants(graph, Path(), bound), _operands(operand, precision))


def read_fused(
    model: onnx.ModelProto,
    constants: Constants,
    shapes: Mapping[str, tuple[int, ...]],
    operand: str | None = None,
    precision: str | None = None,
) -> tuple[Fused, ...]:
    """The convolutions that can be read before the model runs, each with the nodes that it can take in.

    Left out are convolutions of whole numbers, and those that are refused or whose weights or shapes are not known yet.

    Args:
        model: whose nodes get the names of `node_names`.
        constants: what is constant in all runs that this is for.
        shapes: of inputs, where the model leaves them open.
        operand, precision: as for `read_model`.

    Returns:
        In an order in which they can be run.

    Raises:
        ModelError: shape inference refuses the model.
    """
    names = node_names(model.graph.node)
    types = infer_types(model, constants, None, shapes)
    operands = _operands(operand, precision)
    convs: dict[int, ConvNode] = {}
    for index, (node, name) in enumerate(zip(model.graph.node, names, strict=True)):
        if not is_convolution(node) or node.op_type in QUANTISED:
            continue
        try:
            convs[index] = _conv(node, name, types, constants, operands)
        except ConvcError:  # to be said when the node runs, if it still is so
            continue
    return fuse_nodes(model.graph, names, convs, types, constants)
