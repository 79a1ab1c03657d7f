"""One convolution of a graph to a `ConvNode`: its numbers, its weights rounded to the operand type, its bias.

A node says its attributes; the graph says the type and shape of its input; weights, bias and scales must be constants.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import onnx

from convc.errors import NodeError
from convc.frontend.constants import Constants
from convc.frontend.conv_node import Refuse, conv_attributes, conv_problem
from convc.frontend.expand_gradients import gradient_of
from convc.frontend.extents import Extents
from convc.frontend.gradient_node import gradient_conv
from convc.frontend.open_extents import explained, way_out
from convc.frontend.quantised_nodes import QUANTISED, quantised_conv
from convc.frontend.shapes import UNKNOWN, ValueType
from convc.frontend.tensors import type_name
from convc.frontend.transpose_node import transpose_problem
from convc.ir import dtypes
from convc.ir.gradients import INPUT, Of
from convc.ir.network import ConvNode, TensorRef
from convc.support.memory import require_memory

_OPERAND_OF = {"f16": "f16", "bf16": "bf16", "f32": "tf32"}
"""Operand type by the model's type: tensor cores have no float32, tf32 is the nearest."""

MIDDLE = 128
"""The zero point of unsigned activations that are as often below 0 as above."""

PRECISIONS = ("tf32", *dtypes.SPLIT_OPERANDS)
"""How float32 can be multiplied."""


def operand_types(operand: str | None, precision: str | None) -> Mapping[str, str]:
    """Operand type by the model's type.

    Args:
        operand: instead of the model's type, whichever it is.
        precision: one of `PRECISIONS`, for float32 alone.
    """
    if operand is not None:
        return dict.fromkeys(_OPERAND_OF, operand)
    return _OPERAND_OF if precision is None else _OPERAND_OF | {"f32": precision}


def reference(name: str, value: ValueType) -> TensorRef:
    """A tensor of the graph by its name."""
    return TensorRef(name=name, dtype=type_name(value.element_type), shape=value.shape)


class OpenError(NodeError):
    """Only a run knows enough of a convolution to compile it: its extents or weights follow from data."""

    @property
    def reason(self) -> str:
        """Why it is left out, with the way out."""
        return f"{self.message}; {self.hint}" if self.hint else self.message


class EmptyError(OpenError):
    """A convolution has nothing to multiply: its result is empty, or its bias."""


