"""Nodes on the host by `onnx.reference`, which has nearly every standard operator, in numpy.

It is written to be read. What it is known to get wrong (`convc.frontend.host_limits`) it is not asked for.

`QLinearConv` on the host, with a scale of the weights per channel in any number of dimensions.

`onnx.reference` spreads such scales over images, (1, K, 1, 1), whatever the rank is: a row becomes an image by it, and
of a volume the extents do not fit.

Source: ONNX operators, ``QLinearConv``.

`QuantizeLinear` on the host, with saturation as ONNX defines it where `onnx.reference` does not.

Its own class makes int32 of quotients before it saturates: from 2^31 on they turn round to the other end of the range.

Source: ONNX operators, ``QuantizeLinear``: "y = saturate((x / y_scale) + y_zero_point)".
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# onnx.reference is typed in part.

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from onnx import FunctionProto, GraphProto, NodeProto, TypeProto, ValueInfoProto, helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun, RuntimeImplementationError
from onnx.reference.ops.op_conv import _conv_implementation  # pyright: ignore[reportPrivateUsage] - of every rank
from onnx.reference.ops.op_qlinear_conv import QLinearConv as OfImages
from onnx.reference.ops.op_quantize_linear import (
    _CommonQuantizeLinear,  # pyright: ignore[reportPrivateUsage] - all versions at once
)

from convc.errors import ConvcError
from convc.frontend.host_limits import reference_wrong
from convc.frontend.opset_compat import as_defined
from convc.runtime.network.gradient_nodes import GRADIENT_NODES
from convc.runtime.network.loop import Loop
from convc.runtime.network.node_info import Refusal, first_line, needed
from convc.runtime.network.scan import Scan
from convc.runtime.network.steps import Value

BEYOND = float(1 << 24)
"""A quotient that saturates with every zero point and in every type of at most 16 bits, and that float32 has."""


class QuantizeLinear(_CommonQuantizeLinear):
    """The operator for `onnx.reference`, which knows it by the name of the class; of every operator set."""

    op_domain = ""

    def _run(
        self,
        x: np.ndarray,
        y_scale: np.ndarray,
        zero_point: np.ndarray | None = None,
        axis: int = 1,
        saturate: bool = True,
        block_size: int | None = None,
        output_dtype: Any = None,
        precision: int | None = None,
    ) -> tuple[np.ndarray]:
        """Numbers of the type of the zero point, or that the node asks for; arguments as the operator has them."""
        scale = _spread(y_scale, x.shape, axis, block_size)
        if precision:
            kind = helper.tensor_dtype_to_np_dtype(precision)
            x = x.astype(kind)
            scale = scale.astype(kind)
        quotient = x / scale
        if quotient.dtype.itemsize < np.dtype(np.float32).itemsize:  # float16 does not reach that far
            quotient = quotient.astype(np.float32)
        near = np.clip(quotient, -BEYOND, BEYOND)
        one = np.ones((), near.dtype)
        return super()._run(near, one, zero_point, axis, saturate, block_size, output_dtype)


def _spread(scale: np.ndarray, shape: tuple[int, ...], axis: int, block_size: int | None) -> np.ndarray:
    """A scale as a tensor can be divided by it: one number, or one for each place or block of places along an axis.

    ValueError where there are not as many blocks as the tensor has.
    """
    if scale.size == 1:
        return scale.reshape(())
    if not block_size:
        one_each = [1] * len(shape)
        one_each[axis] = scale.size
        return scale.reshape(one_each)
    inside = tuple(slice(extent) for extent in shape)  # the last block may be cut short
    repeated = np.repeat(scale, block_size, axis)[inside]
    if repeated.shape != shape:
        raise ValueError(
            f"a tensor of shape {shape} has no scales of {scale.shape} in blocks of {block_size}, axis {axis}"
        )
    return repeated


IMAGES = 4
"""The rank of what `onnx.reference` takes scales per channel for."""


class QLinearConv(OfImages):
    """The operator for `onnx.reference`, which knows it by the name of the class."""

    op_domain = ""
    auto_pad: Any  # attributes of the node, where a call does not give them
    dilations: Any
    group: Any
    kernel_shape: Any
    pads: Any
    strides: Any

    def _run(self, *given: Any, **attributes: Any) -> tuple[np.ndarray]:
        """Numbers of the type of the result's zero point; ``given``: the inputs of the operator, in its order."""
        x, x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point, *bias = given
        if x.ndim == IMAGES or np.size(w_scale) == 1:
            return super()._run(*given, **attributes)
        names = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
        chosen = [attributes.get(name) or getattr(self, name) for name in names]
        taps = w.astype(np.int32) - w_zero_point.astype(np.int32).reshape(-1, *(1,) * (w.ndim - 1))
        sums = _conv_implementation(
            x.astype(np.int32) - x_zero_point.astype(np.int32), taps, bias[0] if bias else None, *chosen
        )
        scale = (x_scale * w_scale / y_scale).reshape(-1, *(1,) * (x.ndim - 2))
        limits = np.iinfo(y_zero_point.dtype)
        scaled: np.ndarray = np.clip(sums.astype(np.int32) * scale + y_zero_point, limits.min, limits.max)
        return (scaled.round().astype(y_zero_point.dtype),)


