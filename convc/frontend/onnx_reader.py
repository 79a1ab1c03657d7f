"""The front door: an ONNX file to a `Network` of convolutions.

Every convolution becomes a `ConvNode`, with its numbers, its weights and its bias, also those in the bodies of `If`,
`Loop` and `Scan`; every other node is listed as skipped. Weights and bias must be constants. The file is not trusted:
whatever its bytes are, the answer is a network or a `ConvcError`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx

from convc.errors import ConvcError, InputError, ModelError, NodeError
from convc.frontend.constants import Constants
from convc.frontend.convolution_nodes import NOT_A_CONVOLUTION as NOT_A_CONVOLUTION
from convc.frontend.convolution_nodes import OPTIMISED, is_optimised
from convc.frontend.convolution_nodes import is_convolution as is_convolution
from convc.frontend.convolution_nodes import node_names as node_names
from convc.frontend.expand_gradients import gradient_of
from convc.frontend.fusion import Fused
from convc.frontend.fusion import fuse as fuse_nodes
from convc.frontend.graph_reader import Found, GraphReader
from convc.frontend.inline import inlined
from convc.frontend.input_shapes import Shapes, check_batch_size, input_shapes
from convc.frontend.integer_convs import Integers, integer_convolutions
from convc.frontend.model_file import check_header, load_model, opset_of, subgraphs
from convc.frontend.node_reader import PRECISIONS, EmptyError, NodeReader, operand_types, reference
from convc.frontend.quantised_nodes import QUANTISED
from convc.frontend.shapes import UNKNOWN, ValueType, infer_facts, infer_types
from convc.ir import dtypes
from convc.ir.gradients import WEIGHTS
from convc.ir.network import ConvNode, Network

Source = str | Path | onnx.ModelProto
"""A model: its file, or as onnx has loaded it."""


def read_model(
    source: Source,
    *,
    batch: int | Shapes | None = None,
    operand: str | None = None,
    precision: str | None = None,
    constants: Mapping[str, np.ndarray] | None = None,
    skip_refused: bool = False,
    fuse: bool = False,
) -> Network:
    """Read a model.

    Args:
        source: the .onnx file, external data may lie in the same folder or below it; or a model that was loaded.
        batch: batch size, which replaces the first extent of the 4-D graph inputs; or the shapes of graph inputs, by
            name. Where it is None, a batch that is open is taken to be 1, which `Network.assumed` says.
        operand: one of `convc.ir.dtypes.FLOAT_OPERANDS` instead of the model's own type; weights are rounded to it (or
            split or quantised when they are packed), the output keeps its type. Whole numbers keep theirs.
        precision: how float32 is multiplied where no `operand` is given: tf32, or in parts for more accuracy (bf16x3,
            bf16x6 or tf32x3, see `convc.host_layout.split_precision`).
        constants: values for graph inputs, by name, which then count as constants.
        skip_refused: list convolutions that cannot be compiled as skipped, with the reason, instead of
            raising; there must be one that can. Those of which only a run knows enough always are, and those that need
            no kernel since a tensor of theirs is empty.
        fuse: let convolutions take in the nodes behind them that a kernel does as it stores (`convc.frontend.fusion`),
            and make those between DequantizeLinear and QuantizeLinear integer ones (`convc.frontend.integer_convs`).

    Raises:
        ModelError: not a model that can be read, or one without convolutions.
        NodeError, ProblemError: a convolution that cannot be compiled; the first one is named.
        InputError: a wrong argument.
        LimitError: a tensor larger than memory.
    """
    if isinstance(batch, int):
        check_batch_size(batch)
    if operand is not None and operand not in dtypes.FLOAT_OPERANDS:
        raise InputError(f"operand must be one of {', '.join(dtypes.FLOAT_OPERANDS)}, got {operand!r}")
    if precision is not None and precision not in PRECISIONS:
        raise InputError(f"precision must be one of {', '.join(PRECISIONS)}, got {precision!r}")
    if precision is not None and operand is not None:
        raise InputError(
            "dtype replaces float32, whose precision is then not used: give one of the two",
            hint="give dtype (--dtype) or precision (--precision), not both",
        )
    loaded = source if isinstance(source, onnx.ModelProto) else None
    path = Path() if isinstance(source, onnx.ModelProto) else Path(source)
    file = str(path) if loaded is None else ""
    try:
        if loaded is not None:
            check_header(loaded)
        model = loaded or load_model(path)
        return _read(model, path, batch, operand_types(operand, precision), constants or {}, skip_refused, fuse)
    except ConvcError as error:
        inside = error.where if error.where != file else ""
        error.where = ": ".join(filter(None, (file, inside)))
        raise
    except UnicodeDecodeError:  # some protobuf versions raise it where others hand out bytes
        raise ModelError("a name in the model is not valid UTF-8", where=file) from None


def _read(
    model: onnx.ModelProto,
    path: Path,
    batch: int | Shapes | None,
    operands: Mapping[str, str],
    bound: Mapping[str, np.ndarray],
    skip_refused: bool,
    fuse: bool,
) -> Network:
    """The network of a model, with arguments that are right; an error does not name the file yet."""
    model = inlined(model)
    constants = Constants(model.graph, path.parent, bound, opset=opset_of(model))
    names = node_names(model.graph.node)
    if not has_convolutions(model.graph):
        others = Counter(node.op_type for node in model.graph.node).most_common(5)
        listed = ", ".join(f"{count} {op_type}" for op_type, count in others)
        fused = next((name for name, node in zip(names, model.graph.node, strict=True) if is_optimised(node)), None)
        if fused is not None:
            said = f"the model has no convolution of ONNX; of {fused!r}, {OPTIMISED}"
            raise ModelError(said, hint=f"it has {listed}")
        raise ModelError("the model has no convolution", hint=f"it has {listed}")
    found = integer_convolutions(model, names, constants) if fuse else Integers(model=model, source=model)
    if found.model is not model:
        model = found.model
        names = node_names(model.graph.node)
        constants = Constants(model.graph, path.parent, bound, opset=opset_of(model))
    real_for = _real_for(model.graph, names, found)
    free = [value for value in model.graph.input if value.name not in constants.initializers | constants.bound]
    size = batch if isinstance(batch, int) else None
    shapes, assumed = ({}, []) if isinstance(batch, int) else input_shapes(free, batch or {})
    facts = infer_facts(model, constants, size, shapes)
    file = str(path) if path.name else "MODEL"
    reader = GraphReader(operands=operands, fuse=fuse, file=file, taken=found.taken, real_for=real_for)
    read = reader.read(model.graph, facts.extents, constants)
    _check_refused(read, skip_refused)
    return Network(
        name=model.graph.name or path.stem or "model",
        convs=tuple(read.convs),
        skipped=tuple(read.skipped),
        inputs=tuple(reference(value.name, facts.types.get(value.name, UNKNOWN)) for value in free),
        outputs=tuple(reference(v.name, facts.types.get(v.name, UNKNOWN)) for v in model.graph.output),
        assumed=(*assumed, *facts.stale, *_once(read.assumed)),
    )


def _once(assumed: Sequence[str]) -> list[str]:
    """The first sentence, and for how many more convolutions one like it would stand."""
    more = f" (and {len(assumed) - 1} more convolutions like it)" if len(assumed) > 1 else ""
    return [f"{assumed[0]}{more}"] if assumed else []


def _check_refused(read: Found, skip_refused: bool) -> None:
    """Raise the first error of a convolution that must not be left out; of those that may be, where none remains."""
    count = len(read.refused) + len(read.open) + len(read.convs)
    if read.refused and not (skip_refused and read.convs):
        raise _first_of(read.refused, count)
    unknown = [error for error in read.open if not isinstance(error, EmptyError)]
    if unknown and not read.convs:
        raise _first_of(unknown, count)


def has_convolutions(graph: onnx.GraphProto) -> bool:
    """Whether there is a convolution in a graph, or in one inside its nodes."""
    return any(is_convolution(node) or any(map(has_convolutions, subgraphs(node))) for node in graph.node)


def _real_for(graph: onnx.GraphProto, names: Sequence[str], found: Integers) -> dict[str, str]:
    """Tensors that were dequantised for a convolution that stays floating-point, and why it does."""
    reasons: dict[str, str] = {}
    for node, name in zip(graph.node, names, strict=True):
        if name in found.floating:
            reasons |= dict.fromkeys(node.input[:2], f"{name} stays floating-point: {found.floating[name]}")
    return reasons


def _first_of(refused: Sequence[ConvcError], convolutions: int) -> ConvcError:
    """The first error, whose hint says how many there are."""
    error = refused[0]
    if len(refused) > 1:
        more = f"{len(refused)} of the model's {convolutions} convolutions are refused"
        error.hint = f"{error.hint}; {more}" if error.hint else more
    return error


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
    types = {given: _type_of(array) for given, array in {**bound, node.input[0]: arrays[0]}.items()}
    constants = Constants(graph, Path(), bound)
    return NodeReader(node, name, types, constants).read(operand_types(operand, precision))


def _type_of(array: np.ndarray) -> ValueType:
    try:
        element_type = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    except ValueError:
        element_type = onnx.TensorProto.UNDEFINED
    return ValueType(element_type=element_type, shape=array.shape)


def read_fused(
    model: onnx.ModelProto,
    constants: Constants,
    shapes: Mapping[str, tuple[int, ...]],
    operand: str | None = None,
    precision: str | None = None,
) -> tuple[Fused, ...]:
    """The convolutions that can be read before the model runs, each with the nodes that it can take in.

    Left out are convolutions of whole numbers, gradients of weights, and those that are refused or whose weights or
    shapes are not known yet.

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
    operands = operand_types(operand, precision)
    convs: dict[int, ConvNode] = {}
    for index, (node, name) in enumerate(zip(model.graph.node, names, strict=True)):
        if not is_convolution(node) or node.op_type in QUANTISED or gradient_of(node) == WEIGHTS:
            continue
        try:
            convs[index] = NodeReader(node, name, types, constants).read(operands)
        except ConvcError:  # to be said when the node runs, if it still is so
            continue
    return fuse_nodes(model.graph, names, convs, types, constants)