class NodeReader:
    """Reads one node, one of ONNX's convolutions."""

    def __init__(
        self,
        node: onnx.NodeProto,
        name: str,
        types: Mapping[str, ValueType],
        constants: Constants,
        extents: Extents | None = None,
        file: str = "MODEL",
    ) -> None:
        """Take what there is to know of a node.

        Args:
            node: the node.
            name: of the `ConvNode`, and for messages.
            types: of the graph's tensors, as far as they are known.
            constants: of the graph.
            extents: of the graph, which know why some are open.
            file: of the model, for messages.
        """
        self.extents = extents
        self.file = file
        self.assumed: list[str] = []
        self.node = node
        self.name = name
        self.constants = constants
        self.types = types
        self.input_name = node.input[0] if node.input else ""
        self.input_type = types.get(self.input_name, UNKNOWN) if node.input else UNKNOWN

    def read(self, operands: Mapping[str, str]) -> ConvNode:
        """The convolution, with the operand type of `operand_types`.

        Raises:
            NodeError, ProblemError: it cannot be compiled.
            LimitError: a tensor larger than memory.
        """
        if self.node.op_type in QUANTISED:
            x = reference(self.input_name, self.input_type)
            return quantised_conv(self.node, self.name, x, self._number, self.refuse, self.input_shape)
        of = gradient_of(self.node)
        return self._floating_conv(operands) if of is None else self._gradient(of, operands)

    def refuse(self, message: str, hint: str = "") -> NodeError:
        """The error for this node."""
        return NodeError(message, where=f"node {self.name!r} ({self.node.op_type})", hint=hint)

    def _open(self, message: str, hint: str) -> OpenError:
        """The error for a node of which only a run knows enough."""
        return OpenError(message, where=f"node {self.name!r} ({self.node.op_type})", hint=hint)

    def constant(self, tensor: str, what: str) -> np.ndarray:
        """The value of a tensor; `NodeError` where it is not constant. ``what``: for messages."""
        array = self.constants.value(tensor)
        if array is None:
            raise self._open(
                f"the {what} must be constant, and {tensor!r} is not",
                hint="store it as an initializer or a Constant node; other constant expressions are folded where "
                "convc/frontend/folding.py lists their operator and ONNX infers their extents. Whole networks "
                "(convc run, convc verify --reweight or --input) accept any",
            )
        return array

    def _number(self, tensor: str, what: str) -> np.ndarray:
        """As `constant`; `EmptyError` for weights without elements.

        A zero point of activations that a run computes has no part in how the kernel is made, but that it is not 0: one
        from the middle of the type stands for it, which is said.
        """
        if what == "x_zero_point" and self.extents is not None and self.constants.value(tensor) is None:
            u8 = self.input_type.element_type == onnx.TensorProto.UINT8
            zero = np.uint8(MIDDLE) if u8 else np.int8(1)
            self.assumed.append(
                f"{self.name}: a run computes the zero point {tensor!r}; what is planned, timed and verified here, "
                f"and compiled, has {zero}"
            )
            return np.asarray(zero)
        array = self.constant(tensor, what)
        if what == "weights" and 0 in array.shape[:2]:
            raise self._empty(f"the weights {tensor!r} have no elements: {array.shape}")
        return array

    def input_shape(self) -> tuple[int, ...]:
        """The extents of the activations; `OpenError` where one is not known."""
        return self._known_shape(self.input_name, self.input_type.shape)

    def _known_shape(self, tensor: str, shape: tuple[int | None, ...] | None) -> tuple[int, ...]:
        """The extents of an input; `OpenError` where one is not known."""
        causes = self.extents.why(tensor) if self.extents is not None else ()
        behind = f": {explained(causes)}" if causes else ""
        if shape is None:
            message = f"the shape of the input {tensor!r} cannot be inferred{behind}"
            raise self._open(message, way_out(causes, self.file))
        extents = tuple(extent for extent in shape if extent is not None)
        if len(extents) != len(shape):
            shown = ", ".join("?" if extent is None else str(extent) for extent in shape)
            message = f"the shape of the input {tensor!r} is not fixed: ({shown}){behind}"
            raise self._open(message, way_out(causes, self.file))
        if 0 in extents:
            raise self._empty(f"the input {tensor!r} has no elements: {extents}")
        return extents

    def _empty(self, message: str) -> EmptyError:
        """The error for a node that multiplies nothing."""
        hint = "its result is empty or equals the bias: it needs no kernel"
        return EmptyError(message, where=f"node {self.name!r} ({self.node.op_type})", hint=hint)

    def _floating_conv(self, operands: Mapping[str, str]) -> ConvNode:
        """A `Conv` or a `ConvTranspose`."""
        node = self.node
        if not 2 <= len(node.input) <= 3 or len(node.output) != 1:
            raise self.refuse(
                f"a {node.op_type} has 2 or 3 inputs and 1 output, got {len(node.input)} and {len(node.output)}"
            )
        attributes = conv_attributes(node, self.refuse)
        weight = self._number(node.input[1], "weights")
        bias = self.constant(node.input[2], "bias") if len(node.input) == 3 and node.input[2] else None
        x_shape = self.input_shape()
        model_type = self._model_type(weight, bias)
        numbers = transpose_problem if node.op_type == "ConvTranspose" else conv_problem
        problem = numbers(
            attributes,
            name=self.name,
            x_shape=x_shape,
            w_shape=weight.shape,
            operand=operands[model_type],
            out=model_type,
            bias=bias is not None,
            refuse=self.refuse,
        )
        if bias is not None and bias.shape != (problem.out_channels,):
            raise self.refuse(
                f"the bias must have one number per output channel, ({problem.out_channels},), got {bias.shape}"
            )
        return ConvNode(
            name=self.name,
            problem=problem,
            input=reference(self.input_name, self.input_type),
            weight=_rounded(weight, problem.operand_dtype, self.refuse),
            bias=None if bias is None else dtypes.quantise(dtypes.F32, bias),
            output=TensorRef(name=node.output[0], dtype=problem.out, shape=problem.y_shape),
        )

    def _gradient(self, of: Of, operands: Mapping[str, str]) -> ConvNode:
        """One gradient of a `ConvGrad`."""
        node = self.node
        if len(node.input) != 3 or len(node.output) != 1:
            raise self.refuse(f"a gradient has 3 inputs and 1 output, got {len(node.input)} and {len(node.output)}")
        names = ("dY", "W", "X") if of == INPUT else ("X", "dY", "W")
        shapes: dict[str, tuple[int, ...]] = {}
        for name, tensor in zip(names, node.input, strict=True):
            array = self.constants.value(tensor) if self.types.get(tensor, UNKNOWN).shape is None else None
            known = self.types.get(tensor, UNKNOWN).shape if array is None else array.shape
            shapes[name] = self._known_shape(tensor, known)
        weight = self._number(node.input[1], "weights") if of == INPUT else None
        model_type = self._model_type(weight, None)
        operand = operands[model_type]
        rounded = None if weight is None else _rounded(weight, dtypes.BY_NAME[operand], self.refuse)
        return gradient_conv(node, self.name, of, shapes, (operand, model_type), rounded, self.refuse)

    def _model_type(self, weight: np.ndarray | None, bias: np.ndarray | None) -> str:
        """The one type of activations, weights and bias; `NodeError` where there are two, or it is not compiled."""
        name = type_name(self.input_type.element_type)
        if name not in _OPERAND_OF:
            raise self.refuse(f"convolutions of {name} are not compiled; f16, bf16 and f32 are")
        for what, array in (("weights", weight), ("bias", bias)):
            if array is not None and array.dtype != dtypes.BY_NAME[name].storage:
                raise self.refuse(f"the input is {name}, the {what} {array.dtype}: they must be the same")
        return name


def _rounded(weight: np.ndarray, dtype: dtypes.DType, refuse: Refuse) -> np.ndarray:
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