OWN: list[type[OpRun]] = [Loop, Scan, QuantizeLinear, QLinearConv, *GRADIENT_NODES]
"""Operators that `onnx.reference` has otherwise than ONNX defines them, and those of training graphs."""

_LACKING = RuntimeImplementationError.__bases__
"""What the reference raises where it has no implementation: its own class, or the one of Python that it comes from."""


class ReferenceNode:
    """One node by `onnx.reference`.

    Args:
        node: of the standard domain as ``""``.
        name: for messages.
        opsets: by domain.
        types: of tensors by name, as far as they are stated; some operators need those of their inputs.
        functions: gives those of the model, for calls inside the node.
    """

    title = "onnx.reference"

    def __init__(
        self,
        node: NodeProto,
        name: str,
        opsets: Mapping[str, int],
        types: Mapping[str, TypeProto],
        functions: Callable[[], Sequence[ReferenceEvaluator | FunctionProto]],
    ) -> None:
        self._node = node
        self._name = name
        self._opsets = opsets
        self._types = types
        self._functions = functions

    def run(self, values: Mapping[str, Value]) -> list[Value] | Refusal:
        """The outputs that have names, in their order; or why there are none.

        Args:
            values: by name, at least what `convc.runtime.network.node_info.needed` lists.

        Raises:
            MemoryError: memory does not hold what the node makes.
        """
        arrays = [values.get(name) if name else None for name in self._node.input]
        wrong = reference_wrong(self._node, self._opsets.get("", 0), arrays)
        if wrong:
            return Refusal("wrong", f"onnx.reference gets {self._node.op_type} wrong: {wrong}")
        evaluator = self._evaluator
        if isinstance(evaluator, Refusal):
            return evaluator
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")  # overflow and NaN in the data are the model's business
                return list(evaluator.run(None, dict(values)))
        except (ConvcError, MemoryError):
            raise
        except Exception as error:  # any operator, on whatever data the model gives it
            if isinstance(error, _LACKING):  # a case of the operator that is not there yet
                return self._missing(error)
            return Refusal("fails", f"onnx.reference fails: {first_line(error)}", first_line(error))

    @cached_property
    def _evaluator(self) -> ReferenceEvaluator | Refusal:
        """The reference implementation, or why there is none."""
        nodes = [self._node]
        opsets = self._opsets
        if not self._node.domain and "" in self._opsets:
            nodes, opset = as_defined(self._node, self._opsets[""])
            opsets = {**self._opsets, "": opset}
        graph = GraphProto(name=self._name, node=nodes)
        for given in needed(self._node):
            if given in self._types:
                graph.input.append(ValueInfoProto(name=given, type=self._types[given]))
        graph.output.extend(ValueInfoProto(name=result) for result in self._node.output if result)
        try:
            known: Any = self._functions()
            return ReferenceEvaluator(graph, opsets=dict(opsets), functions=known, new_ops=OWN)
        except Exception as error:  # the evaluator raises whatever its parts raise
            return self._missing(error)

    def _missing(self, error: Exception) -> Refusal:
        node = self._node
        own = f"{node.op_type} of this operator set"
        lacks = f"onnx.reference has no {f'{node.domain} {node.op_type}' if node.domain else own}"
        return Refusal("missing", lacks, first_line(error))
